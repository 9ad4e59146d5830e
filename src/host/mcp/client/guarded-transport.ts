// Filters the messages between an upstream server and the SDK's client: attributes each to a request, limits its size and rate, and reports
// lost streams. The SDK's client validates whole messages, collects every error in them, and does not notice a stream that broke off.
import { AsyncLocalStorage } from "node:async_hooks";
import type { JSONRPCMessage, MessageExtraInfo, Transport, TransportSendOptions } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { isThenable } from "../../util/host-callback.ts";
import type { MessageStubs } from "./http/message-stubs.ts";
import { answerOf, type SentRequest, sentRequest } from "./http/request-answer.ts";
import { hasAtMost, type JsonObject, sizeOf } from "./reading/json-size.ts";
import { UNREADABLE_CODE } from "./reading/read-message.ts";
import { TokenBucket } from "./reading/token-bucket.ts";

/** A request to the server that is in progress. It receives the result as the server sent it. */
export interface TransportExchange {
  /** Receives the result, and returns the value that the SDK's client gets instead, or a promise of it. Never rejects. */
  readResult(method: string, result: JsonObject): JsonObject | Promise<JsonObject>;
  /** Called when the stream on which the response was expected has ended. */
  lost(): void;
  /** Set if the server has rejected the latest request for now: the time in ms after which it wants the request again. */
  retryAfterMs?: number | undefined;
  /** Receives the parameters of progress notifications. */
  progress?(params: JsonObject): void;
}

/**
 * The exchange of the current async context. A request that is sent in it belongs to the exchange, as do the messages that arrive on that
 * request's own stream. Only HTTP has a stream per request.
 */
export const currentExchange: AsyncLocalStorage<TransportExchange | undefined> = new AsyncLocalStorage();

/** Largest number of values in a message, except for tool results and listings, which have their own limits. */
const MAX_VALUES = 10_000;
/**
 * Largest size, in characters and values, of the result of a request that belongs to no exchange. The SDK's client keeps what the server says about
 * itself, such as its instructions, as long as the connection.
 */
const MAX_KEPT_SIZE = 262_144;
/** Largest length of the id of a request of the server, in characters. It is kept until there is a response. */
const MAX_ID_LENGTH = 256;
/**
 * Rate limits for messages that the server sends unprompted. Messages over the limit are dropped. Requests have their own limit, because a
 * server waits for the response to a dropped request: many notifications must not cause that.
 */
const NOTIFICATIONS = { burst: 2_000, perSecond: 500 } as const;
const REQUESTS = { burst: 200, perSecond: 50 } as const;
/** Largest number of unanswered requests of the server. Over HTTP each response is a request, which the server may never answer. */
const MAX_OPEN_REQUESTS = 32;
/** Longest time in ms to send a notification or a response. */
const NOTICE_MS = 10_000;
/** The code is in JSON-RPC's range for implementation-defined errors. */
const LOST = { code: -32_000, message: "The connection was lost" } as const;
const TOO_LARGE = { code: UNREADABLE_CODE, message: "The response is too large" } as const;
const NO_RESPONSE = { code: UNREADABLE_CODE, message: "It contains no response to the request" } as const;
const NO_RESULT = { code: UNREADABLE_CODE, message: "The response is neither a result nor an error" } as const;

interface PendingRequest {
  readonly method: string;
  readonly exchange: TransportExchange | undefined;
  /** Aborts the HTTP request that carries it. */
  readonly controller: AbortController;
}

export class GuardedTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  readonly #inner: Transport;
  readonly #pending = new Map<string, PendingRequest>();
  readonly #notifications = new TokenBucket(NOTIFICATIONS);
  readonly #requests = new TokenBucket(REQUESTS);
  /** Ids of the server's requests without a response. */
  readonly #unanswered = new Set<string>();
  /** Ids of requests to the server whose responses are being read. */
  readonly #reading = new Set<string>();
  /** Number of messages that were not passed on. */
  dropped = 0;
  /** Time of the server's latest message, on the clock of `performance.now()`. */
  lastMessageAt: number = performance.now();
  /** Whether the connection ended without being closed by the host. */
  hasEnded = false;
  #isClosing = false;

  /** @param stubs the stubs that `inner` passes on in place of messages, for HTTP */
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
    // The SDK's client does not limit the time to send these messages.
    const requestSignal = AbortSignal.timeout(NOTICE_MS);
    try {
      await this.#inner.send(message, { ...options, requestSignal });
    } finally {
      const id = cancelledId(message);
      // A server of the 2025 revisions is notified. The stream for the response is no longer needed.
      if (id !== undefined) this.#cancel(id);
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
    const sent: SentRequest = { answer: "none" };
    const sendOptions = {
      ...options,
      requestSignal: signal,
      onRequestStreamEnd: () => {
        // The response has already arrived.
        if (this.#reading.has(id)) return;
        onRequestStreamEnd?.();
        this.#failAsLost(id);
      },
    };
    try {
      await sentRequest.run(sent, () => this.#inner.send(message, sendOptions));
    } catch (thrown) {
      const exchange = this.#pending.get(id)?.exchange;
      const answer = exchange === undefined ? undefined : answerOf(thrown, id);
      if (answer !== undefined) return this.#receive(answer, undefined);
      // The server may have processed the request: it broke off in its answer.
      if (sent.answer === "begun") exchange?.lost();
      if (exchange !== undefined) exchange.retryAfterMs = sent.retryAfterMs;
      this.#pending.delete(id);
      throw thrown;
    }
    // The server has answered with one message, which is not the response to this request. No other message will follow.
    if (sent.answer === "ended" && this.#pending.has(id)) this.#fail(id, NO_RESPONSE);
  }

  #cancel(id: string): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.controller.abort();
  }

  #failAsLost(id: string): void {
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    pending.exchange?.lost();
    this.#fail(id, LOST);
  }

  #fail(id: string, error: RpcError): void {
    this.#pending.delete(id);
    if (/^\d+$/.test(id)) this.onmessage?.({ jsonrpc: "2.0", id: Number(id), error });
  }

  #receive(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void {
    this.lastMessageAt = performance.now();
    if ("method" in message) {
      if (!hasAtMost(message, MAX_VALUES) || !this.#accepts(message)) this.dropped += 1;
      else if (message.method === "notifications/progress") this.#reportProgress(message.params);
      else this.onmessage?.(message, extra);
      return;
    }
    const id = String(message.id);
    const exchange = this.#pending.get(id)?.exchange;
    // Runs in the request's own context, so that what the SDK does next belongs to the same exchange.
    const deliver = (response: JSONRPCMessage): void =>
      exchange === undefined
        ? this.onmessage?.(response, extra)
        : currentExchange.run(exchange, () => this.onmessage?.(response, extra));
    const response = this.#readResponse(message);
    if (response === undefined) this.dropped += 1;
    else if (!isThenable(response)) deliver(response);
    else {
      this.#reading.add(id);
      void response.then((read) => {
        this.#reading.delete(id);
        deliver(read);
      });
    }
  }

  /**
   * Returns whether a message is passed on. Rejects a request that has the id of an unanswered one, because their responses could not be
   * distinguished.
   */
  #accepts(message: Extract<JSONRPCMessage, { method: string }>): boolean {
    if (!("id" in message)) {
      // A request that the server has cancelled gets no response.
      this.#unanswered.delete(cancelledId(message) ?? "");
      return this.#notifications.take();
    }
    const id = toId(message.id);
    if (id === undefined || id.length > MAX_ID_LENGTH || this.#unanswered.has(id)) return false;
    if (this.#unanswered.size >= MAX_OPEN_REQUESTS) return false;
    if (!this.#requests.take()) return false;
    this.#unanswered.add(id);
    return true;
  }

  /** Passes progress to the exchange directly. The SDK's client would deliver it after a response that arrives in the same chunk. */
  #reportProgress(params: JsonObject | undefined): void {
    const pending = this.#pending.get(String(params?.progressToken));
    if (params === undefined || pending === undefined) this.dropped += 1;
    else pending.exchange?.progress?.(params);
  }

  /** Returns the response for the SDK's client; undefined if no pending request has its id. */
  #readResponse(
    message: Exclude<JSONRPCMessage, { method: string }>,
  ): JSONRPCMessage | Promise<JSONRPCMessage> | undefined {
    if (message.id === undefined) return undefined;
    const pending = this.#pending.get(String(message.id));
    if (pending === undefined) return undefined;
    const { method, exchange } = pending;
    const { id } = message;
    this.#pending.delete(String(id));
    // The SDK's client ignores a malformed response and keeps waiting, so errors are normalized.
    if ("error" in message) return toError(id, hasAtMost(message, MAX_VALUES) ? readError(message.error) : TOO_LARGE);
    const { result } = message as { readonly result: unknown };
    if (!isJsonObject(result)) return toError(id, NO_RESULT);
    const isFinal = exchange !== undefined && result.resultType !== "input_required";
    if (isFinal) {
      const replaced = exchange.readResult(method, result);
      if (replaced instanceof Promise) return replaced.then((read) => ({ jsonrpc: "2.0", id, result: read }));
      return { jsonrpc: "2.0", id, result: replaced };
    }
    const isSmall =
      hasAtMost(result, MAX_VALUES) && (exchange !== undefined || sizeOf(result, MAX_KEPT_SIZE) <= MAX_KEPT_SIZE);
    return isSmall ? { jsonrpc: "2.0", id, result } : toError(id, TOO_LARGE);
  }
}

/** The transport of a program. The SDK's client recognizes it by `stderr` and `pid`. */
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
