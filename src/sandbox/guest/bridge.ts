// Capability calls from the guest's side: JSON text out with a request id, an envelope back. Counted here and again on the host.
import type {
  CapabilityEnvelope,
  CapabilityShape,
  CapabilityShapes,
  InvokeHeader,
} from "../protocol/guest-messages.ts";
import { callState } from "./call-state.ts";
import { makeCapabilityError } from "./error-text.ts";
import { post } from "./host.ts";
import {
  JSONParse,
  JSONStringify,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeForEach,
  MapPrototypeGet,
  MapPrototypeSet,
  ObjectHasOwn,
  PromiseConstructor,
} from "./primordials.ts";

interface Pending {
  readonly isLog: boolean;
  readonly units: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Text of all requests that wait, in UTF-16 units: the hard ceiling of `inputBytes`. What a guest posts lies in the
 * worker's memory, outside the guest's own limit, until the worker has read it.
 */
const MAX_WAITING_UNITS = 64 * 1024 * 1024;

const pending = new MapConstructor<number, Pending>();
let lastRequestId = 0;
let waitingCalls = 0;
let waitingUnits = 0;

/** Own fields only: a guest may have put others on Object.prototype. */
export function shapeOf(header: InvokeHeader, name: string): CapabilityShape | undefined {
  if (!ObjectHasOwn(header, "shapes")) return undefined;
  const shapes = header.shapes as CapabilityShapes;
  return ObjectHasOwn(shapes, name) ? shapes[name] : undefined;
}

/** A further step of something that was counted when it began. The host looks again. */
function isUncounted(header: InvokeHeader, name: string, input: unknown): boolean {
  if (typeof input !== "object" || input === null) return false;
  const shape = shapeOf(header, name);
  if (shape === undefined || !ObjectHasOwn(shape, "uncounted")) return false;
  const ops = shape.uncounted as readonly string[];
  const { op } = input as { readonly op?: unknown };
  for (let index = 0; index < ops.length; index += 1) if (ops[index] === op) return true;
  return false;
}

/** Lines of the log have an allowance of their own, which `ctx.log` keeps. */
function refusal(name: string, input: unknown, isLog: boolean, serial: number): Error | undefined {
  const { active, header } = callState;
  if (!active || header === undefined || serial !== callState.serial) {
    return makeCapabilityError("CAPABILITY_DENIED", `${name} can be used only while its call runs`);
  }
  if (isLog) return undefined;
  if (waitingCalls >= header.pendingHostCalls) {
    return makeCapabilityError("QUOTA_EXCEEDED", `${header.pendingHostCalls} host calls are waiting already`);
  }
  if (isUncounted(header, name, input)) return undefined;
  callState.hostCalls += 1;
  return callState.hostCalls > header.hostCalls
    ? makeCapabilityError("QUOTA_EXCEEDED", `This call may make ${header.hostCalls} host calls`)
    : undefined;
}

/**
 * Asks the host, for the call `serial`. Rejects with an error whose `code` names the refusal; never throws.
 */
export function callCapability(name: string, input: unknown, serial: number): Promise<unknown> {
  return new PromiseConstructor((resolve, reject) => {
    const isLog = name === "log";
    const refused = refusal(name, input, isLog, serial);
    if (refused !== undefined) {
      reject(refused);
      return;
    }
    // Throws for what JSON cannot say; the executor turns that into a rejection.
    const text = JSONStringify(input) ?? "null";
    const units = text.length;
    if (waitingUnits + units > MAX_WAITING_UNITS) {
      reject(
        makeCapabilityError("QUOTA_EXCEEDED", "The inputs of the host calls that are waiting are too large together"),
      );
      return;
    }
    lastRequestId += 1;
    waitingUnits += units;
    if (!isLog) waitingCalls += 1;
    MapPrototypeSet(pending, lastRequestId, { isLog, units, resolve, reject });
    post("capability", lastRequestId, name, text);
  });
}

/** A guest may have put one on Object.prototype. */
const ownNetworkCode = (envelope: Extract<CapabilityEnvelope, { ok: false }>): string | undefined =>
  ObjectHasOwn(envelope, "networkCode") ? envelope.networkCode : undefined;

/** The host's answer. An id that is not waiting is ignored: its call is over. */
export function deliver(requestId: number, text: string): void {
  const waiting = MapPrototypeGet(pending, requestId);
  if (waiting === undefined) return;
  MapPrototypeDelete(pending, requestId);
  waitingUnits -= waiting.units;
  if (!waiting.isLog) waitingCalls -= 1;
  const envelope = JSONParse(text) as CapabilityEnvelope;
  if (envelope.ok) waiting.resolve(envelope.value);
  else waiting.reject(makeCapabilityError(envelope.code, envelope.message, undefined, ownNetworkCode(envelope)));
}

/**
 * By the end of a call nothing of it waits any more.
 * @param goesOn a later call of the session may wait for what this one has asked for: it is told that no answer will come
 */
export function forgetPending(goesOn = false): void {
  if (goesOn) {
    const error = makeCapabilityError(
      "CANCELLED",
      "The run that made this host call ended before its answer came: await it there",
    );
    MapPrototypeForEach(pending, ({ isLog, reject }) => {
      if (!isLog) reject(error);
    });
  }
  MapPrototypeClear(pending);
  waitingCalls = 0;
  waitingUnits = 0;
}
