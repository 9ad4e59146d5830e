// The ctx that `execute` receives: who called, a signal, log, progress, and one member per capability.
import type { InvokeHeader } from "../guest-protocol.ts";
import { callCapability } from "./bridge.ts";
import { allowance, callState } from "./call-state.ts";
import { capText, describeValue, makeCapabilityError } from "./error-text.ts";
import { AbortController } from "./events.ts";
import { post } from "./host.ts";
import {
  defineGlobal,
  JSONStringify,
  NumberIsFinite,
  ObjectFreeze,
  PromiseConstructor,
  ReflectDefineProperty,
  TypeErrorConstructor,
} from "./primordials.ts";
import type { LogCall, LogLevel, ToolContext, ToolProgress } from "./tool.ts";

const LOG_MESSAGE_UNITS = 8_192;

function logCall(level: LogLevel): LogCall {
  return (message, data) => {
    callState.logLines += 1;
    if (callState.logLines > allowance("logLines")) {
      if (callState.logLines <= allowance("logLines") * 10) post("log", "dropped", "");
      return PromiseConstructor.resolve();
    }
    const text = capText(describeValue(message), LOG_MESSAGE_UNITS);
    return callCapability("log", { level, message: text, ...(data === undefined ? {} : { data }) }) as Promise<void>;
  };
}

function makeLog(): ToolContext["log"] {
  const log = logCall("info") as LogCall & { [Level in LogLevel]: LogCall };
  log.debug = logCall("debug");
  log.info = logCall("info");
  log.warn = logCall("warn");
  log.error = logCall("error");
  return ObjectFreeze(log);
}

function reportProgress(progress: ToolProgress): void {
  if (typeof progress !== "object" || progress === null || !NumberIsFinite(progress.progress)) {
    throw new TypeErrorConstructor(`progress expected { progress: number }, got ${describeValue(progress)}`);
  }
  const { total, message } = progress;
  const report = {
    __proto__: null,
    progress: progress.progress,
    ...(typeof total === "number" && NumberIsFinite(total) ? { total } : {}),
    ...(typeof message === "string" ? { message: capText(message, 1_024) } : {}),
  };
  if (callState.active) post("progress", JSONStringify(report));
}

const denied = (name: string) => (): Promise<never> =>
  PromiseConstructor.reject(
    makeCapabilityError("CAPABILITY_DENIED", `The capability "${name}" was not granted to this tool`),
  );

export interface CallContext {
  readonly ctx: ToolContext;
  /** Aborts `ctx.signal` if the tool ever looked at it. */
  end(): void;
}

let sharedLog: ToolContext["log"] | undefined;

export function createCallContext(header: InvokeHeader, callId: string, tenantId: string): CallContext {
  let controller: AbortController | undefined;
  sharedLog ??= makeLog();
  const ctx: { [member: string]: unknown } = {
    callId,
    tenantId,
    log: sharedLog,
    progress: reportProgress,
  };
  ReflectDefineProperty(ctx, "signal", {
    enumerable: true,
    configurable: true,
    get: () => {
      controller ??= new AbortController();
      return controller.signal;
    },
  });
  const { granted, denied: refused } = header;
  for (let index = 0; index < granted.length; index += 1) {
    const name = granted[index] as string;
    if (!(name in ctx)) ctx[name] = (input: unknown): Promise<unknown> => callCapability(name, input);
  }
  for (let index = 0; index < refused.length; index += 1) {
    const name = refused[index] as string;
    if (!(name in ctx)) ctx[name] = denied(name);
  }
  return { ctx: ctx as unknown as ToolContext, end: () => controller?.abort() };
}

/** `performance.now()` in whole milliseconds since the isolate began. */
export function installPerformance(now: () => number): void {
  const timeOrigin = now();
  defineGlobal("performance", ObjectFreeze({ now: () => now() - timeOrigin, timeOrigin }));
}
