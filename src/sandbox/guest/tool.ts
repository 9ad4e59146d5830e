// Entry point "glovebox/tool" for tool authors: defineTool, content parts, and their types. It runs inside the isolate and has only type
// imports.
import type {
  AudioPart,
  ContentAnnotations,
  ContentPart,
  ImagePart,
  ResourceLinkPart,
  ResourcePart,
  TextPart,
} from "../contract/content.ts";

import type { ToolAnnotations } from "../contract/tool-annotations.ts";
import type { OwnCapabilities, ToolContext } from "./tool-context.ts";
import type { InputOf, OutputOf, ToolSchema } from "./tool-schema.ts";

export type {
  AudioPart,
  ContentAnnotations,
  ContentPart,
  ImagePart,
  ResourceLinkPart,
  ResourcePart,
  TextPart,
} from "../contract/content.ts";
export type { ToolAnnotations } from "../contract/tool-annotations.ts";
export type {
  LogCall,
  OwnCapabilities,
  ToolAbortSignal,
  ToolApproval,
  ToolCalls,
  ToolContext,
  ToolElicit,
  ToolKv,
  ToolKvDeleteOptions,
  ToolKvEntry,
  ToolKvListOptions,
  ToolKvPage,
  ToolKvSetOptions,
  ToolKvSetResult,
  ToolLogLevel,
  ToolOnRollback,
  ToolProgress,
  ToolRoots,
  ToolSample,
  ToolSecrets,
  ToolSpanAttributes,
  ToolWait,
  ToolWaitFor,
} from "./tool-context.ts";
export type { FromJsonSchema, InputOf, OutputOf, PlainJsonSchema, ToolSchema } from "./tool-schema.ts";

/** Limits that a tool sets for itself. They can only lower those of the host. */
export interface ToolLimits {
  /** Longest time of a call in ms. */
  readonly timeoutMs?: number;
  /** Maximum CPU time of a call in ms. */
  readonly cpuMs?: number;
  /** Maximum memory of a call in MiB. */
  readonly memoryMiB?: number;
  /** Largest output in bytes of JSON. */
  readonly outputBytes?: number;
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
export type ToolCapabilityRequests = { readonly [name: string]: unknown };

/** Type of ctx. Requested capabilities are always present; if the host does not grant one, each use rejects with `CAPABILITY_DENIED`. */
export type ContextOf<Asked> = Asked extends ToolCapabilityRequests
  ? ToolContext &
      Pick<OwnCapabilities, keyof Asked & keyof OwnCapabilities> &
      ("waitFor" extends keyof Asked ? Pick<OwnCapabilities, "onRollback"> : unknown)
  : ToolContext;

/** Argument of {@link defineTool}. */
export interface Tool<
  Input extends ToolSchema | undefined,
  Output extends ToolSchema | undefined,
  Asked extends ToolCapabilityRequests | undefined = undefined,
  Chunk = unknown,
> {
  /**
   * Name of the tool: 1 to 128 of `A-Z a-z 0-9 _ - .`
   * @default the name of the file or folder
   */
  readonly name?: string;
  /** What the tool does, for the model. */
  readonly description: string;
  /** Schema of the input: a JSON Schema, or a Standard Schema such as one of zod. Default: any input */
  readonly inputSchema?: Input;
  /** Schema of the output, which is validated. Default: any output */
  readonly outputSchema?: Output;
  /** Hints about the tool's effects. */
  readonly annotations?: ToolAnnotations;
  /** Capabilities and engine features that the tool requests from its host. */
  readonly capabilities?: Asked;
  /** Limits of the tool, which can only lower those of the host. */
  readonly limits?: ToolLimits;
  /**
   * Whether the tool runs only as a durable run, because it waits with `ctx.waitFor`. Other calls fail with `TOOL_UNAVAILABLE`
   * (`details.reason: "needs_run"`).
   * @default false
   */
  readonly durable?: boolean;
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
  const Asked extends ToolCapabilityRequests | undefined = undefined,
  Chunk = unknown,
>(tool: Tool<Input, Output, Asked, Chunk>): Tool<Input, Output, Asked, Chunk> {
  return tool;
}
