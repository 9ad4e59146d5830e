// What answers a request over HTTP that nothing is done for.

/** @param code of JSON-RPC; -32000 is a server's own */
export const refuse = (
  status: number,
  message: string,
  code = -32_000,
  headers: Record<string, string> = {},
): Response => Response.json({ jsonrpc: "2.0", id: null, error: { code, message } }, { status, headers });
