// The guest's side of capability calls: posts the input as JSON text with a request id, and settles the promise when the envelope arrives.
// Limits are enforced here and again on the host.
import type {
  CapabilityDescriptor,
  CapabilityDescriptors,
  CapabilityEnvelope,
  InvokeHeader,
} from "../protocol/guest-messages.ts";
import { callState } from "./call-state.ts";
import { createCapabilityError } from "./error-text.ts";
import { post } from "./host.ts";
import { warnAboutLost } from "./lost-values.ts";
import {
  JSONParse,
  JSONStringify,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeForEach,
  MapPrototypeGet,
  MapPrototypeGetSize,
  MapPrototypeSet,
  ObjectHasOwn,
  PromiseConstructor,
  PromisePrototypeThen,
  secure,
} from "./primordials.ts";

interface PendingRequest {
  readonly isLog: boolean;
  readonly length: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Maximum length of the inputs of all pending requests, in UTF-16 code units: the largest allowed `inputBytes`. Until the worker has read a
 * posted text, the text is in the worker's memory, outside of the guest's own limit.
 */
const MAX_PENDING_LENGTH = 64 * 1024 * 1024;

const pending = new MapConstructor<number, PendingRequest>();
let lastRequestId = 0;
let pendingCalls = 0;
let pendingLength = 0;

/** Returns the descriptor of a capability. Reads own fields only, because a tool may have added others to Object.prototype. */
export function findDescriptor(header: InvokeHeader, name: string): CapabilityDescriptor | undefined {
  if (!ObjectHasOwn(header, "descriptors")) return undefined;
  const descriptors = header.descriptors as CapabilityDescriptors;
  return ObjectHasOwn(descriptors, name) ? descriptors[name] : undefined;
}

/** Returns whether the input continues an operation that was already counted. The host checks this again. */
function isUncounted(header: InvokeHeader, name: string, input: unknown): boolean {
  if (typeof input !== "object" || input === null) return false;
  const descriptor = findDescriptor(header, name);
  if (descriptor === undefined || !ObjectHasOwn(descriptor, "uncounted")) return false;
  const ops = descriptor.uncounted as readonly string[];
  const { op } = input as { readonly op?: unknown };
  for (let index = 0; index < ops.length; index += 1) if (ops[index] === op) return true;
  return false;
}

/** Returns the error of a call that is not allowed now, else counts it. Log lines have their own limit, which `ctx.log` enforces. */
function checkAllowed(name: string, input: unknown, isLog: boolean, serial: number): Error | undefined {
  const { active, header } = callState;
  if (!active || header === undefined || serial !== callState.serial) {
    return createCapabilityError("CAPABILITY_DENIED", `${name} can be used only while its call runs`);
  }
  if (isLog) return undefined;
  if (pendingCalls >= header.maxPendingCapabilityCalls) {
    return createCapabilityError(
      "QUOTA_EXCEEDED",
      `${header.maxPendingCapabilityCalls} capability calls are waiting already (limits.maxPendingCapabilityCalls)`,
    );
  }
  if (isUncounted(header, name, input)) return undefined;
  callState.maxCapabilityCalls += 1;
  return callState.maxCapabilityCalls > header.maxCapabilityCalls
    ? createCapabilityError(
        "QUOTA_EXCEEDED",
        `This call may make ${header.maxCapabilityCalls} capability calls (limits.maxCapabilityCalls)`,
      )
    : undefined;
}

const RESOLVED = secure(new PromiseConstructor<void>((resolve) => resolve()));
const nothing = (): void => {};

/**
 * Returns a promise that rejects some microtasks later, after answers that succeed in the same turn. If the promise of a request was resolved
 * with it, V8 gives the stack of an error that is created then the functions that await the request. Requests that succeed cost nothing more.
 */
function rejectLater(makeError: () => Error): Promise<unknown> {
  const later = PromisePrototypeThen(RESOLVED, nothing);
  return PromisePrototypeThen(secure(later), () => {
    throw makeError();
  });
}

/**
 * Calls a capability of the host, for the tool call `serial`. Rejects with an error whose `code` states the reason; never throws.
 */
export function callCapability(name: string, input: unknown, serial: number): Promise<unknown> {
  return new PromiseConstructor((resolve, reject) => {
    const isLog = name === "log";
    const error = checkAllowed(name, input, isLog, serial);
    if (error !== undefined) {
      reject(error);
      return;
    }
    // If the input is not serializable this throws, which rejects the promise.
    const text = JSONStringify(input) ?? "null";
    if (!isLog) warnAboutLost(`The input of ctx.${name}`, input, text);
    const { length } = text;
    if (pendingLength + length > MAX_PENDING_LENGTH) {
      reject(
        createCapabilityError("QUOTA_EXCEEDED", "The inputs of all pending capability calls together are too large"),
      );
      return;
    }
    lastRequestId += 1;
    pendingLength += length;
    if (!isLog) pendingCalls += 1;
    MapPrototypeSet(pending, lastRequestId, { isLog, length, resolve, reject });
    post("capability", lastRequestId, name, text);
  });
}

// A tool may have added a networkCode to Object.prototype.
const ownNetworkCode = (envelope: Extract<CapabilityEnvelope, { ok: false }>): string | undefined =>
  ObjectHasOwn(envelope, "networkCode") ? envelope.networkCode : undefined;

/** Settles a request with the host's response. Ignores unknown ids, whose call has ended. */
export function deliver(requestId: number, text: string): void {
  const request = MapPrototypeGet(pending, requestId);
  if (request === undefined) return;
  MapPrototypeDelete(pending, requestId);
  pendingLength -= request.length;
  if (!request.isLog) pendingCalls -= 1;
  const envelope = JSONParse(text) as CapabilityEnvelope;
  if (envelope.ok) request.resolve(envelope.value);
  else {
    const { code, message } = envelope;
    request.resolve(rejectLater(() => createCapabilityError(code, message, undefined, ownNetworkCode(envelope))));
  }
}

/**
 * Forgets the pending requests at the end of a call.
 * @param isContinued whether a later call of the session can follow. It may await a promise of this call, so pending requests are rejected
 */
export function forgetPending(isContinued = false): void {
  if (isContinued) {
    const error = createCapabilityError(
      "CANCELLED",
      "The call that made this capability call ended before the response arrived. Await the promise in the same call",
    );
    MapPrototypeForEach(pending, ({ isLog, reject }) => {
      if (!isLog) reject(error);
    });
  }
  // Clearing allocates a new table, also if there is nothing to clear.
  if (MapPrototypeGetSize(pending) > 0) MapPrototypeClear(pending);
  pendingCalls = 0;
  pendingLength = 0;
}
