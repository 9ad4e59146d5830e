// The one fetch that the SDK's transport is given. Its requests are of two kinds: those of the protocol, and those of OAuth.
import type { FetchLike } from "@modelcontextprotocol/client";

/** The transport asks for an event stream with each request, or ends a session; discovery, registration and tokens do neither. */
function isOfProtocol(init: RequestInit | undefined): boolean {
  if (init?.method?.toUpperCase() === "DELETE") return true;
  return new Headers(init?.headers).get("accept")?.includes("text/event-stream") === true;
}

/** Either of them checks where a request goes: one that is taken for the other kind is denied there. */
export const createHttpFetch =
  (fetchMessage: FetchLike, fetchOAuth: FetchLike): FetchLike =>
  (input, init) =>
    isOfProtocol(init) ? fetchMessage(input, init) : fetchOAuth(input, init);
