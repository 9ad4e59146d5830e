// Messages of the DevTools protocol, as far as they are read on their way: untrusted text from a client or a worker process.
import * as z from "zod";
import { depthOf } from "../json/parse-json.ts";

/** V8's own parser of this protocol accepts no more. Deeper values would overflow the stack when they are serialized again. */
const MAX_DEPTH = 300;

const MessageSchema = z.looseObject({
  id: z.int().optional(),
  method: z.string().max(200).optional(),
  params: z.looseObject({}).optional(),
  result: z.looseObject({}).optional(),
});
export type DevToolsMessage = z.infer<typeof MessageSchema>;

/** Returns undefined for text that is no message of the protocol. Never throws. */
export function parseMessage(text: string): DevToolsMessage | undefined {
  try {
    if (depthOf(text, MAX_DEPTH) > MAX_DEPTH) return undefined;
    return MessageSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
