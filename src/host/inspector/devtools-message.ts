// Parses the fields of DevTools protocol messages that the host reads: untrusted text from a client or a worker process.
import * as z from "zod";
import { depthOf } from "../json/parse-json.ts";

/** The limit of V8's own parser for this protocol. Deeper values would overflow the stack when they are serialized again. */
const MAX_DEPTH = 300;

const MessageSchema = z.looseObject({
  id: z.int().optional(),
  method: z.string().max(200).optional(),
  params: z.looseObject({}).optional(),
  result: z.looseObject({}).optional(),
});
export type DevToolsMessage = z.infer<typeof MessageSchema>;

/** Returns undefined for text that is not a protocol message. Never throws. */
export function parseMessage(text: string): DevToolsMessage | undefined {
  try {
    if (depthOf(text, MAX_DEPTH) > MAX_DEPTH) return undefined;
    return MessageSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
