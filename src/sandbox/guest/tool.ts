// What a tool author imports from "glovebox/tool": defineTool, content parts, and their types. It runs inside the isolate, and imports
// nothing.
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

/** JSON Schema 2020-12 written by hand, as an object. */
export type PlainJsonSchema = { readonly [keyword: string]: unknown };

/** How an author may state a schema: any Standard Schema library (zod, valibot, arktype …), or plain JSON Schema. */
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

/** The TypeScript type of a plain JSON Schema written as a literal; what it cannot express is `unknown`. */
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

/** What `execute` receives: the schema's output, after defaults and transforms. */
export type InputOf<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Schema>
  : Schema extends PlainJsonSchema
    ? FromJsonSchema<Schema>
    : Record<string, unknown>;

/** What `execute` returns: the schema's input, before defaults and transforms. */
export type OutputOf<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Schema>
  : Schema extends PlainJsonSchema
    ? FromJsonSchema<Schema>
    : unknown;

export type LogLevel = "debug" | "info" | "warn" | "error";

/** Writes one structured line to the call's logs. `data` must be JSON. Resolves when the host has it; need not be awaited. */
export type LogCall = (message: string, data?: unknown) => Promise<void>;

/** How far a call is, in MCP's words: `progress` grows, `total` if it is known. */
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

/** The `AbortSignal` of the types that a tool is checked with (the DOM's, Node's); where they have none, its main members. */
export type ToolAbortSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : MinimalAbortSignal;

/** What is kept under a key: a value that JSON has, or bytes. */
export interface KvEntry<Value = unknown> {
  readonly key: string;
  readonly value: Value;
  /** Of this value; each write gives a new one. For `ifVersion`. */
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly expiresAt?: number;
}

export interface KvSetOptions {
  /** The entry is gone after so long, 1 ms to ten years; it stays unless stated. */
  readonly ttlMs?: number | undefined;
  /** Only if the entry has this version; null: only if there is no entry. */
  readonly ifVersion?: string | null | undefined;
}

/** `ok` is false only where `ifVersion` did not hold; `version` is then the one that there is, or null. */
export type KvSetResult =
  | { readonly ok: true; readonly version: string }
  | { readonly ok: false; readonly version: string | null };

export interface KvDeleteOptions {
  /** Only if the entry has this version. */
  readonly ifVersion?: string | undefined;
}

export interface KvListOptions {
  /** Keys that begin with it; all unless stated. */
  readonly prefix?: string | undefined;
  /** Where the last page ended: its `cursor`. */
  readonly cursor?: string | undefined;
  /** Entries of a page at most, 1 to 1,000; 100 unless stated. */
  readonly limit?: number | undefined;
}

/** Ordered by the code points of the keys. */
export interface KvPage<Value = unknown> {
  readonly entries: readonly KvEntry<Value>[];
  /** Absent on the last page. */
  readonly cursor?: string;
}

/**
 * What the tool keeps between calls, for the tenant that calls and for this tool alone. Keys are text of 1 to 1,024 bytes in UTF-8;
 * values are JSON, or a `Uint8Array`, which comes back as one. Rejects with `QUOTA_EXCEEDED` when there is no room.
 */
export interface ToolKv {
  /** Undefined where there is no entry. */
  get<Value = unknown>(key: string): Promise<Value | undefined>;
  /** The value with its version. */
  getEntry<Value = unknown>(key: string): Promise<KvEntry<Value> | undefined>;
  set(key: string, value: unknown, options?: KvSetOptions): Promise<KvSetResult>;
  /** Whether there was one, and with `ifVersion` the right one. */
  delete(key: string, options?: KvDeleteOptions): Promise<boolean>;
  list<Value = unknown>(options?: KvListOptions): Promise<KvPage<Value>>;
}

/**
 * Other tools of the same tenant, by name: `ctx.tools.add({ a: 1, b: 2 })`. They run with their own grants and limits, within what is
 * left of this call's time, and end with it. Bytes (`Uint8Array`) go there and come back as bytes. A failure rejects with its `code` and
 * message.
 */
export type ToolCalls = { readonly [toolName: string]: (input?: unknown) => Promise<unknown> } & {
  /** For any name, `call` included. */
  call(toolName: string, input?: unknown): Promise<unknown>;
};

/** As the author's own types have it, Node's or the DOM's. */
type Fetch = typeof globalThis extends { readonly fetch: infer Global }
  ? Global
  : (url: string, init?: { readonly [option: string]: unknown }) => Promise<unknown>;

/** Secrets that the host has bound to hosts, none of which the tool ever sees. */
export interface ToolSecrets {
  /** A placeholder: the host puts the value in its place as a request leaves for one of the secret's hosts. */
  use(name: string): Promise<string>;
}

interface Question {
  /**
   * What the question is called towards the caller, 1 to 64 of A-Z a-z 0-9 _ . -: an MCP client finds it under this name, and may send
   * the answer ahead.
   */
  readonly key?: string;
}

/** Asks the person behind the call: a form, as the JSON Schema of an object with plain members, or a page to be visited. */
export type ToolElicit = (
  request: Question &
    (
      | { readonly message: string; readonly requestedSchema: { readonly [keyword: string]: unknown } }
      | { readonly mode: "url"; readonly message: string; readonly url: string; readonly elicitationId?: string }
    ),
) => Promise<
  | { readonly action: "accept"; readonly content?: { readonly [name: string]: unknown } }
  | { readonly action: "decline" | "cancel" }
>;

/** Asks the model behind the call for a message; request and answer are those of MCP's `sampling/createMessage`. */
export type ToolSample = (
  request: Question & {
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

/** Lists where the person behind the call works, as URLs. */
export type ToolRoots = (
  request?: Question,
) => Promise<{ readonly roots: readonly { readonly uri: string; readonly name?: string }[] }>;

/** Members of ctx that come with Glovebox's own capabilities. */
export interface OwnCapabilities {
  /**
   * Sends requests through the host, by its rules; the global `fetch` is the same. With this grant the globals `WebSocket` and
   * `EventSource` connect by the same rules. All connections end with the call.
   */
  readonly fetch: Fetch;
  readonly secrets: ToolSecrets;
  readonly kv: ToolKv;
  readonly tools: ToolCalls;
  /** Each rejects with `CAPABILITY_DENIED` where whoever calls cannot be asked. Waiting for an answer costs the call no time. */
  readonly elicit: ToolElicit;
  readonly sample: ToolSample;
  readonly roots: ToolRoots;
}

/** Secrets that the host has for this tool, where it grants `secrets`. */
export interface ToolSecrets {
  /**
   * A placeholder, for header values, queries and bodies of requests by `fetch`, and for headers, protocols and messages of a
   * `WebSocket`: the host puts the value in its place as the request
   * leaves, towards the secret's own hosts only. Rejects with `CAPABILITY_DENIED` where there is no such secret for the tool.
   */
  use(name: string): Promise<string>;
}

/** What `execute` is given besides its input. Each granted capability is one more member, by its name. */
export interface ToolContext extends Partial<OwnCapabilities> {
  readonly callId: string;
  readonly tenantId: string;
  /** Aborts when the call is over, so that leftover work can stop itself. */
  readonly signal: ToolAbortSignal;
  readonly log: LogCall & { readonly [Level in LogLevel]: LogCall };
  /**
   * Tells the caller how far the call is. Never throws for want of a listener. A call makes at most 1,000 reports; later ones
   * are dropped silently.
   * @throws {TypeError} when `progress` is not a finite number
   */
  progress(progress: ToolProgress): void;
  /** There if the tool asks for it (`capabilities: { secrets: ["API_KEY"] }`) or the host grants it. */
  readonly secrets: ToolSecrets;
  /**
   * A capability that the host granted: JSON in, JSON out. One that was not granted is absent (`ctx.kv?.get(key)`), or rejects where the
   * tool has asked for it in `capabilities`; a call that fails because it used one has the code `CAPABILITY_DENIED` and names it.
   */
  readonly [capability: string]: unknown;
}

/** The limits that a tool may set for itself, below the host's. */
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

/** Under which {@link content} leaves its parts: CONTENT_KEY of ../content.ts, in the registry, so that it is the same in every bundle. */
export const CONTENT: unique symbol = Symbol.for("glovebox.content") as never;

/** A return value with content beside the output. */
export interface ToolContent<Output = unknown> {
  readonly [CONTENT]: readonly ContentPart[];
  readonly output: Output;
}

/**
 * What a tool returns to show a model more than JSON.
 * @param output plain JSON beside it, which `outputSchema` checks
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

export function text(value: string, annotations?: ContentAnnotations): TextPart {
  return { type: "text", text: value, ...annotated(annotations) };
}

export function image(data: Uint8Array, mimeType: string, annotations?: ContentAnnotations): ImagePart {
  return { type: "image", data, mimeType, ...annotated(annotations) };
}

export function audio(data: Uint8Array, mimeType: string, annotations?: ContentAnnotations): AudioPart {
  return { type: "audio", data, mimeType, ...annotated(annotations) };
}

export function resource(contents: ResourcePart["resource"], annotations?: ContentAnnotations): ResourcePart {
  return { type: "resource", resource: contents, ...annotated(annotations) };
}

export function resourceLink(link: Omit<ResourceLinkPart, "type">): ResourceLinkPart {
  return { type: "resource_link", ...link };
}

// biome-ignore lint/suspicious/noConfusingVoidType: what a function or a generator without a return statement gives
type Nothing = undefined | void;
// biome-ignore lint/complexity/noBannedTypes: of a tool without a schema; `unknown` would swallow the types beside it
type AnyOutput = {} | null | Nothing;
type Returned<Output> = undefined extends Output ? AnyOutput : OutputOf<Output> | ToolContent<OutputOf<Output>>;

/**
 * What `execute` may give: its output, at once or later; or a stream (an async generator, a ReadableStream) of chunks, whose return
 * value is the output.
 */
export type ToolReturn<Output, Chunk = unknown> =
  | Returned<Output>
  | AsyncIterable<Chunk, Returned<Output> | Nothing>
  | Promise<Returned<Output> | AsyncIterable<Chunk, Returned<Output> | Nothing>>;

/** What a streaming tool yields. */
export type ChunkOf<AnyTool> =
  AnyTool extends Tool<infer _Input, infer _Output, infer _Asked, infer Chunk> ? Chunk : never;

/** Capabilities, and engine features such as `webAssembly`, asked for by name; the host decides. */
export type CapabilityRequests = { readonly [name: string]: unknown };

/** What a tool asks for it has in ctx: where the host does not grant it, each use rejects with `CAPABILITY_DENIED`. */
export type ContextOf<Asked> = Asked extends CapabilityRequests
  ? ToolContext & Pick<OwnCapabilities, keyof Asked & keyof OwnCapabilities>
  : ToolContext;

/** A tool as its author writes it. */
export interface Tool<
  Input extends ToolSchema | undefined,
  Output extends ToolSchema | undefined,
  Asked extends CapabilityRequests | undefined = undefined,
  Chunk = unknown,
> {
  /** 1 to 128 of `A-Z a-z 0-9 _ - .`; without one, the file or folder gives the name. */
  readonly name?: string;
  readonly description: string;
  readonly inputSchema?: Input;
  readonly outputSchema?: Output;
  readonly annotations?: ToolAnnotations;
  readonly capabilities?: Asked;
  readonly limits?: ToolLimits;
  /**
   * Whether the top level may be run before anybody has called, so that a call finds the tool loaded; true unless stated. One that
   * logs, leaves a timer or takes more than 250 ms is run when it is called anyway.
   */
  readonly prewarm?: boolean;
  /**
   * An async generator streams: what it yields reaches whoever called with `box.stream` as it comes, and the next chunk is asked for only
   * while there is room. With `box.execute` its output is its return value or, if it returns nothing, the list of its chunks.
   */
  execute(input: InputOf<Input>, ctx: ContextOf<Asked>): ToolReturn<Output, Chunk>;
}

/**
 * States a tool, so that `execute`'s input and output are typed by its schemas. Returns its argument.
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
