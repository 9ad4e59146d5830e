// Creates the responses to HTTP requests that the MCP server rejects: an HTTP status with a JSON-RPC error as its body.

/** Seconds after which a client may try again when a limit was reached. */
const RETRY_SECONDS = 1;

/** @param code of the JSON-RPC error; -32000 is the first of those that a server may define */
export const reject = (
  status: number,
  message: string,
  code = -32_000,
  headers: Readonly<Record<string, string>> = {},
): Response => Response.json({ jsonrpc: "2.0", id: null, error: { code, message } }, { status, headers });

/** Rejects a request because a limit was reached: 429 for the caller's own limit, 503 for that of the server. */
export function rejectOverLimit(exceeded: "caller" | "total", resource: string): Response {
  const headers = { "Retry-After": String(RETRY_SECONDS) };
  return exceeded === "caller"
    ? reject(429, `Too many ${resource} from this caller`, -32_000, headers)
    : reject(503, `Too many ${resource} from all callers`, -32_000, headers);
}

/** Rejects a request that cannot be served at present: 503. */
export const rejectUnavailable = (message: string): Response =>
  reject(503, message, -32_000, { "Retry-After": String(RETRY_SECONDS) });
