// Schemas of a partial set of limits, as a host, a tool or a call configures them. They are derived from the table of limits.
import * as z from "zod";
import { LIMITS, type LimitName, type PartialLimits } from "./limits.ts";
import { plainObject } from "./plain-object.ts";

type LimitFields = { [Name in LimitName]: z.ZodOptional<z.ZodInt> };
const limitFields = Object.fromEntries(
  Object.entries(LIMITS).map(([name, { min, max }]) => [name, z.int().check(z.gte(min), z.lte(max)).optional()]),
) as LimitFields;

/** Limits in JSON. Other schemas pick from its fields. */
export const LimitsObjectSchema: z.ZodObject<LimitFields, z.core.$strict> = z.strictObject(limitFields);

export const PartialLimitsSchema: z.ZodType<PartialLimits, PartialLimits> = plainObject(LimitsObjectSchema);
