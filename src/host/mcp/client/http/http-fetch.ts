// Creates the fetch function of the SDK's transport. It separates the requests of the protocol from those of OAuth.
import type { FetchLike } from "@modelcontextprotocol/client";

/** Protocol requests accept an event stream or end a session; requests for metadata, registration and tokens do neither. */
function isProtocolRequest(init: RequestInit | undefined): boolean {
  if (init?.method?.toUpperCase() === "DELETE") return true;
  return new Headers(init?.headers).get("accept")?.includes("text/event-stream") === true;
}

/** Both functions check the target of a request, so one that was classified wrongly is denied. */
export const createHttpFetch =
  (fetchMessage: FetchLike, fetchOAuth: FetchLike): FetchLike =>
  (input, init) =>
    isProtocolRequest(init) ? fetchMessage(input, init) : fetchOAuth(input, init);
