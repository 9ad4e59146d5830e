// Decides which limits a key may give to another one: at most those that it has itself.
import type { z } from "zod";
import type { ApiKeyRecord, KeyCallLimits, KeyRateLimit } from "../../records/tenants/api-keys.ts";
import { RequestError } from "../request-error.ts";
import type { KeyChangesSchema } from "../schemas/tenants.ts";

/** All limits of a key. */
export type KeyLimits = Pick<ApiKeyRecord, "rateLimit" | "callLimits">;

const perMinute = ({ calls, per }: KeyRateLimit): number => (per === "second" ? calls * 60 : calls);
const burstOf = ({ calls, burst = calls }: KeyRateLimit): number => burst;
const isWithin = (limit: KeyRateLimit | null, max: KeyRateLimit | null): boolean =>
  max === null || (limit !== null && perMinute(limit) <= perMinute(max) && burstOf(limit) <= burstOf(max));

function checkRateLimit(given: KeyRateLimit | null, own: KeyRateLimit | null): void {
  if (own === null || isWithin(given, own)) return;
  const message = `rateLimit: Expected at most that of this key: ${own.calls} requests per ${own.per}, and ${burstOf(own)} at once (burst)`;
  throw new RequestError("FORBIDDEN", message, { details: { rateLimit: own } });
}

/** The members of a key's limits as the API has them, each with its path. */
const LIMIT_PATHS: readonly (readonly string[])[] = [
  ["limits", "maxConcurrentCalls"],
  ["limits", "maxQueuedCalls"],
  ["maxAsyncCalls"],
  ...["calls", "cpuMs", "egressBytes"].flatMap((resource) =>
    ["minute", "hour", "day", "month"].map((period) => ["quotas", resource, period]),
  ),
];
/** Returns a limit: infinity for one that the key does not have. */
const readPath = (value: unknown, path: readonly string[]): number =>
  Number(
    path.reduce<unknown>((at, name) => (at as { readonly [name: string]: unknown } | undefined)?.[name], value) ??
      Number.POSITIVE_INFINITY,
  );

function checkCallLimits(given: KeyCallLimits, own: KeyCallLimits): void {
  for (const path of LIMIT_PATHS) {
    const max = readPath(own, path);
    if (readPath(given, path) <= max) continue;
    const name = path.join(".");
    throw new RequestError("FORBIDDEN", `${name}: Expected at most that of this key, ${max}`, {
      details: { limit: name, allowed: max },
    });
  }
}

/**
 * Returns the limits of a new key: those of its creator, or lower ones. What the creator has and the request leaves out, the key has too.
 * @throws {RequestError} FORBIDDEN for a higher one
 */
export function newLimits(
  {
    rateLimit = null,
    callLimits,
  }: { readonly rateLimit: KeyRateLimit | null | undefined } & Omit<KeyLimits, "rateLimit">,
  own: KeyLimits,
): KeyLimits {
  const limits = { rateLimit: rateLimit ?? own.rateLimit, callLimits: mergeLimits(own.callLimits, callLimits) };
  checkRateLimit(limits.rateLimit, own.rateLimit);
  checkCallLimits(limits.callLimits, own.callLimits);
  return limits;
}

/**
 * Returns the limits of a key after a change. Each member that is given replaces the one before as a whole, and null removes it.
 * @param own limits of the key that sends the change
 * @throws {RequestError} FORBIDDEN if the change raises a limit, and the limits are then not all within those of the key that sends it
 */
export function changedLimits(
  { rateLimit, callLimits }: KeyLimits,
  changes: z.output<typeof KeyChangesSchema>,
  own: KeyLimits,
): KeyLimits {
  const callLimitsAfter: KeyCallLimits = {
    ...present("limits", changes.limits === undefined ? callLimits.limits : changes.limits),
    ...present("quotas", changes.quotas === undefined ? callLimits.quotas : changes.quotas),
    ...present("maxAsyncCalls", changes.maxAsyncCalls === undefined ? callLimits.maxAsyncCalls : changes.maxAsyncCalls),
  };
  const after = {
    rateLimit: changes.rateLimit === undefined ? rateLimit : changes.rateLimit,
    callLimits: callLimitsAfter,
  };
  const isLower =
    isWithin(after.rateLimit, rateLimit) &&
    LIMIT_PATHS.every((path) => readPath(after.callLimits, path) <= readPath(callLimits, path));
  if (isLower) return after;
  // All of them, and not only those that are raised: two keys with different limits must not remove each other's.
  checkRateLimit(after.rateLimit, own.rateLimit);
  checkCallLimits(after.callLimits, own.callLimits);
  return after;
}

const present = <Name extends string, Value>(name: Name, value: Value | null | undefined): { [_ in Name]?: Value } =>
  (value === null || value === undefined ? {} : { [name]: value }) as { [_ in Name]?: Value };

function mergeLimits<Limits extends object>(own: Limits, given: object): Limits {
  const merged = { ...own } as { [name: string]: unknown };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const before = merged[name];
    merged[name] =
      typeof value === "object" && typeof before === "object" ? mergeLimits(before as object, value) : value;
  }
  return merged as unknown as Limits;
}
