// The one fetch that the SDK's transport is given. Its requests are of two kinds: those of the protocol, and those of OAuth.
import type { FetchLike } from "@modelcontextprotocol/client";

/** Protocol requests accept an event stream or end a session; requests for metadata, registration and tokens do neither. */
function isOfProtocol(init: RequestInit | undefined): boolean {
  if (init?.method?.toUpperCase() === "DELETE") return true;
  return new Headers(init?.headers).get("accept")?.includes("text/event-stream") === true;
}

/** Both functions check the target, so a request of the wrong kind is denied. */
export const createHttpFetch =
  (fetchMessage: FetchLike, fetchOAuth: FetchLike): FetchLike =>
  (input, init) =>
    isOfProtocol(init) ? fetchMessage(input, init) : fetchOAuth(input, init);
