// Creates the responses to HTTP requests that the MCP server rejects: an HTTP status with a JSON-RPC error as its body.
import type { Exceeded } from "./caller-quota.ts";

/** Seconds after which a client may try again when a limit was reached. */
const RETRY_SECONDS = 1;

/** Code of JSON-RPC for a message that is not a valid request. */
export const INVALID_REQUEST = -32_600;

/** @param code of the JSON-RPC error; -32000 is the first of those that a server may define */
export const reject = (
  status: number,
  message: string,
  code = -32_000,
  headers: Readonly<Record<string, string>> = {},
): Response => Response.json({ jsonrpc: "2.0", id: null, error: { code, message } }, { status, headers });

/** Whose requests exceed each limit, and the status of the response: 429 for limits of the caller and its tenant, 503 for that of the server. */
const LIMITED = {
  caller: { status: 429, who: "this caller" },
  tenant: { status: 429, who: "this tenant" },
  total: { status: 503, who: "all callers" },
} as const satisfies Record<Exceeded, { readonly status: number; readonly who: string }>;

/** Returns the status of a response that is rejected because a limit was reached. */
export const statusOfLimit = (exceeded: Exceeded): number => LIMITED[exceeded].status;

/** Rejects a request because a limit was reached. */
export const rejectOverLimit = (exceeded: Exceeded, resource: string): Response =>
  reject(LIMITED[exceeded].status, `Too many ${resource} from ${LIMITED[exceeded].who}`, -32_000, {
    "Retry-After": String(RETRY_SECONDS),
  });

/** Rejects a request that cannot be served at present: 503. */
export const rejectUnavailable = (message: string): Response =>
  reject(503, message, -32_000, { "Retry-After": String(RETRY_SECONDS) });
