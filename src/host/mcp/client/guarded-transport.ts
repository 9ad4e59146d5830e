// What stands between an upstream server and the client's machinery: which request a message is about, what of it goes on, and how much.
// That machinery validates whole messages, reports each thing that is wrong in one, and knows nothing of a stream that broke off.
import { AsyncLocalStorage } from "node:async_hooks";
import type { JSONRPCMessage, MessageExtraInfo, Transport, TransportSendOptions } from "@modelcontextprotocol/client";
import { isThenable } from "../../util/host-callback.ts";
import type { MessageStubs } from "./http/message-stubs.ts";
import { Allowance } from "./reading/allowance.ts";
import { hasAtMost, isJsonObject, type JsonObject } from "./reading/json-size.ts";
import { UNREADABLE_CODE } from "./reading/read-message.ts";

/** A request of ours while it is on its way: what reads its result as the server sent it. */
export interface TransportExchange {
  /** Returns what the SDK's client is shown in the result's place; a promise where that takes more than a turn. Never rejects. */
  readResult(method: string, result: JsonObject): JsonObject | Promise<JsonObject>;
  /** Its answer cannot come any more: the stream that it was to come on has ended. */
  lost(): void;
  /** What the server says of how far it is. */
  progress?(said: JsonObject): void;
}

/**
 * Whose request runs: sent within it, a request is its own, and so is all that comes back on that request's own stream, which only HTTP
 * has.
 */
export const currentExchange: AsyncLocalStorage<TransportExchange | undefined> = new AsyncLocalStorage();

/** Values in a message that is neither a tool's result nor a listing: those are read by us, within bounds of their own. */
const MAX_VALUES = 10_000;
/**
 * Messages that the server sends of itself: so many at once, and so many in a second. What is past it is dropped. Requests have theirs
 * apart: one that is dropped has no answer, and whoever told of much before waits for it.
 */
const NOTIFICATIONS = { burst: 2_000, perSecond: 500 } as const;
const REQUESTS = { burst: 200, perSecond: 50 } as const;
/** Requests of the server's that wait for our answer. Over HTTP each answer is a request of its own, which the server may never end. */
const MAX_OPEN_REQUESTS = 32;
/** A notification or an answer that a server does not take within this time is lost. */
const NOTICE_MS = 10_000;
/** As JSON-RPC has it for errors of one's own. */
const LOST = { code: -32_000, message: "The connection was lost" } as const;
const TOO_LARGE = { code: UNREADABLE_CODE, message: "The answer has too many values" } as const;
const NO_RESULT = { code: UNREADABLE_CODE, message: "The answer is neither a result nor an error" } as const;

interface Pending {
  readonly method: string;
  readonly exchange: TransportExchange | undefined;
  /** Ends the HTTP request that it came by. */
  readonly controller: AbortController;
}

export class GuardedTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  readonly #inner: Transport;
  readonly #pending = new Map<string, Pending>();
  readonly #notifications = new Allowance(NOTIFICATIONS);
  readonly #requests = new Allowance(REQUESTS);
  /** Ids of the server's requests that have no answer yet. */
  readonly #unanswered = new Set<string>();
  /** Ids of our requests whose answers are being read. */
  readonly #reading = new Set<string>();
  /** Messages that were not passed on. */
  dropped = 0;
  /** When the server has said something last, whatever that was; by performance.now(). */
  heardAt: number = performance.now();
  /** Whether it has ended, and not because we ended it. */
  hasEnded = false;
  #isClosing = false;

  /** @param stubs of the messages that `inner` passes on, where those are stubs */
  constructor(inner: Transport, stubs?: MessageStubs) {
    this.#inner = inner;
    inner.onmessage = (message, extra) => {
      const received = stubs === undefined ? message : stubs.take(message);
      if (received === undefined) this.dropped += 1;
      else this.#receive(received, extra);
    };
    inner.onerror = (error) => this.onerror?.(error);
    inner.onclose = () => {
      this.hasEnded = !this.#isClosing;
      this.#pending.clear();
      stubs?.clear();
      this.onclose?.();
    };
  }

  get hasPerRequestStream(): boolean {
    return this.#inner.hasPerRequestStream === true;
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  start(): Promise<void> {
    return this.#inner.start();
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#inner.close();
  }

  async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    if ("method" in message && "id" in message) {
      await this.#sendRequest(String(message.id), message.method, message, options);
      return;
    }
    // The machinery waits for no answer to these, however long that would be.
    const requestSignal = AbortSignal.timeout(NOTICE_MS);
    try {
      await this.#inner.send(message, { ...options, requestSignal });
    } finally {
      const id = cancelledId(message);
      // A 2025-era server is told; the stream that its answer would have come on is of no use any more.
      if (id !== undefined) this.#forget(id);
      if (!("method" in message)) this.#unanswered.delete(String(message.id));
    }
  }

  async #sendRequest(
    id: string,
    method: string,
    message: JSONRPCMessage,
    options: TransportSendOptions,
  ): Promise<void> {
    const controller = new AbortController();
    const { requestSignal, onRequestStreamEnd } = options;
    const signal =
      requestSignal === undefined ? controller.signal : AbortSignal.any([requestSignal, controller.signal]);
    requestSignal?.addEventListener("abort", () => this.#pending.delete(id), { once: true });
    this.#pending.set(id, { method, exchange: currentExchange.getStore(), controller });
    try {
      await this.#inner.send(message, {
        ...options,
        requestSignal: signal,
        onRequestStreamEnd: () => {
          // Its answer is there already.
          if (this.#reading.has(id)) return;
          onRequestStreamEnd?.();
          this.#lose(id);
        },
      });
    } catch (thrown) {
      this.#pending.delete(id);
      throw thrown;
    }
  }

  #forget(id: string): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.controller.abort();
  }

  #lose(id: string): void {
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    this.#pending.delete(id);
    pending.exchange?.lost();
    if (/^\d+$/.test(id)) this.onmessage?.({ jsonrpc: "2.0", id: Number(id), error: LOST });
  }

  #receive(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void {
    this.heardAt = performance.now();
    if ("method" in message) {
      if (!hasAtMost(message, MAX_VALUES) || !this.#mayPass(message)) this.dropped += 1;
      else if (message.method === "notifications/progress") this.#progress(message.params);
      else this.onmessage?.(message, extra);
      return;
    }
    const id = String(message.id);
    const exchange = this.#pending.get(id)?.exchange;
    // What follows from an answer is its request's own.
    const pass = (answer: JSONRPCMessage): void =>
      exchange === undefined
        ? this.onmessage?.(answer, extra)
        : currentExchange.run(exchange, () => this.onmessage?.(answer, extra));
    const passed = this.#passAnswer(message);
    if (passed === undefined) this.dropped += 1;
    else if (!isThenable(passed)) pass(passed);
    else {
      this.#reading.add(id);
      void passed.then((answer) => {
        this.#reading.delete(id);
        pass(answer);
      });
    }
  }

  /** A request with the id of another that is still open is dropped: nobody could tell their answers apart. */
  #mayPass(message: Extract<JSONRPCMessage, { method: string }>): boolean {
    if (!("id" in message)) {
      // What the server has cancelled gets no answer.
      this.#unanswered.delete(cancelledId(message) ?? "");
      return this.#notifications.take();
    }
    const id = toId(message.id);
    if (id === undefined || this.#unanswered.size >= MAX_OPEN_REQUESTS || this.#unanswered.has(id)) return false;
    if (!this.#requests.take()) return false;
    this.#unanswered.add(id);
    return true;
  }

  /** The machinery would be late with it: an answer that comes in the same piece would be there first. */
  #progress(said: JsonObject | undefined): void {
    const pending = this.#pending.get(String(said?.progressToken));
    if (said === undefined || pending === undefined) this.dropped += 1;
    else pending.exchange?.progress?.(said);
  }

  #passAnswer(
    message: Exclude<JSONRPCMessage, { method: string }>,
  ): JSONRPCMessage | Promise<JSONRPCMessage> | undefined {
    if (message.id === undefined) return undefined;
    const pending = this.#pending.get(String(message.id));
    if (pending === undefined) return undefined;
    const { method, exchange } = pending;
    const { id } = message;
    this.#pending.delete(String(id));
    // The machinery drops what is no answer by the letter, and then waits for one.
    if ("error" in message) return toError(id, hasAtMost(message, MAX_VALUES) ? readError(message.error) : TOO_LARGE);
    const { result } = message as { readonly result: unknown };
    if (!isJsonObject(result)) return toError(id, NO_RESULT);
    const isOurs = exchange !== undefined && result.resultType !== "input_required";
    if (isOurs) {
      const shown = exchange.readResult(method, result);
      if (isThenable(shown))
        return (shown as Promise<JsonObject>).then((read) => ({ jsonrpc: "2.0", id, result: read }));
      return { jsonrpc: "2.0", id, result: shown };
    }
    return hasAtMost(result, MAX_VALUES) ? { jsonrpc: "2.0", id, result } : toError(id, TOO_LARGE);
  }
}

/** A program's transport has these two, by which the machinery knows one. */
export class GuardedStdioTransport extends GuardedTransport {
  readonly stderr = null;
  readonly #readPid: () => number | undefined;

  constructor(inner: Transport, readPid: () => number | undefined) {
    super(inner);
    this.#readPid = readPid;
  }

  get pid(): number | null {
    return this.#readPid() ?? null;
  }
}

interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

function readError(error: unknown): RpcError {
  const { code, message, data } = isJsonObject(error) ? error : {};
  return {
    code: Number.isSafeInteger(code) ? (code as number) : NO_RESULT.code,
    message: typeof message === "string" ? message : NO_RESULT.message,
    ...(data === undefined ? {} : { data }),
  };
}

const toError = (id: string | number, error: RpcError): JSONRPCMessage => ({ jsonrpc: "2.0", id, error });

function cancelledId(message: JSONRPCMessage): string | undefined {
  if (!("method" in message) || message.method !== "notifications/cancelled") return undefined;
  return toId(message.params?.requestId);
}

const toId = (id: unknown): string | undefined =>
  typeof id === "string" || typeof id === "number" ? String(id) : undefined;
