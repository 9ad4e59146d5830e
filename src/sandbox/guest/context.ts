// Creates the ctx that `execute` receives: the ids of call and tenant, a signal, log, progress, and one member per capability.

import type { CapabilityDescriptor, InvokeHeader } from "../protocol/guest-messages.ts";
import type { MemberModule } from "../protocol/platform-modules.ts";
import { callCapability, findDescriptor } from "./bridge.ts";
import { allowance, callState } from "./call-state.ts";
import { createCapabilityError, describeValue, notGranted, truncateText } from "./error-text.ts";
import { post } from "./host.ts";
import { recordingPrototype } from "./missing-members.ts";
import { usePlatformModule } from "./module-loader.ts";
import type * as Rollback from "./platform/capabilities/rollback.ts";
import {
  defineValue,
  JSONStringify,
  NumberIsFinite,
  ObjectFreeze,
  ObjectHasOwn,
  PromiseConstructor,
  ReflectDefineProperty,
  secure,
  TypeErrorConstructor,
} from "./primordials.ts";
import { runInSpan } from "./spans.ts";
import type { LogCall, ToolContext, ToolLogLevel, ToolProgress } from "./tool.ts";

/** Longest log message in UTF-16 code units. */
const LOG_MESSAGE_LENGTH = 8_192;
/** More than a client shows. Documented in tool.ts. The worker and the host treat a flood of reports as a broken guest. */
const MAX_PROGRESS_REPORTS = 1_000;

function logCall(level: ToolLogLevel): LogCall {
  return (message, data) => {
    const allowed = allowance("logLines");
    callState.logLines += 1;
    if (callState.logLines > allowed) {
      if (callState.logLines <= allowed * 10) post("log", "dropped", "");
      return new PromiseConstructor((resolve) => resolve());
    }
    const text = truncateText(describeValue(message), LOG_MESSAGE_LENGTH);
    const line = { __proto__: null, level, message: text, ...(data === undefined ? {} : { data }) };
    return callCapability("log", line, callState.serial) as Promise<void>;
  };
}

function makeLog(): ToolContext["log"] {
  const log = logCall("info");
  defineValue(log, "debug", logCall("debug"));
  defineValue(log, "info", logCall("info"));
  defineValue(log, "warn", logCall("warn"));
  defineValue(log, "error", logCall("error"));
  return ObjectFreeze(log) as ToolContext["log"];
}

function reportProgress(report: ToolProgress, serial: number): void {
  const progress: unknown = typeof report === "object" && report !== null ? report.progress : undefined;
  if (!NumberIsFinite(progress)) {
    throw new TypeErrorConstructor(
      `ctx.progress() expected { progress: number }, got ${truncateText(describeValue(report), 200)}`,
    );
  }
  if (!callState.active || serial !== callState.serial) return;
  callState.progressReports += 1;
  if (callState.progressReports > MAX_PROGRESS_REPORTS) return;
  const { total, message } = report;
  const text = {
    __proto__: null,
    progress,
    ...(typeof total === "number" && NumberIsFinite(total) ? { total } : {}),
    ...(typeof message === "string" ? { message: truncateText(message, 1_024) } : {}),
  };
  post("progress", JSONStringify(text));
}

const denied = (name: string) => (): Promise<never> =>
  new PromiseConstructor((_resolve, reject) => {
    reject(createCapabilityError("CAPABILITY_DENIED", notGranted(`ctx.${name}`, name), name));
  });

/** Reports a step of ctx.onRollback under the capability with which it is granted. */
export const reportRollback =
  (serial: number): Rollback.Report =>
  (step) =>
    secure(callCapability("waitFor", { __proto__: null, rollback: step }, serial));

const onRollback =
  (serial: number) =>
  (run: unknown): Promise<unknown> =>
    (usePlatformModule("rollback") as typeof Rollback).register(run, reportRollback(serial));

type Ask = (input: unknown) => Promise<unknown>;

/** Creates a capability's member of ctx: a function, or an object with a function for each of its members. */
function createFace(descriptor: CapabilityDescriptor | undefined, ask: Ask): unknown {
  if (descriptor === undefined || !ObjectHasOwn(descriptor, "members")) return ask;
  const members = descriptor.members as readonly string[];
  const object = { __proto__: null };
  for (let index = 0; index < members.length; index += 1) {
    const op = members[index] as string;
    defineValue(object, op, (...args: unknown[]): Promise<unknown> => {
      // JSON would turn trailing undefined arguments into null.
      while (args.length > 0 && args[args.length - 1] === undefined) args.length -= 1;
      return ask({ __proto__: null, op, args });
    });
  }
  return ObjectFreeze(object);
}

/** Defines a member that is created on first access. */
function defineLazy(ctx: object, name: string, get: () => unknown): void {
  const descriptor = { __proto__: null, enumerable: true, configurable: true, get };
  ReflectDefineProperty(ctx, name, descriptor as PropertyDescriptor);
}

/** Defines a capability's member. Built-in capabilities such as kv have a platform module that creates it. */
function defineMember(ctx: object, name: string, header: InvokeHeader, ask: Ask): void {
  const descriptor = findDescriptor(header, name);
  if (descriptor === undefined || !ObjectHasOwn(descriptor, "platformModule")) {
    defineValue(ctx, name, createFace(descriptor, ask));
    return;
  }
  const platformModule = descriptor.platformModule as MemberModule;
  defineLazy(ctx, name, () => {
    const member = (usePlatformModule(platformModule).createMember as (ask: Ask) => unknown)(ask);
    defineValue(ctx, name, member);
    return member;
  });
}

export interface ContextHandle {
  readonly ctx: ToolContext;
  /** Aborts `ctx.signal`, or makes it aborted when the tool first reads it. */
  end(): void;
}

/** Functions of the platform module for AbortSignal. */
interface AbortChunk {
  createAbortSignal(): object;
  abortSignal(signal: object, reason: unknown): void;
}
const abortChunk = (): AbortChunk => usePlatformModule("abort") as unknown as AbortChunk;

let sharedLog: ToolContext["log"] | undefined;

export function createContextHandle(header: InvokeHeader, callId: string, tenantId: string): ContextHandle {
  const { serial } = callState;
  sharedLog ??= makeLog();
  let signal: object | undefined;
  let hasEnded = false;
  const ctx = {
    __proto__: recordingPrototype,
    callId,
    tenantId,
    log: sharedLog,
    progress: (report: ToolProgress): void => reportProgress(report, serial),
    span: (name: unknown, second: unknown, third: unknown): unknown => runInSpan(serial, name, second, third),
    get signal(): unknown {
      if (signal === undefined) {
        signal = abortChunk().createAbortSignal();
        // A tool that kept its ctx may read the signal for the first time after the call.
        if (hasEnded) abortChunk().abortSignal(signal, undefined);
      }
      return signal;
    },
  } as { [member: string]: unknown };
  const { granted, denied: deniedNames } = header;
  for (let index = 0; index < granted.length; index += 1) {
    const name = granted[index] as string;
    if (ObjectHasOwn(ctx, name)) continue;
    // The same function as the global `fetch`.
    if (name === "fetch") defineLazy(ctx, name, () => usePlatformModule("fetch").fetch);
    else defineMember(ctx, name, header, (input) => callCapability(name, input, serial));
    if (name === "waitFor") defineValue(ctx, "onRollback", onRollback(serial));
  }
  for (let index = 0; index < deniedNames.length; index += 1) {
    const name = deniedNames[index] as string;
    if (!ObjectHasOwn(ctx, name)) defineMember(ctx, name, header, denied(name));
    if (name === "waitFor") defineValue(ctx, "onRollback", denied("waitFor"));
  }
  const end = (): void => {
    hasEnded = true;
    if (signal !== undefined) abortChunk().abortSignal(signal, undefined);
  };
  return { ctx: ctx as unknown as ToolContext, end };
}
