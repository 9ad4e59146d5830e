// Messages of the DevTools protocol, as far as they are looked at on their way: read as what strangers have written.
import * as z from "zod";

const MessageSchema = z.looseObject({
  id: z.int().optional(),
  method: z.string().max(200).optional(),
  params: z.looseObject({}).optional(),
  result: z.looseObject({}).optional(),
});
export type DevToolsMessage = z.infer<typeof MessageSchema>;

/** Undefined for what is none. */
export function parseMessage(text: string): DevToolsMessage | undefined {
  try {
    return MessageSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
