// One request of the npm package undici, sent as a request of node:http, whose response is read for undici's handler.
import { Buffer } from "../buffer/node-buffer.ts";
import type { EventEmitter } from "../events/node-events.ts";
import { unsupported } from "../shared/node-error.ts";
import type { ClientRequest } from "./http-client.ts";
import type { IncomingMessage } from "./http-incoming.ts";

interface HttpModule {
  request(options: object): ClientRequest;
}

declare function require(file: "./node-http.ts"): {
  readonly builtins: { readonly http: HttpModule; readonly https: HttpModule };
};

declare function require(file: "../streams/node-stream.ts"): {
  readonly PassThrough: new () => AsyncIterable<Uint8Array> & {
    write(chunk: unknown): unknown;
    end(): unknown;
    destroy(error: unknown): unknown;
  };
};

interface LegacyStream extends EventEmitter {
  resume?(): void;
}

/** Streams of old packages, such as form-data, have no iterator. */
const isLegacy = (body: unknown): body is LegacyStream =>
  typeof body === "object" && body !== null && !(Symbol.asyncIterator in body) && "pipe" in body;

function toIterable(body: unknown): AsyncIterable<Uint8Array> {
  if (!isLegacy(body)) return body as AsyncIterable<Uint8Array>;
  const { PassThrough } = require("../streams/node-stream.ts");
  const through = new PassThrough();
  body.on("error", (error) => through.destroy(error));
  body.on("data", (chunk) => void through.write(chunk));
  body.on("end", () => void through.end());
  body.resume?.();
  return through;
}

const { setTimeout, clearTimeout } = globalThis as unknown as {
  setTimeout(run: () => void, delay: number): number;
  clearTimeout(id: number | undefined): void;
};

/** Time in ms that undici waits for the head of a response, and for each part of its body. */
const DEFAULT_TIMEOUT_MS = 300_000;

/** Callbacks of undici's own request, which calls the handlers of its users: in version 8, and in earlier ones. */
const CALLBACKS = {
  start: ["onRequestStart", "onConnect"],
  head: ["onResponseStart", "onHeaders"],
  data: ["onResponseData", "onData"],
  end: ["onResponseEnd", "onComplete"],
  fail: ["onResponseError", "onError"],
} as const;

export type Callback = (...args: readonly unknown[]) => unknown;

/** The members of undici's request that are read here. */
interface UndiciRequest {
  readonly method: string;
  readonly path: string;
  readonly host: string | null;
  readonly upgrade?: string | null;
  /** Names and values in turns, or lines of HTTP in version 5. */
  readonly headers: string | readonly (string | readonly string[])[];
  readonly contentLength: number | null;
  readonly contentType: string | null;
  readonly body: unknown;
  readonly aborted: boolean;
  readonly completed: boolean;
  readonly headersTimeout?: number | null;
  readonly bodyTimeout?: number | null;
  onBodySent?(chunk: unknown): void;
  onRequestSent?(): void;
  onResponseStarted?(): void;
}

type NewError = new (message?: string) => Error;

/** The modules of the package that are used here. */
export interface PackageParts {
  readonly Request: new (origin: string, options: object, handler: object) => UndiciRequest;
  readonly symbols: Readonly<Record<string, symbol>>;
  readonly errors: Readonly<Record<string, NewError>>;
  readonly util: {
    isFormDataLike(value: unknown): boolean;
    isBlobLike(value: unknown): value is { arrayBuffer(): Promise<ArrayBuffer> };
    isStream(value: unknown): boolean;
    destroy(stream: unknown, error: unknown): void;
  };
  /** Only where a request keeps its form. */
  extractBody?(form: unknown): readonly [{ readonly stream: AsyncIterable<Uint8Array> }, string];
}

export type UndiciClient = EventEmitter & Record<symbol, unknown>;

export interface UndiciOrigin {
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
  readonly origin: string;
}

const callback = (request: UndiciRequest, name: keyof typeof CALLBACKS, ...args: readonly unknown[]): unknown => {
  const [current, earlier] = CALLBACKS[name];
  const callbacks = request as unknown as Record<string, Callback | undefined>;
  return (callbacks[current] ?? callbacks[earlier])?.apply(request, [...args]);
};

function headersOf({ headers, host }: UndiciRequest): [string, string][] {
  const pairs: [string, string][] = host === null ? [] : [["host", host]];
  if (typeof headers === "string") {
    for (const line of headers.split("\r\n")) {
      const colon = line.indexOf(":");
      if (colon > 0) pairs.push([line.slice(0, colon), line.slice(colon + 1).trim()]);
    }
    return pairs;
  }
  for (let index = 0; index < headers.length; index += 2) {
    const value = headers[index + 1] ?? "";
    for (const one of Array.isArray(value) ? value : [value]) pairs.push([String(headers[index]), String(one)]);
  }
  return pairs;
}

/** Names and values as undici's parser gives them. */
const toRaw = (texts: readonly string[]): Buffer[] => texts.map((text) => Buffer.from(text, "latin1"));

/** Waits until a request takes more of its body, or has ended. */
function drained(outgoing: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.removeListener("drain", done);
      outgoing.removeListener("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
  });
}

/** One request, from its dispatch to its last callback. */
export class UndiciExchange {
  readonly #client: UndiciClient;
  readonly #request: UndiciRequest;
  readonly #parts: PackageParts;
  readonly #onEnd: () => void;
  #outgoing: ClientRequest | undefined;
  #timer: number | undefined;
  #isOver = false;

  constructor(client: UndiciClient, request: UndiciRequest, parts: PackageParts, onEnd: () => void) {
    this.#client = client;
    this.#request = request;
    this.#parts = parts;
    this.#onEnd = onEnd;
  }

  start(): void {
    if (this.#isOver) return;
    const request = this.#request;
    const abort = (error?: unknown): void => this.fail(error ?? this.#newError("RequestAbortedError"));
    this.#attempt(() => {
      callback(request, "start", abort, null);
      if (this.#isOver || request.aborted) return this.fail(this.#newError("RequestAbortedError"));
      if (request.method === "CONNECT" || request.upgrade)
        throw unsupported(`undici with ${request.upgrade ? "upgrade" : "CONNECT"}`, "a tool has no sockets");
      this.#send();
    });
  }

  #send(): void {
    const { protocol, hostname, port } = this.#client[this.#symbol("kUrl")] as unknown as UndiciOrigin;
    const { method, path } = this.#request;
    const [body, headers] = this.#readBody();
    const { builtins } = require("./node-http.ts");
    const { request } = protocol === "https:" ? builtins.https : builtins.http;
    const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
    const outgoing = request({ protocol, hostname: host, ...(port === "" ? {} : { port }), path, method, headers });
    this.#outgoing = outgoing;
    outgoing.on("error", (error: unknown) => this.fail(this.#toUndiciError(error)));
    outgoing.on("response", (response: unknown) => this.#attempt(() => this.#receive(response as IncomingMessage)));
    this.#waitFor("HeadersTimeoutError", this.#request.headersTimeout ?? this.#client[this.#symbol("kHeadersTimeout")]);
    this.#write(outgoing, body).catch((error: unknown) => this.fail(error));
  }

  /** Returns the body, and the headers with those that follow from it. */
  #readBody(): readonly [unknown, [string, string][]] {
    const { body, contentLength, contentType } = this.#request;
    const headers = headersOf(this.#request);
    if (Buffer.isBuffer(body) && contentLength !== null && contentLength !== body.byteLength)
      throw this.#newError("RequestContentLengthMismatchError");
    const { util, extractBody } = this.#parts;
    if (body !== null && extractBody !== undefined && util.isFormDataLike(body)) {
      const [{ stream }, type] = extractBody(body);
      if (contentType === null) headers.push(["content-type", type]);
      return [stream, headers];
    }
    // The length of a body that is given at once is stated by the host.
    if (contentLength !== null && body !== null && !Buffer.isBuffer(body))
      headers.push(["content-length", String(contentLength)]);
    return [body, headers];
  }

  async #write(outgoing: ClientRequest, body: unknown): Promise<void> {
    const request = this.#request;
    const given = this.#parts.util.isBlobLike(body) ? Buffer.from(await body.arrayBuffer()) : body;
    if (given === null || given === undefined || Buffer.isBuffer(given)) {
      if (this.#isOver) return;
      if (given) request.onBodySent?.(given);
      outgoing.end(...((given ? [given] : []) as never[]));
    } else {
      for await (const chunk of toIterable(given)) {
        if (this.#isOver) return;
        const isAccepted = outgoing.write(chunk);
        request.onBodySent?.(chunk);
        if (!isAccepted) await drained(outgoing as unknown as EventEmitter);
      }
      if (this.#isOver) return;
      outgoing.end();
    }
    request.onRequestSent?.();
  }

  #receive(response: IncomingMessage): void {
    if (this.#isOver) {
      response.destroy();
      return;
    }
    const request = this.#request;
    const maxSize = this.#client[this.#symbol("kMaxResponseSize")] as unknown as number;
    const timeout = request.bodyTimeout ?? this.#client[this.#symbol("kBodyTimeout")];
    let size = 0;
    const wait = (): void => this.#waitFor("BodyTimeoutError", timeout);
    const take = (isWanted: unknown): void => {
      if (isWanted !== false) return;
      // The reader is slow, not the server.
      clearTimeout(this.#timer);
      response.pause();
    };
    const resume = (): void => {
      if (this.#isOver) return;
      wait();
      response.resume();
    };
    response.on("error", (error: unknown) => this.fail(this.#toUndiciError(error)));
    response.on("data", (chunk: Uint8Array) =>
      this.#attempt(() => {
        if (this.#isOver) return;
        size += chunk.byteLength;
        if (maxSize > -1 && size > maxSize) throw this.#newError("ResponseExceededMaxSizeError");
        wait();
        take(callback(request, "data", chunk));
      }),
    );
    response.on("end", () => this.#attempt(() => this.#finish(response)));
    wait();
    request.onResponseStarted?.();
    take(
      callback(request, "head", response.statusCode, toRaw(response.rawHeaders), resume, response.statusMessage ?? ""),
    );
  }

  #finish({ rawTrailers }: IncomingMessage): void {
    if (this.#isOver) return;
    this.#close();
    callback(this.#request, "end", toRaw(rawTrailers));
  }

  /** Ends the request with an error, once. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#close();
    const { body } = this.#request;
    if (this.#parts.util.isStream(body)) this.#parts.util.destroy(body, error);
    this.#outgoing?.destroy();
    try {
      callback(this.#request, "fail", error);
    } catch (thrown) {
      this.#client.emit("error", thrown);
    }
  }

  #close(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#onEnd();
  }

  #attempt(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.fail(error);
    }
  }

  #waitFor(errorName: string, timeout: unknown): void {
    clearTimeout(this.#timer);
    const ms = typeof timeout === "number" ? timeout : DEFAULT_TIMEOUT_MS;
    if (ms > 0) this.#timer = setTimeout(() => this.fail(this.#newError(errorName)), ms);
  }

  #symbol(name: string): symbol {
    return this.#parts.symbols[name] as symbol;
  }

  #newError(name: string, message?: string): Error {
    return new (this.#parts.errors[name] ?? (Error as NewError))(message);
  }

  #toUndiciError(error: unknown): unknown {
    const { code } = error as { readonly code?: unknown };
    return code === "ECONNRESET" ? this.#newError("SocketError", "other side closed") : error;
  }
}
