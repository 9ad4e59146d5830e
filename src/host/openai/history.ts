// Normalizes a conversation for sending: every call has one answer, directly after its message, and every answer has a call.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { AssistantPart, Message, ModelToolCall } from "../agent/model.ts";
import type { ToolResult } from "../contract/tool-call.ts";

/** The output of a call without a result: the call was cancelled, or its answer was lost. */
export const NO_RESULT = "This call was stopped before it had a result; repeat it if it is still needed";

export type HistoryTurn =
  | Exclude<Message, { role: "assistant" } | { role: "tool" }>
  | {
      readonly role: "assistant";
      readonly content: readonly AssistantPart[];
      readonly answers: readonly { readonly call: ModelToolCall; readonly result: ToolResult | undefined }[];
      /** Whether a user message follows. */
      readonly isPast: boolean;
    };

/** @throws {ToolError} PARAM_INVALID unless the value is a call with an id: an output without an id answers no call */
export function checkCall(call: unknown): void {
  if (isPlainObject(call) && typeof call.id === "string") return;
  throw new ToolError("PARAM_INVALID", `call: Expected a call with an id, got ${describeKind(call)}`);
}

/**
 * Rejects a promise in particular: the model would read that a tool has failed, which may have succeeded.
 * @throws {ToolError} PARAM_INVALID unless the value is a result, or undefined for none
 */
export function checkResult(result: unknown, what = "result"): void {
  if (result === undefined || (isPlainObject(result) && typeof result.success === "boolean")) return;
  throw new ToolError("PARAM_INVALID", `${what}: Expected a ToolResult, got ${describeKind(result)}`);
}

const ROLES: readonly unknown[] = ["system", "user", "assistant", "tool"];

/** @throws {ToolError} PARAM_INVALID unless the value is an array of messages, naming the path */
function checkMessages(messages: unknown): void {
  if (!Array.isArray(messages)) {
    throw new ToolError("PARAM_INVALID", `messages: Expected an array of messages, got ${describeKind(messages)}`);
  }
  for (const [index, message] of (messages as readonly unknown[]).entries()) {
    const what = `messages[${index}]`;
    if (!isPlainObject(message)) {
      throw new ToolError("PARAM_INVALID", `${what}: Expected a message, got ${describeKind(message)}`);
    }
    const { role, content, result } = message;
    if (!ROLES.includes(role))
      throw new ToolError("PARAM_INVALID", `${what}.role: Expected system, user, assistant or tool`);
    if (role === "tool") checkResult(result, `${what}.result`);
    const isText = typeof content === "string" && role !== "assistant";
    if (role !== "tool" && !isText && !Array.isArray(content)) {
      throw new ToolError("PARAM_INVALID", `${what}.content: Expected text or parts, got ${describeKind(content)}`);
    }
  }
}

/**
 * Returns the turns of a conversation. The answer to a call is searched after its message; each answer is used once.
 * @throws {ToolError} PARAM_INVALID unless the value is an array of messages, naming the path
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

/** Returns valid JSON arguments: some servers parse them and reject the whole conversation if they are invalid. */
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
