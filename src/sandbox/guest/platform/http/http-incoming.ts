// IncomingMessage of node:http: the response of a request, whose body is read from an exchange, or a message that a package constructs.
import { inContext } from "../../timers.ts";
import { Buffer } from "../buffer/node-buffer.ts";
import type { BodySource } from "../fetch/fetch-body.ts";
import { nextTick } from "../process/node-process.ts";
import { adoptable } from "../shared/callable-classes.ts";
import { Readable } from "../streams/node-stream.ts";
import { type HeaderPair, type Headers, joinHeaders, listHeaders } from "./http-headers.ts";

interface MessageSocket {
  readonly destroyed: boolean;
  destroy(error?: unknown): unknown;
  setTimeout(ms: unknown): unknown;
}

/** Reads the body of a response. `next` resolves with undefined at the end. */
export type ResponseBody = Pick<BodySource, "next">;

/** Parts of a response. */
export interface ResponseParts {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly HeaderPair[];
  readonly joinsDuplicates: boolean;
  readonly body: ResponseBody | undefined;
  /** Called when a part has been received. */
  readonly onPart: (bytes: number) => void;
  /** Called when the body breaks off. */
  readonly onFailure: (error: unknown) => void;
}

/** Fills a message with a response. */
export let respond: (message: IncomingMessage, parts: ResponseParts) => void;

export class IncomingMessage extends adoptable(Readable) {
  headers: Headers = {};
  rawHeaders: string[] = [];
  trailers: Headers = {};
  readonly rawTrailers: string[] = [];
  httpVersion = "1.1";
  httpVersionMajor = 1;
  httpVersionMinor = 1;
  method: string | null = null;
  url = "";
  statusCode: number | null = null;
  statusMessage: string | null = null;
  complete = false;
  aborted = false;
  upgrade: boolean | null = null;
  req: unknown;
  socket: MessageSocket | null | undefined;
  _dumped = false;
  #parts: ResponseParts | undefined;
  #isReading = false;

  static {
    respond = (message, parts) => {
      const { status, statusText, headers, joinsDuplicates } = parts;
      message.statusCode = status;
      message.statusMessage = statusText;
      message.rawHeaders = headers.flat();
      message.headers = joinHeaders(message.rawHeaders, joinsDuplicates);
      message.#parts = parts;
    };
  }

  constructor(socket?: MessageSocket) {
    super();
    this.socket = socket;
  }

  get connection(): unknown {
    return this.socket;
  }
  get client(): unknown {
    return this.socket;
  }
  get headersDistinct(): { [name: string]: string[] } {
    return listHeaders(this.rawHeaders);
  }
  get trailersDistinct(): { [name: string]: string[] } {
    return listHeaders(this.rawTrailers);
  }

  setTimeout(ms: unknown, callback?: unknown): this {
    if (typeof callback === "function") this.on("timeout", callback as () => void);
    this.socket?.setTimeout(ms);
    return this;
  }

  override _read(): void {
    if (this.#parts === undefined || this.#isReading) return;
    const { body } = this.#parts;
    if (body === undefined) this.#end();
    else this.#readPart(body, this.#parts);
  }

  #readPart(body: ResponseBody, { onPart, onFailure }: ResponseParts): void {
    this.#isReading = true;
    body.next().then(
      inContext((bytes: Uint8Array | undefined) => {
        this.#isReading = false;
        if (this.destroyed) return;
        if (bytes === undefined) {
          this.#end();
          return;
        }
        onPart(bytes.byteLength);
        if (bytes.byteLength === 0) this._read();
        else this.push(Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength));
      }),
      inContext((error: unknown) => {
        if (!this.destroyed) onFailure(error);
      }),
    );
  }

  #end(): void {
    this.#parts = undefined;
    this.complete = true;
    this.push(null);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.readableEnded || !this.complete) {
      this.aborted = true;
      this.emit("aborted");
      if (this.socket?.destroyed === false) this.socket.destroy(error);
    }
    // As in Node, an error without a listener is not thrown.
    nextTick(() => done(this.listenerCount("error") === 0 ? null : error));
  }

  /** Discards the body, by Node's name. */
  _dump(): void {
    if (this._dumped) return;
    this._dumped = true;
    // Data that was already buffered would still be emitted.
    this.removeAllListeners("data");
    this.resume();
  }
}
