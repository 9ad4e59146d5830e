// Reads an answer of the Responses API, whole or as events: text, calls, and items to be replayed. Events may be missing, repeated, out of
// order or forged. A call is complete when its item is complete, or when the answer ends without a sign that it was cut off.
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type { AssistantMessage, FinishReason, ModelEvent, ModelToolCall, ModelUsage } from "../agent/model.ts";
import { ARGUMENTS_TOO_LONG, argumentsTextOf, type CallReader, CUT_OFF, isObjectText } from "./calls.ts";
import { type ItemKind, ItemSlot, isCall, isOtherCall, kindOf } from "./response-item.ts";
import { ANSWER_LIMITS, index, type Json, list, record, sizeOfItem, text, toModelResponseError } from "./wire.ts";

/** The provider of items that are replayed to the Responses API. */
export const RESPONSES_PROVIDER = "openai-responses";

const DELTAS: ReadonlyMap<string, ItemKind> = new Map([
  ["response.function_call_arguments.delta", "function"],
  ["response.custom_tool_call_input.delta", "custom"],
  ["response.output_text.delta", "message"],
  ["response.refusal.delta", "message"],
]);
const WHOLES: ReadonlyMap<string, readonly [ItemKind, field: string]> = new Map([
  ["response.function_call_arguments.done", ["function", "arguments"]],
  ["response.custom_tool_call_input.done", ["custom", "input"]],
]);

export class ResponsesAnswer {
  readonly #reader: CallReader;
  readonly #slots: ItemSlot[] = [];
  readonly #byId = new Map<string, ItemSlot>();
  readonly #byIndex = new Map<number, ItemSlot>();
  /** Sequence numbers are trusted once two differ: some servers give every event the same number. */
  #firstNumber: number | undefined;
  #isNumbered = false;
  readonly #seen = new Map<number, string>();
  #chars = 0;
  #end: { readonly status: string; readonly reason: string | undefined } | undefined;
  #usage: ModelUsage | undefined;
  #hasRefusal = false;

  constructor(reader: CallReader) {
    this.#reader = reader;
  }

  /** Whether the end of the answer was received. */
  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** Reads a whole response. @throws {ModelResponseError} if it failed */
  readWhole(response: unknown): void {
    for (const _ of this.#close(response, text(record(response).status) ?? "completed"));
  }

  /** Processes an event; unknown events are ignored. @throws {ModelResponseError} if the answer failed */
  *push(event: unknown): Generator<ModelEvent> {
    if (!isJsonObject(event) || this.#isRepeated(event)) return;
    const type = text(event.type) ?? "";
    if (DELTAS.has(type)) yield* this.#addDelta(event, type);
    else if (WHOLES.has(type)) this.#setWhole(event, type);
    else if (type === "response.output_item.added") this.#openItem(event, false);
    else if (type === "response.output_item.done") yield* this.#closeItem(event);
    else if (type === "response.completed" || type === "response.incomplete" || type === "response.cancelled") {
      yield* this.#close(event.response, type.slice("response.".length));
    } else if (type === "response.failed") throw toModelResponseError(record(event.response).error);
    else if (type === "error") throw toModelResponseError(isJsonObject(event.error) ? event.error : event);
  }

  /** Yields the remaining calls and the `finish` event. Call it once, after the last event. */
  *finish(): Generator<ModelEvent> {
    for (const slot of this.#slots) yield* this.#settle(slot);
    const message = this.#message();
    const usage = this.#usage === undefined ? {} : { usage: this.#usage };
    yield { type: "finish", message, reason: this.#reason(message), ...usage };
  }

  /** Returns whether an event was received before: its number and its text are equal, because numbers alone are not trusted. */
  #isRepeated(event: Json): boolean {
    const number = index(event.sequence_number);
    if (number === undefined) return false;
    this.#firstNumber ??= number;
    if (number !== this.#firstNumber) this.#isNumbered = true;
    const content = `${String(event.type)}\n${text(event.delta) ?? ""}`;
    if (this.#isNumbered && this.#seen.get(number) === content) return true;
    this.#spend(content.length);
    this.#seen.set(number, content);
    return false;
  }

  /** Returns the slot of an item by its id, otherwise by its output index. Another call at the same index gets its own slot. */
  #slotOf(event: Json, item: Json = {}): ItemSlot | undefined {
    const id = text(item.id) ?? text(event.item_id);
    const outputIndex = index(event.output_index);
    const callId = text(item.call_id);
    const known = id === undefined ? undefined : this.#byId.get(id);
    const placed = outputIndex === undefined ? undefined : this.#byIndex.get(outputIndex);
    const isSame = (slot: ItemSlot): boolean =>
      (callId === undefined || slot.callId === undefined || slot.callId === callId) &&
      (item.type === undefined || slot.kind === undefined || slot.kind === kindOf(text(item.type)));
    let slot = [known, placed].find((each) => each !== undefined && isSame(each));
    if (slot !== undefined && isOtherCall(slot, item, outputIndex)) slot = undefined;
    if (slot === undefined && callId !== undefined) slot = this.#slots.find((each) => isCall(each, item, outputIndex));
    if (slot === undefined && id === undefined && outputIndex === undefined && item.type === undefined) {
      slot = this.#slots.findLast((each) => !each.isDone);
    }
    if (slot === undefined) {
      if (this.#slots.length >= ANSWER_LIMITS.items) return undefined;
      slot = new ItemSlot();
      this.#slots.push(slot);
    }
    if (id !== undefined && !this.#byId.has(id)) {
      slot.ids.add(id);
      this.#byId.set(id, slot);
    }
    if (outputIndex !== undefined && slot.outputIndex === undefined) {
      slot.outputIndex = outputIndex;
      if (!this.#byIndex.has(outputIndex)) this.#byIndex.set(outputIndex, slot);
    }
    return slot;
  }

  *#addDelta(event: Json, type: string): Generator<ModelEvent> {
    const slot = this.#slotOf(event);
    const delta = text(event.delta);
    if (slot === undefined || delta === undefined || slot.isDone) return;
    slot.kind ??= DELTAS.get(type);
    if (type === "response.refusal.delta") this.#hasRefusal = true;
    slot.pieceChars += delta.length;
    const isMessage = DELTAS.get(type) === "message";
    if (!isMessage && slot.pieceChars > ANSWER_LIMITS.argumentChars) {
      slot.isTooLong = true;
      slot.pieces = [];
      return;
    }
    this.#spend(delta.length);
    slot.pieces.push({ number: this.#isNumbered ? index(event.sequence_number) : undefined, delta });
    if (!isMessage || delta === "") return;
    slot.shown += delta;
    yield { type: "text-delta", text: delta };
  }

  #setWhole(event: Json, type: string): void {
    const [kind, field] = WHOLES.get(type) ?? [];
    const slot = this.#slotOf(event);
    if (slot === undefined || slot.isDone || field === undefined) return;
    slot.kind ??= kind;
    this.#setText(slot, event[field]);
    slot.name ??= text(event.name);
  }

  #setText(slot: ItemSlot, given: unknown): void {
    const whole = argumentsTextOf(given);
    if (whole.length > ANSWER_LIMITS.argumentChars) slot.isTooLong = true;
    else if (whole !== "" || slot.pieces.length === 0) {
      this.#spend(whole.length);
      slot.whole = whole;
    }
  }

  /** Copies the fields of an item to its slot. */
  #openItem(event: Json, isDone: boolean): ItemSlot | undefined {
    const item = record(event.item);
    const slot = this.#slotOf(event, item);
    if (slot === undefined || slot.isDone) return undefined;
    slot.kind = kindOf(text(item.type)) ?? slot.kind;
    slot.callId ??= text(item.call_id);
    slot.name = text(item.name) ?? slot.name;
    slot.namespace = text(item.namespace) ?? slot.namespace;
    slot.isIncomplete ||= item.status === "incomplete";
    const given = slot.kind === "custom" ? item.input : item.arguments;
    const isCall = slot.kind === "function" || slot.kind === "custom";
    // Arguments of an item that has just started are repeated in deltas or later events; a complete item has them once.
    if (isCall && (isDone || (given !== "" && slot.pieces.length === 0)) && given !== undefined)
      this.#setText(slot, given);
    if (isDone || slot.item === undefined) this.#keep(slot, item);
    return slot;
  }

  #keep(slot: ItemSlot, item: Json): void {
    if (slot.kind !== "message" && slot.kind !== "other") return;
    const size = sizeOfItem(item);
    if (size === undefined) return;
    this.#spend(size);
    slot.item = item;
  }

  *#closeItem(event: Json): Generator<ModelEvent> {
    const slot = this.#openItem(event, true);
    if (slot === undefined) return;
    slot.isDone = true;
    yield* this.#settle(slot);
  }

  /** Processes the end of the answer, which repeats all items. Items that were already yielded are not changed. */
  *#close(response: unknown, status: string): Generator<ModelEvent> {
    const whole = record(response);
    if (status === "failed") throw toModelResponseError(whole.error);
    this.#end ??= { status, reason: text(record(whole.incomplete_details).reason) };
    const { input_tokens: inputTokens, output_tokens: outputTokens } = record(whole.usage);
    if (typeof inputTokens === "number" && typeof outputTokens === "number") {
      this.#usage = { inputTokens, outputTokens };
    }
    for (const [at, given] of list(whole.output).slice(0, ANSWER_LIMITS.items).entries()) {
      const item = record(given);
      const slot = this.#openItem({ output_index: at, item }, item.status !== "in_progress");
      if (slot === undefined) continue;
      slot.isDone = item.status !== "in_progress";
      if (slot.isDone) yield* this.#settle(slot);
    }
  }

  /** Yields the parts of an item, once. Until the answer ends, it is called only for complete items. */
  *#settle(slot: ItemSlot): Generator<ModelEvent> {
    if (slot.parts !== undefined) return;
    if (slot.kind === "function" || slot.kind === "custom") {
      const calls = this.#callsOf(slot, slot.kind);
      slot.parts = calls.map((call) => ({ type: "tool-call", call }));
      for (const call of calls) yield { type: "tool-call", call };
    } else if (slot.kind === "message") {
      const whole = this.#textOf(slot);
      slot.parts = whole === "" ? [] : [{ type: "text", text: whole }];
      // The server sent only the complete text, or the last deltas were lost.
      if (whole.startsWith(slot.shown) && whole.length > slot.shown.length) {
        yield { type: "text-delta", text: whole.slice(slot.shown.length) };
      }
    } else if (slot.item === undefined) slot.parts = [];
    else slot.parts = [{ type: "provider", provider: RESPONSES_PROVIDER, item: slot.item }];
  }

  #callsOf(slot: ItemSlot, kind: "function" | "custom"): readonly ModelToolCall[] {
    const argumentsText = slot.written;
    const [itemId] = slot.ids;
    const { callId: id = itemId, name, namespace } = slot;
    // Complete arguments do not need the end of their item, and nothing can be appended to a complete object.
    const isWhole =
      slot.isDone || slot.whole !== undefined || this.#end?.status === "completed" || isObjectText(argumentsText);
    const problem = slot.isTooLong ? ARGUMENTS_TOO_LONG : slot.isIncomplete || !isWhole ? CUT_OFF : undefined;
    return this.#reader.read({ id, itemId, namespace, name, kind, argumentsText, problem });
  }

  #textOf(slot: ItemSlot): string {
    const parts = list(slot.item?.content).map(record);
    const refusals = parts.filter(({ type }) => type === "refusal");
    if (refusals.length > 0) this.#hasRefusal = true;
    const joined = parts.map((part) => text(part.text) ?? text(part.refusal) ?? "").join("");
    return joined === "" ? slot.written : joined;
  }

  /** Returns the message, in the order of the output indexes if all are known and different; otherwise in order of arrival. */
  #message(): AssistantMessage {
    const indexes = this.#slots.map(({ outputIndex }) => outputIndex);
    const isOrdered = !indexes.includes(undefined) && new Set(indexes).size === indexes.length;
    const slots = isOrdered ? this.#slots.toSorted((a, b) => (a.outputIndex ?? 0) - (b.outputIndex ?? 0)) : this.#slots;
    return { role: "assistant", content: slots.flatMap(({ parts }) => parts ?? []) };
  }

  #reason({ content }: AssistantMessage): FinishReason {
    if (content.some(({ type }) => type === "tool-call")) return "tool-calls";
    if (this.#end?.status === "incomplete") {
      return this.#end.reason === "content_filter"
        ? "content-filter"
        : this.#end.reason === "max_output_tokens"
          ? "length"
          : "other";
    }
    if (this.#hasRefusal) return "content-filter";
    return this.#end?.status === "completed" ? "stop" : "other";
  }

  #spend(chars: number): void {
    this.#chars += chars + 16;
    if (this.#chars > ANSWER_LIMITS.totalChars) {
      throw toModelResponseError({ message: `It exceeds ${ANSWER_LIMITS.totalChars} characters` });
    }
  }
}
