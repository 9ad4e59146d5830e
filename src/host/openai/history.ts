// A conversation as it may be sent: every call has one answer, right after the message that made it, and no answer stands alone.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { AssistantPart, Message, ModelToolCall } from "../agent/model.ts";
import type { ToolResult } from "../contract/tool-call.ts";

/** What a call without a result is answered with: it was stopped, or its answer was lost. */
export const NO_RESULT = "This call was stopped before it had a result; call again if it is still wanted";

export type HistoryTurn =
  | Exclude<Message, { role: "assistant" } | { role: "tool" }>
  | {
      readonly role: "assistant";
      readonly content: readonly AssistantPart[];
      readonly answers: readonly { readonly call: ModelToolCall; readonly result: ToolResult | undefined }[];
      /** Whether a user has spoken since. */
      readonly isPast: boolean;
    };

/** @throws {ToolError} PARAM_INVALID for anything but a call with an id: an output that names none answers no call */
export function checkCall(call: unknown): void {
  if (isPlainObject(call) && typeof call.id === "string") return;
  throw new ToolError("PARAM_INVALID", `call: Expected a call with an id, got ${describeKind(call)}`);
}

const ROLES: readonly unknown[] = ["system", "user", "assistant", "tool"];

/** @throws {ToolError} PARAM_INVALID for anything but an array of messages, naming the path */
function checkMessages(messages: unknown): void {
  if (!Array.isArray(messages)) {
    throw new ToolError("PARAM_INVALID", `messages: Expected an array of messages, got ${describeKind(messages)}`);
  }
  for (const [index, message] of (messages as readonly unknown[]).entries()) {
    const what = `messages[${index}]`;
    if (!isPlainObject(message)) {
      throw new ToolError("PARAM_INVALID", `${what}: Expected a message, got ${describeKind(message)}`);
    }
    const { role, content } = message;
    if (!ROLES.includes(role))
      throw new ToolError("PARAM_INVALID", `${what}.role: Expected system, user, assistant or tool`);
    const isText = typeof content === "string" && role !== "assistant";
    if (role !== "tool" && !isText && !Array.isArray(content)) {
      throw new ToolError("PARAM_INVALID", `${what}.content: Expected a text or parts, got ${describeKind(content)}`);
    }
  }
}

/**
 * Answers are looked for behind their message; each is taken once.
 * @throws {ToolError} PARAM_INVALID for anything but an array of messages, naming the path
 */
export function toTurns(messages: readonly Message[]): readonly HistoryTurn[] {
  checkMessages(messages);
  const results = new Map<string, { readonly at: number; readonly result: ToolResult }[]>();
  for (const [at, message] of messages.entries()) {
    if (message.role !== "tool") continue;
    const known = results.get(message.callId) ?? [];
    results.set(message.callId, known);
    known.push({ at, result: message.result });
  }
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  return messages.flatMap((message, at): readonly HistoryTurn[] => {
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
