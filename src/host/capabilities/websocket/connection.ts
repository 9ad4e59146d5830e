// One WebSocket of a tool: the handshake under the rules of fetch, messages in parts both ways, and its end. Bytes are read from the network
// only when the tool asks for messages, and written only as fast as the network takes them: neither side fills the host's memory.
import type { Socket } from "node:net";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";
import { checkTarget } from "../fetch/egress-policy.ts";
import type { ExchangeParts, ExchangeRequest } from "../fetch/exchange.ts";
import { networkError, toExchangeError } from "../fetch/network-errors.ts";
import { RequestFiller } from "../fetch/request-fill.ts";
import { checkHeaders, withTrace } from "../fetch/request-headers.ts";
import {
  ABNORMAL,
  CLOSE_CODES,
  encodeClose,
  encodeFrame,
  type Frame,
  FrameError,
  FrameReader,
  NO_CODE,
  OPCODES,
} from "./frames.ts";
import { checkHandshakeHeaders, upgrade } from "./handshake.ts";
import { MessageReader, type WireMessage } from "./message-reader.ts";
import { type MessagePart, MessageWriter } from "./message-writer.ts";

/** Time for the server to answer a close frame, and to close the connection after that. */
const CLOSE_MS = 2_000;
/** Bytes and parts of messages that one answer holds; JSON may write a byte as six. */
const ANSWER_BYTES = 64 * 1024;
const ANSWER_PARTS = 512;
/** Bytes whose frames are parsed at once: at most 4,096 of them, in about 1 ms. */
const AT_ONCE_BYTES = 8 * 1024;

export interface SocketClose {
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

/** What a tool receives at once: parts of messages, and how the connection ended if it has. */
export interface Received {
  readonly messages: readonly WireMessage[];
  readonly closed?: SocketClose;
}

/** Counts the bytes of all WebSockets of one call, frames and all. */
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
    const what = `The WebSockets of this call have ${direction} more than ${this.#most} bytes`;
    throw new ToolError("QUOTA_EXCEEDED", `${what} (egress.webSocketBytes)`);
  }
}

/** Is over when it has ended, failed or was cancelled. Its first failure is what every later request is answered with. */
export class WebSocketConnection {
  readonly #parts: ExchangeParts;
  readonly #traffic: Traffic;
  readonly #abort = new AbortController();
  readonly #onOver: () => void;
  readonly #turns: Turns;
  readonly #reader: FrameReader;
  readonly #messages: MessageReader;
  #timer: NodeJS.Timeout;
  #socket: Socket | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  #writer: MessageWriter | undefined;
  #receiving: Promise<unknown> = Promise.resolve();
  #sending: Promise<unknown> = Promise.resolve();
  /** The last ping that is not answered yet: RFC 6455 (5.5.3) lets a pong answer all that came before. */
  #ping: Buffer | undefined;
  /** The pong that the network has not taken yet. */
  #pong: Promise<void> | undefined;
  /** What the server did wrong. */
  #violation: unknown;
  #hasSentClose = false;
  /** The tool has called `close`. */
  #isClosing = false;
  #closed: SocketClose | undefined;
  #failure: ToolError | undefined;
  #isOver = false;

  constructor(parts: ExchangeParts, traffic: Traffic, onOver: () => void) {
    this.#parts = parts;
    this.#traffic = traffic;
    this.#onOver = onOver;
    this.#turns = { signal: this.#abort.signal, payer: parts.payer };
    const { timeoutMs, responseBytes } = parts.policy;
    this.#messages = new MessageReader(parts.secrets.redactor, this.#turns);
    this.#reader = new FrameReader(
      responseBytes,
      () =>
        new FrameError(
          `A received message has more than ${responseBytes} bytes (egress.responseBytes)`,
          CLOSE_CODES.tooBig,
        ),
    );
    this.#timer = setTimeout(
      () => this.#fail(networkError(`the WebSocket was not open within ${timeoutMs} ms (egress.timeoutMs)`)),
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
    const { policy, asked, secrets, connections } = this.#parts;
    const { signal } = this.#abort;
    const url = URL.parse(text);
    if (url === null) throw new ToolError("PARAM_INVALID", "Expected an absolute URL");
    const addresses = checkTarget(url, "GET", policy, asked);
    checkHeaders(headers);
    checkHandshakeHeaders(headers);
    const filler = new RequestFiller(secrets, url, this.#turns);
    const path = await filler.path();
    const filled = await filler.headers(headers);
    checkHeaders(filled);
    const client = await connections.take(url, addresses, signal);
    signal.throwIfAborted();
    try {
      const sent = { path, headers: withTrace(filled, headersTo?.(url) ?? []), stated: headers, signal };
      const { socket, protocol } = await upgrade(client, sent);
      this.#accept(socket, url);
      signal.throwIfAborted();
      return protocol;
    } finally {
      // The socket is no longer the client's, which would open another one.
      connections.drop(client);
    }
  }

  #accept(socket: Socket, url: URL): void {
    clearTimeout(this.#timer);
    if (this.#isOver) {
      socket.destroy();
      return;
    }
    const { policy, secrets } = this.#parts;
    socket.setTimeout(0);
    socket.setNoDelay(true);
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#writer = new MessageWriter({ secrets, url, maxBytes: policy.requestBytes, turns: this.#turns });
  }

  /** Resolves when the network has room for more. Parts are sent in the order in which they came. */
  send(part: MessagePart): Promise<null> {
    return this.#inOrder(async () => {
      if (this.#writer === undefined) throw new ToolError("PARAM_INVALID", "The WebSocket is not open");
      for await (const frame of this.#writer.frames(part)) {
        if (this.#hasSentClose) return;
        await this.#write(frame);
        if (this.#isClosing && !this.#hasSentClose && !this.#isOver) this.#startTimer();
      }
    });
  }

  /** Begins the closing handshake, after all that was sent before. */
  close(code: number | undefined, reason: string): Promise<null> {
    return this.#inOrder(async () => {
      if (this.#hasSentClose || this.#socket === undefined) return;
      this.#isClosing = true;
      this.#startTimer();
      await this.#sendClose(code, reason);
    });
  }

  /** Says that the tool wants to close it, while what it has sent before is still on its way: the network has to take that by and by. */
  closing(): null {
    if (this.#isClosing || this.#hasSentClose || this.#socket === undefined || this.#isOver) return null;
    this.#isClosing = true;
    this.#startTimer();
    return null;
  }

  /** The time that is left until the next step of the closing: another part taken, or the server's answer. */
  #startTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end({ code: ABNORMAL, reason: "", wasClean: false }), CLOSE_MS);
  }

  #inOrder(work: () => Promise<void>): Promise<null> {
    const run = async (): Promise<null> => {
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver) return null;
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

  /** Resolves with what has arrived, as soon as that is something. Answers come in the order of their requests. */
  receive(): Promise<Received> {
    const running = this.#receiving.then(() => this.#receive());
    this.#receiving = running.catch(() => {});
    return running;
  }

  /** Closes the connection at once. A second call is a no-op. */
  cancel(): void {
    this.#fail(networkError("it was cancelled"));
  }

  async #receive(): Promise<Received> {
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
      // What ended it while this waited is the reason, and not what the wait came to.
      if (this.#closed !== undefined) return { messages: [], closed: this.#closed };
      throw await this.#failWith(thrown);
    }
  }

  /** Reads until there is something to tell: parts of messages, or the end. */
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
      // A server that sends nothing but pings and reads no pongs is not read any more.
      if (isPinged) await pong;
      const { done, value } = await chunks.next();
      if (done !== true) this.#traffic.count("received", value.length);
      if (done === true) return { parts, close: { code: ABNORMAL, reason: "", wasClean: false } };
      this.#reader.push(value);
    }
  }

  /** Parses what has arrived, over several turns of the event loop where that is much. Returns how the server closes, if it does. */
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
    if (this.#reader.waitingBytes > AT_ONCE_BYTES) await runTimeSliced(step, this.#abort.signal, this.#parts.payer);
    else while (!step());
    return close;
  }

  /** @param isLate what came before is told first, and a violation the next time */
  #nextFrame(isLate: boolean): Frame | undefined {
    if (this.#violation !== undefined) throw this.#violation;
    try {
      return this.#reader.next();
    } catch (violation) {
      this.#violation = violation;
      if (isLate) return undefined;
      throw violation;
    }
  }

  /** One pong at a time is on its way; behind a server that does not read, the next one answers the last ping that came meanwhile. */
  #answerPing(): Promise<void> {
    const ping = this.#ping;
    if (this.#pong === undefined && ping !== undefined && !this.#hasSentClose) {
      this.#ping = undefined;
      this.#pong = this.#write(encodeFrame(OPCODES.pong, ping))
        .catch(() => {})
        .finally(() => {
          this.#pong = undefined;
          if (!this.#isOver) void this.#answerPing();
        });
    }
    return this.#pong ?? Promise.resolve();
  }

  /** Resolves when there is room for more, or the connection is over. */
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
      // It has answered in time: what it does with its connection makes the end no less clean.
      clearTimeout(this.#timer);
      await this.#shutDown(close.code === NO_CODE ? undefined : close.code);
    }
    const [reason = ""] = await this.#parts.secrets.redactor.texts([close.reason], this.#turns);
    return this.#end({ ...close, reason });
  }

  /** Tells the server why the connection is given up, where it is the server that broke a rule. */
  async #failWith(thrown: unknown): Promise<ToolError> {
    if (!(thrown instanceof FrameError)) return this.#fail(thrown);
    await this.#shutDown(thrown.closeCode);
    if (thrown.closeCode === CLOSE_CODES.tooBig) return this.#fail(new ToolError("QUOTA_EXCEEDED", thrown.message));
    return this.#fail(networkError(`the server broke the WebSocket protocol: ${thrown.message}`));
  }

  /** Sends the last frame, and drops what the server sends until it closes the connection, which it has {@link CLOSE_MS} to do. */
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
      // A connection that breaks now is closed too.
    } finally {
      clearTimeout(timer);
    }
  }

  /** The first end is the connection's. */
  #end(close: SocketClose): SocketClose {
    if (this.#closed !== undefined) return this.#closed;
    this.#closed = close;
    this.#finish();
    return close;
  }

  #fail(thrown: unknown): ToolError {
    if (this.#failure !== undefined) return this.#failure;
    const failure = toExchangeError(thrown);
    if (this.#isOver) return failure;
    this.#failure = failure;
    this.#finish();
    return failure;
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#abort.abort(this.#failure ?? networkError("it is closed"));
    this.#socket?.destroy();
    this.#onOver();
  }
}

type DataFrame = Extract<Frame, { readonly kind: "data" }>;
