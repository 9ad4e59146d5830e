// Defines an output item of a Responses answer while its events are received.
import type { AssistantPart } from "../agent/model.ts";
import { argumentsTextOf } from "./calls.ts";
import type { Json } from "./wire.ts";

/** Kinds of output items that are read differently. */
export type ItemKind = "function" | "custom" | "message" | "other";

/** Returns the kind of an item's type; undefined if the type is missing. */
export const kindOf = (type: string | undefined): ItemKind | undefined => {
  if (type === undefined) return undefined;
  if (type === "function_call") return "function";
  if (type === "custom_tool_call") return "custom";
  return type === "message" ? "message" : "other";
};

/** A delta of an item's text, and its sequence number if that can be trusted. */
interface Piece {
  readonly number: number | undefined;
  readonly delta: string;
}

/** An output item, as far as it has been received. */
export class ItemSlot {
  kind: ItemKind | undefined;
  readonly ids = new Set<string>();
  outputIndex: number | undefined;
  callId: string | undefined;
  name: string | undefined;
  namespace: string | undefined;
  pieces: Piece[] = [];
  pieceChars = 0;
  /** The complete text, from a `.done` event or from the item itself. */
  whole: string | undefined;
  /** Whether the item was reported as incomplete. */
  isIncomplete = false;
  isDone = false;
  isTooLong = false;
  item: Json | undefined;
  /** The parts of the message that the item became; set once. */
  parts: AssistantPart[] | undefined;
  /** Text of the item that has been yielded. */
  shown = "";

  /** The item's text. If the complete text was never sent, the pieces are joined, sorted by their numbers if all have one. */
  get written(): string {
    if (this.whole !== undefined && (this.whole !== "" || this.pieces.length === 0)) return this.whole;
    const numbered = this.pieces.every(({ number }) => number !== undefined);
    const sorted = numbered ? this.pieces.toSorted((a, b) => (a.number ?? 0) - (b.number ?? 0)) : this.pieces;
    return sorted.map(({ delta }) => delta).join("");
  }
}

/** Returns whether an item repeats a known call. Some servers reuse an id, so items at different indexes must match completely. */
export function isCall(slot: ItemSlot, item: Json, outputIndex: number | undefined): boolean {
  if (slot.callId !== item.call_id) return false;
  const mayBeThere = outputIndex === undefined || slot.outputIndex === undefined || slot.outputIndex === outputIndex;
  const given = argumentsTextOf(slot.kind === "custom" ? item.input : item.arguments);
  return mayBeThere || (slot.name === item.name && slot.written === given);
}

/** Returns whether a complete call has the ids of another complete call, but its own index and its own name or arguments. */
export function isOtherCall(slot: ItemSlot, item: Json, outputIndex: number | undefined): boolean {
  if (!slot.isDone || slot.callId === undefined || slot.callId !== item.call_id) return false;
  return (
    argumentsTextOf(slot.kind === "custom" ? item.input : item.arguments) !== "" && !isCall(slot, item, outputIndex)
  );
}
