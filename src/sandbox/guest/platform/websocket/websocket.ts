// WebSocket (WHATWG, WebSockets standard) over the capability `fetch`. The host connects, under its rules for requests.

import { describeValue } from "../../error-text.ts";
import { openFetchChannel } from "../../fetch-channel.ts";
import { writeLazily } from "../../log-lines.ts";
import { createDomException } from "../../module-loader.ts";
import { addPlatformType } from "../../platform-types.ts";
import { CloseEvent } from "../events/close-event.ts";
import { defineHandlers, dispatch, Event, EventTarget, hasListeners } from "../events/events.ts";
import { ErrorEvent, MessageEvent } from "../events/messaging.ts";
import { blobs, urls } from "../fetch/fetch-platform.ts";
import { blockedPort } from "../fetch/fetch-ports.ts";
import { bytesOf, defineConstants, defineInterface, requireArguments, toClampedInteger } from "../shared/webidl.ts";
import { type Close, Link } from "./websocket-link.ts";

export { CloseEvent };

const STATES = { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 } as const;
const ABNORMAL: Close = { code: 1_006, reason: "", wasClean: false };
const MAX_REASON_BYTES = 123;
/** Limit on unsent bytes. A tool that sends more than its connection transfers gets an error before it reaches its memory limit. */
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024;
const TOKEN = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

declare function require(file: "../fetch/fetch.ts"): {
  readonly Headers: new (init: unknown) => Iterable<[string, string]>;
};

const syntaxError = (message: string): Error => createDomException(message, "SyntaxError");

interface Target {
  /** URL that the object exposes, with the scheme ws or wss. */
  readonly href: string;
  readonly origin: string;
  /** URL of the request to the host, with the scheme http or https. */
  readonly requestHref: string;
}

function toTarget(value: unknown): Target {
  const text = `${value as string}`.toWellFormed();
  const shown = JSON.stringify(text.slice(0, 200));
  let url: URL;
  try {
    url = new (urls().URL)(text) as unknown as URL;
  } catch {
    throw syntaxError(`WebSocket expected an absolute URL, got ${shown}`);
  }
  if (url.protocol === "http:") url.protocol = "ws:";
  else if (url.protocol === "https:") url.protocol = "wss:";
  if (url.protocol !== "ws:" && url.protocol !== "wss:") {
    throw syntaxError(`WebSocket expected a URL with the scheme ws, wss, http or https, got ${shown}`);
  }
  const { href, origin } = url;
  if (href.includes("#")) throw syntaxError(`WebSocket expected a URL without a fragment, got ${shown}`);
  return { href, origin, requestHref: href.replace(/^ws/, "http") };
}

interface Settings {
  readonly protocols: readonly string[];
  readonly headers: readonly (readonly [string, string])[];
}

/** Accepts a protocol, a list of protocols or, as in Node, an object with `protocols` and `headers`. */
function toSettings(value: unknown): Settings {
  const toList = (given: unknown): readonly string[] => {
    if (given === undefined) return [];
    const isList = typeof given === "object" && given !== null && Symbol.iterator in given;
    return isList ? Array.from(given as Iterable<unknown>, (each) => `${each as string}`) : [`${given as string}`];
  };
  const isObject = typeof value === "object" && value !== null && !(Symbol.iterator in value);
  if (!isObject) return { protocols: toList(value), headers: [] };
  const { protocols, headers } = value as { readonly protocols?: unknown; readonly headers?: unknown };
  const list =
    headers === undefined || headers === null ? [] : [...new (require("../fetch/fetch.ts").Headers)(headers)];
  return { protocols: toList(protocols), headers: list };
}

function checkProtocols(protocols: readonly string[]): void {
  const known = new Set<string>();
  for (const protocol of protocols) {
    const shown = JSON.stringify(protocol.slice(0, 100));
    if (!TOKEN.test(protocol)) throw syntaxError(`WebSocket expected a protocol that is a token, got ${shown}`);
    if (known.has(protocol.toLowerCase())) throw syntaxError(`WebSocket got the protocol ${shown} more than once`);
    known.add(protocol.toLowerCase());
  }
}

function utf8Length(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    // Each half of a surrogate pair counts two of the four bytes.
    if (unit >= 0x80) bytes += unit < 0x800 || (unit & 0xf800) === 0xd800 ? 1 : 2;
  }
  return bytes;
}

let isWebSocket: (value: unknown) => boolean;
/** Terminates an open connection at once, like `terminate` of the package `ws`. A connection that is not open yet is closed. */
export let terminateWebSocket: (socket: WebSocket) => void;

export class WebSocket extends EventTarget {
  static {
    isWebSocket = (value) => typeof value === "object" && value !== null && #target in value;
    terminateWebSocket = (socket) => {
      if (socket.#readyState === STATES.CONNECTING) socket.close();
      if (socket.#readyState === STATES.CLOSED) return;
      socket.#readyState = STATES.CLOSING;
      socket.#link.terminate(ABNORMAL);
    };
  }

  declare onopen: unknown;
  declare onmessage: unknown;
  declare onerror: unknown;
  declare onclose: unknown;

  readonly #target: Target;
  readonly #link: Link;
  #readyState: number = STATES.CONNECTING;
  #protocol = "";
  #binaryType: "blob" | "arraybuffer" = "blob";
  #bufferedAmount = 0;
  /** True if the tool has closed the connection before it was open. This is not logged as a failure. */
  #isGivenUp = false;

  constructor(url: unknown, protocols: unknown = undefined) {
    requireArguments("WebSocket", 1, arguments.length);
    super();
    const target = toTarget(url);
    const settings = toSettings(protocols);
    checkProtocols(settings.protocols);
    this.#target = target;
    this.#link = new Link(openFetchChannel(), {
      onOpen: (protocol) => this.#open(protocol),
      onMessage: (data) => this.#receive(data),
      onSent: (bytes) => {
        this.#bufferedAmount -= bytes;
      },
      onClose: (close) => this.#end(close),
      onFailure: (error) => this.#fail(error),
    });
    const port = blockedPort(target.requestHref);
    if (port !== undefined) {
      this.#link.fail(new TypeError(`Port ${port} is blocked by the Fetch standard`));
      return;
    }
    const protocolHeaders =
      settings.protocols.length === 0 ? [] : [["sec-websocket-protocol", settings.protocols.join(", ")]];
    void this.#link.run(target.requestHref, [...settings.headers, ...(protocolHeaders as [string, string][])]);
  }

  get url(): string {
    return this.#target.href;
  }
  get readyState(): number {
    return this.#readyState;
  }
  get bufferedAmount(): number {
    return this.#bufferedAmount;
  }
  get extensions(): string {
    return "";
  }
  get protocol(): string {
    return this.#protocol;
  }
  get binaryType(): string {
    return this.#binaryType;
  }
  set binaryType(value: unknown) {
    const type = `${value as string}`;
    if (type === "blob" || type === "arraybuffer") this.#binaryType = type;
  }

  send(data: unknown): void {
    requireArguments("send", 1, arguments.length);
    const source = blobs().isBlob(data) ? blobs().blobBytes(data) : bytesOf(data);
    const message = source === undefined ? `${data as string}`.toWellFormed() : source;
    if (this.#readyState === STATES.CONNECTING) {
      throw createDomException("The WebSocket is not open yet: wait for its open event", "InvalidStateError");
    }
    const bytes = typeof message === "string" ? utf8Length(message) : message.byteLength;
    this.#bufferedAmount += bytes;
    if (this.#readyState !== STATES.OPEN) return;
    if (this.#bufferedAmount > MAX_BUFFERED_BYTES) {
      this.#readyState = STATES.CLOSING;
      this.#link.fail(
        new RangeError(
          `More than ${MAX_BUFFERED_BYTES} bytes are waiting to be sent; check bufferedAmount before sending`,
        ),
      );
    } else this.#link.send(typeof message === "string" ? message : message.slice(), bytes);
  }

  close(code: unknown = undefined, reason: unknown = undefined): void {
    const given = code === undefined ? undefined : Math.min(Math.max(toClampedInteger(code), 0), 0xffff);
    const text = reason === undefined ? "" : `${reason as string}`.toWellFormed();
    if (given !== undefined && given !== 1_000 && (given < 3_000 || given > 4_999)) {
      throw createDomException(
        `close expected the code 1000, or one of 3000 to 4999, got ${given}`,
        "InvalidAccessError",
      );
    }
    if (utf8Length(text) > MAX_REASON_BYTES) {
      throw syntaxError(`close expected a reason of at most ${MAX_REASON_BYTES} bytes`);
    }
    const state = this.#readyState;
    if (state >= STATES.CLOSING) return;
    this.#readyState = STATES.CLOSING;
    // A close frame with a reason needs a code.
    if (state === STATES.OPEN) this.#link.close(given ?? (text === "" ? undefined : 1_000), text);
    else {
      this.#isGivenUp = true;
      this.#link.fail(new Error("The WebSocket was closed before it was open"));
    }
  }

  #open(protocol: string): void {
    if (this.#readyState !== STATES.CONNECTING) return;
    this.#readyState = STATES.OPEN;
    this.#protocol = protocol;
    dispatch(this, new Event("open"), true);
  }

  #receive(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.#readyState !== STATES.OPEN) return;
    const { origin } = this.#target;
    const shown =
      typeof data === "string" ? data : this.#binaryType === "blob" ? new (blobs().Blob)([data]) : data.buffer;
    dispatch(this, new MessageEvent("message", { data: shown, origin }), true);
  }

  #end(close: Close): void {
    this.#readyState = STATES.CLOSED;
    dispatch(this, new CloseEvent("close", close), true);
  }

  /** The standard's error event has no details. This one has the error, as in Node. */
  #fail(error: unknown): void {
    this.#readyState = STATES.CLOSED;
    const { message = describeValue(error) } = (error ?? {}) as { readonly message?: string };
    if (hasListeners(this, "error")) dispatch(this, new ErrorEvent("error", { error, message }), true);
    else if (!this.#isGivenUp) writeLazily("error", () => `The WebSocket to ${this.#target.origin} failed: ${message}`);
    this.#end(ABNORMAL);
  }
}

defineConstants(WebSocket, STATES);
defineHandlers(WebSocket, ["open", "message", "error", "close"]);
defineInterface("WebSocket", WebSocket);
// A WebSocket cannot be cloned or transferred.
addPlatformType({ owns: isWebSocket });
