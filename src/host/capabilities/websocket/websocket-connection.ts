// One WebSocket of a tool: opens it under the egress rules of fetch, transfers messages in parts, and closes it. Bytes are read from the
// network only when the tool requests messages, and written only as fast as the network accepts them, so that neither side can fill the
// host's memory.
import type { Socket } from "node:net";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import { LONG_LATE_MS, RunningTimer } from "../../util/running-timer.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";
import { checkTarget } from "../fetch/check-target.ts";
import type { ExchangeDependencies, ExchangeRequest } from "../fetch/exchange.ts";
import { networkError, toExchangeError } from "../fetch/network-errors.ts";
import { RequestFiller } from "../fetch/request-fill.ts";
import { checkHeaders, withTrace } from "../fetch/request-headers.ts";
import {
  ABNORMAL,
  CLOSE_CODES,
  encodeClose,
  encodeWebSocketFrame,
  NO_CODE,
  OPCODES,
  type WebSocketFrame,
  WebSocketFrameError,
  WebSocketFrameReader,
} from "./frames.ts";
import { checkHandshakeHeaders, upgrade } from "./handshake.ts";
import { MessageReader, type WireMessage } from "./message-reader.ts";
import { type MessagePart, MessageWriter } from "./message-writer.ts";

/** Time for the server to answer a close frame, and to close the connection after that. */
const CLOSE_MS = 2_000;
/** Bytes and parts of messages in one answer. JSON may encode one byte as six characters. */
const ANSWER_BYTES = 64 * 1024;
const ANSWER_PARTS = 512;
/** Bytes whose frames are parsed in one turn of the event loop: at most 4,096 frames, in about 1 ms. */
const MAX_SYNC_BYTES = 8 * 1024;

export interface SocketClose {
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

/** The answer to `receive`: parts of messages, and how the connection ended, if it has. */
export interface ReceivedMessages {
  readonly messages: readonly WireMessage[];
  readonly closed?: SocketClose;
}

/** Counts the bytes of all WebSockets of one call, frame headers included. */
export class Traffic {
  readonly #most: number;
  readonly #bytes = { sent: 0, received: 0 };

  constructor(most: number) {
    this.#most = most;
  }

  /** @throws {ToolError} QUOTA_EXCEEDED */
  count(direction: "sent" | "received", bytes: number): void {
    this.#bytes[direction] += bytes;
    if (this.#bytes[direction] <= this.#most) return;
    const message = `The WebSockets of this call have ${direction} more than ${this.#most} bytes`;
    throw new ToolError("QUOTA_EXCEEDED", `${message} (egress.webSocketBytes)`);
  }
}

/** A connection ends when it is closed, fails or is cancelled. Every request after a failure is answered with the first failure. */
export class WebSocketConnection {
  readonly #dependencies: ExchangeDependencies;
  readonly #traffic: Traffic;
  readonly #abort = new AbortController();
  readonly #onEnd: () => void;
  readonly #turns: Turns;
  readonly #reader: WebSocketFrameReader;
  readonly #messages: MessageReader;
  #timer: Disposable;
  #socket: Socket | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  #writer: MessageWriter | undefined;
  #receiving: Promise<unknown> = Promise.resolve();
  #sending: Promise<unknown> = Promise.resolve();
  /** The last unanswered ping. One pong may answer it and all earlier ones (RFC 6455, 5.5.3). */
  #ping: Buffer | undefined;
  /** The pong that the network has not accepted yet. */
  #pong: Promise<void> | undefined;
  /** The server's violation of the protocol. */
  #violation: unknown;
  #hasSentClose = false;
  /** The tool has called `close`. */
  #isClosing = false;
  #closed: SocketClose | undefined;
  #failure: ToolError | undefined;
  #hasEnded = false;

  constructor(dependencies: ExchangeDependencies, traffic: Traffic, onEnd: () => void) {
    this.#dependencies = dependencies;
    this.#traffic = traffic;
    this.#onEnd = onEnd;
    this.#turns = { signal: this.#abort.signal, cpuAccount: dependencies.cpuAccount };
    const { timeoutMs, responseBytes } = dependencies.policy;
    this.#messages = new MessageReader(dependencies.secrets.redactor, this.#turns);
    this.#reader = new WebSocketFrameReader(
      responseBytes,
      () =>
        new WebSocketFrameError(
          `A received message has more than ${responseBytes} bytes (egress.responseBytes)`,
          CLOSE_CODES.tooBig,
        ),
    );
    this.#timer = setTimeout(
      () => this.#fail(networkError(`the WebSocket did not open within ${timeoutMs} ms (egress.timeoutMs)`)),
      timeoutMs,
    );
  }

  /** Resolves when the connection is open, with the protocol that the server chose. */
  async open(request: ExchangeRequest): Promise<{ readonly protocol: string }> {
    try {
      return { protocol: await this.#open(request) };
    } catch (thrown) {
      throw this.#fail(thrown);
    }
  }

  async #open({ url: text, headers, headersTo }: ExchangeRequest): Promise<string> {
    const { policy, requested, secrets, connections } = this.#dependencies;
    const { signal } = this.#abort;
    const url = URL.parse(text);
    if (url === null) throw new ToolError("PARAM_INVALID", "Expected an absolute URL");
    const addresses = checkTarget(url, "GET", policy, requested);
    checkHeaders(headers);
    checkHandshakeHeaders(headers);
    const filler = new RequestFiller(secrets, url, this.#turns);
    const path = await filler.path();
    const filled = await filler.headers(headers);
    checkHeaders(filled);
    const client = await connections.take(url, addresses, signal);
    signal.throwIfAborted();
    try {
      const sent = { path, headers: withTrace(filled, headersTo?.(url) ?? []), toolHeaders: headers, signal };
      const { socket, protocol } = await upgrade(client, sent);
      this.#accept(socket, url);
      signal.throwIfAborted();
      return protocol;
    } finally {
      // The client no longer owns the socket, and would open another one.
      connections.drop(client);
    }
  }

  #accept(socket: Socket, url: URL): void {
    this.#timer[Symbol.dispose]();
    if (this.#hasEnded) {
      socket.destroy();
      return;
    }
    const { policy, secrets } = this.#dependencies;
    socket.setTimeout(0);
    socket.setNoDelay(true);
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#writer = new MessageWriter({ secrets, url, maxBytes: policy.requestBytes, turns: this.#turns });
  }

  /** Sends a part of a message, in the order of the calls. Resolves when the network can accept more. */
  send(part: MessagePart): Promise<null> {
    return this.#inOrder(async () => {
      if (this.#writer === undefined) throw new ToolError("PARAM_INVALID", "The WebSocket is not open");
      for await (const frame of this.#writer.frames(part)) {
        if (this.#hasSentClose) return;
        await this.#write(frame);
        if (this.#isClosing && !this.#hasSentClose && !this.#hasEnded) this.#startTimer();
      }
    });
  }

  /** Starts the closing handshake, after all earlier messages. */
  close(code: number | undefined, reason: string): Promise<null> {
    return this.#inOrder(async () => {
      if (this.#hasSentClose || this.#socket === undefined) return;
      this.#isClosing = true;
      this.#startTimer();
      await this.#sendClose(code, reason);
    });
  }

  /** Starts the closing timeout while earlier messages are still being sent. Each part that the network accepts restarts it. */
  closing(): null {
    if (this.#isClosing || this.#hasSentClose || this.#socket === undefined || this.#hasEnded) return null;
    this.#isClosing = true;
    this.#startTimer();
    return null;
  }

  /** Restarts the timeout for the next step of closing: another accepted part, or the server's close frame. */
  #startTimer(): void {
    this.#timer[Symbol.dispose]();
    const breakOff = (): void => void this.#end({ code: ABNORMAL, reason: "", wasClean: false });
    this.#timer = new RunningTimer(CLOSE_MS, breakOff, LONG_LATE_MS);
  }

  #inOrder(work: () => Promise<void>): Promise<null> {
    const run = async (): Promise<null> => {
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#hasEnded) return null;
      try {
        await work();
      } catch (thrown) {
        throw this.#fail(thrown);
      }
      return null;
    };
    const running = this.#sending.then(run);
    this.#sending = running.catch(() => {});
    return running;
  }

  /** Resolves with the parts that have arrived, as soon as there are any. Concurrent requests are answered in order. */
  receive(): Promise<ReceivedMessages> {
    const running = this.#receiving.then(() => this.#receive());
    this.#receiving = running.catch(() => {});
    return running;
  }

  /** Closes the connection at once. A second call is a no-op. */
  cancel(): void {
    this.#fail(networkError("it was cancelled"));
  }

  async #receive(): Promise<ReceivedMessages> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#closed !== undefined) return { messages: [], closed: this.#closed };
    if (this.#chunks === undefined) throw new ToolError("PARAM_INVALID", "The WebSocket is not open");
    try {
      const { parts, close } = await this.#readParts(this.#chunks);
      const { messages, violation } = await this.#messages.toWire(parts);
      this.#violation ??= violation;
      if (violation !== undefined) {
        if (messages.length === 0) throw violation;
        return { messages };
      }
      if (close === undefined) return { messages };
      return { messages, closed: await this.#finishClose(close) };
    } catch (thrown) {
      // If the connection was closed during the wait, report how it was closed, not the error that the wait ended with.
      if (this.#closed !== undefined) return { messages: [], closed: this.#closed };
      throw await this.#failWith(thrown);
    }
  }

  /** Reads until there are parts of messages, or the connection ends. */
  async #readParts(
    chunks: AsyncIterator<Buffer>,
  ): Promise<{ readonly parts: readonly DataFrame[]; readonly close: SocketClose | undefined }> {
    for (;;) {
      const parts: DataFrame[] = [];
      const before = this.#ping;
      const close = await this.#parse(parts);
      const isPinged = this.#ping !== before;
      const pong = this.#answerPing();
      if (parts.length > 0 || close !== undefined) return { parts, close };
      // Wait for the pong, so that a server that sends only pings and reads no pongs cannot fill the memory.
      if (isPinged) await pong;
      const { done, value } = await chunks.next();
      if (done !== true) this.#traffic.count("received", value.length);
      if (done === true) return { parts, close: { code: ABNORMAL, reason: "", wasClean: false } };
      this.#reader.push(value);
    }
  }

  /** Parses the buffered bytes; many bytes are parsed over several turns of the event loop. Returns the server's close frame, if any. */
  async #parse(parts: DataFrame[]): Promise<SocketClose | undefined> {
    let close: SocketClose | undefined;
    let bytes = 0;
    const step = (): boolean => {
      const frame = this.#nextFrame(parts.length > 0);
      if (frame === undefined) return true;
      if (frame.kind === "ping") this.#ping = frame.bytes;
      else if (frame.kind === "close") close = { code: frame.code, reason: frame.reason, wasClean: true };
      else if (frame.kind === "data" && (frame.bytes.length > 0 || frame.isLast)) {
        parts.push(frame);
        bytes += frame.bytes.length;
      }
      return close !== undefined || bytes >= ANSWER_BYTES || parts.length >= ANSWER_PARTS;
    };
    if (this.#reader.waitingBytes > MAX_SYNC_BYTES)
      await runTimeSliced(step, this.#abort.signal, this.#dependencies.cpuAccount);
    else while (!step());
    return close;
  }

  /** @param isAfterParts true to return earlier parts first, and to throw a violation at the next call */
  #nextFrame(isAfterParts: boolean): WebSocketFrame | undefined {
    if (this.#violation !== undefined) throw this.#violation;
    try {
      return this.#reader.next();
    } catch (violation) {
      this.#violation = violation;
      if (isAfterParts) return undefined;
      throw violation;
    }
  }

  /** Sends one pong at a time. When the network has accepted it, the next pong answers the last ping that arrived in the meantime. */
  #answerPing(): Promise<void> {
    const ping = this.#ping;
    if (this.#pong === undefined && ping !== undefined && !this.#hasSentClose) {
      this.#ping = undefined;
      this.#pong = this.#write(encodeWebSocketFrame(OPCODES.pong, ping))
        .catch(() => {})
        .finally(() => {
          this.#pong = undefined;
          if (!this.#hasEnded) void this.#answerPing();
        });
    }
    return this.#pong ?? Promise.resolve();
  }

  /** Resolves when the network can accept more, or the connection has ended. */
  async #write(frame: Buffer): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || !socket.writable) return;
    this.#traffic.count("sent", frame.length);
    if (socket.write(frame)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const event of ["drain", "close"]) socket.on(event, resolve);
    await promise;
    for (const event of ["drain", "close"]) socket.off(event, resolve);
  }

  async #sendClose(code: number | undefined, reason = ""): Promise<void> {
    if (this.#hasSentClose) return;
    this.#hasSentClose = true;
    await this.#write(encodeClose(code, reason));
  }

  /** Answers a close frame, and waits until the server has closed the connection. */
  async #finishClose(close: SocketClose): Promise<SocketClose> {
    if (close.wasClean) {
      // The server has sent its close frame in time, so the close is clean, however the server then closes the connection.
      this.#timer[Symbol.dispose]();
      await this.#shutDown(close.code === NO_CODE ? undefined : close.code);
    }
    const [reason = ""] = await this.#dependencies.secrets.redactor.texts([close.reason], this.#turns);
    return this.#end({ ...close, reason });
  }

  /** Fails the connection. If the server has violated the protocol, it receives a close frame with the reason first. */
  async #failWith(thrown: unknown): Promise<ToolError> {
    if (!(thrown instanceof WebSocketFrameError)) return this.#fail(thrown);
    await this.#shutDown(thrown.closeCode);
    if (thrown.closeCode === CLOSE_CODES.tooBig) return this.#fail(new ToolError("QUOTA_EXCEEDED", thrown.message));
    return this.#fail(networkError(`the server violated the WebSocket protocol: ${thrown.message}`));
  }

  /** Sends the close frame, and discards received data until the server closes the connection, at most {@link CLOSE_MS}. */
  async #shutDown(code: number | undefined): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || this.#chunks === undefined) return;
    if (!this.#hasSentClose && socket.writable) socket.write(encodeClose(code));
    this.#hasSentClose = true;
    const timer = setTimeout(() => socket.destroy(), CLOSE_MS);
    socket.end();
    try {
      while ((await this.#chunks.next()).done !== true);
    } catch {
      // A connection that fails now is closed too.
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the connection. Only the first call has an effect. */
  #end(close: SocketClose): SocketClose {
    if (this.#closed !== undefined) return this.#closed;
    this.#closed = close;
    this.#finish();
    return close;
  }

  #fail(thrown: unknown): ToolError {
    if (this.#failure !== undefined) return this.#failure;
    const failure = toExchangeError(thrown);
    if (this.#hasEnded) return failure;
    this.#failure = failure;
    this.#finish();
    return failure;
  }

  #finish(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#timer[Symbol.dispose]();
    this.#abort.abort(this.#failure ?? networkError("the WebSocket is closed"));
    this.#socket?.destroy();
    this.#onEnd();
  }
}

type DataFrame = Extract<WebSocketFrame, { readonly kind: "data" }>;
