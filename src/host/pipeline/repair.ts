// Repairs text that is almost JSON with jsonrepair. For some texts, its time grows with the square of their length: 16 KiB of `["{{{` take
// 0.1 s, and 64 KiB take 7 s (measured). For others, it needs a deep stack. So only short text is repaired at once, and longer text in a
// thread that can be stopped.
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";

const MAX_REPAIRED_LENGTH = 64 * 1024;
/** The worst text of this size takes 1 ms, or 20 ms before V8 has compiled the code (measured). */
const MAX_SYNC_LENGTH = 1_024;

/**
 * Keeps a backslash that starts no escape, such as in a pattern's `\d`: jsonrepair would drop it. Escapes of other languages and of
 * Markdown (`\'`, `\_`) are left to jsonrepair.
 */
const keepBackslashes = (text: string): string =>
  text.replaceAll(/\\([\s\S])/g, (pair, next: string) => (/[ac-eg-mo-qsv-zA-Z0-9.]/.test(next) ? `\\${pair}` : pair));

/** Returns the repaired text, or undefined if it cannot be repaired in time. Rejects with the signal's reason. */
export async function repairText(
  given: string,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (given.length > MAX_REPAIRED_LENGTH) return undefined;
  const text = keepBackslashes(given);
  if (text.length > MAX_SYNC_LENGTH) return await thread.repair(text, signal);
  // Loaded only when the option is used.
  const { jsonrepair } = await import("jsonrepair");
  try {
    return jsonrepair(text);
  } catch {
    return undefined;
  }
}
