// Text that is not quite JSON, made JSON by jsonrepair. That takes time by the square of some texts (16 KiB of `["{{{` 0.1 s, 64 KiB 7 s [m]),
// and stack by others: so little text at once, more in a thread that can be killed, and no more than that.
import type { SchemaThread } from "../schema-thread.ts";

const MAX_REPAIRED_UNITS = 64 * 1024;
/** The worst text of this size takes 1 ms; 20, before V8 has compiled what reads it [m]. */
const AT_ONCE_UNITS = 1_024;

/** Undefined where it cannot be repaired, or not in time. Rejects with the signal's reason. */
export async function repairText(text: string, thread: SchemaThread, signal: AbortSignal): Promise<string | undefined> {
  if (text.length > MAX_REPAIRED_UNITS) return undefined;
  if (text.length > AT_ONCE_UNITS) return await thread.repair(text, signal);
  // Loaded by those who ask for it.
  const { jsonrepair } = await import("jsonrepair");
  try {
    return jsonrepair(text);
  } catch {
    return undefined;
  }
}
