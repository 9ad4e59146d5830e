// Table of all limits with their defaults and hard bounds; the unit is part of the name.
import * as z from "zod";
import { isPlainObject } from "./value-kind.ts";

interface LimitRow {
  readonly min: number;
  readonly default: number;
  readonly max: number;
  readonly about: string;
}

const KiB = 1024;
const MiB = 1024 * KiB;

/** A host, tool or call may set a limit within `min`..`max`. No host option can exceed `max`. */
export const LIMITS = {
  timeoutMs: { min: 1, default: 5_000, max: 300_000, about: "wall time of a call, including the time in the queue" },
  clientWaitMs: {
    min: 1,
    default: 300_000,
    max: 300_000,
    about:
      "wait for one response of the client (elicit, sample, roots); the call's own clock is paused while the tool is idle",
  },
  cpuMs: { min: 1, default: 5_000, max: 300_000, about: "CPU time of a call's own isolate; waiting does not count" },
  memoryMiB: {
    min: 8,
    default: 128,
    max: 2_048,
    about: "V8 heap and array buffers of a call's isolate; its process may grow by twice that",
  },
  sourceBytes: { min: 1, default: 2 * MiB, max: 64 * MiB, about: "total size of a tool's own files" },
  bundleBytes: { min: 1, default: 24 * MiB, max: 64 * MiB, about: "size of a tool's compiled code" },
  inputBytes: { min: 2, default: 8 * MiB, max: 64 * MiB, about: "size of the arguments as UTF-8 JSON" },
  outputBytes: { min: 2, default: 8 * MiB, max: 64 * MiB, about: "size of the output as UTF-8 JSON" },
  jsonDepth: { min: 1, default: 128, max: 1_000, about: "nesting depth of arguments and output" },
  jsonValues: {
    min: 1,
    default: 1_250_000,
    max: 4_000_000,
    about: "number of values in arguments and in output, including keys; an array or object counts as four",
  },
  logBytes: { min: 0, default: 256 * KiB, max: 16 * MiB, about: "size of the log text kept per call" },
  logLines: { min: 0, default: 1_000, max: 100_000, about: "log entries kept per call" },
  maxCapabilityCalls: { min: 0, default: 1_000, max: 1_000_000, about: "capability calls in one tool call" },
  maxPendingCapabilityCalls: {
    min: 0,
    default: 100,
    max: 10_000,
    about: "capability calls of one tool call that may be pending at the same time",
  },
  nestedDepth: { min: 0, default: 8, max: 32, about: "depth of a chain of tools that call other tools" },
  nestedCalls: {
    min: 0,
    default: 100,
    max: 10_000,
    about: "total number of nested tool calls that one call may cause",
  },
  nestedRepeats: {
    min: 0,
    default: 0,
    max: 32,
    about: "how often a tool may occur again in a chain of tools that call each other",
  },
  kvKeys: { min: 0, default: 10_000, max: 1_000_000_000, about: "number of kv keys of a tool, per tenant" },
  kvBytes: {
    min: 0,
    default: 64 * MiB,
    max: 1024 * 1024 * MiB,
    about: "total size of the kv keys and values of a tool, per tenant",
  },
  kvValueBytes: { min: 0, default: 1 * MiB, max: 64 * MiB, about: "size of one kv value" },
  timers: { min: 0, default: 1_000, max: 10_000, about: "timers of a call that may be pending at the same time" },
  maxConcurrentCalls: {
    min: 1,
    default: 64,
    max: 10_000,
    about: "calls that may run at the same time, per tenant and per tool",
  },
  maxQueuedCalls: {
    min: 0,
    default: 1_000,
    max: 100_000,
    about: "calls that may wait in the queue at the same time, per tenant and per tool",
  },
  sessions: { min: 0, default: 16, max: 10_000, about: "sessions that a tenant may have open at the same time" },
  queueMs: { min: 1, default: 30_000, max: 300_000, about: "time that a call may wait in the queue" },
} as const satisfies Record<string, LimitRow>;

/** Name of a limit: a key of {@link LIMITS}. */
export type LimitName = keyof typeof LIMITS;
/** A complete set of limits. */
export type Limits = { readonly [Name in LimitName]: number };

/** Some of the {@link LIMITS}, by name. The units are those of {@link LIMITS}. */
export type PartialLimits = { readonly [Name in LimitName]?: number | undefined };

function isLimits(value: unknown): value is Limits {
  if (!isPlainObject(value) || Object.keys(value).length !== Object.keys(LIMITS).length) return false;
  return Object.entries(LIMITS).every(([name, { min, max }]) => {
    const limit: unknown = value[name];
    return Number.isInteger(limit) && (limit as number) >= min && (limit as number) <= max;
  });
}

/**
 * Schema of a complete set of limits, as the host sends it to the worker. It reads the table: a schema for each limit would take a tenth of the
 * time in which a worker starts.
 */
export const LimitsSchema: z.ZodType<Limits> = z.custom<Limits>(isLimits, "Expected every limit, within its bounds");

export const DEFAULT_LIMITS: Limits = Object.fromEntries(
  Object.entries(LIMITS).map(([name, row]) => [name, row.default]),
) as Limits;

/** Returns the lowest configured value of each limit. A tool's definition is untrusted: it can only lower the limits of the host. */
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
