// The guest's side of the isolate wall: the one function that leaves it, and the words that cross (see ../guest-protocol.ts).
import type { GuestMessageKind } from "../guest-protocol.ts";

/** Fire and forget: text or numbers out, nothing back, never throws. */
export type Post = (kind: GuestMessageKind, a?: string | number, b?: string | number, c?: string) => void;

let postToHost: Post | undefined;

export function connectHost(post: Post): void {
  postToHost = post;
}

export function post(kind: GuestMessageKind, a?: string | number, b?: string | number, c?: string): void {
  postToHost?.(kind, a, b, c);
}
