// Text that is not quite JSON, made JSON by jsonrepair. That takes time by the square of some texts (16 KiB of `["{{{` 0.1 s, 64 KiB 7 s [m]),
// and stack by others: so little text at once, more in a thread that can be killed, and no more than that.
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";

const MAX_REPAIRED_UNITS = 64 * 1024;
/** The worst text of this size takes 1 ms; 20, before V8 has compiled what reads it [m]. */
const AT_ONCE_UNITS = 1_024;

/**
 * A backslash that begins no escape stands for itself (a pattern's `\d`): jsonrepair would drop it. What other languages and Markdown
 * escape (`\'`, `\_`) is left to it.
 */
const keepBackslashes = (text: string): string =>
  text.replaceAll(/\\([\s\S])/g, (pair, next: string) => (/[ac-eg-mo-qsv-zA-Z0-9.]/.test(next) ? `\\${pair}` : pair));

/** Undefined where it cannot be repaired, or not in time. Rejects with the signal's reason. */
export async function repairText(
  given: string,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (given.length > MAX_REPAIRED_UNITS) return undefined;
  const text = keepBackslashes(given);
  if (text.length > AT_ONCE_UNITS) return await thread.repair(text, signal);
  // Loaded by those who ask for it.
  const { jsonrepair } = await import("jsonrepair");
  try {
    return jsonrepair(text);
  } catch {
    return undefined;
  }
}
