// Entry point "glovebox/tool" for tool authors: defineTool, content parts, and their types. It runs inside the isolate and has only type
// imports.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type {
  AudioPart,
  ContentAnnotations,
  ContentPart,
  ImagePart,
  ResourceLinkPart,
  ResourcePart,
  TextPart,
} from "../contract/content.ts";

export type {
  AudioPart,
  ContentAnnotations,
  ContentPart,
  ImagePart,
  ResourceLinkPart,
  ResourcePart,
  TextPart,
} from "../contract/content.ts";

/** A JSON Schema 2020-12 as a plain object. */
export type PlainJsonSchema = { readonly [keyword: string]: unknown };

/** Schema of a tool: from any Standard Schema library (zod, valibot, arktype …), or a plain JSON Schema. */
export type ToolSchema = StandardSchemaV1 | PlainJsonSchema;

type Mutable<T> = T extends readonly (infer Item)[]
  ? Mutable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Mutable<T[Key]> }
    : T;

interface ScalarTypes {
  readonly string: string;
  readonly number: number;
  readonly integer: number;
  readonly boolean: boolean;
  readonly null: null;
}

type RequiredKeys<Schema, Properties> = Schema extends { readonly required: readonly (infer Key)[] }
  ? Extract<Key, keyof Properties>
  : never;

type ObjectOf<Schema> = Schema extends { readonly properties: infer Properties }
  ? { -readonly [Key in RequiredKeys<Schema, Properties>]: FromJsonSchema<Properties[Key]> } & {
      -readonly [Key in Exclude<keyof Properties, RequiredKeys<Schema, Properties>>]?: FromJsonSchema<Properties[Key]>;
    }
  : Record<string, unknown>;

type TypeOf<Schema, Type> = Type extends keyof ScalarTypes
  ? ScalarTypes[Type]
  : Type extends "array"
    ? Schema extends { readonly items: infer Items }
      ? FromJsonSchema<Items>[]
      : unknown[]
    : Type extends "object"
      ? ObjectOf<Schema>
      : unknown;

/** TypeScript type of a JSON Schema that is written as a literal. Parts that TypeScript cannot express are `unknown`. */
export type FromJsonSchema<Schema> = Schema extends { readonly const: infer Value }
  ? Mutable<Value>
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Mutable<Value>
    : Schema extends { readonly anyOf: readonly (infer Branch)[] }
      ? FromJsonSchema<Branch>
      : Schema extends { readonly oneOf: readonly (infer Branch)[] }
        ? FromJsonSchema<Branch>
        : Schema extends { readonly type: readonly (infer Type)[] }
          ? TypeOf<Schema, Type>
          : Schema extends { readonly type: infer Type }
            ? TypeOf<Schema, Type>
            : unknown;

/** Type that `execute` receives: the output of the input schema, after defaults and transforms. */
export type InputOf<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Schema>
  : Schema extends PlainJsonSchema
    ? FromJsonSchema<Schema>
    : Record<string, unknown>;

/** Type that `execute` returns: the input of the output schema, before defaults and transforms. */
export type OutputOf<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Schema>
  : Schema extends PlainJsonSchema
    ? FromJsonSchema<Schema>
    : unknown;

export type LogLevel = "debug" | "info" | "warn" | "error";

/** Writes one structured line to the call's logs. `data` must be JSON. Resolves when the host has received it; awaiting it is optional. */
export type LogCall = (message: string, data?: unknown) => Promise<void>;

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
export interface KvEntry<Value = unknown> {
  readonly key: string;
  readonly value: Value;
  /** Version of the entry, for `ifVersion`. Each write creates a new one. */
  readonly version: string;
  /** Time at which the entry expires, in ms since 1970. Absent if it does not expire. */
  readonly expiresAt?: number;
}

export interface KvSetOptions {
  /**
   * Lifetime of the entry in ms, from 1 ms to ten years.
   * @default no expiry
   */
  readonly ttlMs?: number | undefined;
  /** Writes only if the entry has this version. `null`: writes only if the key has no entry. */
  readonly ifVersion?: string | null | undefined;
}

/** Result of a write. `ok` is false if `ifVersion` did not match; `version` is then the current version, or null if there is no entry. */
export type KvSetResult =
  | { readonly ok: true; readonly version: string }
  | { readonly ok: false; readonly version: string | null };

export interface KvDeleteOptions {
  /** Deletes only if the entry has this version. */
  readonly ifVersion?: string | undefined;
}

export interface KvListOptions {
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
export interface KvPage<Value = unknown> {
  readonly entries: readonly KvEntry<Value>[];
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
  getEntry<Value = unknown>(key: string): Promise<KvEntry<Value> | undefined>;
  /** Writes an entry. */
  set(key: string, value: unknown, options?: KvSetOptions): Promise<KvSetResult>;
  /** Deletes an entry. Returns false if there was none, or its version did not match `ifVersion`. */
  delete(key: string, options?: KvDeleteOptions): Promise<boolean>;
  /** Lists entries page by page. */
  list<Value = unknown>(options?: KvListOptions): Promise<KvPage<Value>>;
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

/** Secrets that the host inserts into requests to certain hosts. The tool never sees their values. */
export interface ToolSecrets {
  /** Returns a placeholder for a secret. */
  use(name: string): Promise<string>;
}

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
}

/** Secrets that the host provides to this tool with the grant `secrets`. */
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
  readonly log: LogCall & { readonly [Level in LogLevel]: LogCall };
  /**
   * Reports progress to the caller. Does nothing if the caller does not listen. After 1,000 reports of a call, further ones are dropped
   * silently.
   * @throws {TypeError} if `progress` is not a finite number
   */
  progress(progress: ToolProgress): void;
  /** Present if the tool requests it (`capabilities: { secrets: ["API_KEY"] }`) or the host grants it. */
  readonly secrets: ToolSecrets;
  /**
   * A granted capability, which takes and returns JSON. A capability that is not granted is absent (`ctx.kv?.get(key)`), or rejects if the
   * tool requests it in `capabilities`. A call that fails because of it has the error code `CAPABILITY_DENIED` and names the capability.
   */
  readonly [capability: string]: unknown;
}

/** Limits that a tool sets for itself. They can only lower those of the host. */
export interface ToolLimits {
  readonly timeoutMs?: number;
  readonly cpuMs?: number;
  readonly memoryMiB?: number;
  readonly outputBytes?: number;
}

export interface ToolAnnotations {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** Key under which {@link content} stores its parts. Registered with `Symbol.for` (CONTENT_KEY), so that it is the same in all bundles. */
export const CONTENT: unique symbol = Symbol.for("glovebox.content") as never;

/** A return value with content parts in addition to the output. */
export interface ToolContent<Output = unknown> {
  readonly [CONTENT]: readonly ContentPart[];
  readonly output: Output;
}

/**
 * Creates a return value with content parts (text, images, audio, resources) for the model.
 * @param output structured output in addition to the parts, which `outputSchema` validates
 * @example
 * ```ts
 * import { content, image, text } from "glovebox/tool";
 * export default () => content([text("The chart:"), image(new Uint8Array([137, 80]), "image/png")], { points: 12 });
 * ```
 */
export function content(parts: readonly ContentPart[]): ToolContent<undefined>;
export function content<Output>(parts: readonly ContentPart[], output: Output): ToolContent<Output>;
export function content(parts: readonly ContentPart[], output?: unknown): ToolContent {
  return { [CONTENT]: parts, output };
}

const annotated = (annotations: ContentAnnotations | undefined): Pick<TextPart, "annotations"> =>
  annotations === undefined ? {} : { annotations };

/** Creates a text part for {@link content}. */
export function text(value: string, annotations?: ContentAnnotations): TextPart {
  return { type: "text", text: value, ...annotated(annotations) };
}

/** Creates an image part for {@link content}. */
export function image(data: Uint8Array, mimeType: string, annotations?: ContentAnnotations): ImagePart {
  return { type: "image", data, mimeType, ...annotated(annotations) };
}

/** Creates an audio part for {@link content}. */
export function audio(data: Uint8Array, mimeType: string, annotations?: ContentAnnotations): AudioPart {
  return { type: "audio", data, mimeType, ...annotated(annotations) };
}

/** Creates a part with an embedded resource for {@link content}. */
export function resource(contents: ResourcePart["resource"], annotations?: ContentAnnotations): ResourcePart {
  return { type: "resource", resource: contents, ...annotated(annotations) };
}

/** Creates a part with a link to a resource for {@link content}. */
export function resourceLink(link: Omit<ResourceLinkPart, "type">): ResourceLinkPart {
  return { type: "resource_link", ...link };
}

// biome-ignore lint/suspicious/noConfusingVoidType: return type of a function or generator without a return statement
type Nothing = undefined | void;
// biome-ignore lint/complexity/noBannedTypes: for a tool without a schema; `unknown` would absorb the other types of the union
type AnyOutput = {} | null | Nothing;
type Returned<Output> = undefined extends Output ? AnyOutput : OutputOf<Output> | ToolContent<OutputOf<Output>>;

/**
 * Return type of `execute`: its output or a promise of it, or a stream of chunks (an async generator or a ReadableStream) whose return
 * value is the output.
 */
export type ToolReturn<Output, Chunk = unknown> =
  | Returned<Output>
  | AsyncIterable<Chunk, Returned<Output> | Nothing>
  | Promise<Returned<Output> | AsyncIterable<Chunk, Returned<Output> | Nothing>>;

/** Type of the chunks that a streaming tool yields. */
export type ChunkOf<AnyTool> =
  AnyTool extends Tool<infer _Input, infer _Output, infer _Asked, infer Chunk> ? Chunk : never;

/** Capabilities and engine features (such as `webAssembly`) that a tool requests, by name. The host decides which it grants. */
export type CapabilityRequests = { readonly [name: string]: unknown };

/** Type of ctx. Requested capabilities are always present; if the host does not grant one, each use rejects with `CAPABILITY_DENIED`. */
export type ContextOf<Asked> = Asked extends CapabilityRequests
  ? ToolContext & Pick<OwnCapabilities, keyof Asked & keyof OwnCapabilities>
  : ToolContext;

/** Argument of {@link defineTool}. */
export interface Tool<
  Input extends ToolSchema | undefined,
  Output extends ToolSchema | undefined,
  Asked extends CapabilityRequests | undefined = undefined,
  Chunk = unknown,
> {
  /**
   * Name of the tool: 1 to 128 of `A-Z a-z 0-9 _ - .`
   * @default the name of the file or folder
   */
  readonly name?: string;
  readonly description: string;
  readonly inputSchema?: Input;
  readonly outputSchema?: Output;
  readonly annotations?: ToolAnnotations;
  readonly capabilities?: Asked;
  readonly limits?: ToolLimits;
  /**
   * Whether the tool's top-level code may run in advance, so that a call starts faster. Top-level code that logs, leaves a timer or takes
   * more than 250 ms runs only when the tool is called.
   * @default true
   */
  readonly prewarm?: boolean;
  /**
   * Runs a call. An async generator streams: a caller of `glovebox.stream()` receives each chunk as it is yielded, and the generator pauses
   * while too many chunks are unread. With `glovebox.execute()` the output is its return value or, if it returns nothing, the list of
   * chunks.
   */
  execute(input: InputOf<Input>, ctx: ContextOf<Asked>): ToolReturn<Output, Chunk>;
}

/**
 * Defines a tool. Returns its argument; the schemas determine the types of `execute`'s input and output.
 *
 * @example
 * ```ts
 * import { defineTool } from "glovebox/tool";
 * export default defineTool({
 *   description: "Adds two numbers",
 *   inputSchema: {
 *     type: "object",
 *     properties: { a: { type: "number" }, b: { type: "number" } },
 *     required: ["a", "b"],
 *   },
 *   execute: ({ a, b }) => ({ sum: a + b }),
 * });
 * ```
 */
export function defineTool<
  const Input extends ToolSchema | undefined = undefined,
  const Output extends ToolSchema | undefined = undefined,
  const Asked extends CapabilityRequests | undefined = undefined,
  Chunk = unknown,
>(tool: Tool<Input, Output, Asked, Chunk>): Tool<Input, Output, Asked, Chunk> {
  return tool;
}
