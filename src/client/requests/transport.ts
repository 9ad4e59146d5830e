// Sends the requests of the client: authorization, repetition after a failure, pages of lists, and server-sent events.

import type { CallEvent } from "../types.ts";
import { checkKind, checkOptions, invalid, toJsonText } from "./check-arguments.ts";

/**
 * The response of the server to a request that failed.
 * @example
 * ```typescript
 * import { ApiError, type TenantClient } from "glovebox/client";
 *
 * async function findVersion(tenant: TenantClient, tool: string, version: number): Promise<string | undefined> {
 *   try {
 *     return (await tenant.version(tool, version)).state;
 *   } catch (error) {
 *     if (error instanceof ApiError && error.code === "NOT_FOUND") return undefined;
 *     throw error;
 *   }
 * }
 * ```
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** Status of the response; 0 if there was none. */
  readonly status: number;
  /** Code of the error, such as `NOT_FOUND`; `NETWORK` if there was no response. */
  readonly code: string;
  /** Details of the error as the server sent them, such as the path of an invalid field. */
  readonly details: unknown;
  /** Id under which the server's operator finds the request in the log. */
  readonly requestId: string | undefined;

  constructor(
    message: string,
    { status, code, details, requestId, cause }: Pick<ApiError, "status" | "code" | "details" | "requestId" | "cause">,
  ) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
  }
}

/** Options of `createClient`. */
export interface ClientOptions {
  /** URL of the server, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** API key. */
  readonly key: string;
  /** How often a request that is safe to repeat is repeated after a network error, 429 or 503. @default 2 */
  readonly retries?: number | undefined;
  /** @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Options of one request that the client sends. */
export interface RequestOptions {
  /** Value that is sent as JSON. */
  readonly body?: unknown;
  /** Parameters of the URL. Those that are undefined are left out. */
  readonly query?: { readonly [name: string]: string | number | undefined };
  /** Headers in addition to `authorization` and `content-type`. */
  readonly headers?: { readonly [name: string]: string };
  /** Cancels the request, and the wait before it is repeated: the method rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Whether the request may be repeated. Default: only GET. */
  readonly isSafe?: boolean;
  /** Statuses that are not errors, in addition to those below 400. */
  readonly accept?: (status: number, body: unknown) => boolean;
}

const CLIENT_FIELDS = {
  url: "a string that is not empty",
  key: "a string that is not empty",
  retries: "a number",
  fetch: "a function",
} as const;
const REQUEST_FIELDS = {
  body: "any value",
  query: "a plain object",
  headers: "a plain object",
  signal: "an AbortSignal",
  isSafe: "true or false",
  accept: "a function",
} as const;
const OPEN_FIELDS = { query: REQUEST_FIELDS.query, signal: REQUEST_FIELDS.signal } as const;
/** A segment that URLs resolve to another path, in any spelling. */
const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:\/|$)/i;

interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

const RETRIED: ReadonlySet<number> = new Set([429, 503]);
/** Time in ms after which a stream of events that has ended is opened again. */
const RESUME_MS = 250;
/** Longest time in ms that the client waits before it repeats a request. */
const MAX_WAIT_MS = 10_000;

function waitMs(attempt: number, retryAfter: string | null | undefined): number {
  const seconds = Number(retryAfter ?? Number.NaN);
  const wanted = Number.isFinite(seconds) ? seconds * 1_000 : 200 * 2 ** attempt;
  return Math.min(MAX_WAIT_MS, wanted) * (1 + Math.random() / 4);
}

/** Sends requests to one server with one API key. Every method throws an {@link ApiError} if the server answers with an error. */
export class ApiTransport {
  readonly #url: string;
  readonly #key: string;
  readonly #retries: number;
  readonly #fetch: typeof globalThis.fetch;

  /** @throws {TypeError} for an unknown option or a wrong value */
  constructor(options: ClientOptions) {
    checkOptions(options, "options", CLIENT_FIELDS);
    const { url, key, retries = 2, fetch = globalThis.fetch.bind(globalThis) } = options;
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      throw invalid("options.url", "Expected an http or https URL");
    if (key === undefined) throw invalid("options.key", "Expected an API key");
    if (!(Number.isInteger(retries) && retries >= 0 && retries <= 10))
      throw invalid("options.retries", "Expected a whole number from 0 to 10");
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#retries = retries;
    this.#fetch = fetch;
  }

  /**
   * Sends one request of the API, and returns the body of its response.
   * @throws {TypeError} for an unknown option, a path that does not begin with "/" or has a segment ".", "..", or a body that is not JSON
   */
  async request<Body>(method: string, path: string, options: RequestOptions = {}): Promise<Body> {
    const response = await this.#send(method, path, options);
    const text = await response.text();
    const body = this.#parse(text, response);
    if (response.ok || options.accept?.(response.status, body) === true) return body as Body;
    throw toApiError(response, body);
  }

  /**
   * Requests what is not JSON, such as an export or a CSV file, and returns the response with its body unread.
   * @param path begins with "/"; it may have a query
   */
  async open(path: string, options: Pick<RequestOptions, "query" | "signal"> = {}): Promise<Response> {
    checkOptions(options, "options", OPEN_FIELDS);
    const response = await this.#send("GET", path, options);
    if (response.ok) return response;
    throw toApiError(response, this.#parse(await response.text(), response));
  }

  /** Yields the items of a list, one page after the other. */
  async *list<Item>(path: string, query: RequestOptions["query"] = {}): AsyncGenerator<Item, void> {
    // Copying a promise below would leave out what it resolves with.
    checkKind(query, "query", "a plain object");
    let cursor: string | undefined;
    do {
      const page: Page<Item> = await this.request("GET", path, { query: { ...query, cursor } });
      yield* page.items;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
  }

  /**
   * @internal Follows the events of a call until its result. The server ends a stream after a while: then another one goes on with the next line.
   * @param from number of the first line
   */
  async *follow(
    path: string,
    { signal, from = 0 }: { readonly signal: AbortSignal | undefined; readonly from?: number },
  ): AsyncGenerator<CallEvent, void> {
    let next = from;
    let hasBegun = false;
    for (;;) {
      const headers = next === 0 ? {} : { "last-event-id": String(next - 1) };
      try {
        for await (const { id, ...event } of this.events("GET", path, { signal, headers })) {
          hasBegun = true;
          if (id !== undefined) next = Number(id) + 1;
          yield event;
          if (event.event === "result") return;
        }
      } catch (thrown) {
        // The server that ran the call has ended, and left no record.
        if (hasBegun && thrown instanceof ApiError && thrown.status === 404) return;
        throw thrown;
      }
      hasBegun = true;
      await new Promise((resolve) => setTimeout(resolve, RESUME_MS));
      signal?.throwIfAborted();
    }
  }

  /** @internal Opens a stream of server-sent events. */
  async *events(
    method: "GET" | "POST",
    path: string,
    { body, signal, headers }: Pick<RequestOptions, "body" | "signal" | "headers">,
  ): AsyncGenerator<CallEvent & { readonly id?: string | undefined }, void> {
    const response = await this.#send(method, path, {
      ...{ body, signal, headers: { ...headers, accept: "text/event-stream" } },
    });
    if (!response.ok || response.body === null)
      throw toApiError(response, this.#parse(await response.text(), response));
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = /^event: (.+)$/m.exec(block)?.[1];
        const data = /^data: (.+)$/m.exec(block)?.[1];
        const id = /^id: (.+)$/m.exec(block)?.[1];
        if (event !== undefined && data !== undefined)
          yield { event, data: JSON.parse(data), ...(id === undefined ? {} : { id }) } as CallEvent & { id?: string };
      }
    }
  }

  async #send(method: string, path: string, options: RequestOptions): Promise<Response> {
    checkKind(method, "method", "a string that is not empty");
    checkOptions(options, "options", REQUEST_FIELDS);
    // A path that begins otherwise would change the host, which then gets the key.
    if (typeof path !== "string" || !path.startsWith("/") || DOT_SEGMENT.test(path.replace(/[?#].*$/s, "")))
      throw invalid("path", `Expected a path that begins with "/", without segments "." and ".."`);
    const { body, query = {}, headers, signal, isSafe } = options;
    const bodyText = body === undefined ? undefined : toJsonText(body);
    const url = new URL(`${this.#url}${path}`);
    for (const [name, value] of Object.entries(query)) {
      if (value === undefined) continue;
      checkKind(value, `options.query.${name}`, "a string or a number");
      url.searchParams.set(name, String(value));
    }
    const mayRepeat = isSafe ?? method === "GET";
    for (let attempt = 0; ; attempt += 1) {
      const isLast = !mayRepeat || attempt >= this.#retries;
      let response: Response | undefined;
      try {
        response = await this.#fetch(url, {
          method,
          headers: {
            authorization: `Bearer ${this.#key}`,
            ...(bodyText === undefined ? {} : { "content-type": "application/json" }),
            ...headers,
          },
          ...(bodyText === undefined ? {} : { body: bodyText }),
          ...(signal === undefined ? {} : { signal }),
        });
      } catch (cause) {
        signal?.throwIfAborted();
        if (isLast) {
          const message = `The server at ${this.#url} cannot be reached`;
          throw new ApiError(message, { status: 0, code: "NETWORK", details: undefined, requestId: undefined, cause });
        }
      }
      if (response !== undefined && (isLast || !RETRIED.has(response.status))) return response;
      await response?.body?.cancel();
      const ms = waitMs(attempt, response?.headers.get("retry-after"));
      await new Promise((resolve) => setTimeout(resolve, ms));
      signal?.throwIfAborted();
    }
  }

  #parse(text: string, response: Response): unknown {
    try {
      return JSON.parse(text);
    } catch (cause) {
      const message = `The server at ${this.#url} did not answer with JSON`;
      const requestId = response.headers.get("x-request-id") ?? undefined;
      throw new ApiError(message, { status: response.status, code: "NETWORK", details: undefined, requestId, cause });
    }
  }
}

function toApiError(response: Response, body: unknown): ApiError {
  const { error } = (body ?? {}) as { readonly error?: { code?: string; message?: string; details?: unknown } };
  return new ApiError(error?.message ?? `The server answered with status ${response.status}`, {
    ...{ status: response.status, code: error?.code ?? "INTERNAL", details: error?.details, cause: undefined },
    requestId: response.headers.get("x-request-id") ?? undefined,
  });
}
