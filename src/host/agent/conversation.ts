// Checks, repairs and trims conversations, which are plain data. Providers reject a conversation unless each call has exactly one answer.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { toFailure } from "../pipeline/normalize.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { parseMessages } from "./check-messages.ts";
import type { AssistantMessage, Message, ModelToolCall } from "./model.ts";

/** A problem of a conversation. `messageIndex` is the index of the message. */
export interface ConversationProblem {
  readonly kind: "unanswered-call" | "repeated-call-id" | "repeated-answer" | "stray-answer";
  readonly messageIndex: number;
  readonly callId: string;
}

/** Returns the calls of an assistant message; none for any other message. */
export function callsOf(message: Message | undefined): readonly ModelToolCall[] {
  // The conversation may come from another program, so its form is not trusted.
  if (message?.role !== "assistant" || !Array.isArray(message.content)) return [];
  return message.content.flatMap((part) => (part.type === "tool-call" ? [part.call] : []));
}

/** Returns all text of an assistant message. */
export const textOf = (message: AssistantMessage): string =>
  message.content.map((part) => (part.type === "text" ? part.text : "")).join("");

/** Returns the index after the answers that start at `from`. */
function endOfAnswers(messages: readonly Message[], from: number): number {
  let end = from;
  while (messages[end]?.role === "tool") end += 1;
  return end;
}

/** A message, and the answers that directly follow it. */
interface AgentExchange {
  readonly index: number;
  readonly message: Message;
  readonly answers: readonly Extract<Message, { role: "tool" }>[];
}

function* exchangesOf(messages: readonly Message[]): Generator<AgentExchange> {
  // Answers at the start of a conversation belong to no call.
  for (let index = 0; index < messages.length; ) {
    const message = messages[index] as Message;
    const from = message.role === "tool" ? index : index + 1;
    const end = endOfAnswers(messages, from);
    const answers = messages.slice(from, end) as Extract<Message, { role: "tool" }>[];
    yield { index, message, answers };
    index = end;
  }
}

/**
 * Returns the problems for which a provider would reject a conversation: each call must have exactly one answer, placed directly after the
 * message of the call. Empty if there are none.
 * @throws {ToolError} PARAM_INVALID for a value that is not an array of messages
 * @example
 * ```ts
 * import { checkConversation } from "glovebox/agent";
 *
 * const call = { id: "c1", toolName: "now", arguments: {}, argumentsText: "{}", kind: "function" } as const;
 * const issues = checkConversation([{ role: "assistant", content: [{ type: "tool-call", call }] }]);
 * console.log(issues[0]?.kind); // unanswered-call
 * ```
 */
export function checkConversation(messages: readonly Message[]): readonly ConversationProblem[] {
  return findProblems(parseMessages(messages, "messages"));
}

/** Finds the problems of parsed messages. */
export function findProblems(messages: readonly Message[]): readonly ConversationProblem[] {
  const problems: ConversationProblem[] = [];
  for (const { index, message, answers } of exchangesOf(messages)) {
    const open = new Set<string>();
    for (const { id } of callsOf(message)) {
      if (open.has(id)) problems.push({ kind: "repeated-call-id", messageIndex: index, callId: id });
      open.add(id);
    }
    const known = new Set(open);
    const first = message.role === "tool" ? index : index + 1;
    for (const [offset, { callId }] of answers.entries()) {
      const kind = known.has(callId) ? "repeated-answer" : "stray-answer";
      if (!open.delete(callId)) problems.push({ kind, messageIndex: first + offset, callId });
    }
    for (const callId of open) problems.push({ kind: "unanswered-call", messageIndex: index, callId });
  }
  return problems;
}

/** Returns an answer to a call that was not run, or whose outcome is unknown. */
export function failedAnswer(call: ModelToolCall, error: ToolError, started: number = performance.now()): Message {
  const result = toFailure({ callId: call.id, toolName: call.toolName, started }, error);
  return { role: "tool", callId: call.id, toolName: call.toolName, result };
}

const unanswered = (): ToolError =>
  new ToolError(
    "CANCELLED",
    "The conversation continued without an answer to this call; it is unknown whether the call ran",
  );

/** Removes calls whose id an earlier call of the message has. */
function withoutRepeats(message: Message): Message {
  const ids = callsOf(message).map(({ id }) => id);
  if (message.role !== "assistant" || new Set(ids).size === ids.length) return message;
  const seen = new Set<string>();
  const content = message.content.filter((part) => {
    if (part.type !== "tool-call") return true;
    const isNew = !seen.has(part.call.id);
    seen.add(part.call.id);
    return isNew;
  });
  return { ...message, content };
}

/**
 * Returns a conversation without problems in the sense of {@link checkConversation}: unanswered calls get a failure (CANCELLED), the first
 * of several answers is kept, answers without a call are removed, and the answers of each message follow it in the order of its calls.
 * Returns the same array if there are no problems.
 * @throws {ToolError} PARAM_INVALID for a value that is not an array of messages
 */
export function repairConversation(messages: readonly Message[]): readonly Message[] {
  return mend(parseMessages(messages, "messages"));
}

/** Mends parsed messages. */
export function mend(messages: readonly Message[]): readonly Message[] {
  if (findProblems(messages).length === 0) return messages;
  const repaired: Message[] = [];
  for (const { message, answers } of exchangesOf(messages)) {
    if (message.role === "tool") continue;
    const kept = withoutRepeats(message);
    repaired.push(kept);
    for (const call of callsOf(kept)) {
      repaired.push(answers.find(({ callId }) => callId === call.id) ?? failedAnswer(call, unanswered()));
    }
  }
  return repaired;
}

/**
 * Removes the oldest exchanges of a conversation until it fits. An exchange spans from one user message to the next, so that no call loses
 * its answer. System messages and the last exchange are always kept, even if they do not fit.
 * @param fits returns synchronously whether the messages fit, for example by their number of tokens
 * @throws {ToolError} PARAM_INVALID for a value that is not an array of messages, and if `fits` returns anything other than a boolean;
 *   errors of `fits` are passed on
 * @example
 * ```ts
 * import { trimConversation } from "glovebox/agent";
 *
 * const messages = [
 *   { role: "system", content: "Answer in one sentence." },
 *   { role: "user", content: "What is an isolate?" },
 *   { role: "user", content: "And a realm?" },
 * ] as const;
 * const kept = trimConversation(messages, (some) => some.length <= 2);
 * console.log(kept.map(({ role }) => role).join()); // system,user
 * ```
 */
export function trimConversation(
  messages: readonly Message[],
  fits: (messages: readonly Message[]) => boolean,
): readonly Message[] {
  parseMessages(messages, "messages");
  if (typeof fits !== "function") {
    throw new ToolError("PARAM_INVALID", `fits: Expected a function, got ${describeKind(fits)}`);
  }
  return trim(messages, (kept) => readFits(fits(kept)));
}

/** Rejects a promise in particular: it is truthy, and a conversation of any size would fit. */
function readFits(answer: unknown): boolean {
  if (typeof answer === "boolean") return answer;
  ignoreOutcome(() => answer);
  throw new ToolError(
    "PARAM_INVALID",
    `fits: Expected a function that returns true or false, not ${describeKind(answer)}`,
  );
}

function trim(messages: readonly Message[], fits: (messages: readonly Message[]) => boolean): readonly Message[] {
  const system = messages.filter(({ role }) => role === "system");
  let rest = messages.filter(({ role }) => role !== "system");
  for (;;) {
    const kept = system.length === 0 ? rest : [...system, ...rest];
    const next = rest.findIndex(({ role }, index) => index > 0 && role === "user");
    if (kept.length === messages.length ? fits(messages) : fits(kept))
      return kept.length === messages.length ? messages : kept;
    if (next < 0) return kept;
    rest = rest.slice(next);
  }
}
