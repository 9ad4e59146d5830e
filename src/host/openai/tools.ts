// Converts tool definitions to the tools of OpenAI's two APIs, with the data needed to read the calls that come back.
import * as z from "zod";
import type { JsonSchema, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import { moveReferences } from "../adapters/embed-schema.ts";
import { parseOptions } from "../config/option-errors.ts";
import { type CompiledSchema, compileSchema } from "../json-schema/compile-schema.ts";
import { checkDefinitions } from "../routing/definitions.ts";
import { toStrictSchema } from "./strict-schema.ts";
import { ToolNames } from "./tool-names.ts";

/** OpenAI's two APIs: Responses and Chat Completions. */
export type OpenAIApi = "responses" | "chat";

/** A function tool of the Responses API. */
export interface ResponsesFunctionTool {
  type: "function";
  name: string;
  description: string;
  parameters: { [key: string]: unknown };
  strict: boolean;
  defer_loading?: boolean;
}
export interface ResponsesCustomTool {
  type: "custom";
  name: string;
  description: string;
  defer_loading?: boolean;
}
export interface ResponsesNamespaceTool {
  type: "namespace";
  name: string;
  description: string;
  tools: (ResponsesFunctionTool | ResponsesCustomTool)[];
}
/** An entry of `tools` in a request of the Responses API. */
export type ResponsesTool =
  | ResponsesFunctionTool
  | ResponsesCustomTool
  | ResponsesNamespaceTool
  | { type: "tool_search" };

/** An entry of `tools` in a request of Chat Completions: a function, or a custom tool, whose input is one text. */
export type ChatTool =
  | {
      type: "function";
      function: { name: string; description: string; parameters: { [key: string]: unknown }; strict: boolean };
    }
  | { type: "custom"; custom: { name: string; description: string } };

/** Options of {@link toOpenAITools}. */
export interface ToOpenAIToolsOptions<Api extends OpenAIApi = OpenAIApi> {
  readonly api: Api;
  /** `"auto"`: strict if the schema allows it. `false`: for servers without strict mode. @default "auto" */
  readonly strict?: "auto" | false | undefined;
  /** Names of tools with one text input, which the model writes as free text instead of JSON (code, a query). @default [] */
  readonly custom?: readonly string[] | undefined;
  /** Responses only: namespaces and their descriptions. A tool named `crm.…` goes into the namespace `crm`. @default {} */
  readonly namespaces?: { readonly [namespace: string]: string } | undefined;
  /** Responses only: the provider searches the tools for the model, which otherwise sees only their names. @default false */
  readonly toolSearch?: boolean | undefined;
}

const toolFields = {
  strict: z.union([z.literal("auto"), z.literal(false)], 'Expected "auto" or false').default("auto"),
  custom: z.array(z.string()).default([]),
  namespaces: z.record(z.string().min(1), z.string()).default({}),
  toolSearch: z.boolean().default(false),
};
/** Tool options without `api`, which each model sets itself. */
export const OpenAIToolOptionsSchema = strictObject(toolFields);
const ToOpenAIToolsOptionsSchema = strictObject({ api: z.enum(["responses", "chat"]), ...toolFields });

/** How a definition was converted to an OpenAI tool. */
export interface OpenAIToolNote {
  readonly toolName: string;
  /** The tool's name on the wire. */
  readonly alias: string;
  readonly strict: boolean;
  /** Why the tool is not strict. */
  readonly reason?: string;
}

/** The data needed to read a call of a tool. */
export interface ToolReading {
  readonly definition: ToolDefinition;
  /** The only property of a tool with one text input, which can be sent as a custom tool. */
  readonly textProperty: string | undefined;
  /** Whether the input is wrapped in an `input` property, because the API does not accept its schema at the root. */
  readonly isWrapped: boolean;
  /** Removes each `null` that represents a missing optional property; undefined if there are none. */
  readonly withoutNulls: ((value: unknown) => unknown) | undefined;
}

/** The tools of a request, and the data needed to read the calls in its answer. */
export interface OpenAITools<Api extends OpenAIApi = OpenAIApi> {
  readonly api: Api;
  /** The `tools` of the request. */
  readonly tools: Api extends "chat" ? ChatTool[] : ResponsesTool[];
  /** One note for each tool, in the order of the definitions. */
  readonly notes: readonly OpenAIToolNote[];
  /** Maps tool names to names on the wire, and back. */
  readonly names: ToolNames;
  /** Returns how a call of this tool is read; undefined for an unknown tool. */
  readingOf(toolName: string): ToolReading | undefined;
}

/** The property that contains the input of a wrapped tool. */
const WRAPPER = "input";
/** Keywords that the API rejects at the root of a function's parameters. */
const UNSUPPORTED_AT_ROOT = ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] as const;

const isPlainRoot = (schema: JsonSchema): boolean =>
  (schema.type === undefined || schema.type === "object") && !UNSUPPORTED_AT_ROOT.some((keyword) => keyword in schema);

/** Updates a reference to the root or into it after the root has moved into the wrapper. Definitions stay at the root. */
const toMoved = (reference: string): string =>
  !/^#($|\/)/.test(reference) || /^#\/(\$defs|definitions)\//.test(reference)
    ? reference
    : `#/properties/${WRAPPER}${reference.slice(1)}`;

function wrap(schema: JsonSchema): JsonSchema {
  const { $defs, definitions, $schema: _, ...rest } = moveReferences(schema, toMoved) as { [key: string]: JsonSchema };
  return {
    type: "object",
    properties: { [WRAPPER]: rest as JsonSchema },
    required: [WRAPPER],
    ...($defs === undefined ? {} : { $defs }),
    ...(definitions === undefined ? {} : { definitions }),
  };
}

/** Returns the name of a tool's only property if it is a required string. */
function findTextProperty({ type, properties, required }: JsonSchema): string | undefined {
  if (type !== "object" || !isJsonObject(properties)) return undefined;
  const names = Object.keys(properties);
  const [name] = names;
  if (name === undefined || names.length !== 1 || !Array.isArray(required) || !required.includes(name))
    return undefined;
  const property = properties[name];
  return isJsonObject(property) && property.type === "string" ? name : undefined;
}

interface Converted {
  readonly parameters: JsonSchema;
  readonly strict: boolean;
  readonly reason: string | undefined;
  readonly reading: ToolReading;
}

/** Conversions by definition: a definition is registered once and sent with each request. */
const conversions = new WeakMap<ToolDefinition, Converted>();

function convert(definition: ToolDefinition): Converted {
  const known = conversions.get(definition);
  if (known !== undefined) return known;
  const { inputSchema } = definition;
  const isWrapped = !isPlainRoot(inputSchema);
  const sent = isWrapped ? wrap(inputSchema) : { ...inputSchema, type: "object" };
  const strict = toStrictSchema(sent);
  const reading = {
    definition,
    textProperty: findTextProperty(inputSchema),
    isWrapped,
    withoutNulls: strict.strict && strict.hasNullables ? createWithoutNulls(inputSchema) : undefined,
  };
  const converted = strict.strict
    ? { parameters: strict.schema, strict: true, reason: undefined, reading }
    : { parameters: withProperties(sent), strict: false, reason: strict.reason, reading };
  conversions.set(definition, converted);
  return converted;
}

/** Adds `properties`, because some servers reject an object schema without them. */
const withProperties = (schema: JsonSchema): JsonSchema =>
  schema.properties === undefined ? { ...schema, properties: {} } : schema;

function createWithoutNulls(schema: JsonSchema): (value: unknown) => unknown {
  let compiled: CompiledSchema | undefined;
  return (value) => {
    compiled ??= compileSchema(schema, { subject: "inputSchema" });
    return compiled.coerce(value, { unknownKeys: "keep", coerce: true, nullsOnly: true }).value;
  };
}

/**
 * Converts definitions to tools of an OpenAI API: strict if the schema allows it, with valid names.
 * @throws {ToolError} PARAM_INVALID for an invalid definition or option, naming its path; for a tool in `custom` whose input is not one
 * text; and for an option that the API does not support
 * @example
 * ```ts
 * import { toOpenAITools } from "glovebox/openai";
 *
 * const inputSchema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
 * const weather = { name: "get_weather", description: "Returns the weather in a city", inputSchema };
 * const { tools, notes } = toOpenAITools([weather], { api: "responses" });
 * console.log(tools.length, notes[0]?.strict); // 1 true
 * ```
 */
export function toOpenAITools<Api extends OpenAIApi>(
  definitions: readonly ToolDefinition[],
  options: ToOpenAIToolsOptions<Api>,
): OpenAITools<Api> {
  checkDefinitions(definitions, "definitions");
  const parsed = parseOptions(ToOpenAIToolsOptionsSchema, options, "options");
  const { strict, custom, namespaces, toolSearch } = parsed;
  const api = parsed.api as Api;
  if (api === "chat" && (toolSearch || Object.keys(namespaces).length > 0)) {
    throw new ToolError("PARAM_INVALID", "options: Chat Completions supports neither namespaces nor tool search");
  }
  const names = new ToolNames(
    definitions.map(({ name }) => name),
    Object.keys(namespaces),
  );
  const readings = new Map<string, ToolReading>();
  const notes: OpenAIToolNote[] = [];
  const top: (ResponsesTool | ChatTool)[] = [];
  const grouped = new Map<string, ResponsesNamespaceTool>();
  for (const definition of definitions) {
    const converted = convert(definition);
    const { name: toolName, description } = definition;
    const { namespace, name } = names.wireNameOf(toolName);
    const isCustom = custom.includes(toolName);
    if (isCustom && converted.reading.textProperty === undefined) {
      throw new ToolError(
        "PARAM_INVALID",
        `options.custom: Expected tools whose only input is a required string, got ${JSON.stringify(toolName)}`,
      );
    }
    const isStrict = strict === "auto" && converted.strict && !isCustom;
    readings.set(toolName, isStrict ? converted.reading : { ...converted.reading, withoutNulls: undefined });
    notes.push({ toolName, alias: name, strict: isStrict, ...reasonOf(isStrict, isCustom, converted.reason) });
    const tool = isCustom
      ? ({ type: "custom", name, description } as const)
      : toFunctionTool(definition, name, isStrict, converted);
    if (api === "chat") {
      top.push(toChatTool(tool));
      continue;
    }
    const sent = toolSearch ? { ...tool, defer_loading: true } : tool;
    if (namespace === undefined) top.push(sent);
    else groupOf(grouped, namespace, namespaces).tools.push(sent);
  }
  const tools = [...top, ...grouped.values(), ...(toolSearch ? [{ type: "tool_search" } as const] : [])];
  return {
    api,
    tools: tools as OpenAITools<Api>["tools"],
    notes,
    names,
    readingOf: (toolName) => readings.get(toolName),
  };
}

/** @throws {ToolError} PARAM_INVALID unless the value is undefined or was returned by {@link toOpenAITools} */
export function checkOpenAITools(tools: unknown, what: string): void {
  if (tools === undefined) return;
  if (isPlainObject(tools) && tools.names instanceof ToolNames && typeof tools.readingOf === "function") return;
  throw new ToolError(
    "PARAM_INVALID",
    `${what}: Expected a value returned by toOpenAITools(), got ${describeKind(tools)}`,
  );
}

function reasonOf(isStrict: boolean, isCustom: boolean, reason: string | undefined): { readonly reason?: string } {
  if (isStrict) return {};
  if (isCustom) return { reason: "A custom tool has no schema" };
  return { reason: reason ?? "Strict mode is turned off" };
}

function toFunctionTool(
  definition: ToolDefinition,
  name: string,
  isStrict: boolean,
  converted: Converted,
): ResponsesFunctionTool {
  const parameters = isStrict || !converted.strict ? converted.parameters : toLooseSchema(definition);
  const { description } = definition;
  return {
    type: "function",
    name,
    description,
    parameters: parameters as { [key: string]: unknown },
    strict: isStrict,
  };
}

function toChatTool(tool: ResponsesFunctionTool | ResponsesCustomTool): ChatTool {
  if (tool.type === "custom") {
    const { type, ...custom } = tool;
    return { type, custom };
  }
  const { type, ...fields } = tool;
  return { type, function: fields };
}

/** Returns the schema for a tool that is not strict. */
function toLooseSchema({ inputSchema }: ToolDefinition): JsonSchema {
  return withProperties(isPlainRoot(inputSchema) ? { ...inputSchema, type: "object" } : wrap(inputSchema));
}

function groupOf(
  grouped: Map<string, ResponsesNamespaceTool>,
  namespace: string,
  descriptions: { readonly [namespace: string]: string },
): ResponsesNamespaceTool {
  const group = grouped.get(namespace) ?? {
    type: "namespace" as const,
    name: namespace,
    description: descriptions[namespace] ?? "",
    tools: [],
  };
  grouped.set(namespace, group);
  return group;
}
