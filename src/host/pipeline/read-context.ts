// Reads and validates the context of a call. Each field is read once. An unknown key is an error, because a misspelled `timeoutMs` would run
// the call without its limit.

import { LIMITS } from "../../sandbox/contract/limits.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { MAX_SEED_LENGTH } from "../../sandbox/protocol/message-fields.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { CallClient } from "../contract/client-requests.ts";
import type { CallContext, CallerQuotas, NestedCallObserver } from "../contract/tool-call.ts";
import { copyRecordOptions } from "../recording/record-options.ts";
import { PreparedReplay } from "../recording/replay.ts";
import { RunAttempt } from "../runs/run-attempt.ts";
import { QuotasSchema } from "../tenants/quotas/quota-options.ts";
import type { Tenancy } from "../tenants/tenancy.ts";
import { isThenable } from "../util/host-callback.ts";
import { parseArgumentOptions } from "./coercion.ts";
import { checkKeys, describe, invalid, readFields, readText } from "./read-fields.ts";

/** Maximum length of the id of a caller. */
const MAX_CALLER_ID_LENGTH = 256;
/** Maximum length of a session id. */
export const MAX_SESSION_ID_LENGTH = 256;
/** The end of the year 9999. */
const MAX_DATE_MS = 253_402_300_799_999;
const CLIENT_METHODS = ["elicit", "sample", "listRoots"] as const satisfies readonly (keyof CallClient)[];

/** Accepts real signals only: an object that merely looks like one can throw when it is read. */
const isAbortSignal = (value: unknown): value is AbortSignal =>
  value instanceof AbortSignal && typeof value.aborted === "boolean";

/** Checks only the type. For an invalid header, telemetry starts a new trace. */
function checkHeader(value: unknown, where: string): void {
  if (value !== undefined && typeof value !== "string") throw invalid(where, "a string", describe(value));
}

const isFunction = (value: unknown): boolean => value === undefined || typeof value === "function";

function checkSessionId(sessionId: unknown): void {
  if (sessionId === undefined) return;
  const isValid = typeof sessionId === "string" && sessionId.length > 0 && sessionId.length <= MAX_SESSION_ID_LENGTH;
  if (!isValid) {
    throw invalid("context.sessionId", `text of 1 to ${MAX_SESSION_ID_LENGTH} characters`, describe(sessionId));
  }
}

/** Callbacks of the caller: an object with methods, possibly an instance of the caller's own class. */
function checkClient(client: unknown): void {
  if (client === undefined) return;
  const expected = "an object { elicit, sample, listRoots }";
  if (typeof client !== "object" || client === null || isThenable(client)) {
    throw invalid("context.client", expected, describe(client));
  }
  if (isPlainObject(client)) checkKeys(client, "context.client", CLIENT_METHODS);
  for (const method of CLIENT_METHODS) {
    const value = (client as { readonly [name: string]: unknown })[method];
    if (!isFunction(value)) throw invalid(`context.client.${method}`, "a function", describe(value));
  }
}

const OBSERVER_FUNCTIONS = ["onStart", "onEnd"] as const satisfies readonly (keyof NestedCallObserver)[];

/** Copies the functions, so that each is read once. @throws {ToolError} PARAM_INVALID */
function copyNestedCalls(observer: unknown): NestedCallObserver | undefined {
  if (observer === undefined) return undefined;
  const where = "context.nestedCalls";
  if (!isPlainObject(observer)) throw invalid(where, "an object { onStart, onEnd }", describe(observer));
  checkKeys(observer, where, OBSERVER_FUNCTIONS);
  const { onStart, onEnd } = observer as NestedCallObserver;
  for (const [name, value] of [["onStart", onStart] as const, ["onEnd", onEnd] as const]) {
    if (!isFunction(value)) throw invalid(`${where}.${name}`, "a function", describe(value));
  }
  return { onStart, onEnd };
}

const QUOTA_FIELDS = ["id", "quotas"] as const satisfies readonly (keyof CallerQuotas)[];

/** Copies the quotas, so that each is read once. @throws {ToolError} PARAM_INVALID */
function copyCallerQuotas(given: unknown): CallerQuotas | undefined {
  if (given === undefined) return undefined;
  const where = "context.callerQuotas";
  if (!isPlainObject(given)) throw invalid(where, "an object { id, quotas }", describe(given));
  checkKeys(given, where, QUOTA_FIELDS);
  const { id, quotas } = given as unknown as CallerQuotas;
  if (typeof id !== "string" || id.length === 0 || id.length > MAX_CALLER_ID_LENGTH)
    throw invalid(`${where}.id`, `text of 1 to ${MAX_CALLER_ID_LENGTH} characters`, describe(id));
  return { id, quotas: parseOptions(QuotasSchema, quotas, `${where}.quotas`) };
}

const FIELDS: { readonly [Field in keyof Required<CallContext>]: true } = {
  tenantId: true,
  executionId: true,
  stepId: true,
  sessionId: true,
  traceparent: true,
  tracestate: true,
  signal: true,
  timeoutMs: true,
  onLog: true,
  onProgress: true,
  client: true,
  deterministic: true,
  record: true,
  replay: true,
  run: true,
  arguments: true,
  logSourceLocations: true,
  toolDigest: true,
  toolVersion: true,
  timeline: true,
  nestedCalls: true,
  callerQuotas: true,
};
/** An array, because searching so few names is as fast as a Set. */
export const CONTEXT_FIELDS: readonly string[] = Object.keys(FIELDS);
const BATCH_FIELDS: readonly string[] = [...CONTEXT_FIELDS, "maxConcurrency"];

/**
 * Reads the context's fields, each once. The context must be a plain object: a promise or a Map has no fields of its own, and its call
 * would run without its limits.
 * @param isBatch allows `maxConcurrency`, which the caller reads itself
 * @throws {ToolError} PARAM_INVALID for an unknown key or a wrong value, naming its path
 */
export function readExplicitContext(context: unknown, isBatch = false): CallContext {
  if (context === undefined) return {};
  if (!isPlainObject(context)) {
    throw invalid("context", "a plain object { tenantId, signal, timeoutMs }", describe(context));
  }
  const fields = readFields("context", () => copyContext(context, isBatch ? BATCH_FIELDS : CONTEXT_FIELDS));
  const { tenantId, executionId, stepId, timeoutMs, onLog, onProgress, logSourceLocations } = fields;
  if (!isFunction(onLog)) throw invalid("context.onLog", "a function", describe(onLog));
  if (!isFunction(onProgress)) throw invalid("context.onProgress", "a function", describe(onProgress));
  if (logSourceLocations !== undefined && typeof logSourceLocations !== "boolean") {
    throw invalid("context.logSourceLocations", "true or false", describe(logSourceLocations));
  }
  if (fields.timeline !== undefined && typeof fields.timeline !== "boolean") {
    throw invalid("context.timeline", "true or false", describe(fields.timeline));
  }
  checkDeterministic(fields.deterministic);
  checkTimeout(timeoutMs, "context.timeoutMs");
  checkHeader(fields.traceparent, "context.traceparent");
  checkHeader(fields.tracestate, "context.tracestate");
  if (executionId !== undefined) readText(executionId, "context.executionId");
  if (stepId !== undefined) readText(stepId, "context.stepId");
  checkSessionId(fields.sessionId);
  if (fields.toolDigest !== undefined) readText(fields.toolDigest, "context.toolDigest");
  if (fields.toolVersion !== undefined) readText(fields.toolVersion, "context.toolVersion");
  if (tenantId !== undefined) readText(tenantId, "context.tenantId");
  return fields;
}

function copyContext(context: CallContext, known: readonly string[]): CallContext {
  checkKeys(context, "context", known);
  const { tenantId, executionId, stepId, signal, timeoutMs, onLog, onProgress, logSourceLocations } = context;
  const { traceparent, tracestate, client, sessionId, toolDigest, toolVersion, timeline } = context;
  const deterministic = copyDeterministic(context.deterministic);
  const trace = traceparent === undefined && tracestate === undefined ? {} : { traceparent, tracestate };
  const record = copyRecordOptions(context.record);
  const { replay, run } = context;
  if (run !== undefined && !(run instanceof RunAttempt)) {
    throw invalid("context.run", "no value: call runs.start", describe(run));
  }
  if (replay !== undefined && !(replay instanceof PreparedReplay)) {
    throw invalid("context.replay", "no value: call glovebox.replay", describe(replay));
  }
  if (record !== undefined && (deterministic ?? replay ?? run) !== undefined) {
    throw invalid("context.record", "no value next to deterministic, replay and run", describe(record));
  }
  const argumentOptions = parseArgumentOptions(context.arguments, "context.arguments");
  checkClient(client);
  const nestedCalls = copyNestedCalls(context.nestedCalls);
  const callerQuotas = copyCallerQuotas(context.callerQuotas);
  // Checked inside the try block, because a proxy can throw.
  if (signal !== undefined && !isAbortSignal(signal)) {
    throw invalid("context.signal", "an AbortSignal", describe(signal));
  }
  return {
    tenantId,
    executionId,
    stepId,
    signal,
    timeoutMs,
    onLog,
    onProgress,
    logSourceLocations,
    deterministic,
    ...trace,
    ...(record === undefined ? {} : { record }),
    ...(replay === undefined ? {} : { replay }),
    ...(run === undefined ? {} : { run }),
    ...(argumentOptions === undefined ? {} : { arguments: argumentOptions }),
    ...(client === undefined ? {} : { client }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(toolDigest === undefined ? {} : { toolDigest }),
    ...(toolVersion === undefined ? {} : { toolVersion }),
    ...(timeline === undefined ? {} : { timeline }),
    ...(nestedCalls === undefined ? {} : { nestedCalls }),
    ...(callerQuotas === undefined ? {} : { callerQuotas }),
  };
}

/** A context with a resolved tenant. */
export type NamedContext = CallContext & { readonly tenantId: string };

/**
 * Reads the context of a call and decides which tenant it belongs to.
 * @param tenancy undefined for a nested call, which belongs to the tenant of its parent
 * @throws {ToolError} PARAM_INVALID as {@link readExplicitContext}; also for a missing or unexpected tenant
 */
export function readContext(context: unknown, tenancy: Tenancy | undefined): NamedContext {
  const explicit = readExplicitContext(context) as { -readonly [Field in keyof CallContext]: CallContext[Field] };
  // The copy of the caller's object is reused: a second copy would cost more than the rest of this function.
  if (tenancy !== undefined) explicit.tenantId = tenancy.tenantOf(explicit.tenantId, "context.tenantId");
  return explicit as NamedContext;
}

type DeterministicOption = CallContext["deterministic"];

const DETERMINISTIC_FIELDS: readonly string[] = ["seed", "now"];

/** Reads each field once. @throws {ToolError} PARAM_INVALID for anything but a plain object */
function copyDeterministic(option: DeterministicOption): DeterministicOption {
  if (option === undefined) return undefined;
  const where = "context.deterministic";
  if (!isPlainObject(option)) throw invalid(where, "an object { seed, now }", describe(option));
  checkKeys(option, where, DETERMINISTIC_FIELDS);
  const { seed, now } = option as NonNullable<DeterministicOption>;
  return { seed, now };
}

/** @throws {ToolError} PARAM_INVALID */
function checkDeterministic(option: DeterministicOption): void {
  if (option === undefined) return;
  const where = "context.deterministic";
  const { seed, now } = option;
  if (typeof seed !== "string" || seed.length === 0 || seed.length > MAX_SEED_LENGTH) {
    throw invalid(`${where}.seed`, `text of 1 to ${MAX_SEED_LENGTH} characters`, describe(seed));
  }
  if (now !== undefined && !(Number.isInteger(now) && now >= 0 && now <= MAX_DATE_MS)) {
    throw invalid(`${where}.now`, `whole milliseconds from 0 to ${MAX_DATE_MS}`, describe(now));
  }
}

/** @throws {ToolError} PARAM_INVALID */
export function checkTimeout(timeoutMs: unknown, where: string): asserts timeoutMs is number | undefined {
  if (timeoutMs === undefined) return;
  const { min, max } = LIMITS.timeoutMs;
  const isValid = typeof timeoutMs === "number" && Number.isFinite(timeoutMs) && timeoutMs >= min && timeoutMs <= max;
  if (!isValid) throw invalid(where, `a number of milliseconds from ${min} to ${max}`, describe(timeoutMs));
}
