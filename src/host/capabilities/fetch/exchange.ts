// One HTTP exchange of a tool with a server: sends the request, follows and checks redirects, and reads the response body in parts.
import type { Readable } from "node:stream";
import type { Client, Dispatcher } from "undici";
import type { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import type { CpuAccount } from "../../util/time-slicing.ts";
import { checkTarget } from "./check-target.ts";
import type { Connections } from "./connections.ts";
import type { EgressPolicy } from "./egress-policy.ts";
import type { EgressRule } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError, toExchangeError } from "./network-errors.ts";
import {
  checkRedirects,
  type Hop,
  locationOf,
  type RedirectGuard,
  redirectOf,
  type ToolRequest,
  toHop,
} from "./redirects.ts";
import { Upload } from "./request-body.ts";
import { RequestFiller } from "./request-fill.ts";
import { checkHeaders, type HeaderList, headerOf, withTrace } from "./request-headers.ts";
import { readBody, responseTooLarge } from "./response-body.ts";
import { canSendUnreadBody, hasBody, type ResponseHead, redactHead, toPairs } from "./response-head.ts";
import type { CallSecrets } from "./secrets.ts";

export interface ExchangeRequest extends ToolRequest {
  /** Returns the trace headers for a server, which replace those of the tool. Called for each hop. */
  readonly headersTo?: ((url: URL) => HeaderList) | undefined;
  /** Called before a redirect is followed; undefined if no hook handles capability calls. */
  readonly guard?: RedirectGuard | undefined;
}

/** Dependencies that the exchanges of a call share. */
export interface ExchangeDependencies {
  readonly policy: EgressPolicy;
  readonly requested: readonly EgressRule[] | undefined;
  readonly secrets: CallSecrets;
  readonly connections: Connections;
  /** CPU account that is charged for inserting and redacting secrets. */
  readonly cpuAccount?: CpuAccount | undefined;
}

type Part = { readonly base64: string } | { readonly done: true };
const DONE: Part = { done: true };

/** An exchange ends with the last part of its body, with a failure, or when it is cancelled. */
export class HttpExchange {
  readonly #dependencies: ExchangeDependencies;
  readonly #abort = new AbortController();
  readonly #onEnd: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #turns: Turns;
  #upload: Upload | undefined;
  /** The request body, while it is sent as a stream. */
  #sending: Readable | undefined;
  /** Resolves with the upload of a streamed body, or with undefined when the exchange ends without one. */
  readonly #uploadReady = Promise.withResolvers<Upload | undefined>();
  #body: AsyncGenerator<Buffer> | undefined;
  #reading: Promise<Part> = Promise.resolve(DONE);
  #client: Client | undefined;
  #url: URL | undefined;
  #hasEnded = false;
  #failure: ToolError | undefined;
  #headersTo: ExchangeRequest["headersTo"];

  constructor(dependencies: ExchangeDependencies, onEnd: () => void) {
    this.#dependencies = dependencies;
    this.#onEnd = onEnd;
    this.#turns = { signal: this.#abort.signal, cpuAccount: dependencies.cpuAccount };
    const { timeoutMs } = dependencies.policy;
    const tooLong = (): ToolError => networkError(`timed out after ${timeoutMs} ms (egress.timeoutMs)`, "ETIMEDOUT");
    this.#timer = setTimeout(() => this.#fail(tooLong()), timeoutMs);
  }

  /** Resolves with the head of the response that the tool gets. */
  async request(request: ExchangeRequest): Promise<ResponseHead> {
    try {
      this.#headersTo = request.headersTo;
      const first = await toHop(request, this.#dependencies.policy, this.#turns);
      return await this.#follow(first, request.guard);
    } catch (thrown) {
      throw this.#fail(thrown);
    } finally {
      this.#uploadReady.resolve(this.#upload);
    }
  }

  /** Sends a part of a streamed request body. Resolves when the network has accepted it. */
  async write(base64: string): Promise<null> {
    try {
      if (!this.#hasEnded) await (await this.#uploadReady.promise)?.write(base64);
    } catch (thrown) {
      throw this.#fail(thrown);
    }
    if (this.#failure !== undefined) throw this.#failure;
    return null;
  }

  /** Ends a streamed request body. */
  async end(): Promise<null> {
    try {
      if (!this.#hasEnded) await (await this.#uploadReady.promise)?.end();
    } catch (thrown) {
      throw this.#fail(thrown);
    }
    if (this.#failure !== undefined) throw this.#failure;
    return null;
  }

  /** Returns the next part of the response body. Concurrent reads are answered in order. */
  read(): Promise<Part> {
    this.#reading = this.#reading.then(
      () => this.#readPart(),
      () => this.#readPart(),
    );
    return this.#reading;
  }

  /** Closes the connection and releases the body. A second call is a no-op. */
  cancel(): void {
    this.#fail(networkError("it was cancelled"));
  }

  async #readPart(): Promise<Part> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#hasEnded || this.#body === undefined) return DONE;
    try {
      const { done, value } = await this.#body.next();
      if (done !== true) return { base64: value.toString("base64") };
      this.#succeed();
      return DONE;
    } catch (thrown) {
      throw this.#fail(thrown);
    }
  }

  async #follow(first: Hop, guard: RedirectGuard | undefined): Promise<ResponseHead> {
    const { policy, secrets } = this.#dependencies;
    let hop = first;
    for (let followed = 0; ; followed += 1) {
      const response = await this.#send(hop);
      const headers = toPairs(response.headers);
      const location = hop.redirect === "manual" ? undefined : locationOf(response.statusCode, headers);
      if (location === undefined) return await this.#accept(hop, response, headers, followed > 0);
      response.body.on("error", () => {}).destroy();
      this.#dropClient();
      if (hop.redirect === "error")
        throw networkError('the server sent a redirect, and the request has redirect: "error"');
      checkRedirects(followed, policy);
      hop = await redirectOf(hop, response.statusCode, location, { policy, secrets, turns: this.#turns, guard });
      this.#abort.signal.throwIfAborted();
    }
  }

  /** Checks one request and sends it, with the values of secrets inserted. */
  async #send(hop: Hop): Promise<Dispatcher.ResponseData> {
    const { policy, requested, secrets, connections } = this.#dependencies;
    const { url, method } = hop;
    const addresses = checkTarget(url, method, policy, requested);
    checkHeaders(hop.headers);
    const filler = new RequestFiller(secrets, url, this.#turns);
    const path = await filler.path();
    const filled = await filler.headers(hop.headers);
    // The value of a secret may contain characters that are invalid in a header.
    checkHeaders(filled);
    const { body, framing } = await this.#bodyOf(hop, filler);
    const client = await connections.take(url, addresses, this.#abort.signal);
    this.#client = client;
    this.#url = url;
    this.#abort.signal.throwIfAborted();
    return await loadHttpClient().request.call(client, {
      path,
      method: method as Dispatcher.HttpMethod,
      headers: [...withTrace(filled, this.#headersTo?.(url) ?? []), ...framing].flat(),
      body,
      signal: this.#abort.signal,
      responseHeaders: "raw",
    });
  }

  /** Returns the body to send, and a content-length header if the body is a stream of known length. */
  async #bodyOf(
    { body, headers }: Hop,
    filler: RequestFiller,
  ): Promise<{ readonly body: Buffer | Readable | null; readonly framing: HeaderList }> {
    const { requestBytes } = this.#dependencies.policy;
    this.#sending?.destroy();
    this.#sending = undefined;
    if (body === null) return { body, framing: [] };
    if (body !== "stream") {
      const filled = await filler.body(body, headers, requestBytes);
      if (!("bytes" in filled)) return { body: filled.body, framing: [] };
      this.#sending = filled.body;
      return { body: filled.body, framing: [["content-length", String(filled.bytes)]] };
    }
    this.#upload = new Upload(filler.stream(headers), requestBytes, this.#turns);
    this.#sending = this.#upload.stream;
    this.#uploadReady.resolve(this.#upload);
    return { body: this.#upload.stream, framing: [] };
  }

  async #accept(
    hop: Hop,
    response: Dispatcher.ResponseData,
    headers: HeaderList,
    redirected: boolean,
  ): Promise<ResponseHead> {
    const { secrets, policy } = this.#dependencies;
    const { redactor } = secrets;
    const { statusCode: status, body } = response;
    // The body may fail before the tool reads it. A later read still reports the failure.
    body.on("error", () => {});
    const expectsBody = hasBody(hop.method, status);
    const contentLength = Number(headerOf(headers, "content-length") ?? 0);
    if (expectsBody && contentLength > policy.responseBytes) throw responseTooLarge(policy.responseBytes);
    const url = new URL(hop.url);
    url.hash = "";
    const { statusText = "" } = response as { readonly statusText?: string };
    const received = { status, statusText, headers, url: url.href, redirected, hasBody: expectsBody };
    const head = await redactHead(received, redactor, this.#turns);
    if (expectsBody) {
      const encodings = headers.filter(([name]) => name.toLowerCase() === "content-encoding").map(([, value]) => value);
      this.#body = readBody(body, {
        contentEncoding: encodings.join(","),
        maxBytes: policy.responseBytes,
        filter: redactor.filter(),
        turns: this.#turns,
      });
    } else {
      // A body that nothing reads would keep its connection busy, however long it is.
      if (canSendUnreadBody(status)) this.#dropClient();
      else body.resume();
      this.#succeed();
    }
    return head;
  }

  #succeed(): void {
    if (this.#hasEnded) return;
    const [client, url] = [this.#client, this.#url];
    this.#client = undefined;
    // A connection on which the request body is still being sent cannot be reused.
    if (client !== undefined && url !== undefined) {
      if (this.#sending !== undefined && !this.#sending.readableEnded) this.#dependencies.connections.drop(client);
      else this.#dependencies.connections.keep(url, client);
    }
    this.#finish();
  }

  /** Ends the exchange with a failure. The first failure is reported by all later requests. */
  #fail(thrown: unknown): ToolError {
    if (this.#failure !== undefined) return this.#failure;
    const failure = toExchangeError(thrown);
    if (this.#hasEnded) return failure;
    this.#failure = failure;
    this.#abort.abort(failure);
    this.#dropClient();
    this.#finish();
    return failure;
  }

  #dropClient(): void {
    if (this.#client !== undefined) this.#dependencies.connections.drop(this.#client);
    this.#client = undefined;
  }

  #finish(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    this.#uploadReady.resolve(this.#upload);
    this.#sending?.destroy();
    // A generator that waits for its source ends when the source ends.
    this.#body?.return(undefined).catch(() => {});
    this.#body = undefined;
    this.#onEnd();
  }
}
