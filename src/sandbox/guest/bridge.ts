// Capability calls from the guest's side: JSON text out with a request id, an envelope back. Counted here and again on the host.
import type { CapabilityEnvelope } from "../guest-protocol.ts";
import { callState } from "./call-state.ts";
import { makeCapabilityError } from "./error-text.ts";
import { post } from "./host.ts";
import {
  JSONParse,
  JSONStringify,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeGet,
  MapPrototypeGetSize,
  MapPrototypeSet,
  PromiseConstructor,
} from "./primordials.ts";

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

const pending = new MapConstructor<number, Pending>();
let lastRequestId = 0;

function refusal(name: string): Error | undefined {
  const header = callState.header;
  if (!callState.active || header === undefined) {
    return makeCapabilityError("CAPABILITY_DENIED", `${name} can be used only while a call runs`);
  }
  if (MapPrototypeGetSize(pending) >= header.pendingHostCalls) {
    return makeCapabilityError("QUOTA_EXCEEDED", `${header.pendingHostCalls} host calls are waiting already`);
  }
  if (name === "log") return undefined;
  callState.hostCalls += 1;
  return callState.hostCalls > header.hostCalls
    ? makeCapabilityError("QUOTA_EXCEEDED", `This call may make ${header.hostCalls} host calls`)
    : undefined;
}

/** Asks the host. Rejects with an error whose `code` names the refusal; never throws. */
export function callCapability(name: string, input: unknown): Promise<unknown> {
  return new PromiseConstructor((resolve, reject) => {
    const refused = refusal(name);
    if (refused !== undefined) {
      reject(refused);
      return;
    }
    // Throws for what JSON cannot say; the executor turns that into a rejection.
    const text = JSONStringify(input) ?? "null";
    lastRequestId += 1;
    MapPrototypeSet(pending, lastRequestId, { resolve, reject });
    post("capability", lastRequestId, name, text);
  });
}

/** The host's answer. An id that is not waiting is ignored: its call is over. */
export function deliver(requestId: number, text: string): void {
  const waiting = MapPrototypeGet(pending, requestId);
  if (waiting === undefined) return;
  MapPrototypeDelete(pending, requestId);
  const envelope = JSONParse(text) as CapabilityEnvelope;
  if (envelope.ok) waiting.resolve(envelope.value);
  else waiting.reject(makeCapabilityError(envelope.code, envelope.message));
}

/** By the end of a call nothing of it waits any more. */
export function forgetPending(): void {
  MapPrototypeClear(pending);
}
