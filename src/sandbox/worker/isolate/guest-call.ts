// What a worker exchanges with a guest: the arguments of a call, its messages, and its end. All values of a guest are untrusted.
import { GUEST_OUTCOMES, type GuestOutcome, type InvokeHeader } from "../../protocol/guest-messages.ts";
import type { StopReason } from "../../protocol/worker-messages.ts";

/** Receives the messages of a running guest. All values are untrusted. */
export interface GuestListener {
  onLog(level: string, text: string, place?: string): void;
  onProgress(text: string): void;
  onSpan?(text: string): void;
  onCapability(requestId: number, name: string, text: string): void;
  /** Receives a chunk of a streaming call. */
  onChunk?(text: string, bytes: GuestBytes | undefined): void;
  /** An entry for this thread has ended without the call's result. */
  onLeft?(): void;
}

/** Bytes of a JSON value: a BytesHeader as JSON text, and the bytes one after the other. */
export interface GuestBytes {
  readonly header: string;
  readonly data: Uint8Array;
}

/** Result of an entry into the guest. */
export interface GuestEnd {
  readonly outcome: GuestOutcome | StopReason;
  readonly text: string;
  readonly bytes?: GuestBytes | undefined;
  readonly content?: { readonly text: string; readonly bytes: GuestBytes | undefined } | undefined;
}

/** Why an isolate was stopped: a StopReason, or because the chunks of a stream exceed the output limits. */
export type IsolateStop = StopReason | "too-large";

/** Arguments of a call. `header` (an InvokeHeader) and `input` are JSON text. */
export interface GuestCall {
  readonly header: string;
  readonly input: string;
  readonly callId: string;
  readonly tenantId: string;
  /** Bytes of the input, if it contains any. */
  readonly bytes?: GuestBytes | undefined;
  /** Whether to pass on the chunks of a streaming tool as they are produced. */
  readonly stream?: boolean | undefined;
  /** Runs the call on this thread, and ends it then. */
  readonly until?: GuestDeadline | undefined;
}

/** End of the guest's time on this thread. */
export interface GuestDeadline {
  /** Time by performance.now(). */
  readonly at: number;
  readonly reason: StopReason;
}

/** Returns the JSON text of an InvokeHeader for an internal call without capabilities, logs and timers. */
export function createInternalHeader(outputBytes: number): string {
  return JSON.stringify({
    granted: [],
    denied: [],
    outputBytes,
    logBytes: 0,
    logLines: 0,
    maxCapabilityCalls: 0,
    maxPendingCapabilityCalls: 0,
    timers: 0,
  } satisfies InvokeHeader);
}

/** Ignores all messages. */
export const IGNORE_MESSAGES: GuestListener = { onLog() {}, onProgress() {}, onCapability() {} };

export const isGuestOutcome = (value: unknown): value is GuestOutcome => GUEST_OUTCOMES.includes(value as GuestOutcome);

/** Returns undefined if the header or the bytes are missing. */
export function toBytes(header: unknown, data: unknown): GuestBytes | undefined {
  if (typeof header !== "string" || header === "" || !(data instanceof Uint8Array)) return undefined;
  return { header, data };
}

/** Returns the end of a call from the parts of the guest's `done` message that follow its text. */
export function toEnd(outcome: GuestOutcome, text: string, parts: readonly unknown[]): GuestEnd {
  const [header, data, contentText, contentHeader, contentData] = parts;
  const bytes = toBytes(header, data);
  if (typeof contentText !== "string") return { outcome, text, bytes };
  return { outcome, text, bytes, content: { text: contentText, bytes: toBytes(contentHeader, contentData) } };
}

const MAX_REASON_LENGTH = 4_096;
/** Line that isolated-vm puts between the isolate's frames and the worker's own in the stack of a copied error. */
const STACK_BOUNDARY = "    at (<isolated-vm boundary>)";

/**
 * Describes a rejection reason that isolated-vm has copied: a primitive, or an Error of this realm whose stack continues in host files.
 * Returns only the guest's part of the stack, or no stack if isolated-vm has not marked the end of that part.
 */
export function describeReason(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason).slice(0, MAX_REASON_LENGTH);
  const end = reason.stack?.indexOf(STACK_BOUNDARY) ?? -1;
  const text = end < 0 ? `${reason.name}: ${reason.message}` : (reason.stack ?? "").slice(0, end).trimEnd();
  return text.slice(0, MAX_REASON_LENGTH);
}
