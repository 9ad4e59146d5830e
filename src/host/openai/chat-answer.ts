// Reads an answer of Chat Completions, whole or in chunks, from OpenAI or a compatible server. Calls arrive by index, by id or by neither;
// a call may span several chunks, and a chunk may contain several calls.
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type {
  AssistantMessage,
  AssistantPart,
  FinishReason,
  ModelEvent,
  ModelToolCall,
  ModelUsage,
} from "../agent/model.ts";
import { ARGUMENTS_TOO_LONG, argumentsTextOf, type CallReader, CUT_OFF, isObjectText } from "./calls.ts";
import { ANSWER_LIMITS, index, type Json, list, record, sizeOfItem, text, toModelResponseError } from "./wire.ts";

/** The provider of items that are replayed to Chat Completions. */
export const CHAT_PROVIDER = "openai-chat";

/** Fields in which servers send reasoning. Some servers send the same text in both. */
const REASONING_FIELDS = ["reasoning_content", "reasoning"] as const;

const REASONS: { readonly [reason: string]: FinishReason } = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
  function_call: "tool-calls",
  content_filter: "content-filter",
};

class CallInProgress {
  readonly index: number | undefined;
  id: string | undefined;
  name = "";
  kind: "function" | "custom" = "function";
  #parts: string[] = [];
  chars = 0;
  isTooLong = false;
  extra: Json | undefined;
  parts: AssistantPart[] | undefined;

  constructor(at: number | undefined) {
    this.index = at;
  }

  add(argumentsText: string): void {
    this.chars += argumentsText.length;
    this.isTooLong ||= this.chars > ANSWER_LIMITS.argumentChars;
    if (this.isTooLong) this.#parts = [];
    else if (argumentsText !== "") this.#parts.push(argumentsText);
  }

  get written(): string {
    const joined = this.#parts.join("");
    this.#parts = [joined];
    return joined;
  }

  /** Whether the arguments are complete: anything appended would make them invalid JSON. */
  get isWhole(): boolean {
    return this.kind === "function" && /\}\s*$/.test(this.#parts.at(-1) ?? "") && isObjectText(this.written);
  }
}

export class ChatAnswer {
  readonly #reader: CallReader;
  readonly #calls: CallInProgress[] = [];
  /** Calls whose id and name came once more at another index, by that index: arguments there are those of a further call. */
  readonly #repeatedAt = new Map<number, CallInProgress>();
  #text = "";
  #reasoning: { [field: string]: string } = {};
  readonly #details: unknown[] = [];
  #finish: string | undefined;
  #usage: ModelUsage | undefined;
  #hasRefusal = false;
  #chars = 0;

  constructor(reader: CallReader) {
    this.#reader = reader;
  }

  /** Whether the end of the answer was received. */
  get isOver(): boolean {
    return this.#finish !== undefined;
  }

  /** Reads the first choice of a whole completion. @throws {ModelResponseError} if it is an error */
  readWhole(completion: unknown): void {
    for (const _ of this.push(completion));
  }

  /** Processes a chunk, or a whole completion. @throws {ModelResponseError} if it is an error */
  *push(given: unknown): Generator<ModelEvent> {
    const chunk = record(given);
    if (isJsonObject(chunk.error)) throw toModelResponseError(chunk.error);
    const { prompt_tokens: inputTokens, completion_tokens: outputTokens } = record(chunk.usage);
    if (typeof inputTokens === "number" && typeof outputTokens === "number")
      this.#usage = { inputTokens, outputTokens };
    const choices = list(chunk.choices).map(record);
    const choice = choices.find((each) => each.index === 0 || each.index === undefined);
    if (choice === undefined) return;
    const delta = isJsonObject(choice.delta) ? choice.delta : record(choice.message);
    yield* this.#addText(delta.content);
    if (text(delta.refusal)) {
      this.#hasRefusal = true;
      yield* this.#addText(delta.refusal);
    }
    this.#addReasoning(delta);
    for (const call of list(delta.tool_calls)) if (isJsonObject(call)) yield* this.#addCall(call);
    // The predecessor of tool_calls.
    if (isJsonObject(delta.function_call)) yield* this.#addCall({ index: 0, function: delta.function_call });
    this.#finish ??= text(choice.finish_reason) || undefined;
  }

  /** Yields the remaining calls and the `finish` event. Call it once, after the last chunk. */
  *finish(): Generator<ModelEvent> {
    for (const slot of this.#calls) yield* this.#settle(slot);
    const message = this.#message();
    const usage = this.#usage === undefined ? {} : { usage: this.#usage };
    yield { type: "finish", message, reason: this.#reason(message), ...usage };
  }

  *#addText(content: unknown): Generator<ModelEvent> {
    // Mistral sends an array of parts, some of which are reasoning.
    const delta = Array.isArray(content)
      ? content
          .map(record)
          .map((part) => (part.type === "text" ? (text(part.text) ?? "") : ""))
          .join("")
      : text(content);
    if (delta === undefined || delta === "") return;
    this.#spend(delta.length);
    this.#text += delta;
    yield { type: "text-delta", text: delta };
  }

  #addReasoning(message: Json): void {
    for (const field of REASONING_FIELDS) {
      const delta = text(message[field]);
      if (delta === undefined || delta === "") continue;
      this.#spend(delta.length);
      this.#reasoning[field] = (this.#reasoning[field] ?? "") + delta;
    }
    for (const detail of list(message.reasoning_details)) {
      const size = sizeOfItem(detail);
      if (size === undefined || this.#details.length >= ANSWER_LIMITS.items) continue;
      this.#spend(size);
      this.#details.push(detail);
    }
  }

  *#addCall(call: Json): Generator<ModelEvent> {
    const kind = isJsonObject(call.custom) ? "custom" : "function";
    const fields = record(call[kind]);
    const name = text(fields.name) ?? "";
    const given = argumentsTextOf(kind === "custom" ? fields.input : fields.arguments);
    const id = text(call.id) || undefined;
    const slot = this.#slotOf(index(call.index), id, name, given);
    if (slot === undefined) return;
    // Another call has started, so a call with complete arguments has ended. `{}` may be a placeholder (see #callsOf).
    for (const other of this.#calls) {
      if (other !== slot && other.name !== "" && other.isWhole && other.written.trim() !== "{}")
        yield* this.#settle(other);
    }
    if (slot.parts !== undefined) return;
    slot.id ??= id;
    slot.kind = kind;
    if (name !== slot.name) slot.name = (slot.name + name).slice(0, ANSWER_LIMITS.nameChars + 1);
    // Google rejects a replayed call without its extra_content.
    if (isJsonObject(call.extra_content) && sizeOfItem(call.extra_content) !== undefined)
      slot.extra = call.extra_content;
    // Some servers repeat the complete arguments at the end.
    if (given !== "" && slot.isWhole && slot.written === given) return;
    this.#spend(given.length);
    slot.add(given);
  }

  #slotOf(at: number | undefined, id: string | undefined, name: string, given: string): CallInProgress | undefined {
    const named = id === undefined ? [] : this.#calls.filter((slot) => slot.id === id);
    const byId = named.findLast((slot) => slot.index === at) ?? named.at(-1);
    const same = at === undefined ? this.#calls.at(-1) : this.#calls.findLast((slot) => slot.index === at);
    const repeated = at === undefined || same !== undefined ? undefined : this.#repeatedAt.get(at);
    const known = byId ?? same ?? repeated;
    // Some servers give all calls the same id but their own index; there, a different name means a different call.
    const isElsewhere = at !== undefined && byId?.index !== undefined && byId.index !== at;
    const isRenamed = isElsewhere && name !== "" && byId.name !== "" && name !== byId.name;
    const isById = byId !== undefined && !isElsewhere;
    const isFurther = known !== undefined && known === repeated && isNewWhole(known, given);
    if (known !== undefined && !isRenamed && !isFurther && !isAnother(known, id, name, given, isById)) {
      if (isElsewhere) this.#repeatedAt.set(at, known);
      return known;
    }
    if (this.#calls.length > ANSWER_LIMITS.calls + 1) return undefined;
    const slot = new CallInProgress(at);
    if (isFurther) {
      slot.id = known.id;
      slot.name = known.name;
    }
    this.#calls.push(slot);
    return slot;
  }

  *#settle(slot: CallInProgress): Generator<ModelEvent> {
    if (slot.parts !== undefined) return;
    const calls = this.#callsOf(slot);
    slot.parts = calls.map((call) => ({ type: "tool-call", call }));
    if (slot.extra !== undefined) {
      const item = { type: "extra_content", call_id: calls[0]?.id, extra_content: slot.extra };
      slot.parts.push({ type: "provider", provider: CHAT_PROVIDER, item });
    }
    for (const call of calls) yield { type: "tool-call", call };
  }

  #callsOf(slot: CallInProgress): readonly ModelToolCall[] {
    const { id, name, kind } = slot;
    // Some servers send a placeholder object before the arguments.
    const argumentsText = slot.written.replace(/^\{\}(?=\s*\{)/, "");
    const isRead = kind === "custom" || argumentsText.trim() === "" || isObjectText(argumentsText);
    const isCut = this.#finish === undefined || this.#finish === "length";
    // Complete arguments are valid however the answer ended; incomplete ones are an error only if the answer was cut off.
    const cut = isCut && !(isRead && kind === "function" && argumentsText.trim() !== "") ? CUT_OFF : undefined;
    const problem = slot.isTooLong ? ARGUMENTS_TOO_LONG : cut;
    return this.#reader.read({ id, name: name || undefined, kind, argumentsText, problem });
  }

  #message(): AssistantMessage {
    const { reasoning_content, reasoning } = this.#reasoning;
    const thought = {
      ...(reasoning_content === undefined ? {} : { reasoning_content }),
      ...(reasoning === undefined ? {} : { reasoning }),
    };
    const details = this.#details.length === 0 ? {} : { reasoning_details: this.#details };
    const item = { type: "reasoning", ...thought, ...details };
    const parts: AssistantPart[] = [];
    if (Object.keys(item).length > 1) parts.push({ type: "provider", provider: CHAT_PROVIDER, item });
    if (this.#text !== "") parts.push({ type: "text", text: this.#text });
    const indices = this.#calls.map((slot) => slot.index);
    const isOrdered = !indices.includes(undefined) && new Set(indices).size === indices.length;
    const calls = isOrdered ? this.#calls.toSorted((a, b) => (a.index ?? 0) - (b.index ?? 0)) : this.#calls;
    return { role: "assistant", content: [...parts, ...calls.flatMap((slot) => slot.parts ?? [])] };
  }

  #reason({ content }: AssistantMessage): FinishReason {
    // Some servers report "stop" after calls.
    if (content.some(({ type }) => type === "tool-call")) return "tool-calls";
    if (this.#hasRefusal) return "content-filter";
    return REASONS[this.#finish ?? ""] ?? "other";
  }

  #spend(chars: number): void {
    this.#chars += chars + 16;
    if (this.#chars > ANSWER_LIMITS.totalChars) {
      throw toModelResponseError({ message: `It exceeds ${ANSWER_LIMITS.totalChars} characters` });
    }
  }
}

/** Returns whether arguments cannot belong to a call: its own are complete, and they are neither a placeholder nor these. */
const isNewWhole = (slot: CallInProgress, given: string): boolean =>
  given.trim() !== "" && slot.isWhole && slot.written.trim() !== "{}" && given !== slot.written;

/** Returns whether a piece starts a new call instead of continuing the call of its index or position. */
function isAnother(
  slot: CallInProgress,
  id: string | undefined,
  name: string,
  given: string,
  isById: boolean,
): boolean {
  // Some servers give all calls the same id. A piece without a name can only continue a call.
  if (isById) return name !== "" && isNewWhole(slot, given);
  if (id !== undefined && slot.id !== undefined && id !== slot.id) {
    // Some servers give each piece of a call a different id; such a piece has the call's index and no name.
    return slot.index === undefined || name !== "" || (given !== "" && slot.isWhole);
  }
  // Without an id, a complete and named call is continued only by a repetition of its name or arguments.
  if (name === "" || slot.name === "" || !slot.isWhole) return false;
  return name !== slot.name || (given !== "" && given !== slot.written);
}
