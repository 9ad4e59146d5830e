// Parses the host's messages, in a worker. The few that each call sends are checked by hand; all others, and every one that these checks do not
// accept, are parsed by the schemas.
import { countFields, type Fields, isSeq, isText } from "./check-fields.ts";
import { type HostMessage, HostMessageSchema, MAX_MAIN_THREAD_MS } from "./host-messages.ts";

const MAX_ID_LENGTH = 1_024;

const isMainThreadMs = (value: unknown): value is number => isSeq(value) && value <= MAX_MAIN_THREAD_MS;

function isHostMessage(value: unknown): value is HostMessage {
  const keys = countFields(value);
  if (keys < 0) return false;
  const { type, seq, toolId, requestId, callId, tenantId, mainThreadMs } = value as Fields;
  if (!isSeq(seq) || !isMainThreadMs(mainThreadMs)) return false;
  if (type === "capability-result") return keys === 4 && isSeq(requestId);
  if (type !== "call" || keys !== 6 || !isSeq(toolId)) return false;
  return isText(callId, MAX_ID_LENGTH) && isText(tenantId, MAX_ID_LENGTH);
}

/**
 * Parses the JSON text of a message from the host.
 * @throws {Error} for anything that is not a message
 */
export function parseHostMessage(text: string): HostMessage {
  const value: unknown = JSON.parse(text);
  return isHostMessage(value) ? value : HostMessageSchema.parse(value);
}
