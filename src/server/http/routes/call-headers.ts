// Reads and checks what requests for calls and for runs have in common.
import type { Context } from "hono";
import type { CallCaller } from "../../calls/call-request.ts";
import type { Actor } from "../../records/audit/audit.ts";
import type { AppEnv, ServerDependencies } from "../context.ts";
import { RequestError } from "../request-error.ts";

/** @throws {RequestError} UNAVAILABLE while the server shuts down */
export function checkAcceptsCalls({ acceptsCalls }: Pick<ServerDependencies, "acceptsCalls">): void {
  if (acceptsCalls()) return;
  throw new RequestError("UNAVAILABLE", "The server is shutting down", { retryAfterSeconds: 1 });
}

/**
 * Checks that a request names a version or an alias, not both.
 * @throws {RequestError} INVALID
 */
export function checkOneVersion(
  { version, alias }: { readonly version?: unknown; readonly alias?: unknown },
  at = "",
): void {
  if (version !== undefined && alias !== undefined)
    throw new RequestError("INVALID", `${at}Expected version or alias, got both`);
}

/** Returns who makes the calls of a request. */
export const callerOf = (c: Context<AppEnv>): CallCaller => ({
  tenant: c.get("tenant"),
  keyId: c.get("principal").keyId,
});

/** Structured Headers allow quotes around the key; both forms are in use. */
const KEY_PATTERN = /^"?([A-Za-z0-9._:-]{1,200})"?$/;

/** @throws {RequestError} INVALID */
export function readKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const key = KEY_PATTERN.exec(header)?.[1];
  if (key !== undefined) return key;
  throw new RequestError("INVALID", "Idempotency-Key: Expected 1 to 200 of A-Z a-z 0-9 . _ : -");
}

/** Returns who approves a call at once. @throws {RequestError} FORBIDDEN */
export function approverOf(c: Context<AppEnv>, approve: boolean | undefined): Actor | undefined {
  if (approve !== true) return undefined;
  if (c.get("principal").scopes.has("calls:approve")) return c.get("actor");
  throw new RequestError("FORBIDDEN", "approve: This key does not have the scope calls:approve");
}

/** Whether the client does not want to wait (`Prefer: respond-async`). */
export const isAsync = (c: Context<AppEnv>): boolean => /\brespond-async\b/i.test(c.req.header("prefer") ?? "");

/** Returns the weight that an Accept header gives to a media type; 0 if it does not name the type. */
function weightOf(accept: string, type: string): number {
  for (const range of accept.toLowerCase().split(",")) {
    const [name, ...parameters] = range.split(";").map((text) => text.trim());
    if (name !== type) continue;
    const weight = parameters.find((text) => text.startsWith("q="))?.slice("q=".length);
    return weight === undefined ? 1 : Number(weight);
  }
  return 0;
}

/** Returns whether a client wants server-sent events at least as much as JSON. It must name their media type. */
export function prefersEvents(accept = ""): boolean {
  const weight = weightOf(accept, "text/event-stream");
  return weight > 0 && weight >= weightOf(accept, "application/json");
}
