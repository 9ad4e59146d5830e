// One exchange of a tool with a server: the request with its redirects, each checked from the start, and the response's body in parts.
import type { Readable } from "node:stream";
import type { Client, Dispatcher } from "undici";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import type { CpuAccount } from "../../util/time-slicing.ts";
import type { Connections } from "./connections.ts";
import { checkTarget, type EgressPolicy } from "./egress-policy.ts";
import type { EgressRule } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError, toExchangeError } from "./network-errors.ts";
import {
  checkRedirects,
  type Hop,
  locationOf,
  type RedirectGuard,
  redirectOf,
  type StatedRequest,
  toHop,
} from "./redirects.ts";
import { Upload } from "./request-body.ts";
import { RequestFiller } from "./request-fill.ts";
import { checkHeaders, type HeaderList, headerOf, withTrace } from "./request-headers.ts";
import { readBody } from "./response-body.ts";
import { hasBody, type ResponseHead, redactHead, toPairs } from "./response-head.ts";
import type { CallSecrets } from "./secrets.ts";

export interface ExchangeRequest extends StatedRequest {
  /** What the host adds for a server, instead of what the tool has said: asked for each hop. */
  readonly headersTo?: ((url: URL) => HeaderList) | undefined;
  /** Asked before a redirect is followed; undefined where no hook wants to be asked. */
  readonly guard?: RedirectGuard | undefined;
}

/** What the exchanges of a call share. */
export interface ExchangeParts {
  readonly policy: EgressPolicy;
  readonly asked: readonly EgressRule[] | undefined;
  readonly secrets: CallSecrets;
  readonly connections: Connections;
  /** Whose host time it is that filling and redacting take. */
  readonly payer?: CpuAccount | undefined;
}

type Part = { readonly base64: string } | { readonly done: true };
const DONE: Part = { done: true };

/** Ends with its body's last part, with a failure, or when it is cancelled. */
export class HttpExchange {
  readonly #parts: ExchangeParts;
  readonly #abort = new AbortController();
  readonly #onOver: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #turns: Turns;
  #upload: Upload | undefined;
  /** A body on its way that is not in memory as a whole. */
  #sending: Readable | undefined;
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
    this.#turns = { signal: this.#abort.signal, payer: parts.payer };
    const { timeoutMs } = parts.policy;
    const tooLong = (): ToolError => networkError(`timed out after ${timeoutMs} ms (egress.timeoutMs)`, "ETIMEDOUT");
    this.#timer = setTimeout(() => this.#fail(tooLong()), timeoutMs);
  }

  /** Resolves with the head of the response that the tool gets. */
  async request(request: ExchangeRequest): Promise<ResponseHead> {
    try {
      this.#headersTo = request.headersTo;
      const first = await toHop(request, this.#parts.policy, this.#turns);
      return await this.#follow(first, request.guard);
    } catch (thrown) {
      throw this.#fail(thrown);
    } finally {
      this.#uploadReady.resolve(this.#upload);
    }
  }

  async write(base64: string): Promise<null> {
    try {
      if (!this.#isOver) await (await this.#uploadReady.promise)?.write(base64);
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

  async #follow(first: Hop, guard: RedirectGuard | undefined): Promise<ResponseHead> {
    const { policy, secrets } = this.#parts;
    let hop = first;
    for (let followed = 0; ; followed += 1) {
      const response = await this.#send(hop);
      const headers = toPairs(response.headers);
      const location = hop.redirect === "manual" ? undefined : locationOf(response.statusCode, headers);
      if (location === undefined) return await this.#accept(hop, response, headers, followed > 0);
      response.body.on("error", () => {}).destroy();
      this.#dropClient();
      if (hop.redirect === "error")
        throw networkError('the server redirects, and the tool has said `redirect: "error"`');
      checkRedirects(followed, policy);
      hop = await redirectOf(hop, response.statusCode, location, { policy, secrets, turns: this.#turns, guard });
      this.#abort.signal.throwIfAborted();
    }
  }

  /** Checks one request and sends it, with secrets in their places. */
  async #send(hop: Hop): Promise<Dispatcher.ResponseData> {
    const { policy, asked, secrets, connections } = this.#parts;
    const { url, method } = hop;
    const addresses = checkTarget(url, method, policy, asked);
    checkHeaders(hop.headers);
    const filler = new RequestFiller(secrets, url, this.#turns);
    const path = await filler.path();
    const filled = await filler.headers(hop.headers);
    // A value may have what no header may.
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

  /** The body as it is sent, and headers that say how long it is where its stream does not. */
  async #bodyOf(
    { body, headers }: Hop,
    filler: RequestFiller,
  ): Promise<{ readonly body: Buffer | Readable | null; readonly framing: HeaderList }> {
    const { requestBytes } = this.#parts.policy;
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
    const { secrets, policy } = this.#parts;
    const { redactor } = secrets;
    const { statusCode: status, body } = response;
    // It may fail before anybody reads it; whoever reads it then is told.
    body.on("error", () => {});
    const comes = hasBody(hop.method, status);
    const said = Number(headerOf(headers, "content-length") ?? 0);
    if (comes && said > policy.responseBytes) {
      throw new ToolError("QUOTA_EXCEEDED", `A response's body may have ${policy.responseBytes} bytes`);
    }
    const url = new URL(hop.url);
    url.hash = "";
    const { statusText = "" } = response as { readonly statusText?: string };
    const stated = { status, statusText, headers, url: url.href, redirected, hasBody: comes };
    const head = await redactHead(stated, redactor, this.#turns);
    if (comes) {
      const encodings = headers.filter(([name]) => name.toLowerCase() === "content-encoding").map(([, value]) => value);
      this.#body = readBody(body, {
        contentEncoding: encodings.join(","),
        maxBytes: policy.responseBytes,
        filter: redactor.filter(),
        turns: this.#turns,
      });
    } else {
      body.resume();
      this.#succeed();
    }
    return head;
  }

  #succeed(): void {
    if (this.#isOver) return;
    const [client, url] = [this.#client, this.#url];
    this.#client = undefined;
    // A body that is still being sent keeps its connection.
    if (client !== undefined && url !== undefined) {
      if (this.#sending !== undefined && !this.#sending.readableEnded) this.#parts.connections.drop(client);
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
    this.#sending?.destroy();
    // Of a generator that waits for its source, the end of that is the end.
    this.#body?.return(undefined).catch(() => {});
    this.#body = undefined;
    this.#onOver();
  }
}
