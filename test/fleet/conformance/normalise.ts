// Converts what the server returns to data without times, ids and measured amounts, so that the outcomes of two set-ups can be compared.
import type { Call, CallEvent, CallTimeline, Run } from "../../../src/client/index.ts";
import { ApiError } from "../../../src/client/index.ts";

const ID = /\b([a-z]+)_[0-9a-z]{26}\b/g;
const AMOUNT = /\b\d+(?:\.\d+)?(?= ?(?:ms|s|minutes|hours|days|MiB|bytes)\b)/g;
/** Names of numbers that differ from run to run. */
const MEASURED = /(?:Ms|resetSeconds|At|MiB|Bytes|until|size|length)$|^(?:at|used|reset|remaining)$/i;

/** Replaces ids and amounts in texts, and measured numbers. Longer texts are compared by their ends. */
export function normalise(value: unknown, name = ""): unknown {
  if (typeof value === "string") {
    const text = value.replaceAll(ID, "$1").replaceAll(AMOUNT, "N");
    return text.length > 2_000 ? `${text.slice(0, 100)}… ${text.length} …${text.slice(-100)}` : text;
  }
  if (typeof value === "number") return MEASURED.test(name) ? "N" : value;
  if (Array.isArray(value)) return value.map((item) => normalise(item, name));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, normalise(item, key)]));
}

interface LogLine {
  readonly level: string;
  readonly message: string;
}

/** Returns what clients can rely on in the record of a call. */
export function showCall(call: Call): object {
  const { tool, version, alias, mode, state, effects, sessionId, error, attempts, isRecorded, omitted } = call;
  const { usage, input, output, calls, content, logs = [] } = call;
  return {
    tool,
    version,
    alias,
    mode,
    state,
    effects,
    sessionId,
    attempts,
    isRecorded,
    omitted,
    ...(normalise({ input, output, error, content }) as object),
    logs: ((logs ?? []) as readonly LogLine[]).map(({ level, message }) => [level, normalise(message)]),
    // The fields, whose values are measured.
    usage: usage === null ? null : Object.keys(usage as object).sort(),
    calls: ((calls ?? []) as readonly { toolName: string; code: string }[]).map(({ toolName, code }) => [
      toolName,
      code,
    ]),
    times: { hasStarted: call.startedAt !== null, hasEnded: call.endedAt !== null },
  };
}

/** Stages that a call has only if it had to wait: for a slot, or for an isolate. */
const WAITS: ReadonlySet<string> = new Set(["queue", "start"]);

/** Returns what happened in a call, in order, without the times. */
export function showTimeline({ spans: all, calls }: CallTimeline): unknown {
  const spans = all.filter(({ kind }) => !WAITS.has(kind));
  return normalise({
    spans: spans.map(({ kind, name, code, operation, target, status, attributes, callId }) => ({
      kind,
      name,
      code,
      operation,
      target,
      status,
      attributes,
      callId,
    })),
    calls: calls.map(({ toolName, code }: { readonly toolName: string; readonly code: string }) => [toolName, code]),
  });
}

export function showEvent({ event, data }: CallEvent): unknown {
  if (event === "result") return [event, showCall(data)];
  if (event !== "log") return [event, normalise(data)];
  const { level, message } = data as LogLine;
  return [event, level, normalise(message)];
}

/** Returns a run without its attempts: one that gets two answers at the same time continues once or twice. */
export function showRun(run: Run): unknown {
  const { tool, version, state, waits, input, output, error } = run;
  return normalise({ tool, version, state, waits, input, output, error });
}

/** Returns the error of a request that fails. */
export async function failureOf(request: Promise<unknown>): Promise<unknown> {
  try {
    return { unexpected: normalise(await request) };
  } catch (thrown) {
    if (!(thrown instanceof ApiError)) throw thrown;
    const { status, code, message, details } = thrown;
    return normalise({ status, code, message, details });
  }
}
