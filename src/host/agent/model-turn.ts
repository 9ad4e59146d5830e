// One turn of a model, read as it speaks. Its events are hostile: parsed, bounded, and whatever becomes of the stream, what was said of it
// is one assistant message in which each call has an id of its own.

import { randomUUID } from "node:crypto";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { untilAborted } from "../util/with-abort.ts";
import type {
  AssistantMessage,
  AssistantPart,
  FinishReason,
  Model,
  ModelRequest,
  ModelToolCall,
  ModelUsage,
} from "./model.ts";

/** What is told of a turn while it is read. */
export interface TurnListener {
  readonly onText?: (text: string) => void;
  /** A complete call, once for each; its id is taken by no other call of the conversation. */
  readonly onCall?: (call: ModelToolCall) => void;
  /** Waited for between two events, where it is given something to wait for. */
  readonly room?: () => Promise<void> | undefined;
}

export interface ModelTurn {
  readonly message: AssistantMessage;
  readonly reason: FinishReason;
  readonly usage?: ModelUsage;
  /** Why the model's stream did not come to its end; what had come is in the message. */
  readonly error?: ToolError;
}

/** Calls of one turn; whoever makes more is not thinking. Providers allow 128 tools. */
const MAX_CALLS = 128;
/** Text and arguments of one turn, in UTF-16 units: far beyond any model's output. */
const MAX_UNITS = 16 * 1024 * 1024;
const MAX_PARTS = 4_096;
/** As the router has it for a call's id and a tool's name. */
const MAX_ID_UNITS = 1_024;
const MAX_NAME_UNITS = 128;
/** What may come after `finish` and is not waited for: an HTTP response that is read to its end leaves a connection that can be used again. */
const MAX_REST_EVENTS = 64;

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>([
  "stop",
  "tool-calls",
  "length",
  "content-filter",
  "other",
]);

type Fields = { readonly [field: string]: unknown };
const toFields = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});
const toText = (value: unknown): string => (typeof value === "string" ? value : "");

/** What JSON there is of it; a model function may hand over anything. */
function stringify(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}

/** A call's fields, each read once. What is missing of them becomes its `problem`. */
function readCall(value: unknown): ModelToolCall {
  const { id, toolName, argumentsText, arguments: args, problem, kind, itemId } = toFields(value);
  const hasName = typeof toolName === "string" && toolName !== "" && toolName.length <= MAX_NAME_UNITS;
  const unnamed = `Expected a tool's name of 1 to ${MAX_NAME_UNITS} characters in this call`;
  const found = toText(problem) || (hasName ? "" : unnamed);
  return {
    id: toText(id).slice(0, MAX_ID_UNITS),
    toolName: hasName ? toolName : toText(toolName).slice(0, MAX_NAME_UNITS) || "unknown",
    argumentsText: typeof argumentsText === "string" ? argumentsText : stringify(args),
    ...(args === undefined ? {} : { arguments: args }),
    ...(found === "" ? {} : { problem: found }),
    kind: kind === "custom" ? "custom" : "function",
    ...(typeof itemId === "string" ? { itemId: itemId.slice(0, MAX_ID_UNITS) } : {}),
  };
}

function readUsage(value: unknown): ModelUsage | undefined {
  const { inputTokens, outputTokens } = toFields(value);
  const isCount = (count: unknown): count is number =>
    typeof count === "number" && Number.isFinite(count) && count >= 0;
  return isCount(inputTokens) && isCount(outputTokens) ? { inputTokens, outputTokens } : undefined;
}

/** A call as the model named it, and as it stands in the conversation. */
interface Known {
  readonly said: ModelToolCall;
  readonly call: ModelToolCall;
  isPlaced: boolean;
}

const isSame = (a: ModelToolCall, b: ModelToolCall): boolean =>
  a.id === b.id && a.toolName === b.toolName && a.argumentsText === b.argumentsText;

/** The conversation's calls have ids of their own: some models count from `call_0` in each turn, or say one twice. */
function takeId(id: string, taken: Set<string>): string {
  let own = id;
  for (let count = 2; own === "" || taken.has(own); count += 1) {
    own = id === "" || count > MAX_CALLS ? `call_${randomUUID()}` : `${id.slice(0, MAX_ID_UNITS - 8)}_${count}`;
  }
  taken.add(own);
  return own;
}

class TurnReader {
  readonly #listener: TurnListener;
  readonly #taken: Set<string>;
  readonly #known: Known[] = [];
  #parts: AssistantPart[] = [];
  #units = 0;
  #dropped = 0;
  #reason: FinishReason = "other";
  #usage: ModelUsage | undefined;
  isFinished = false;

  constructor(listener: TurnListener, taken: Set<string>) {
    this.#listener = listener;
    this.#taken = taken;
  }

  /** @throws {ToolError} INTERNAL past {@link MAX_UNITS} */
  take(event: unknown): void {
    const { type, text, call, message, reason, usage } = toFields(event);
    if (type === "text-delta" && typeof text === "string" && text !== "") this.#takeText(text);
    else if (type === "tool-call") this.#takeCall(readCall(call));
    else if (type === "finish") {
      this.isFinished = true;
      this.#usage = readUsage(usage);
      this.#takeMessage(toFields(message).content);
      this.#reason = FINISH_REASONS.has(reason) ? (reason as FinishReason) : "other";
    }
  }

  #count(units: number): void {
    this.#units += units;
    if (this.#units > MAX_UNITS) {
      throw new ToolError("INTERNAL", `The model's turn: expected at most ${MAX_UNITS} characters`);
    }
  }

  #takeText(text: string): void {
    this.#count(text.length);
    const last = this.#parts.at(-1);
    if (last?.type === "text") this.#parts[this.#parts.length - 1] = { type: "text", text: last.text + text };
    else this.#parts.push({ type: "text", text });
    this.#listener.onText?.(text);
  }

  /** Undefined for one that was said before, and for one too many. */
  #takeCall(said: ModelToolCall): Known | undefined {
    if (this.#known.some((known) => isSame(known.said, said))) return undefined;
    if (this.#known.length >= MAX_CALLS) {
      this.#dropped += 1;
      return undefined;
    }
    this.#count(said.argumentsText.length);
    const known = { said, call: { ...said, id: takeId(said.id, this.#taken) }, isPlaced: false };
    this.#known.push(known);
    this.#parts.push({ type: "tool-call", call: known.call });
    this.#listener.onCall?.(known.call);
    return known;
  }

  /**
   * The message at the end says in what order things stood, and what of the provider's own was among them. The calls in it are those
   * that were run: what it leaves out is added, what it has besides is a call like any other.
   */
  #takeMessage(content: unknown): void {
    const streamed = this.#parts;
    const whole: AssistantPart[] = [];
    for (const part of Array.isArray(content) ? content.slice(0, MAX_PARTS) : []) {
      const { type, text, call, provider, item } = toFields(part);
      if (type === "text" && typeof text === "string") whole.push({ type: "text", text });
      else if (type === "provider" && typeof provider === "string") whole.push({ type: "provider", provider, item });
      else if (type === "tool-call") {
        const known = this.#place(readCall(call));
        if (known !== undefined) whole.push({ type: "tool-call", call: known.call });
      }
    }
    const hasText = whole.some(({ type }) => type === "text");
    const lost = streamed.filter(
      (part) =>
        (part.type === "text" && !hasText) ||
        (part.type === "tool-call" && this.#known.some(({ call, isPlaced }) => call === part.call && !isPlaced)),
    );
    const lostText = lost.filter(({ type }) => type === "text");
    this.#parts = [...lostText, ...whole, ...lost.filter(({ type }) => type !== "text")];
  }

  #place(said: ModelToolCall): Known | undefined {
    const exact = this.#known.find((known) => isSame(known.said, said));
    const known =
      exact ?? this.#known.find((each) => !each.isPlaced && each.said.id === said.id) ?? this.#takeCall(said);
    if (known === undefined || known.isPlaced) return undefined;
    known.isPlaced = true;
    return known;
  }

  end(error?: ToolError): ModelTurn {
    const tooMany = new ToolError("INTERNAL", `The model's turn: expected at most ${MAX_CALLS} calls`);
    const problem = error ?? (this.#dropped > 0 ? tooMany : undefined);
    return {
      message: { role: "assistant", content: this.#parts },
      reason: this.#reason,
      ...(this.#usage === undefined ? {} : { usage: this.#usage }),
      ...(problem === undefined ? {} : { error: problem }),
    };
  }
}

/** A transport's own words may hold a key or an address: only a status is told, the rest is the operator's (`cause`). */
function toModelError(thrown: unknown, signal: AbortSignal): ToolError {
  if (signal.aborted) return new ToolError("CANCELLED", "The run was cancelled");
  // A proxy is no error, and asking a revoked one what it is throws.
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  let status: unknown;
  try {
    status = Error.isError(thrown) ? (thrown as { readonly status?: unknown }).status : undefined;
  } catch {
    status = undefined;
  }
  if (typeof status === "number" && Number.isInteger(status) && status >= 100 && status <= 599) {
    return new ToolError("INTERNAL", `The model failed with status ${status}`, { cause: thrown, details: { status } });
  }
  return new ToolError("INTERNAL", "The model failed before its turn was over", { cause: thrown });
}

/** @throws {ToolError} INTERNAL for what cannot be iterated: the promise of an async function, for example, whose rejection is handled */
function iterate(events: unknown): AsyncIterator<unknown> {
  const iterable = events as Partial<AsyncIterable<unknown>> | null | undefined;
  if (typeof iterable?.[Symbol.asyncIterator] === "function") {
    return (iterable as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  }
  ignoreOutcome(() => events);
  throw new ToolError(
    "INTERNAL",
    `The model: expected a function that returns an async iterable, got ${describeKind(events)}`,
  );
}

async function readRest(iterator: AsyncIterator<unknown>): Promise<void> {
  try {
    for (let count = 0; count < MAX_REST_EVENTS; count += 1) if ((await iterator.next()).done === true) return;
    await iterator.return?.();
  } catch {
    // The turn was over.
  }
}

function leave(iterator: AsyncIterator<unknown> | undefined): void {
  void Promise.resolve()
    .then(() => iterator?.return?.())
    .catch(() => {});
}

/**
 * Reads one turn to its end, or to where it broke off. Never rejects; ends as soon as `request.signal` aborts, with CANCELLED.
 * @param taken the ids of the conversation's calls; those of this turn are added
 */
export async function readTurn(
  model: Model,
  request: ModelRequest,
  listener: TurnListener = {},
  taken: Set<string> = new Set(),
): Promise<ModelTurn> {
  const reader = new TurnReader(listener, taken);
  const { signal } = request;
  let iterator: AsyncIterator<unknown> | undefined;
  try {
    signal.throwIfAborted();
    iterator = iterate(model(request));
    while (!reader.isFinished) {
      const step = await untilAborted(Promise.resolve(iterator.next()), signal);
      if (step.done === true) throw new ToolError("INTERNAL", "The model's stream ended before its turn was over");
      reader.take(step.value);
      const room = listener.room?.();
      if (room !== undefined) await untilAborted(room, signal);
    }
    void readRest(iterator);
    return reader.end();
  } catch (thrown) {
    leave(iterator);
    return reader.end(toModelError(thrown, signal));
  }
}
