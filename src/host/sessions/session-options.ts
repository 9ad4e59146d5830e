// Parses the options of `openSession`.
import { randomUUID } from "node:crypto";
import * as z from "zod";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { LANGUAGES } from "../config/tool-options.ts";
import { MAX_SESSION_ID_LENGTH } from "../pipeline/read-context.ts";
import { TenantIdSchema } from "../routing/tenant-scope.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import type { SessionBounds } from "./session-state.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const bound = (max: number, fallback: number) => z.int().min(1).max(max).default(fallback);

const SessionOptionsSchema = strictObject({
  tenantId: TenantIdSchema.optional(),
  language: z.enum(LANGUAGES).default("javascript"),
  id: z.string().min(1).max(MAX_SESSION_ID_LENGTH).optional(),
  limits: PartialLimitsSchema.optional(),
  grant: z.array(z.string()).default([]),
  idleMs: bound(DAY_MS, 600_000),
  total: strictObject({
    lifetimeMs: bound(7 * DAY_MS, DAY_MS),
    cpuMs: bound(DAY_MS, HOUR_MS),
    runs: bound(1_000_000, 10_000),
  }).prefault({}),
});

/**
 * `tenantId` is required with `tenancy: "multi"`.
 * @default `id` is a random UUID
 */
export type SessionOptions = z.input<typeof SessionOptionsSchema>;
export type ParsedSessionOptions = z.output<typeof SessionOptionsSchema> & {
  readonly id: string;
  readonly tenantId: string;
};

/** @throws {ToolError} PARAM_INVALID */
export function parseSessionOptions(options: unknown, tenancy: Tenancy): ParsedSessionOptions {
  const parsed = parseOptions(SessionOptionsSchema, options === undefined ? {} : options, "options");
  return { ...parsed, tenantId: tenancy.tenantOf(parsed.tenantId), id: parsed.id ?? randomUUID() };
}

/** Bounds of a tool's sessions, which are opened implicitly. */
export const DEFAULT_BOUNDS: SessionBounds = {
  idleMs: 600_000,
  lifetimeMs: DAY_MS,
  cpuMs: HOUR_MS,
  runs: 10_000,
};
