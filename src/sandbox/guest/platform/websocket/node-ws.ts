// The client of the npm package `ws`, over the platform's WebSocket. The bundler uses it instead of the package's own client, which needs
// sockets. Operations that a tool cannot perform, such as a ping, are emulated here.
import { queueTask } from "../../timers.ts";
import { Buffer } from "../buffer/node-buffer.ts";
import { EventEmitter } from "../events/node-events.ts";
import { defineConstants } from "../shared/webidl.ts";
import { WebSocket as PlatformWebSocket, terminateWebSocket } from "./websocket.ts";

const STATES = { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 } as const;
const BINARY_TYPES = ["nodebuffer", "arraybuffer", "fragments", "blob"];

interface Options {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly protocols?: unknown;
  readonly origin?: string;
  readonly handshakeTimeout?: number;
}
type Done = ((error?: Error) => void) | undefined;
type Listener = ((event: unknown) => void) | { handleEvent(event: unknown): void };

/** Members of the platform's events that listeners of `addEventListener` read. */
interface PlatformEvent {
  readonly data: unknown;
  readonly code: number;
  readonly reason: string;
  readonly error: unknown;
  readonly message: string;
}

function toError({ error, message }: PlatformEvent): Error {
  return error instanceof Error ? error : new Error(message);
}

function toSettings(given: unknown, options: Options | undefined): object {
  const isOptions = typeof given === "object" && given !== null && !Array.isArray(given);
  const { headers = {}, origin, protocols } = (isOptions ? given : (options ?? {})) as Options;
  const protocolList = isOptions || given === undefined || given === null ? protocols : given;
  const own = origin === undefined ? {} : { origin };
  return { protocols: protocolList ?? [], headers: { ...headers, ...own } };
}

export class WebSocket extends EventEmitter {
  readonly #socket: PlatformWebSocket;
  /** Wrapped listeners, by type and original listener. */
  readonly #wrapped = new Map<string, Map<Listener, (...args: readonly unknown[]) => void>>();
  readonly #handlers = new Map<string, Listener>();
  #binaryType = "nodebuffer";
  #isPaused = false;
  #waiting: (() => void)[] = [];

  constructor(address: unknown, protocols?: unknown, options?: Options) {
    super();
    const socket = new PlatformWebSocket(address, toSettings(protocols, options));
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.emit("open");
    socket.onmessage = ({ data }: PlatformEvent) => this.#whenFlowing(() => this.#receive(data));
    socket.onerror = (event: PlatformEvent) => this.#whenFlowing(() => this.emit("error", toError(event)));
    socket.onclose = ({ code, reason }: PlatformEvent) =>
      this.#whenFlowing(() => this.emit("close", code, Buffer.from(reason)));
  }

  get url(): string {
    return this.#socket.url;
  }
  get protocol(): string {
    return this.#socket.protocol;
  }
  get extensions(): string {
    return this.#socket.extensions;
  }
  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }
  get readyState(): number {
    return this.#socket.readyState;
  }
  get isPaused(): boolean {
    return this.#isPaused;
  }
  get binaryType(): string {
    return this.#binaryType;
  }
  set binaryType(type: string) {
    if (BINARY_TYPES.includes(type)) this.#binaryType = type;
  }

  get onopen(): unknown {
    return this.#handler("open");
  }
  set onopen(handler: unknown) {
    this.#setHandler("open", handler);
  }
  get onmessage(): unknown {
    return this.#handler("message");
  }
  set onmessage(handler: unknown) {
    this.#setHandler("message", handler);
  }
  get onerror(): unknown {
    return this.#handler("error");
  }
  set onerror(handler: unknown) {
    this.#setHandler("error", handler);
  }
  get onclose(): unknown {
    return this.#handler("close");
  }
  set onclose(handler: unknown) {
    this.#setHandler("close", handler);
  }

  send(data: unknown, options?: unknown, done?: Done): void {
    const settled = (typeof options === "function" ? options : done) as Done;
    const { binary = typeof data !== "string" } = (typeof options === "object" ? (options ?? {}) : {}) as {
      readonly binary?: boolean;
    };
    if (this.readyState === STATES.CONNECTING) {
      throw new Error("WebSocket is not open: readyState 0 (CONNECTING)");
    }
    if (this.readyState !== STATES.OPEN) {
      const error = new Error(`WebSocket is not open: readyState ${this.readyState}`);
      if (settled !== undefined) queueTask(() => settled(error));
      return;
    }
    const given = typeof data === "number" ? String(data) : data;
    if (binary) this.#socket.send(typeof given === "string" ? Buffer.from(given) : given);
    else this.#socket.send(typeof given === "string" ? given : Buffer.from(given as Uint8Array).toString());
    if (settled !== undefined) queueTask(() => settled());
  }

  close(code?: number, data?: unknown): void {
    this.#socket.close(code, data === undefined ? undefined : String(data));
  }

  terminate(): void {
    terminateWebSocket(this.#socket);
  }

  /** A tool cannot send control frames. While the connection is open, the pong is emulated. */
  ping(data?: unknown, mask?: unknown, done?: Done): void {
    this.#acknowledge([data, mask, done]);
    const payload = typeof data === "function" || data === undefined ? "" : data;
    queueTask(() => {
      if (this.readyState === STATES.OPEN) this.emit("pong", Buffer.from(payload as string));
    });
  }

  pong(...args: readonly unknown[]): void {
    this.#acknowledge(args);
  }

  #acknowledge(args: readonly unknown[]): void {
    const done = args.find((argument) => typeof argument === "function") as Done;
    if (done !== undefined) queueTask(() => done());
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    for (const run of this.#waiting.splice(0)) queueTask(() => this.#whenFlowing(run));
  }

  #whenFlowing(run: () => void): void {
    if (this.#isPaused) this.#waiting.push(run);
    else run();
  }

  #receive(data: unknown): void {
    if (typeof data === "string") {
      this.emit("message", Buffer.from(data), false);
      return;
    }
    const buffer = data as ArrayBuffer;
    this.emit("message", this.#toBinary(buffer), true);
  }

  #toBinary(buffer: ArrayBuffer): unknown {
    if (this.#binaryType === "arraybuffer") return buffer;
    if (this.#binaryType === "fragments") return [Buffer.from(buffer)];
    if (this.#binaryType === "blob") return new Blob([buffer]);
    return Buffer.from(buffer);
  }

  #handler(type: string): unknown {
    return this.#handlers.get(type) ?? null;
  }

  #setHandler(type: string, handler: unknown): void {
    const known = this.#handlers.get(type);
    if (known !== undefined) this.removeEventListener(type, known);
    this.#handlers.delete(type);
    if (typeof handler !== "function") return;
    this.#handlers.set(type, handler as Listener);
    this.addEventListener(type, handler as Listener);
  }

  addEventListener(type: string, listener: Listener, options: { readonly once?: boolean } = {}): void {
    const known = this.#wrapped.get(type) ?? new Map();
    this.#wrapped.set(type, known);
    if (known.has(listener)) return;
    const wrapped = (...args: readonly unknown[]): void => {
      if (options.once) this.removeEventListener(type, listener);
      const event = { type, target: this, ...detailOf(type, args) };
      if (typeof listener === "function") listener.call(this, event);
      else listener.handleEvent(event);
    };
    known.set(listener, wrapped);
    this.on(type, wrapped);
  }

  removeEventListener(type: string, listener: Listener): void {
    const wrapped = this.#wrapped.get(type)?.get(listener);
    if (wrapped === undefined) return;
    this.#wrapped.get(type)?.delete(listener);
    this.removeListener(type, wrapped);
  }
}

/** Builds the event of a web listener from the arguments of an `on` listener. */
function detailOf(type: string, [first, second]: readonly unknown[]): object {
  if (type === "message") return { data: second === true ? first : String(first) };
  if (type === "close") return { code: first, reason: String(second), wasClean: first !== 1_006 };
  if (type === "error") return { error: first, message: (first as Error).message };
  return {};
}

defineConstants(WebSocket, STATES);

/** Name under which the bundler requests the client. No import can have this name. */
export const builtins = { "#ws-client": WebSocket };
