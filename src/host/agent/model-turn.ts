// Reads one turn of a model. Its events are untrusted: they are parsed and bounded, and even if the stream breaks off, the result is one
// assistant message in which each call has a unique id.

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

/** Receives the parts of a turn while it is read. */
export interface TurnListener {
  readonly onText?: (text: string) => void;
  /** Receives each complete call once. Its id is unique in the conversation. */
  readonly onCall?: (call: ModelToolCall) => void;
  /** Called between two events; the reader waits for the promise that it returns. */
  readonly room?: () => Promise<void> | undefined;
}

export interface ModelTurn {
  readonly message: AssistantMessage;
  readonly reason: FinishReason;
  readonly usage?: ModelUsage;
  /** Why the model's stream broke off. The message contains what was received before. */
  readonly error?: ToolError;
}

/** Calls of one turn. Providers allow 128 tools. */
const MAX_CALLS = 128;
/** Text and arguments of one turn, in UTF-16 code units: far beyond any model's output. */
const MAX_TURN_LENGTH = 16 * 1024 * 1024;
const MAX_PARTS = 4_096;
/** The router's limits for call ids and tool names. */
const MAX_ID_LENGTH = 1_024;
const MAX_NAME_LENGTH = 128;
/** Events that are read after `finish`, without waiting: an HTTP response that is read to its end leaves a reusable connection. */
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

/** Returns the JSON of a value, or "" if it has none: a model function may pass anything. */
function stringify(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}

/** Reads a call, each field once. An invalid call has a `problem`. */
function readCall(value: unknown): ModelToolCall {
  const { id, toolName, argumentsText, arguments: args, problem, kind, itemId } = toFields(value);
  const hasName = typeof toolName === "string" && toolName !== "" && toolName.length <= MAX_NAME_LENGTH;
  const unnamed = `Expected a tool name of 1 to ${MAX_NAME_LENGTH} characters in this call`;
  const found = toText(problem) || (hasName ? "" : unnamed);
  return {
    id: toText(id).slice(0, MAX_ID_LENGTH),
    toolName: hasName ? toolName : toText(toolName).slice(0, MAX_NAME_LENGTH) || "unknown",
    argumentsText: typeof argumentsText === "string" ? argumentsText : stringify(args),
    ...(args === undefined ? {} : { arguments: args }),
    ...(found === "" ? {} : { problem: found }),
    kind: kind === "custom" ? "custom" : "function",
    ...(typeof itemId === "string" ? { itemId: itemId.slice(0, MAX_ID_LENGTH) } : {}),
  };
}

function readUsage(value: unknown): ModelUsage | undefined {
  const { inputTokens, outputTokens } = toFields(value);
  const isCount = (count: unknown): count is number =>
    typeof count === "number" && Number.isFinite(count) && count >= 0;
  return isCount(inputTokens) && isCount(outputTokens) ? { inputTokens, outputTokens } : undefined;
}

/** A call as the model reported it, and as it is in the conversation. */
interface KnownCall {
  readonly reported: ModelToolCall;
  readonly call: ModelToolCall;
  isPlaced: boolean;
}

const isSame = (a: ModelToolCall, b: ModelToolCall): boolean =>
  a.id === b.id && a.toolName === b.toolName && a.argumentsText === b.argumentsText;

/** Returns a unique id: some models count from `call_0` in each turn, or use an id twice. */
function claimId(id: string, callIds: Set<string>): string {
  let uniqueId = id;
  for (let count = 2; uniqueId === "" || callIds.has(uniqueId); count += 1) {
    uniqueId = id === "" || count > MAX_CALLS ? `call_${randomUUID()}` : `${id.slice(0, MAX_ID_LENGTH - 8)}_${count}`;
  }
  callIds.add(uniqueId);
  return uniqueId;
}

class TurnReader {
  readonly #listener: TurnListener;
  readonly #callIds: Set<string>;
  readonly #known: KnownCall[] = [];
  #parts: AssistantPart[] = [];
  #length = 0;
  #dropped = 0;
  #reason: FinishReason = "other";
  #usage: ModelUsage | undefined;
  isFinished = false;

  constructor(listener: TurnListener, callIds: Set<string>) {
    this.#listener = listener;
    this.#callIds = callIds;
  }

  /** @throws {ToolError} INTERNAL past {@link MAX_TURN_LENGTH} */
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

  #count(length: number): void {
    this.#length += length;
    if (this.#length > MAX_TURN_LENGTH) {
      throw new ToolError("INTERNAL", `Expected at most ${MAX_TURN_LENGTH} characters in one turn of the model`);
    }
  }

  #takeText(text: string): void {
    this.#count(text.length);
    const last = this.#parts.at(-1);
    if (last?.type === "text") this.#parts[this.#parts.length - 1] = { type: "text", text: last.text + text };
    else this.#parts.push({ type: "text", text });
    this.#listener.onText?.(text);
  }

  /** Returns undefined for a repeated call, and for a call beyond the limit. */
  #takeCall(reported: ModelToolCall): KnownCall | undefined {
    if (this.#known.some((known) => isSame(known.reported, reported))) return undefined;
    if (this.#known.length >= MAX_CALLS) {
      this.#dropped += 1;
      return undefined;
    }
    this.#count(reported.argumentsText.length);
    const known = { reported, call: { ...reported, id: claimId(reported.id, this.#callIds) }, isPlaced: false };
    this.#known.push(known);
    this.#parts.push({ type: "tool-call", call: known.call });
    this.#listener.onCall?.(known.call);
    return known;
  }

  /**
   * Takes the order of the parts, and the provider's own items, from the final message. Calls that it leaves out are kept, because
   * they have run; calls that appear only in it are run like any other.
   */
  #takeMessage(content: unknown): void {
    const streamed = this.#parts;
    const final: AssistantPart[] = [];
    for (const part of Array.isArray(content) ? content.slice(0, MAX_PARTS) : []) {
      const { type, text, call, provider, item } = toFields(part);
      if (type === "text" && typeof text === "string") final.push({ type: "text", text });
      else if (type === "provider" && typeof provider === "string") final.push({ type: "provider", provider, item });
      else if (type === "tool-call") {
        const known = this.#place(readCall(call));
        if (known !== undefined) final.push({ type: "tool-call", call: known.call });
      }
    }
    const hasText = final.some(({ type }) => type === "text");
    const missing = streamed.filter(
      (part) =>
        (part.type === "text" && !hasText) ||
        (part.type === "tool-call" && this.#known.some(({ call, isPlaced }) => call === part.call && !isPlaced)),
    );
    const missingText = missing.filter(({ type }) => type === "text");
    this.#parts = [...missingText, ...final, ...missing.filter(({ type }) => type !== "text")];
  }

  #place(reported: ModelToolCall): KnownCall | undefined {
    const exact = this.#known.find((known) => isSame(known.reported, reported));
    const known =
      exact ??
      this.#known.find((each) => !each.isPlaced && each.reported.id === reported.id) ??
      this.#takeCall(reported);
    if (known === undefined || known.isPlaced) return undefined;
    known.isPlaced = true;
    return known;
  }

  end(error?: ToolError): ModelTurn {
    const tooMany = new ToolError("INTERNAL", `Expected at most ${MAX_CALLS} calls in one turn of the model`);
    const problem = error ?? (this.#dropped > 0 ? tooMany : undefined);
    return {
      message: { role: "assistant", content: this.#parts },
      reason: this.#reason,
      ...(this.#usage === undefined ? {} : { usage: this.#usage }),
      ...(problem === undefined ? {} : { error: problem }),
    };
  }
}

/** Converts a transport's error. Its message may contain a key or an address, so only the status is exposed; the rest stays in `cause`. */
function toModelError(thrown: unknown, signal: AbortSignal): ToolError {
  if (signal.aborted) return new ToolError("CANCELLED", "The run was cancelled");
  // `instanceof` throws on a revoked proxy; Error.isError is false for every proxy.
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

/** @throws {ToolError} INTERNAL for a value that is not async iterable, such as a promise, whose rejection is then ignored */
function iterate(events: unknown): AsyncIterator<unknown> {
  const iterable = events as Partial<AsyncIterable<unknown>> | null | undefined;
  if (typeof iterable?.[Symbol.asyncIterator] === "function") {
    return (iterable as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  }
  ignoreOutcome(() => events);
  throw new ToolError(
    "INTERNAL",
    `Expected a model function that returns an async iterable, got ${describeKind(events)}`,
  );
}

async function readRest(iterator: AsyncIterator<unknown>): Promise<void> {
  try {
    for (let count = 0; count < MAX_REST_EVENTS; count += 1) if ((await iterator.next()).done === true) return;
    await iterator.return?.();
  } catch {
    // The turn has already ended.
  }
}

function closeIterator(iterator: AsyncIterator<unknown> | undefined): void {
  void Promise.resolve()
    .then(() => iterator?.return?.())
    .catch(() => {});
}

/**
 * Reads one turn until it ends or breaks off. Never rejects. Ends with CANCELLED as soon as `request.signal` aborts.
 * @param callIds ids of the conversation's calls; the ids of this turn are added
 */
export async function readTurn(
  model: Model,
  request: ModelRequest,
  listener: TurnListener = {},
  callIds: Set<string> = new Set(),
): Promise<ModelTurn> {
  const reader = new TurnReader(listener, callIds);
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
    closeIterator(iterator);
    return reader.end(toModelError(thrown, signal));
  }
}
