// Options of the client and of its requests, and the checks for them.

/** Options of `createClient`. */
export interface ClientOptions {
  /** URL of the server, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** API key. */
  readonly key: string;
  /**
   * How often a request that is safe to repeat is repeated after 429, 503 or a network error, also one in the middle of the response. @default 2
   */
  readonly retries?: number | undefined;
  /**
   * Longest body of a response in bytes, and longest event of a stream in characters: 1 to 500 MiB. A longer one is an error with the code
   * RESPONSE_TOO_LARGE. Responses that `open()` and `exportValues()` return have no limit. @default 268435456 (256 MiB)
   */
  readonly maxResponseBytes?: number | undefined;
  /**
   * Longest time of one request in ms, until its response is complete, or its stream has begun: 1 to 86,400,000. Then it is repeated if that is
   * safe, and fails with the code TIMEOUT otherwise. A call of a tool is one request, with the time that it runs. Node's `fetch` waits at most
   * 300 s for the start of a response: for more, pass a `fetch` of undici whose dispatcher has another `headersTimeout`. @default 600000 (10 minutes)
   */
  readonly timeoutMs?: number | undefined;
  /** Cancels all requests of the client: its methods reject with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
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

export interface FollowOptions {
  readonly signal: AbortSignal | undefined;
  readonly from?: number;
  readonly isKnown?: boolean;
}

export interface EventsOptions extends Pick<RequestOptions, "body" | "signal" | "headers"> {
  readonly onOpen?: () => void;
}

export const CLIENT_FIELDS = {
  url: "a string that is not empty",
  key: "a string that is not empty",
  retries: "a number",
  maxResponseBytes: "a number",
  timeoutMs: "a number",
  signal: "an AbortSignal",
  fetch: "a function",
} as const;

export const REQUEST_FIELDS = {
  body: "any value",
  query: "a plain object",
  headers: "a plain object",
  signal: "an AbortSignal",
  isSafe: "true or false",
  accept: "a function",
} as const;

export const OPEN_FIELDS = { query: REQUEST_FIELDS.query, signal: REQUEST_FIELDS.signal } as const;

export const MAX_TIMEOUT_MS = 86_400_000;

export const MIB = 1_048_576;

/** The longest string of V8 has almost 512 Mi characters. */
export const MAX_RESPONSE_BYTES = 500 * MIB;
