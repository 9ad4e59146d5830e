// Entry point of the worker's second script: what few calls need. To load it takes a fifth of the CPU time of a worker's start, so a worker
// loads it on its first use, or once it has been idle for a while.
import * as z from "zod";
import { createTurnSchema, MAX_TURNS, type Turn } from "../protocol/turns.ts";

export { GuestCrypto } from "./crypto/guest-crypto.ts";

let turnsSchema: z.ZodType<Turn[]> | undefined;

/**
 * Parses the turns of a recording, which the host has validated.
 * @throws {Error} for anything else
 */
export function parseTurns(text: string): Turn[] {
  turnsSchema ??= z.array(createTurnSchema()).max(MAX_TURNS);
  return turnsSchema.parse(JSON.parse(text));
}
