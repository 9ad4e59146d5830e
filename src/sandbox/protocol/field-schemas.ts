// Schemas of fields that several messages have. A worker does not load this file: it takes time to build schemas.
import * as z from "zod";
import { PLATFORM_MODULE_NAMES } from "./platform-modules.ts";

/** Number of a call, tool or request, from 1. */
export const SeqSchema = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
export const CountSchema = z.number().min(0).max(Number.MAX_SAFE_INTEGER);
export const CapabilityNameSchema = z.string().max(64);
export const ModuleNamesSchema = z.array(z.enum(PLATFORM_MODULE_NAMES)).max(PLATFORM_MODULE_NAMES.length);
