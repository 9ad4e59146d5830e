// Every limit with its unit (in the name), default and hard bounds, as one table. The schema is made from the table.
import * as z from "zod";
import { plainObject } from "./plain-object.ts";

interface LimitRow {
  readonly min: number;
  readonly default: number;
  readonly max: number;
  readonly about: string;
}

const KiB = 1024;
const MiB = 1024 * KiB;

/** `max` is what no host setting can pass; a host, tool or call may only choose within `min`..`max`. */
export const LIMITS = {
  timeoutMs: { min: 1, default: 5_000, max: 300_000, about: "wall time of a call, queueing included" },
  clientWaitMs: {
    min: 1,
    default: 300_000,
    max: 300_000,
    about:
      "wait for one answer of the client (elicit, sample, roots); the call's own time stands still while the tool is idle",
  },
  cpuMs: { min: 1, default: 5_000, max: 300_000, about: "CPU time of a call's own isolate; waiting costs none" },
  memoryMiB: {
    min: 8,
    default: 128,
    max: 2_048,
    about: "V8 heap and array buffers of a call's isolate; its process may grow by twice that",
  },
  sourceBytes: { min: 1, default: 2 * MiB, max: 64 * MiB, about: "all of a tool's own files together" },
  bundleBytes: { min: 1, default: 24 * MiB, max: 64 * MiB, about: "a tool's compiled code" },
  inputBytes: { min: 2, default: 8 * MiB, max: 64 * MiB, about: "arguments as UTF-8 JSON" },
  outputBytes: { min: 2, default: 8 * MiB, max: 64 * MiB, about: "output as UTF-8 JSON" },
  jsonDepth: { min: 1, default: 128, max: 1_000, about: "nesting of arguments and output" },
  jsonValues: {
    min: 1,
    default: 1_250_000,
    max: 4_000_000,
    about: "values in arguments and in output, keys included; an array or object counts as four",
  },
  logBytes: { min: 0, default: 256 * KiB, max: 16 * MiB, about: "log text kept per call" },
  logLines: { min: 0, default: 1_000, max: 100_000, about: "log entries kept per call" },
  hostCalls: { min: 0, default: 1_000, max: 1_000_000, about: "capability calls in one tool call" },
  pendingHostCalls: { min: 0, default: 100, max: 10_000, about: "capability calls waiting at one time" },
  nestedDepth: { min: 0, default: 8, max: 32, about: "tools that call tools: how deep from a call" },
  nestedCalls: { min: 0, default: 100, max: 10_000, about: "calls of other tools that one call may cause in all" },
  nestedRepeats: {
    min: 0,
    default: 0,
    max: 32,
    about: "times that a tool may come again in a chain of tools that call each other",
  },
  kvKeys: { min: 0, default: 10_000, max: 1_000_000_000, about: "keys that a tool may have in kv, of each tenant" },
  kvBytes: {
    min: 0,
    default: 64 * MiB,
    max: 1024 * 1024 * MiB,
    about: "keys and values that a tool may have in kv, of each tenant",
  },
  kvValueBytes: { min: 0, default: 1 * MiB, max: 64 * MiB, about: "one value in kv" },
  timers: { min: 0, default: 1_000, max: 10_000, about: "timers waiting at one time" },
  concurrentCalls: {
    min: 1,
    default: 64,
    max: 10_000,
    about: "calls running at one time, of a tenant and of each of its tools",
  },
  queuedCalls: {
    min: 0,
    default: 1_000,
    max: 100_000,
    about: "calls waiting at one time, of a tenant and of each of its tools",
  },
  sessions: { min: 0, default: 16, max: 10_000, about: "conversations that a tenant may have open at one time" },
  queueMs: { min: 1, default: 30_000, max: 300_000, about: "time that a call may wait for its turn" },
} as const satisfies Record<string, LimitRow>;

export type LimitName = keyof typeof LIMITS;
/** A whole set of limits, each resolved to one number. */
export type Limits = { readonly [Name in LimitName]: number };

const limitSchema = (row: LimitRow) => z.int().min(row.min).max(row.max);
type LimitFields = { [Name in LimitName]: z.ZodOptional<z.ZodInt> };
const fields = Object.fromEntries(
  Object.entries(LIMITS).map(([name, row]) => [name, limitSchema(row).optional()]),
) as LimitFields;

/** Some limits, as a host, a tool or a call states them. */
const StatedLimitsSchema: z.ZodObject<LimitFields, z.core.$strict> = z.strictObject(fields);
export const PartialLimitsSchema: z.ZodType<PartialLimits, PartialLimits> = plainObject(StatedLimitsSchema);
export type PartialLimits = { readonly [Name in LimitName]?: number | undefined };

/** A whole set, as it crosses to the worker. */
export const LimitsSchema: z.ZodType<Limits> = StatedLimitsSchema.required() as unknown as z.ZodType<Limits>;

export const DEFAULT_LIMITS: Limits = Object.fromEntries(
  Object.entries(LIMITS).map(([name, row]) => [name, row.default]),
) as Limits;

/** What a tool may name for itself: its definition is the guest's word, so it can only be lowered by the host, never raised past it. */
export function lowestLimits(base: Limits, ...others: readonly (PartialLimits | undefined)[]): Limits {
  const lowest: Record<LimitName, number> = { ...base };
  for (const limits of others) {
    if (limits === undefined) continue;
    for (const name of Object.keys(LIMITS) as LimitName[]) {
      const value = limits[name];
      if (value !== undefined && value < lowest[name]) lowest[name] = value;
    }
  }
  return lowest;
}
