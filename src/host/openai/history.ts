// A conversation as it may be sent: every call has one answer, right after the message that made it, and no answer stands alone.
import type { AssistantPart, Message, ModelToolCall } from "../agent/model.ts";
import type { ToolResult } from "../tool-call.ts";

/** What a call without a result is answered with: it was stopped, or its answer was lost. */
export const NO_RESULT = "This call was stopped before it had a result; call again if it is still wanted";

export type Turn =
  | Exclude<Message, { role: "assistant" } | { role: "tool" }>
  | {
      readonly role: "assistant";
      readonly content: readonly AssistantPart[];
      readonly answers: readonly { readonly call: ModelToolCall; readonly result: ToolResult | undefined }[];
      /** Whether a user has spoken since. */
      readonly isPast: boolean;
    };

/** Answers are looked for behind their message; each is taken once. */
export function toTurns(messages: readonly Message[]): readonly Turn[] {
  const results = new Map<string, { readonly at: number; readonly result: ToolResult }[]>();
  for (const [at, message] of messages.entries()) {
    if (message.role !== "tool") continue;
    const known = results.get(message.callId) ?? [];
    results.set(message.callId, known);
    known.push({ at, result: message.result });
  }
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  return messages.flatMap((message, at): readonly Turn[] => {
    if (message.role === "tool") return [];
    if (message.role !== "assistant") return [message];
    const seen = new Set<string>();
    const content = message.content.filter((part) => part.type !== "tool-call" || !hasOrAdd(seen, part.call.id));
    const answers = content.flatMap((part) => {
      if (part.type !== "tool-call") return [];
      const known = results.get(part.call.id) ?? [];
      const index = known.findIndex((each) => each.at > at);
      return [{ call: part.call, result: index < 0 ? undefined : known.splice(index, 1)[0]?.result }];
    });
    return [{ role: "assistant", content, answers, isPast: at < lastUser }];
  });
}

function hasOrAdd(seen: Set<string>, id: string): boolean {
  if (seen.has(id)) return true;
  seen.add(id);
  return false;
}

/** Arguments that every server takes: some read them, and refuse a whole conversation in which some are no JSON. */
export function replayedArguments({ argumentsText, arguments: args }: ModelToolCall): string {
  const text = argumentsText.trim();
  if (text === "") return "{}";
  if (args !== undefined) return argumentsText;
  try {
    JSON.parse(text);
    return argumentsText;
  } catch {
    return JSON.stringify({ malformed: argumentsText.slice(0, 10_000).toWellFormed() });
  }
}
