// A Model that answers from a script, turn by turn, and records its requests. Loops are tested against this interface.
import type {
  AssistantPart,
  FinishReason,
  Model,
  ModelEvent,
  ModelRequest,
  ModelToolCall,
} from "../../src/host/agent/model.ts";

/** Events of one turn; a function for what depends on the request, or takes its time. */
export type ScriptedTurn = readonly unknown[] | ((request: ModelRequest) => Iterable<unknown> | AsyncIterable<unknown>);

export interface ScriptedModel {
  readonly model: Model;
  readonly requests: readonly ModelRequest[];
}

/** Past the end of its script it throws. */
export function scriptModel(...turns: readonly ScriptedTurn[]): ScriptedModel {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const turn = turns[requests.length];
    requests.push(request);
    if (turn === undefined) throw new Error("Expected no further request");
    yield* (typeof turn === "function" ? turn(request) : turn) as AsyncIterable<ModelEvent>;
  };
  return { model, requests };
}

export function call(id: string, toolName: string, args: unknown = {}): ModelToolCall {
  const argumentsText = typeof args === "string" ? args : JSON.stringify(args);
  return { id, toolName, argumentsText, kind: "function" };
}

export const callEvent = (made: ModelToolCall): ModelEvent => ({ type: "tool-call", call: made });
export const textEvent = (text: string): ModelEvent => ({ type: "text-delta", text });

export function finish(parts: readonly (string | ModelToolCall)[], reason?: FinishReason): ModelEvent {
  const content = parts.map(
    (part): AssistantPart =>
      typeof part === "string" ? { type: "text", text: part } : { type: "tool-call", call: part },
  );
  const hasCalls = parts.some((part) => typeof part !== "string");
  return {
    type: "finish",
    message: { role: "assistant", content },
    reason: reason ?? (hasCalls ? "tool-calls" : "stop"),
    usage: { inputTokens: 10, outputTokens: 5 },
  };
}

/** A whole turn, as a provider's edge tells it. */
export function says(...parts: readonly (string | ModelToolCall)[]): readonly ModelEvent[] {
  return [...parts.map((part) => (typeof part === "string" ? textEvent(part) : callEvent(part))), finish(parts)];
}
