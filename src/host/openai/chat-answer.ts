// An answer of Chat Completions, whole or in chunks, as OpenAI and those who imitate it send them: calls by index, by id, by neither; one
// in many chunks or several in one.
import type {
  AssistantMessage,
  AssistantPart,
  FinishReason,
  ModelEvent,
  ModelToolCall,
  ModelUsage,
} from "../agent/model.ts";
import { ARGUMENTS_TOO_LONG, argumentsTextOf, type CallReader, CUT_OFF, isObjectText } from "./calls.ts";
import {
  ANSWER_LIMITS,
  index,
  isRecord,
  type Json,
  list,
  record,
  sizeOfItem,
  text,
  toModelResponseError,
} from "./wire.ts";

/** Who an item is replayed to. */
export const CHAT_PROVIDER = "openai-chat";

/** What a model thought, in the words of those who tell it; one of them where several say the same. */
const REASONING_FIELDS = ["reasoning_content", "reasoning"] as const;

const REASONS: { readonly [reason: string]: FinishReason } = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
  function_call: "tool-calls",
  content_filter: "content-filter",
};

class Slot {
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
    else this.#parts.push(argumentsText);
  }

  get written(): string {
    const joined = this.#parts.join("");
    this.#parts = [joined];
    return joined;
  }

  /** Whether nothing can be added that leaves it JSON. */
  get isWhole(): boolean {
    return this.kind === "function" && /\}\s*$/.test(this.#parts.at(-1) ?? "") && isObjectText(this.written);
  }
}

export class ChatAnswer {
  readonly #reader: CallReader;
  readonly #slots: Slot[] = [];
  #text = "";
  #reasoning: { [field: string]: string } = {};
  readonly #details: unknown[] = [];
  #finish: string | undefined;
  #usage: ModelUsage | undefined;
  #refused = false;
  #chars = 0;

  constructor(reader: CallReader) {
    this.#reader = reader;
  }

  /** Whether the answer has said that it is over. */
  get isOver(): boolean {
    return this.#finish !== undefined;
  }

  /** A whole completion: its first choice. @throws {ModelResponseError} where it is an error */
  readWhole(completion: unknown): void {
    for (const _ of this.push(completion));
  }

  /** A chunk, or a whole completion. @throws {ModelResponseError} where it is an error */
  *push(given: unknown): Generator<ModelEvent> {
    const chunk = record(given);
    if (isRecord(chunk.error)) throw toModelResponseError(chunk.error);
    const { prompt_tokens: inputTokens, completion_tokens: outputTokens } = record(chunk.usage);
    if (typeof inputTokens === "number" && typeof outputTokens === "number")
      this.#usage = { inputTokens, outputTokens };
    const choices = list(chunk.choices).map(record);
    const choice = choices.find((each) => each.index === 0 || each.index === undefined);
    if (choice === undefined) return;
    const said = isRecord(choice.delta) ? choice.delta : record(choice.message);
    yield* this.#addText(said.content);
    if (text(said.refusal)) {
      this.#refused = true;
      yield* this.#addText(said.refusal);
    }
    this.#addReasoning(said);
    for (const call of list(said.tool_calls)) if (isRecord(call)) yield* this.#addCall(call);
    // What was there before tool_calls.
    if (isRecord(said.function_call)) yield* this.#addCall({ index: 0, function: said.function_call });
    this.#finish ??= text(choice.finish_reason) || undefined;
  }

  /** Calls that were not known to be complete before, then the end. To be asked once, when nothing more comes. */
  *finish(): Generator<ModelEvent> {
    for (const slot of this.#slots) yield* this.#settle(slot);
    const message = this.#message();
    const usage = this.#usage === undefined ? {} : { usage: this.#usage };
    yield { type: "finish", message, reason: this.#reason(message), ...usage };
  }

  *#addText(content: unknown): Generator<ModelEvent> {
    // Mistral sends parts, of which some are thoughts.
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

  #addReasoning(said: Json): void {
    for (const field of REASONING_FIELDS) {
      const delta = text(said[field]);
      if (delta === undefined || delta === "") continue;
      this.#spend(delta.length);
      this.#reasoning[field] = (this.#reasoning[field] ?? "") + delta;
    }
    for (const detail of list(said.reasoning_details)) {
      const size = sizeOfItem(detail);
      if (size === undefined || this.#details.length >= ANSWER_LIMITS.items) continue;
      this.#spend(size);
      this.#details.push(detail);
    }
  }

  *#addCall(call: Json): Generator<ModelEvent> {
    const kind = isRecord(call.custom) ? "custom" : "function";
    const own = record(call[kind]);
    const name = text(own.name) ?? "";
    const given = argumentsTextOf(kind === "custom" ? own.input : own.arguments);
    const id = text(call.id) || undefined;
    const slot = this.#slotOf(index(call.index), id, name, given);
    if (slot === undefined) return;
    // Another call goes on, so one that can have no more is complete. `{}` may be a beginning (see #textOf).
    for (const other of this.#slots) {
      if (other !== slot && other.name !== "" && other.isWhole && other.written.trim() !== "{}")
        yield* this.#settle(other);
    }
    if (slot.parts !== undefined) return;
    slot.id ??= id;
    slot.kind = kind;
    if (name !== slot.name) slot.name = (slot.name + name).slice(0, ANSWER_LIMITS.nameChars + 1);
    // Google's: a call without it is refused when it is replayed.
    if (isRecord(call.extra_content) && sizeOfItem(call.extra_content) !== undefined) slot.extra = call.extra_content;
    // Some send the whole once more at its end.
    if (given !== "" && slot.isWhole && slot.written === given) return;
    this.#spend(given.length);
    slot.add(given);
  }

  #slotOf(at: number | undefined, id: string | undefined, name: string, given: string): Slot | undefined {
    const named = id === undefined ? [] : this.#slots.filter((slot) => slot.id === id);
    const byId = named.findLast((slot) => slot.index === at) ?? named.at(-1);
    const same = at === undefined ? this.#slots.at(-1) : this.#slots.findLast((slot) => slot.index === at);
    const known = byId ?? same;
    // Some give all calls one id, each its own index: there another name is another call's.
    const isElsewhere = at !== undefined && byId?.index !== undefined && byId.index !== at;
    const isRenamed = isElsewhere && name !== "" && byId.name !== "" && name !== byId.name;
    const isById = byId !== undefined && !isElsewhere;
    if (known !== undefined && !isRenamed && !isAnother(known, id, name, given, isById)) return known;
    if (this.#slots.length > ANSWER_LIMITS.calls + 1) return undefined;
    const slot = new Slot(at);
    this.#slots.push(slot);
    return slot;
  }

  *#settle(slot: Slot): Generator<ModelEvent> {
    if (slot.parts !== undefined) return;
    const calls = this.#callsOf(slot);
    slot.parts = calls.map((call) => ({ type: "tool-call", call }));
    if (slot.extra !== undefined) {
      const item = { type: "extra_content", call_id: calls[0]?.id, extra_content: slot.extra };
      slot.parts.push({ type: "provider", provider: CHAT_PROVIDER, item });
    }
    for (const call of calls) yield { type: "tool-call", call };
  }

  #callsOf(slot: Slot): readonly ModelToolCall[] {
    const { id, name, kind } = slot;
    // A stand-in that some send first, before the arguments.
    const argumentsText = slot.written.replace(/^\{\}(?=\s*\{)/, "");
    const isRead = kind === "custom" || argumentsText.trim() === "" || isObjectText(argumentsText);
    const isCut = this.#finish === undefined || this.#finish === "length";
    // Text that is whole is whole, however the answer ended; of the rest the end says whether more was to come.
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
    const indices = this.#slots.map((slot) => slot.index);
    const isOrdered = !indices.includes(undefined) && new Set(indices).size === indices.length;
    const slots = isOrdered ? this.#slots.toSorted((a, b) => (a.index ?? 0) - (b.index ?? 0)) : this.#slots;
    return { role: "assistant", content: [...parts, ...slots.flatMap((slot) => slot.parts ?? [])] };
  }

  #reason({ content }: AssistantMessage): FinishReason {
    // Some say "stop" after calls.
    if (content.some(({ type }) => type === "tool-call")) return "tool-calls";
    if (this.#refused) return "content-filter";
    return REASONS[this.#finish ?? ""] ?? "other";
  }

  #spend(chars: number): void {
    this.#chars += chars + 16;
    if (this.#chars > ANSWER_LIMITS.totalChars) {
      throw toModelResponseError({ message: `It is longer than ${ANSWER_LIMITS.totalChars} characters` });
    }
  }
}

/** Whether a piece begins another call than the one that its index or its place speaks for. */
function isAnother(slot: Slot, id: string | undefined, name: string, given: string, isById: boolean): boolean {
  if (isById) return false;
  if (id !== undefined && slot.id !== undefined && id !== slot.id) {
    // Some give each piece of a call another id: such a piece has the call's index and no name.
    return slot.index === undefined || name !== "" || (given !== "" && slot.isWhole);
  }
  // Without an id: a call that is whole and named takes no other name, nor other arguments.
  if (name === "" || slot.name === "" || !slot.isWhole) return false;
  return name !== slot.name || (given !== "" && given !== slot.written);
}
