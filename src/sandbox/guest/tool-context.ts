// Types of the second argument of execute: the context of a call, and the capabilities in it.

/** Level of a log line of a tool. */
export type ToolLogLevel = "debug" | "info" | "warn" | "error";

/** Writes one structured line to the call's logs. `data` must be JSON. Resolves when the host has received it; awaiting it is optional. */
export type LogCall = (message: string, data?: unknown) => Promise<void>;

/** Attributes of a span: shown with its name. */
export interface ToolSpanAttributes {
  readonly [name: string]: string | number | boolean | undefined;
}

/** Progress report, as in MCP. `progress` must increase with each report; `total` is optional. */
export interface ToolProgress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

interface MinimalAbortSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** The `AbortSignal` type of the tool's own type libraries (DOM or Node), or its main members if there is none. */
export type ToolAbortSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : MinimalAbortSignal;

/** An entry of the key-value store. The value is JSON or a `Uint8Array`. */
export interface ToolKvEntry<Value = unknown> {
  readonly key: string;
  readonly value: Value;
  /** Version of the entry, for `ifVersion`. Each write creates a new one. */
  readonly version: string;
  /** Time at which the entry expires, in ms since 1970. Absent if it does not expire. */
  readonly expiresAt?: number;
}

/** Options of `ctx.kv.set()`. */
export interface ToolKvSetOptions {
  /**
   * Lifetime of the entry in ms, from 1 ms to ten years.
   * @default no expiry
   */
  readonly ttlMs?: number | undefined;
  /** Writes only if the entry has this version. `null`: writes only if the key has no entry. */
  readonly ifVersion?: string | null | undefined;
}

/** Result of a write. `ok` is false if `ifVersion` did not match; `version` is then the current version, or null if there is no entry. */
export type ToolKvSetResult =
  | { readonly ok: true; readonly version: string }
  | { readonly ok: false; readonly version: string | null };

/** Options of `ctx.kv.delete()`. */
export interface ToolKvDeleteOptions {
  /** Deletes only if the entry has this version. */
  readonly ifVersion?: string | undefined;
}

/** Options of `ctx.kv.list()`. */
export interface ToolKvListOptions {
  /**
   * Lists only keys with this prefix.
   * @default all keys
   */
  readonly prefix?: string | undefined;
  /** The `cursor` of the previous page. */
  readonly cursor?: string | undefined;
  /**
   * Maximum number of entries in a page, from 1 to 1,000.
   * @default 100
   */
  readonly limit?: number | undefined;
}

/** A page of entries, ordered by the code points of their keys. */
export interface ToolKvPage<Value = unknown> {
  readonly entries: readonly ToolKvEntry<Value>[];
  /** Cursor of the next page. Absent on the last page. */
  readonly cursor?: string;
}

/**
 * Key-value store that persists between calls. Each pair of tenant and tool has its own store. Keys are text of 1 to 1,024 bytes in UTF-8;
 * values are JSON or a `Uint8Array`. Writes reject with `QUOTA_EXCEEDED` if a limit is reached.
 */
export interface ToolKv {
  /** Returns the value of a key, or undefined if there is no entry. */
  get<Value = unknown>(key: string): Promise<Value | undefined>;
  /** Returns the entry with its version, or undefined if there is none. */
  getEntry<Value = unknown>(key: string): Promise<ToolKvEntry<Value> | undefined>;
  /** Writes an entry. */
  set(key: string, value: unknown, options?: ToolKvSetOptions): Promise<ToolKvSetResult>;
  /** Deletes an entry. Returns false if there was none, or its version did not match `ifVersion`. */
  delete(key: string, options?: ToolKvDeleteOptions): Promise<boolean>;
  /** Lists entries page by page. */
  list<Value = unknown>(options?: ToolKvListOptions): Promise<ToolKvPage<Value>>;
}

/**
 * Calls other tools of the same tenant by name: `ctx.tools.add({ a: 1, b: 2 })`. They run with their own grants and limits, within the
 * remaining time of this call, and are cancelled when it ends. `Uint8Array` values stay bytes. A failed call rejects with an error that has
 * the failure's `code` and message.
 */
export type ToolCalls = { readonly [toolName: string]: (input?: unknown) => Promise<unknown> } & {
  /** Calls a tool with any name, including `call`. */
  call(toolName: string, input?: unknown): Promise<unknown>;
};

/** Type of `fetch` in the tool's own type libraries (DOM or Node). */
type Fetch = typeof globalThis extends { readonly fetch: infer Global }
  ? Global
  : (url: string, init?: { readonly [option: string]: unknown }) => Promise<unknown>;

interface ClientRequest {
  /** Name of the request towards an MCP client, which may send the response in advance under this name. 1 to 64 of A-Z a-z 0-9 _ . - */
  readonly key?: string;
}

/** Requests input from the user: with a form (the JSON Schema of an object with primitive members), or on a web page that they visit. */
export type ToolElicit = (
  request: ClientRequest &
    (
      | { readonly message: string; readonly requestedSchema: { readonly [keyword: string]: unknown } }
      | { readonly mode: "url"; readonly message: string; readonly url: string; readonly elicitationId?: string }
    ),
) => Promise<
  | { readonly action: "accept"; readonly content?: { readonly [name: string]: unknown } }
  | { readonly action: "decline" | "cancel" }
>;

/** Requests a message from the client's model. Request and response are those of MCP's `sampling/createMessage`. */
export type ToolSample = (
  request: ClientRequest & {
    readonly messages: readonly { readonly role: "user" | "assistant"; readonly content: unknown }[];
    readonly maxTokens: number;
    readonly systemPrompt?: string;
    readonly [option: string]: unknown;
  },
) => Promise<{
  readonly role: "user" | "assistant";
  readonly content: unknown;
  readonly model: string;
  readonly stopReason?: string;
}>;

/** Lists the roots of the client, such as the user's workspace folders, as URLs. */
export type ToolRoots = (
  request?: ClientRequest,
) => Promise<{ readonly roots: readonly { readonly uri: string; readonly name?: string }[] }>;

/** What a durable run can wait for, see {@link ToolWaitFor}. */
export type ToolWait =
  | {
      /** Name of the event, 1 to 200 characters. */
      readonly event: string;
      /** Time in ms after which the wait rejects with `TOOL_TIMEOUT`. @default no limit but the lifetime of the run */
      readonly timeoutMs?: number | undefined;
    }
  | {
      /** What a person is to approve, 1 to 2,000 characters. */
      readonly approval: string;
      /** Time in ms after which the wait rejects with `TOOL_TIMEOUT`. @default no limit but the lifetime of the run */
      readonly timeoutMs?: number | undefined;
    }
  | {
      /** Time to wait in ms, up to a year. */
      readonly durationMs: number;
    };

/** A person's decision. `reason` is null if the person gave none. */
export interface ToolApproval {
  readonly approved: boolean;
  readonly reason: string | null;
}

/** Waits in a durable run: for an event, for a person, or for a time. The run takes no process meanwhile. */
export interface ToolWaitFor {
  /** Resolves with the value of the event. Each event ends one wait, also one that begins later. */
  <Value = unknown>(wait: Extract<ToolWait, { readonly event: string }>): Promise<Value>;
  /** Resolves with a person's decision. */
  (wait: Extract<ToolWait, { readonly approval: string }>): Promise<ToolApproval>;
  /** Resolves after a time. */
  (wait: Extract<ToolWait, { readonly durationMs: number }>): Promise<null>;
  (wait: ToolWait): Promise<unknown>;
}

/**
 * Registers a function that undoes what a durable run has done. If the run fails or is cancelled, its functions run in reverse order, each once,
 * and continue after a crash. Register a function before the call that it undoes, and await the registration.
 * @param run at most 1,000 of a run; each may take half of the tool's `timeoutMs`. It can use all capabilities but `waitFor`
 */
export type ToolOnRollback = (run: () => unknown) => Promise<void>;

/** Members of ctx for Glovebox's built-in capabilities. */
export interface OwnCapabilities {
  /**
   * Sends requests through the host, subject to its egress rules. The global `fetch` is the same function. This grant also allows the
   * globals `WebSocket` and `EventSource`, with the same rules. All connections end with the call.
   */
  readonly fetch: Fetch;
  readonly secrets: ToolSecrets;
  readonly kv: ToolKv;
  readonly tools: ToolCalls;
  /** Rejects with `CAPABILITY_DENIED` if the client does not support elicitation. The call's clock is paused while it waits. */
  readonly elicit: ToolElicit;
  /** Rejects with `CAPABILITY_DENIED` if the client does not support sampling. The call's clock is paused while it waits. */
  readonly sample: ToolSample;
  /** Rejects with `CAPABILITY_DENIED` if the client does not support roots. The call's clock is paused while it waits. */
  readonly roots: ToolRoots;
  /** Suspends a durable run, which `createRuns` starts. In any other call, it rejects with `CAPABILITY_DENIED`. */
  readonly waitFor: ToolWaitFor;
  /** Granted with `waitFor`. */
  readonly onRollback: ToolOnRollback;
}

/** Secrets that the host inserts into requests to certain hosts, with the grant `secrets`. The tool never sees their values. */
export interface ToolSecrets {
  /**
   * Returns a placeholder for use in header values, queries and bodies of `fetch` requests, and in headers, protocols and messages of a
   * `WebSocket`. The host replaces it with the value when it sends the request, only for the secret's own hosts. Rejects with
   * `CAPABILITY_DENIED` if the tool has no such secret.
   */
  use(name: string): Promise<string>;
}

/** Second argument of `execute`. Each granted capability is an additional member with its name. */
export interface ToolContext extends Partial<OwnCapabilities> {
  readonly callId: string;
  readonly tenantId: string;
  /** Aborts when the call ends, so that remaining work can stop. */
  readonly signal: ToolAbortSignal;
  /** Writes a line to the call's logs, with level `info` or a method for each level. */
  readonly log: LogCall & { readonly [Level in ToolLogLevel]: LogCall };
  /**
   * Reports progress to the caller. Does nothing if the caller does not listen. After 1,000 reports of a call, further ones are dropped
   * silently.
   * @throws {TypeError} if `progress` is not a finite number
   */
  progress(progress: ToolProgress): void;
  /**
   * Runs a function as a span of the call's timeline, and returns what it returns. A span ends when the function has returned, or its promise
   * has settled; it fails if the function throws. At most 1,000 spans of a call are kept; further functions run without one.
   * `performance.measure()` adds a span too, by the clock that the tool sees.
   * @param name at most 200 characters
   * @throws {TypeError} for arguments of other types, and what the function throws
   */
  span<Value>(name: string, run: () => Value): Value;
  /** @param attributes at most 16: texts of up to 200 characters, finite numbers and booleans */
  span<Value>(name: string, attributes: ToolSpanAttributes, run: () => Value): Value;
  /** Present if the tool requests it (`capabilities: { secrets: ["API_KEY"] }`) or the host grants it. */
  readonly secrets: ToolSecrets;
  /**
   * A granted capability, which takes and returns JSON. A capability that is not granted is absent (`ctx.kv?.get(key)`), or rejects if the
   * tool requests it in `capabilities`. A call that fails because of it has the error code `CAPABILITY_DENIED` and names the capability.
   */
  readonly [capability: string]: unknown;
}
