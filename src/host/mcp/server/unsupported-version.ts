// Rejects requests over stdio that state a protocol revision that the server does not support. The SDK checks only the first request of a
// connection, but each request of revision 2026-07-28 states its own.
import {
  type JSONRPCMessage,
  PROTOCOL_VERSION_META_KEY,
  UnsupportedProtocolVersionError,
} from "@modelcontextprotocol/server";
import * as z from "zod";

/** The revisions whose requests state their revision. */
const SUPPORTED = ["2026-07-28"];

const RequestSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]),
  method: z.string(),
  params: z.object({ _meta: z.object({ [PROTOCOL_VERSION_META_KEY]: z.string() }) }),
});

/** Returns the error for a request of an unsupported revision; undefined for other messages. */
export function rejectUnsupportedVersion(message: unknown): JSONRPCMessage | undefined {
  const { data } = RequestSchema.safeParse(message);
  const requested = data?.params._meta[PROTOCOL_VERSION_META_KEY];
  if (data === undefined || requested === undefined || SUPPORTED.includes(requested)) return undefined;
  const {
    code,
    message: text,
    data: details,
  } = new UnsupportedProtocolVersionError({ supported: SUPPORTED, requested });
  return { jsonrpc: "2.0", id: data.id, error: { code, message: text, data: details } };
}
