// Conversations as plain data: does each call have its one answer, and how is one made that does. Providers refuse any other.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { toFailure } from "../pipeline/normalize.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { parseMessages } from "./check-messages.ts";
import type { AssistantMessage, Message, ModelToolCall } from "./model.ts";

/** What is wrong with a conversation, and where: `messageIndex` is the message's place in it. */
export interface ConversationProblem {
  readonly kind: "unanswered-call" | "repeated-call-id" | "repeated-answer" | "stray-answer";
  readonly messageIndex: number;
  readonly callId: string;
}

/** The calls of a message; none of one that is not the assistant's. */
export function callsOf(message: Message | undefined): readonly ModelToolCall[] {
  // A conversation may come from elsewhere: another shape has no calls of ours.
  if (message?.role !== "assistant" || !Array.isArray(message.content)) return [];
  return message.content.flatMap((part) => (part.type === "tool-call" ? [part.call] : []));
}

/** All text of an assistant's message. */
export const textOf = (message: AssistantMessage): string =>
  message.content.map((part) => (part.type === "text" ? part.text : "")).join("");

/** Where the answers that follow a message end. */
function endOfAnswers(messages: readonly Message[], from: number): number {
  let end = from;
  while (messages[end]?.role === "tool") end += 1;
  return end;
}

/** A message, and the answers right after it. */
interface AgentExchange {
  readonly index: number;
  readonly message: Message;
  readonly answers: readonly Extract<Message, { role: "tool" }>[];
}

function* exchangesOf(messages: readonly Message[]): Generator<AgentExchange> {
  // Answers that nothing stands before belong to no call.
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
 * What a provider would refuse: each call must have exactly one answer, and it must stand between its message and the next that is no
 * answer. Empty where all is well.
 * @throws {ToolError} PARAM_INVALID for a value that is not an array of messages
 */
export function checkConversation(messages: readonly Message[]): readonly ConversationProblem[] {
  return findProblems(parseMessages(messages, "messages"));
}

/** The same for messages that have been parsed. */
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

/** The answer to a call that was not run, or of whose run nothing is known. */
export function failedAnswer(call: ModelToolCall, error: ToolError, started: number = performance.now()): Message {
  const result = toFailure({ callId: call.id, toolName: call.toolName, started }, error);
  return { role: "tool", callId: call.id, toolName: call.toolName, result };
}

const unanswered = (): ToolError =>
  new ToolError(
    "CANCELLED",
    "The conversation went on without an answer to this call: whether it was run is not known",
  );

/** Within one message an id is one call's: further calls of it go. */
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
 * A conversation that {@link checkConversation} finds nothing in: calls without an answer get a failure (CANCELLED), the first of several
 * answers stands, answers to nothing go, and each message's answers follow it in the order of its calls. The same array where nothing
 * is to be mended.
 * @throws {ToolError} PARAM_INVALID for a value that is not an array of messages
 */
export function mendConversation(messages: readonly Message[]): readonly Message[] {
  return mend(parseMessages(messages, "messages"));
}

/** The same for messages that have been parsed. */
export function mend(messages: readonly Message[]): readonly Message[] {
  if (findProblems(messages).length === 0) return messages;
  const mended: Message[] = [];
  for (const { message, answers } of exchangesOf(messages)) {
    if (message.role === "tool") continue;
    const kept = withoutRepeats(message);
    mended.push(kept);
    for (const call of callsOf(kept)) {
      mended.push(answers.find(({ callId }) => callId === call.id) ?? failedAnswer(call, unanswered()));
    }
  }
  return mended;
}

/**
 * The newest of a conversation that `fits`, a count of tokens or of anything else: the oldest exchanges go, each from a user's message to
 * the next one's, so that no call loses its answer. System messages and the last exchange stay, whether they fit or not.
 * @param fits synchronous, and returns `true` or `false`
 * @throws {ToolError} PARAM_INVALID for a value that is not an array of messages, and where `fits` returns anything else; what `fits` throws
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

/** A promise is truthy: a conversation of any size would fit. */
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
