// Reads the invocations of a batch: each field once, without trust in getters, so that a malformed one fails alone.
import { randomUUID } from "node:crypto";
import { type ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { CallContext, ToolCall } from "../contract/tool-call.ts";
import { readExplicitContext } from "../pipeline/read-context.ts";
import { checkKeys, describe, invalid, readFields } from "../pipeline/read-fields.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import { readNames } from "./read-call.ts";

export const MAX_CONCURRENT_TOOLS = 10;

/** Context of all calls of a batch, and how many of them run at the same time. */
export interface BatchContext extends CallContext {
  /** Number of calls of this batch that run at the same time, 1 to 10. @default 4 */
  readonly maxConcurrency?: number | undefined;
}

/** Largest number of invocations in a batch. Reading more would block the event loop for too long. */
const MAX_BATCH = 10_000;
const BATCH_CONCURRENCY = 4;

/** A parsed invocation; each of its fields is read once. */
export interface Reading {
  readonly started: number;
  readonly callId: string;
  readonly toolName: string;
  readonly asked:
    | {
        readonly toolCall: ToolCall;
        readonly context: CallContext;
        readonly timeoutMs: number | undefined;
        /** Tenant whose concurrency limit applies. */
        readonly tenantId: string;
        /** Set if the invocation is malformed. It is rejected by the router, which counts it against its tenant. */
        readonly issue?: ToolError;
      }
    | { readonly error: ToolError };
}

/** Names the option, because it also limits how many calls of a batch run at once. */
const EXPECTED_CONCURRENCY = `a whole number from 1 to ${MAX_CONCURRENT_TOOLS}, the largest value of tools.maxConcurrentTools`;

/** @throws {ToolError} PARAM_INVALID */
function checkConcurrency(wanted: unknown): number {
  if (wanted === undefined) return BATCH_CONCURRENCY;
  if (Number.isInteger(wanted) && (wanted as number) >= 1 && (wanted as number) <= MAX_CONCURRENT_TOOLS) {
    return wanted as number;
  }
  throw invalid("context.maxConcurrency", EXPECTED_CONCURRENCY, describe(wanted));
}

export function readBatch(
  invocations: unknown,
  options: unknown,
  tenancy: Tenancy | undefined,
): { readonly readings: readonly Reading[]; readonly concurrency: number } {
  const started = performance.now();
  const failed = (value: unknown, error: ToolError): Reading => ({ started, ...readNames(value), asked: { error } });
  let list: readonly unknown[];
  try {
    list = readFields("invocations", () => (Array.isArray(invocations) ? copyList(invocations) : [invocations]));
  } catch (thrown) {
    return { readings: [failed(undefined, toToolError(thrown))], concurrency: 1 };
  }
  try {
    const around = readExplicitContext(options, true);
    const concurrency = readFields("context", () =>
      checkConcurrency((options as { readonly maxConcurrency?: unknown } | undefined)?.maxConcurrency),
    );
    return { readings: list.map((value) => readInvocation(value, around, tenancy)), concurrency };
  } catch (thrown) {
    const error = toToolError(thrown);
    return { readings: list.map((value) => failed(value, error)), concurrency: 1 };
  }
}

/** @throws {ToolError} PARAM_INVALID */
function copyList(invocations: readonly unknown[]): readonly unknown[] {
  const { length } = invocations;
  if (length > MAX_BATCH) {
    throw invalid("invocations", `at most ${MAX_BATCH} in one batch`, `${length}; split them into several batches`);
  }
  return Array.from({ length }, (_, index) => readItem(invocations, index));
}

/** Returns undefined, which is an invalid invocation, for an item that cannot be read; the others still run. */
function readItem(invocations: readonly unknown[], index: number): unknown {
  try {
    return invocations[index];
  } catch {
    return undefined;
  }
}

/** Stands for the tenant if the host's own router resolves it. A tenant id is never empty. */
const NO_TENANT = "";

const FIELDS = ["id", "toolName", "arguments", "argumentsText", "timeoutMs", "context"];

const EXPECTED = "an object { toolName, arguments, id?, timeoutMs?, context? }";

/** Reads each field of an invocation once. The router parses their values. */
export function readInvocation(value: unknown, around: CallContext, tenancy: Tenancy | undefined): Reading {
  const started = performance.now();
  try {
    if (!isPlainObject(value)) throw invalid("invocation", EXPECTED, describe(value));
    const { call, timeoutMs, context } = readFields("invocation", () => {
      checkKeys(value, "invocation", FIELDS);
      const { id = randomUUID(), toolName, arguments: args, argumentsText, timeoutMs, context } = value;
      const text = argumentsText === undefined ? {} : { argumentsText };
      return { call: { id, toolName, arguments: args, ...text }, timeoutMs, context };
    });
    const toolCall = call as ToolCall;
    const merged = merge(around, readExplicitContext(context));
    const tenantId = tenancy?.tenantOf(merged.tenantId, "context.tenantId") ?? merged.tenantId ?? NO_TENANT;
    const asked = { toolCall, context: merged, timeoutMs: timeoutMs as number, tenantId };
    return { started, ...readNames(toolCall), asked };
  } catch (thrown) {
    return { started, ...readNames(value), asked: readMalformed(value, around, tenancy, toToolError(thrown)) };
  }
}

/** Reads the tenant of a malformed invocation. Without a valid context there is none. */
function readMalformed(
  value: unknown,
  around: CallContext,
  tenancy: Tenancy | undefined,
  issue: ToolError,
): Reading["asked"] {
  try {
    const own = isPlainObject(value) ? readFields("invocation", () => value.context) : undefined;
    const context = merge(around, readExplicitContext(own));
    const tenantId = tenancy?.tenantOf(context.tenantId, "context.tenantId") ?? context.tenantId ?? NO_TENANT;
    return { toolCall: value as ToolCall, context, timeoutMs: undefined, tenantId, issue };
  } catch {
    return { error: issue };
  }
}

/** @throws {ToolError} PARAM_INVALID for an invocation whose tenant differs from that of its batch */
function merge(around: CallContext, own: CallContext): CallContext {
  const { tenantId, signal, timeoutMs } = around;
  if (tenantId !== undefined && own.tenantId !== undefined && own.tenantId !== tenantId) {
    throw invalid("invocation.context.tenantId", "the tenant of the batch", "another tenant");
  }
  const defined = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined));
  const merged: CallContext = { ...around, ...defined };
  const lowestMs = Math.min(timeoutMs ?? Number.POSITIVE_INFINITY, own.timeoutMs ?? Number.POSITIVE_INFINITY);
  return {
    ...merged,
    ...(Number.isFinite(lowestMs) ? { timeoutMs: lowestMs } : {}),
    ...(signal !== undefined && own.signal !== undefined ? { signal: AbortSignal.any([signal, own.signal]) } : {}),
  };
}
