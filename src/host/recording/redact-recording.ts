// The redactor of recordings whose policy says so. The server uses it for its recordings, and a replay for comparing outputs with theirs.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { createRedactor } from "../observability/redaction/value-redactor.ts";

/** Returns JSON text in which a function has replaced values. What it cannot handle is not recorded at all. */
export function redactJson(text: string, redact: (value: JsonValue) => unknown): string {
  try {
    return JSON.stringify(redact(JSON.parse(text) as JsonValue) ?? null);
  } catch {
    return "null";
  }
}

/** Replaces values that look like secrets or personal data. Its limits are those of a recording, and far larger than those of a log. */
export const redactRecording: (value: JsonValue) => unknown = createRedactor({
  maxTextUnits: 1024 * 1024,
  maxValues: 100_000,
  maxDepth: 64,
});
