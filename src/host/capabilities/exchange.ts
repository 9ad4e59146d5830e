// One exchange of a tool with a server: the request with its redirects, each checked from the start, and the response's body in parts.
import type { Readable } from "node:stream";
import type { Client, Dispatcher } from "undici";
import { ToolError } from "../../sandbox/errors.ts";
import type { Connections } from "./connections.ts";
import { checkTarget, type EgressPolicy } from "./egress-policy.ts";
import type { EgressRule } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError, toExchangeError } from "./network-errors.ts";
import { checkRedirects, type Hop, locationOf, redirectOf } from "./redirects.ts";
import { checkRequestBytes, fillBody, fromBase64, Upload, writingOf } from "./request-body.ts";
import { checkHeaders, type HeaderList, headerOf, withDefaults, withTrace } from "./request-headers.ts";
import { readBody } from "./response-body.ts";
import type { CallSecrets } from "./secrets.ts";

export interface ExchangeRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderList;
  readonly body: { readonly base64: string } | { readonly stream: true } | null;
  readonly redirect: "follow" | "error" | "manual";
  /** What the host adds for a server, instead of what the tool has said: asked for each hop. */
  readonly headersTo?: ((url: URL) => HeaderList) | undefined;
}

export interface ResponseHead {
  readonly status: number;
  readonly statusText: string;
  readonly headers: HeaderList;
  readonly url: string;
  readonly redirected: boolean;
  readonly hasBody: boolean;
}

/** What the exchanges of a call share. */
export interface ExchangeParts {
  readonly policy: EgressPolicy;
  readonly asked: readonly EgressRule[] | undefined;
  readonly secrets: CallSecrets;
  readonly connections: Connections;
}

type Part = { readonly base64: string } | { readonly done: true };
const DONE: Part = { done: true };
const BODILESS = new Set([101, 204, 205, 304]);
/** Those that fetch writes in capitals whatever the tool wrote. */
const NORMALIZED = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"]);

const normalize = (method: string): string => (NORMALIZED.has(method.toUpperCase()) ? method.toUpperCase() : method);

/** A header's text is bytes; those of UTF-8 are read as such nowhere but in names of files. */
const toPairs = (raw: Dispatcher.ResponseData["headers"]): HeaderList => {
  const flat = raw as unknown as readonly (string | Buffer)[];
  const text = (index: number): string => {
    const value = flat[index] ?? "";
    return typeof value === "string" ? value : value.toString("latin1");
  };
  return Array.from({ length: flat.length / 2 }, (_, index) => [text(index * 2), text(index * 2 + 1)] as const);
};

/** Ends with its body's last part, with a failure, or when it is cancelled. */
export class Exchange {
  readonly #parts: ExchangeParts;
  readonly #abort = new AbortController();
  readonly #onOver: () => void;
  readonly #timer: NodeJS.Timeout;
  #upload: Upload | undefined;
  /** Made with the request's first hop, or never. */
  readonly #uploadReady = Promise.withResolvers<Upload | undefined>();
  #body: AsyncGenerator<Buffer> | undefined;
  #reading: Promise<Part> = Promise.resolve(DONE);
  #client: Client | undefined;
  #url: URL | undefined;
  #isOver = false;
  #failure: ToolError | undefined;
  #headersTo: ExchangeRequest["headersTo"];

  constructor(parts: ExchangeParts, onOver: () => void) {
    this.#parts = parts;
    this.#onOver = onOver;
    const { timeoutMs } = parts.policy;
    this.#timer = setTimeout(() => this.#fail(networkError(`it was not over within ${timeoutMs} ms`)), timeoutMs);
  }

  /** Resolves with the head of the response that the tool gets. */
  async request(request: ExchangeRequest): Promise<ResponseHead> {
    try {
      this.#headersTo = request.headersTo;
      return await this.#follow(this.#firstHop(request), request.redirect);
    } catch (thrown) {
      throw this.#fail(thrown);
    } finally {
      this.#uploadReady.resolve(this.#upload);
    }
  }

  async write(base64: string): Promise<null> {
    try {
      const chunk = fromBase64(base64);
      if (!this.#isOver) await (await this.#uploadReady.promise)?.write(chunk);
    } catch (thrown) {
      throw this.#fail(thrown);
    }
    if (this.#failure !== undefined) throw this.#failure;
    return null;
  }

  async end(): Promise<null> {
    try {
      if (!this.#isOver) await (await this.#uploadReady.promise)?.end();
    } catch (thrown) {
      throw this.#fail(thrown);
    }
    if (this.#failure !== undefined) throw this.#failure;
    return null;
  }

  /** One after the other, in the order in which they were asked for. */
  read(): Promise<Part> {
    this.#reading = this.#reading.then(
      () => this.#readPart(),
      () => this.#readPart(),
    );
    return this.#reading;
  }

  /** Lets go of everything. Twice is a no-op. */
  cancel(): void {
    this.#fail(networkError("it was cancelled"));
  }

  async #readPart(): Promise<Part> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isOver || this.#body === undefined) return DONE;
    try {
      const { done, value } = await this.#body.next();
      if (done !== true) return { base64: value.toString("base64") };
      this.#succeed();
      return DONE;
    } catch (thrown) {
      throw this.#fail(thrown);
    }
  }

  #firstHop({ method, url: text, headers, body }: ExchangeRequest): Hop {
    const url = URL.parse(text);
    if (url === null) throw new ToolError("PARAM_INVALID", "Expected an absolute URL");
    const stated = normalize(method);
    if (body !== null && (stated === "GET" || stated === "HEAD")) {
      throw new ToolError("PARAM_INVALID", `A request with the method ${stated} has no body`);
    }
    const bytes = body === null ? null : "stream" in body ? "stream" : fromBase64(body.base64);
    if (Buffer.isBuffer(bytes)) checkRequestBytes(bytes.length, this.#parts.policy.requestBytes);
    return { url, method: stated, headers, body: bytes };
  }

  async #follow(first: Hop, redirect: ExchangeRequest["redirect"]): Promise<ResponseHead> {
    let hop = first;
    for (let followed = 0; ; followed += 1) {
      const response = await this.#send(hop);
      const headers = toPairs(response.headers);
      const location = redirect === "manual" ? undefined : locationOf(response.statusCode, headers);
      if (location === undefined) return this.#accept(hop, response, headers, followed > 0);
      response.body.on("error", () => {}).destroy();
      this.#dropClient();
      if (redirect === "error") throw networkError('the server redirects, and the tool has said `redirect: "error"`');
      checkRedirects(followed, this.#parts.policy);
      hop = redirectOf(hop, response.statusCode, location, this.#parts.secrets);
    }
  }

  /** Checks one request and sends it, with secrets in their places. */
  async #send(hop: Hop): Promise<Dispatcher.ResponseData> {
    const { policy, asked, secrets, connections } = this.#parts;
    const { url, method } = hop;
    checkTarget(url, method, policy, asked);
    checkHeaders(hop.headers);
    secrets.refuseIn(`${url.host}${url.pathname}`, "a URL's host or path");
    const query = secrets.fill(url.search, url, "url");
    const headers = this.#fillHeaders(hop);
    const body = await this.#bodyOf(hop);
    const client = await connections.take(url, this.#abort.signal);
    this.#client = client;
    this.#url = url;
    this.#abort.signal.throwIfAborted();
    return await loadHttpClient().request.call(client, {
      path: url.pathname + query,
      method: method as Dispatcher.HttpMethod,
      headers: headers.flat(),
      body,
      signal: this.#abort.signal,
      responseHeaders: "raw",
    });
  }

  #fillHeaders({ headers, url }: Hop): HeaderList {
    const { secrets } = this.#parts;
    const filled = withDefaults(headers).map(([name, value]) => {
      secrets.refuseIn(name, "a header's name");
      const basic = name.toLowerCase() === "authorization" ? /^(basic +)([A-Za-z0-9+/=]+)$/i.exec(value) : null;
      if (basic === null) return [name, secrets.fill(value, url, "plain")] as const;
      const [, scheme = "", credentials = ""] = basic;
      const decoded = Buffer.from(credentials, "base64").toString();
      const withSecret = secrets.fill(decoded, url, "plain");
      return [name, withSecret === decoded ? value : scheme + Buffer.from(withSecret).toString("base64")] as const;
    });
    // A value may have what no header may.
    checkHeaders(filled);
    return withTrace(filled, this.#headersTo?.(url) ?? []);
  }

  async #bodyOf({ body, url, headers }: Hop): Promise<Buffer | Readable | null> {
    const { secrets, policy } = this.#parts;
    if (body === null) return null;
    if (body !== "stream") return await fillBody(body, url, headers, secrets);
    this.#upload = new Upload(secrets.filler(url, writingOf(headers)), policy.requestBytes);
    this.#uploadReady.resolve(this.#upload);
    return this.#upload.stream;
  }

  #accept(hop: Hop, response: Dispatcher.ResponseData, headers: HeaderList, redirected: boolean): ResponseHead {
    const { secrets, policy } = this.#parts;
    const { redactor } = secrets;
    const { statusCode: status, body } = response;
    const hasBody = hop.method !== "HEAD" && !BODILESS.has(status);
    const said = Number(headerOf(headers, "content-length") ?? 0);
    if (hasBody && said > policy.responseBytes) {
      throw new ToolError("QUOTA_EXCEEDED", `A response's body may have ${policy.responseBytes} bytes`);
    }
    if (hasBody) {
      const encodings = headers.filter(([name]) => name.toLowerCase() === "content-encoding").map(([, value]) => value);
      const options = {
        contentEncoding: encodings.join(","),
        maxBytes: policy.responseBytes,
        filter: redactor.filter(),
      };
      this.#body = readBody(body, options);
    } else {
      body.on("error", () => {}).resume();
      this.#succeed();
    }
    const url = new URL(hop.url);
    url.hash = "";
    return {
      status,
      statusText: redactor.text((response as { readonly statusText?: string }).statusText ?? ""),
      headers: headers.map(([name, value]) => [redactor.text(name), redactor.text(value)]),
      url: redactor.text(url.href),
      redirected,
      hasBody,
    };
  }

  #succeed(): void {
    if (this.#isOver) return;
    const [client, url] = [this.#client, this.#url];
    this.#client = undefined;
    // A body that is still being sent keeps its connection.
    if (client !== undefined && url !== undefined) {
      if (this.#upload !== undefined && !this.#upload.stream.readableEnded) this.#parts.connections.drop(client);
      else this.#parts.connections.keep(url, client);
    }
    this.#finish();
  }

  /** The first failure is the exchange's. */
  #fail(thrown: unknown): ToolError {
    if (this.#failure !== undefined) return this.#failure;
    const failure = toExchangeError(thrown);
    if (this.#isOver) return failure;
    this.#failure = failure;
    this.#abort.abort(failure);
    this.#dropClient();
    this.#upload?.stream.destroy();
    this.#finish();
    return failure;
  }

  #dropClient(): void {
    if (this.#client !== undefined) this.#parts.connections.drop(this.#client);
    this.#client = undefined;
  }

  #finish(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#uploadReady.resolve(this.#upload);
    // Of a generator that waits for its source, the end of that is the end.
    this.#body?.return(undefined).catch(() => {});
    this.#body = undefined;
    this.#onOver();
  }
}
