// Sends the requests of the client: authorization, repetition after a failure, pages of lists, and server-sent events.

import type { CallEvent } from "../types.ts";
import { ApiError, isNoResponse, isTemporary, noResponseError, noResult, timeoutError } from "./api-error.ts";
import { checkKind, checkOptions, invalid, toJsonText } from "./check-arguments.ts";
import {
  checkEvents,
  checkNoPage,
  invalidResponse,
  type Page,
  readEvents,
  readJson,
  type StreamedCallEvent,
  toApiError,
  toPage,
  type UnreadResponse,
} from "./read-response.ts";
import {
  CLIENT_FIELDS,
  type ClientOptions,
  type EventsOptions,
  type FollowOptions,
  MAX_RESPONSE_BYTES,
  MAX_TIMEOUT_MS,
  MIB,
  OPEN_FIELDS,
  REQUEST_FIELDS,
  type RequestOptions,
} from "./request-options.ts";

/** A segment that URLs resolve to another path, in any spelling. */
const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:\/|$)/i;

const DEFAULT_TIMEOUT_MS = 600_000;

const RETRIED: ReadonlySet<number> = new Set([429, 503]);

/** Larger than each response of the server: an output of 64 MiB with its input and logs, or the bundle of a tool. */
const DEFAULT_RESPONSE_BYTES = 256 * MIB;

/** Time in ms after which a stream of events that has ended is opened again. It doubles with each stream that brought no event. */
const RESUME_MS = 250;

/** Longest time in ms that the client waits before it repeats a request. */
const MAX_WAIT_MS = 10_000;

/** Answers "not found" one after the other until a call that was known counts as lost. A replica that is busy may not find it at once. */
const MAX_MISSING = 3;

const EVENT_ID = /^\d{1,9}$/;

const withJitter = (ms: number): number => ms * (1 + Math.random() / 4);

function waitMs(attempt: number, retryAfter: string | null | undefined): number {
  const seconds = Number(retryAfter ?? Number.NaN);
  const wanted = Number.isFinite(seconds) ? seconds * 1_000 : 200 * 2 ** attempt;
  return withJitter(Math.min(MAX_WAIT_MS, Math.max(0, wanted)));
}

/** Waits. Rejects with the signal's reason as soon as it aborts. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    if (signal?.aborted === true) onAbort();
    else signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Sends requests to one server with one API key. Every method throws an {@link ApiError} if the server answers with an error. */
export class ApiTransport {
  readonly #url: string;
  readonly #key: string;
  readonly #retries: number;
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #fetch: typeof globalThis.fetch;

  /** @throws {TypeError} for an unknown option or a wrong value */
  constructor(options: ClientOptions) {
    checkOptions(options, "options", CLIENT_FIELDS);
    const { url, key, retries = 2, maxResponseBytes = DEFAULT_RESPONSE_BYTES } = options;
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal, fetch = globalThis.fetch.bind(globalThis) } = options;
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      throw invalid("options.url", "Expected an http or https URL");
    const { username, password } = new URL(url);
    // No request can be sent to it, and errors would show the password.
    if (username !== "" || password !== "")
      throw invalid("options.url", "Expected a URL without a user name and password");
    if (key === undefined) throw invalid("options.key", "Expected an API key");
    if (!(Number.isInteger(retries) && retries >= 0 && retries <= 10))
      throw invalid("options.retries", "Expected a whole number from 0 to 10");
    if (!(Number.isInteger(maxResponseBytes) && maxResponseBytes >= 1 && maxResponseBytes <= MAX_RESPONSE_BYTES))
      throw invalid("options.maxResponseBytes", `Expected a whole number from 1 to ${MAX_RESPONSE_BYTES}`);
    if (!(Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS))
      throw invalid("options.timeoutMs", `Expected a whole number from 1 to ${MAX_TIMEOUT_MS}`);
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#retries = retries;
    this.#maxBytes = maxResponseBytes;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.#fetch = fetch;
  }

  /**
   * Sends one request of the API, and returns the body of its response, which is always an object.
   * @throws {TypeError} for an unknown option, a path that does not begin with "/" or has a segment ".", "..", or a body that is not JSON
   */
  async request<Body>(method: string, path: string, options: RequestOptions = {}): Promise<Body> {
    return await this.#send(method, path, options, async (received) => (await readBody(received, options)) as Body);
  }

  /**
   * Requests what is not JSON, such as an export or a CSV file, and returns the response with its body unread.
   * @param path begins with "/"; it may have a query
   */
  async open(path: string, options: Pick<RequestOptions, "query" | "signal"> = {}): Promise<Response> {
    checkOptions(options, "options", OPEN_FIELDS);
    return await this.#send("GET", path, options, async (received) => {
      await checkNoPage(received);
      return received.response;
    });
  }

  /** @internal Sends a request whose response is a list of items that has one page. */
  async items<Item>(method: string, path: string, options: RequestOptions = {}): Promise<readonly Item[]> {
    return await this.#send(method, path, options, async (received) => {
      return toPage<Item>(received, await readBody(received, options)).items;
    });
  }

  /** Yields the items of a list, one page after the other. */
  async *list<Item>(path: string, query: RequestOptions["query"] = {}): AsyncGenerator<Item, void> {
    // Copying a promise below would leave out what it resolves with.
    checkKind(query, "query", "a plain object");
    let cursor: string | undefined;
    // With a cursor that is repeated, the list would never end.
    const cursors = new Set<string>();
    do {
      const options = { query: { ...query, cursor } };
      const page: Page<Item> = await this.#send("GET", path, options, async (received) => {
        const read = toPage<Item>(received, await readBody(received, {}));
        if (read.next !== undefined && cursors.has(read.next))
          throw invalidResponse(received, "next: expected another cursor, got one that was before");
        return read;
      });
      yield* page.items;
      cursor = page.next;
      if (cursor !== undefined) cursors.add(cursor);
    } while (cursor !== undefined);
  }

  /**
   * @internal Follows the events of a call until its result. A stream that ends without it has reached its longest time, or its connection was
   * lost: another one goes on with the next line. Rejects if the first stream cannot be opened.
   * @param options `from`: number of the first line. `isKnown`: whether the server has known the call, so that the first stream is one that goes on
   */
  async *follow(path: string, { signal, from = 0, isKnown = false }: FollowOptions): AsyncGenerator<CallEvent, void> {
    const cancelled = this.#withSignal(signal);
    let next = from;
    let hasBegun = isKnown;
    let missing = 0;
    const onOpen = (): void => {
      hasBegun = true;
      missing = 0;
    };
    for (let failures = 0; ; failures += 1) {
      const openedAt = Date.now();
      const headers = next === 0 ? {} : { "last-event-id": String(next - 1) };
      let lastId = "";
      try {
        for await (const { id, ...event } of this.events("GET", path, { signal, headers, onOpen })) {
          failures = 0;
          const hasOwnId = id !== lastId && EVENT_ID.test(id);
          lastId = id;
          // A proxy that drops the header has begun the stream anew.
          if (hasOwnId && Number(id) < next) continue;
          if (hasOwnId) next = Number(id) + 1;
          yield event;
          if (event.event === "result") return;
        }
      } catch (thrown) {
        cancelled?.throwIfAborted();
        const isMissing = thrown instanceof ApiError && thrown.status === 404;
        if (!hasBegun || !(isMissing || isTemporary(thrown))) throw thrown;
        missing = isMissing ? missing + 1 : 0;
        // The process that ran the call has ended, and left no record.
        if (missing >= MAX_MISSING) throw noResult(`The call has no result: ${thrown.message}`, {}, thrown);
      }
      if (Date.now() - openedAt > MAX_WAIT_MS) failures = 0;
      await pause(withJitter(Math.min(MAX_WAIT_MS, RESUME_MS * 2 ** failures)), cancelled);
    }
  }

  /** @internal Opens a stream of server-sent events. @param options `onOpen`: called when the server has answered with a stream */
  async *events(
    method: "GET" | "POST",
    path: string,
    { onOpen, body, signal, headers }: EventsOptions,
  ): AsyncGenerator<StreamedCallEvent, void> {
    const options = { body, signal, headers: { ...headers, accept: "text/event-stream" } };
    const stream = await this.#send(method, path, options, async (received) => {
      await checkEvents(received);
      return received;
    });
    onOpen?.();
    yield* readEvents(stream);
  }

  /** Sends a request and reads its response. Both are repeated after a failure, if the request is safe to repeat. */
  async #send<Result>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (received: UnreadResponse) => Promise<Result>,
  ): Promise<Result> {
    checkKind(method, "method", "a string that is not empty");
    checkOptions(options, "options", REQUEST_FIELDS);
    const { body, isSafe } = options;
    const signal = this.#withSignal(options.signal);
    const url = this.#toUrl(path, options.query);
    const bodyText = body === undefined ? undefined : toJsonText(body);
    const mayRepeat = isSafe ?? method === "GET";
    for (let attempt = 0; ; attempt += 1) {
      const isLast = !mayRepeat || attempt >= this.#retries;
      let retryAfter: string | null = null;
      const limit = new AbortController();
      const timer = setTimeout(() => limit.abort(timeoutError(method, url, this.#timeoutMs)), this.#timeoutMs);
      const attemptSignal = signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]);
      try {
        const response = await this.#fetchOnce(method, url, bodyText, { ...options, signal: attemptSignal });
        if (isLast || !RETRIED.has(response.status))
          return await read({ response, method, url, signal: attemptSignal, maxBytes: this.#maxBytes });
        retryAfter = response.headers.get("retry-after");
        response.body?.cancel().catch(() => {});
      } catch (thrown) {
        signal?.throwIfAborted();
        if (isLast || !isNoResponse(thrown)) throw thrown;
      } finally {
        clearTimeout(timer);
      }
      await pause(waitMs(attempt, retryAfter), signal);
    }
  }

  /** Returns a signal that aborts with the client's or the request's. */
  #withSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
    if (signal === undefined) return this.#signal;
    checkKind(signal, "options.signal", "an AbortSignal");
    if (this.#signal === undefined) return signal;
    return AbortSignal.any([this.#signal, signal]);
  }

  #toUrl(path: string, query: RequestOptions["query"] = {}): URL {
    // A path that begins otherwise would change the host, which then gets the key.
    if (typeof path !== "string" || !path.startsWith("/") || DOT_SEGMENT.test(path.replace(/[?#].*$/s, "")))
      throw invalid("path", `Expected a path that begins with "/", without segments "." and ".."`);
    const url = new URL(`${this.#url}${path}`);
    for (const [name, value] of Object.entries(query)) {
      if (value === undefined) continue;
      checkKind(value, `options.query.${name}`, "a string or a number");
      url.searchParams.set(name, String(value));
    }
    return url;
  }

  async #fetchOnce(
    method: string,
    url: URL,
    body: string | undefined,
    { headers, signal }: RequestOptions,
  ): Promise<Response> {
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const all = { authorization: `Bearer ${this.#key}`, ...type, ...headers };
    checkHeaders(all);
    try {
      return await this.#fetch(url, {
        method,
        headers: all,
        ...(body === undefined ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (cause) {
      signal?.throwIfAborted();
      throw noResponseError(this.#url, method, url, cause);
    }
  }
}

/**
 * Checks headers before a request: with one that HTTP does not allow, `fetch` fails as if there was no network, and its error shows the value.
 * @throws {TypeError}
 */
function checkHeaders(headers: { readonly [name: string]: string }): void {
  for (const [name, value] of Object.entries(headers)) {
    try {
      new Headers([[name, value]]);
    } catch {
      const [where, what] = name === "authorization" ? ["options.key", "an API key"] : ["options", `a header ${name}`];
      throw invalid(where, `Expected ${what} that HTTP allows: printable ASCII characters without line breaks`);
    }
  }
}

/** Reads a body of JSON. @throws {ApiError} for the status of an error, unless the caller accepts it */
async function readBody(
  received: UnreadResponse,
  { accept }: Pick<RequestOptions, "accept">,
): Promise<Readonly<Record<string, unknown>>> {
  const body = await readJson(received);
  if (received.response.ok || accept?.(received.response.status, body) === true) return body;
  throw toApiError(received, body);
}
