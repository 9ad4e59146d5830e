// Capability log, which every tool has: writes structured lines to the call's log.
import * as z from "zod";
import { LOG_LEVELS } from "../../sandbox/protocol/message-fields.ts";
import { type Capability, defineCapability } from "./capability.ts";

export const logCapability: Capability = defineCapability({
  name: "log",
  description: "Writes a structured line to the call's log",
  inputSchema: z.strictObject({ level: z.enum(LOG_LEVELS), message: z.string(), data: z.json().optional() }),
  outputSchema: z.null(),
  handler: ({ level, message, data }, { log }) => {
    log(message, data, level);
    return null;
  },
});
