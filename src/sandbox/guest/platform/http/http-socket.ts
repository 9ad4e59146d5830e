// The socket of a request of node:http. It stands for the exchange with the server: packages set its timeout, destroy it, and listen to it.
// It carries no data.
import { now } from "../../coarse-time.ts";
import { queueTask } from "../../timers.ts";
import { EventEmitter } from "../events/node-events.ts";
import { nextTick } from "../process/node-process.ts";
import { checkFunction, checkNumber, outOfRange } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";

const { setTimeout, clearTimeout } = globalThis as unknown as {
  setTimeout(run: () => void, delay: number): number;
  clearTimeout(id: number | undefined): void;
};

/** Longest timeout in ms, as in Node. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Converts the ms of a timeout. */
export function toTimeout(value: unknown, name: string): number {
  checkNumber(value, name);
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) throw outOfRange(name, "a non-negative finite number", value);
  return Math.min(value, MAX_TIMEOUT_MS);
}

const ignoreData = (): void => {};

export class ExchangeSocket extends EventEmitter {
  readonly connecting = false;
  readonly pending = false;
  readonly encrypted: boolean | undefined;
  readonly authorized: boolean | undefined;
  readonly alpnProtocol = false;
  readonly remoteAddress = undefined;
  readonly remotePort = undefined;
  readonly localAddress = undefined;
  readonly localPort = undefined;
  readyState = "open";
  destroyed = false;
  readable = true;
  writable = true;
  bytesRead = 0;
  bytesWritten = 0;
  timeout = 0;
  /** The request, by Node's name. */
  _httpMessage: unknown = null;
  readonly #onDestroy: (error: unknown) => void;
  #timer: number | undefined;
  #activeAt = 0;

  /** @param onDestroy ends the exchange */
  constructor(isSecure: boolean, onDestroy: (error: unknown) => void) {
    super();
    this.encrypted = isSecure ? true : undefined;
    this.authorized = this.encrypted;
    this.#onDestroy = onDestroy;
    // Packages remove and add it as a listener of "timeout".
    this.destroy = this.destroy.bind(this);
    // node-fetch checks whether a response has ended by this listener, which Node's client has until then.
    this.on("data", ignoreData);
  }

  /** Emits `timeout` when no data was sent or received for `delay` ms. */
  setTimeout(delay: unknown, callback?: unknown): this {
    const ms = toTimeout(delay, "msecs");
    if (callback !== undefined) checkFunction(callback, "callback");
    this.timeout = ms;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (ms > 0 && !this.destroyed) {
      this.#activeAt = now();
      this.#startTimer(ms);
      if (callback !== undefined) this.once("timeout", callback);
    } else if (callback !== undefined) this.removeListener("timeout", callback);
    return this;
  }

  #startTimer(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const left = this.#activeAt + this.timeout - now();
      if (left > 0) this.#startTimer(left);
      else this.emit("timeout");
    }, ms);
  }

  /** Records that data was sent or received. */
  touch(): void {
    this.#activeAt = now();
    if (this.timeout > 0 && this.#timer === undefined && !this.destroyed) this.#startTimer(this.timeout);
  }

  /** Ends the use of the socket by an exchange that is complete. */
  release(): void {
    this.timeout = 0;
    clearTimeout(this.#timer);
    this.removeListener("data", ignoreData);
    this._httpMessage = null;
  }

  destroy(error?: unknown): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    this.readable = false;
    this.writable = false;
    this.readyState = "closed";
    clearTimeout(this.#timer);
    this.#onDestroy(error);
    if (error !== undefined && error !== null) nextTick(() => this.emit("error", error));
    // As in Node, the connection is closed in a later turn of the event loop.
    queueTask(() => this.emit("close", error !== undefined && error !== null));
    return this;
  }

  destroySoon(): void {
    this.destroy();
  }
  address(): object {
    return {};
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  cork(): void {}
  uncork(): void {}
  pause(): this {
    return this;
  }
  resume(): this {
    return this;
  }
}

addUnsupported(
  ExchangeSocket.prototype,
  "socket",
  "a tool has no sockets; use the request and its response",
  "connect end getCipher getPeerCertificate getProtocol getSession pipe read renegotiate write",
);
