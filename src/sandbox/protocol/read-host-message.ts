// Reads the host's messages, in a worker.
import type { HostMessage } from "./host-messages.ts";

/**
 * Reads the JSON text of a message from the host. The host has every right that a worker has and more, so this checks only what a broken
 * installation would show: that the text is an object with a type. The worker ends if it does not know the type.
 * @throws {Error} for anything else
 */
export function readHostMessage(text: string): HostMessage {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || !("type" in value)) throw new Error("Expected a message");
  return value as HostMessage;
}
