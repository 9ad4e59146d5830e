// The guest's side of the isolate wall: the two functions that leave it, and the words that cross (see ../guest-messages.ts).
import {
  type GuestMessageKind,
  type GuestQuestionKind,
  MAX_QUESTION_BYTES,
  MAX_QUESTION_UNITS,
} from "../protocol/guest-messages.ts";
import { ArrayBufferPrototypeGetByteLength } from "./primordials.ts";

/** Fire and forget: text or numbers out, nothing back, never throws. */
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

/** Answered by the worker at once, while the guest waits: some 30 µs. Undefined where there is no answer; never throws. */
export type Ask = (kind: GuestQuestionKind, ...parts: readonly QuestionPart[]) => unknown;

/** Hears of a job that it is done; `buffers` are the listener's own. */
type AnswerListener = (id: number, text: string, buffers: readonly ArrayBuffer[]) => void;

let postToHost: Post | undefined;
let askWorker: Ask | undefined;

export function connectHost(post: Post, ask: Ask): void {
  postToHost = post;
  askWorker = ask;
}

/** What may leave: a value of the guest's own making would be read in the worker's main thread, however long that took. */
function checked(value: QuestionPart): QuestionPart {
  if (typeof value === "number") return value;
  if (typeof value === "string") return value.length <= MAX_QUESTION_UNITS ? value : undefined;
  try {
    return value !== undefined && ArrayBufferPrototypeGetByteLength(value) <= MAX_QUESTION_BYTES ? value : undefined;
  } catch {
    return undefined;
  }
}

/** As many buffers as the most that any question has; a list of them would be the guest's to read. */
export function ask(
  kind: GuestQuestionKind,
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

/** For the chunk that begins jobs: there is one. */
export function listenForAnswers(listener: AnswerListener): void {
  answerListener = listener;
}

export function hearAnswer(id: number, text: string, buffers: readonly ArrayBuffer[]): void {
  answerListener?.(id, text, buffers);
}

export function post(kind: GuestMessageKind, a?: string | number, b?: string | number, c?: string): void {
  postToHost?.(kind, a, b, c);
}

/** A message with bytes in it, which are copied. */
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
