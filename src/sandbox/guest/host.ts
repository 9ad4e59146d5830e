// The guest's side of the isolate wall: the two functions that leave it, and the words that cross (see ../guest-protocol.ts).
import type { GuestMessageKind, GuestQuestionKind } from "../guest-protocol.ts";

/** Fire and forget: text or numbers out, nothing back, never throws. */
export type Post = (kind: GuestMessageKind, a?: string | number, b?: string | number, c?: string) => void;

/** Answered by the worker at once, while the guest waits: some 30 µs. Undefined where there is no answer; never throws. */
export type Ask = (kind: GuestQuestionKind, a: string) => unknown;

let postToHost: Post | undefined;
let askWorker: Ask | undefined;

export function connectHost(post: Post, ask: Ask): void {
  postToHost = post;
  askWorker = ask;
}

export function ask(kind: GuestQuestionKind, a: string): unknown {
  return askWorker?.(kind, a);
}

export function post(kind: GuestMessageKind, a?: string | number, b?: string | number, c?: string): void {
  postToHost?.(kind, a, b, c);
}
