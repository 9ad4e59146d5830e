// The guest's side of the isolate boundary: the two functions with which the guest reaches the worker (see ../protocol/guest-messages.ts).
import {
  type GuestMessageKind,
  type GuestRequestKind,
  MAX_QUESTION_BYTES,
  MAX_QUESTION_LENGTH,
} from "../protocol/guest-messages.ts";
import { ArrayBufferPrototypeGetByteLength } from "./primordials.ts";

/** Posts a message to the worker without a response. Never throws. */
export type Post = (
  kind: GuestMessageKind,
  a?: string | number,
  b?: string | number,
  c?: string | Uint8Array,
  d?: Uint8Array,
  e?: string,
  f?: string,
  g?: Uint8Array,
) => void;

type QuestionPart = string | number | ArrayBuffer | undefined;

/** Sends a synchronous request to the worker; the guest waits about 30 µs. Returns undefined if the request fails. Never throws. */
export type Ask = (kind: GuestRequestKind, ...parts: readonly QuestionPart[]) => unknown;

/** Called when a job is done. The listener owns `buffers`. */
type AnswerListener = (id: number, text: string, buffers: readonly ArrayBuffer[]) => void;

/** Posts in the background: the worker receives the message in a later turn of its event loop. */
let postLater: Post | undefined;
/** Posts at once, while the guest waits. Only for a guest that runs on the worker's main thread: from another thread it takes 30 µs. */
let postNow: Post | undefined;
let postToHost: Post | undefined;
let askWorker: Ask | undefined;

export function connectHost(later: Post, now: Post, ask: Ask): void {
  postLater = later;
  postNow = now;
  postToHost = later;
  askWorker = ask;
}

/** Selects how the following messages are posted. */
export function postAtOnce(isAtOnce: boolean): void {
  postToHost = isAtOnce ? postNow : postLater;
}

/** Returns only values of limited size. The worker's main thread copies them, and a huge or exotic value could block it. */
function checked(value: QuestionPart): QuestionPart {
  if (typeof value === "number") return value;
  if (typeof value === "string") return value.length <= MAX_QUESTION_LENGTH ? value : undefined;
  try {
    return value !== undefined && ArrayBufferPrototypeGetByteLength(value) <= MAX_QUESTION_BYTES ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Sends a synchronous request. Takes single parameters instead of a list, because a tool could tamper with the iteration of a list. */
export function requestFromWorker(
  kind: GuestRequestKind,
  a: QuestionPart,
  b?: QuestionPart,
  c?: QuestionPart,
  d?: QuestionPart,
  e?: QuestionPart,
  f?: QuestionPart,
): unknown {
  return askWorker?.(kind, checked(a), checked(b), checked(c), checked(d), checked(e), checked(f));
}

let answerListener: AnswerListener | undefined;

/** Sets the listener for results of jobs. Only one platform module starts jobs. */
export function listenForAnswers(listener: AnswerListener): void {
  answerListener = listener;
}

export function receiveAnswer(id: number, text: string, buffers: readonly ArrayBuffer[]): void {
  answerListener?.(id, text, buffers);
}

export function post(kind: GuestMessageKind, a?: string | number, b?: string | number, c?: string): void {
  postToHost?.(kind, a, b, c);
}

/** Posts a message that contains bytes. The bytes are copied. */
export function postWithBytes(
  kind: GuestMessageKind,
  a: string,
  b: string,
  c: string | Uint8Array,
  d?: Uint8Array,
  e?: string,
  f?: string,
  g?: Uint8Array,
): void {
  postToHost?.(kind, a, b, c, d, e, f, g);
}
