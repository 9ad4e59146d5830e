// What a run waits for, as it comes from outside: its form, and the entry of the journal that it becomes.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { depthOf } from "../json/parse-json.ts";
import { checkEntry, type JournalEntry } from "./run-journal.ts";
import { checkElicited, type RunWait } from "./run-wait.ts";

/** Something that a run waits for: an event by its name, or a person's decision or answer about the wait with this id. */
export type RunSignal =
  | { readonly event: string; readonly value?: unknown }
  | { readonly approval: number; readonly approved: boolean; readonly reason?: string | undefined }
  | {
      readonly elicitation: number;
      readonly action: "accept" | "decline" | "cancel";
      /** Values of the form, for `accept`. */
      readonly content?: unknown;
    };
export const SignalSchema = z.union([
  strictObject({ event: z.string().min(1).max(200), value: z.unknown().optional() }),
  strictObject({ approval: z.int().min(1), approved: z.boolean(), reason: z.string().max(2_000).optional() }),
  strictObject({
    elicitation: z.int().min(1),
    action: z.enum(["accept", "decline", "cancel"]),
    content: z.unknown().optional(),
  }),
]);

/** Greatest nesting depth of a value, as the maximum of `limits.jsonDepth`. A journal with a much deeper one could not be read again. */
const MAX_DEPTH = 1_000;

/**
 * Returns an entry of the journal as text.
 * @throws {ToolError} PARAM_INVALID for a value that is not JSON, is nested too deeply, or does not match the form of its elicitation
 */
export function toEntryText(signal: z.output<typeof SignalSchema>, wait: RunWait | undefined): string {
  const text = JSON.stringify(toEntry(signal, wait));
  checkEntry(text);
  return text;
}

function toEntry(signal: z.output<typeof SignalSchema>, wait: RunWait | undefined): JournalEntry {
  if ("approval" in signal) {
    const { approval, approved, reason } = signal;
    return { type: "decision", wait: approval, approved, ...(reason === undefined ? {} : { reason }) };
  }
  if ("elicitation" in signal) {
    const { elicitation, action, content } = signal;
    const given = content === undefined ? {} : { content: toJsonValue(content, "signal.content") };
    return { type: "elicited", wait: elicitation, ...checkElicited(wait as RunWait, { action, ...given }) };
  }
  return { type: "event", name: signal.event, value: toJsonValue(signal.value ?? null, "signal.value") };
}

/** @throws {ToolError} PARAM_INVALID for a value that is not JSON, or is nested too deeply */
function toJsonValue(value: unknown, where: string): JsonValue {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    const message = `${where}: Expected JSON, got a cycle, a BigInt, or a value nested too deeply`;
    throw new ToolError("PARAM_INVALID", message, { cause });
  }
  if (text === undefined) throw new ToolError("PARAM_INVALID", `${where}: Expected JSON`);
  if (depthOf(text, MAX_DEPTH) > MAX_DEPTH)
    throw new ToolError("PARAM_INVALID", `${where}: Expected a value nested at most ${MAX_DEPTH} levels deep`);
  return JSON.parse(text) as JsonValue;
}
