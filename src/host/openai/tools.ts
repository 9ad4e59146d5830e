// Tools out: definitions as OpenAI's two APIs take them, and what is needed to read the calls that come back.
import * as z from "zod";
import type { JsonSchema, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { type CompiledSchema, compileSchema } from "../json-schema/compile-schema.ts";
import { isObject } from "../json-schema/schema-copy.ts";
import { checkDefinitions } from "../routing/definitions.ts";
import { toStrictSchema } from "./strict-schema.ts";
import { ToolNames } from "./tool-names.ts";

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
export type ResponsesTool =
  | ResponsesFunctionTool
  | ResponsesCustomTool
  | ResponsesNamespaceTool
  | { type: "tool_search" };

export type ChatTool =
  | {
      type: "function";
      function: { name: string; description: string; parameters: { [key: string]: unknown }; strict: boolean };
    }
  | { type: "custom"; custom: { name: string; description: string } };

export interface ToOpenAIToolsOptions<Api extends OpenAIApi = OpenAIApi> {
  readonly api: Api;
  /** `auto` unless stated: strict where the schema allows it. False for servers that do not know the word. */
  readonly strict?: "auto" | false | undefined;
  /** Names of tools whose whole input is one text, which the model then writes freely, without JSON around it (code, a query). */
  readonly custom?: readonly string[] | undefined;
  /** Responses only: tools named `crm.…` go into the namespace `crm`, with this description. */
  readonly namespaces?: { readonly [namespace: string]: string } | undefined;
  /** Responses only: the model finds tools by a search on the provider's side, and sees only names until then. */
  readonly toolSearch?: boolean | undefined;
}

const toolShape = {
  strict: z.union([z.literal("auto"), z.literal(false)], 'Expected "auto" or false').default("auto"),
  custom: z.array(z.string()).default([]),
  namespaces: z.record(z.string().min(1), z.string()).default({}),
  toolSearch: z.boolean().default(false),
};
/** Without the API, which a model knows by itself. */
export const OpenAIToolOptionsSchema = strictObject(toolShape);
const ToOpenAIToolsOptionsSchema = strictObject({ api: z.enum(["responses", "chat"]), ...toolShape });

/** How a tool was made one of OpenAI's. */
export interface OpenAIToolNote {
  readonly toolName: string;
  /** Its name on the wire. */
  readonly alias: string;
  readonly strict: boolean;
  /** Why it cannot be strict. */
  readonly reason?: string;
}

/** What reading a call needs to know of its tool. */
export interface ToolReading {
  readonly definition: ToolDefinition;
  /** The one text property of a tool that is sent as a custom one, or that could be. */
  readonly textProperty: string | undefined;
  /** Whether the input stands under `input`, since the wire takes no such schema at its root. */
  readonly isWrapped: boolean;
  /** Takes out each `null` that stands for an optional property; undefined where there can be none. */
  readonly withoutNulls: ((value: unknown) => unknown) | undefined;
}

export interface OpenAITools<Api extends OpenAIApi = OpenAIApi> {
  readonly api: Api;
  /** For the request's `tools`. */
  readonly tools: Api extends "chat" ? ChatTool[] : ResponsesTool[];
  readonly notes: readonly OpenAIToolNote[];
  readonly names: ToolNames;
  readingOf(toolName: string): ToolReading | undefined;
}

/** Under which the input of a wrapped tool stands. */
const WRAPPER = "input";
/** What the wire refuses at the root of any function's parameters. */
const ROOT_REFUSED = ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] as const;

const isPlainRoot = (schema: JsonSchema): boolean =>
  (schema.type === undefined || schema.type === "object") && !ROOT_REFUSED.some((keyword) => keyword in schema);

/** References to the root or into it, when that has moved. */
function moveReferences(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(moveReferences);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      if (key !== "$ref" || typeof member !== "string") return [key, moveReferences(member)];
      const stays = !/^#($|\/)/.test(member) || /^#\/(\$defs|definitions)\//.test(member);
      return [key, stays ? member : `#/properties/${WRAPPER}${member.slice(1)}`];
    }),
  );
}

function wrap(schema: JsonSchema): JsonSchema {
  const { $defs, definitions, $schema: _, ...rest } = moveReferences(schema) as { [key: string]: JsonSchema };
  return {
    type: "object",
    properties: { [WRAPPER]: rest as JsonSchema },
    required: [WRAPPER],
    ...($defs === undefined ? {} : { $defs }),
    ...(definitions === undefined ? {} : { definitions }),
  };
}

/** The name of the one property that a tool takes, if it is a text. */
function textPropertyOf({ type, properties, required }: JsonSchema): string | undefined {
  if (type !== "object" || !isObject(properties)) return undefined;
  const names = Object.keys(properties);
  const [name] = names;
  if (name === undefined || names.length !== 1 || !Array.isArray(required) || !required.includes(name))
    return undefined;
  const property = properties[name];
  return isObject(property) && property.type === "string" ? name : undefined;
}

interface Converted {
  readonly parameters: JsonSchema;
  readonly strict: boolean;
  readonly reason: string | undefined;
  readonly reading: ToolReading;
}

/** Definitions are registered once and sent with each request. */
const kept = new WeakMap<ToolDefinition, Converted>();

function convert(definition: ToolDefinition): Converted {
  const known = kept.get(definition);
  if (known !== undefined) return known;
  const { inputSchema } = definition;
  const isWrapped = !isPlainRoot(inputSchema);
  const sent = isWrapped ? wrap(inputSchema) : { ...inputSchema, type: "object" };
  const strict = toStrictSchema(sent);
  const reading = {
    definition,
    textProperty: textPropertyOf(inputSchema),
    isWrapped,
    withoutNulls: strict.strict && strict.hasNullables ? createWithoutNulls(inputSchema) : undefined,
  };
  const converted = strict.strict
    ? { parameters: strict.schema, strict: true, reason: undefined, reading }
    : { parameters: withProperties(sent), strict: false, reason: strict.reason, reading };
  kept.set(definition, converted);
  return converted;
}

/** Some servers take no object without `properties`. */
const withProperties = (schema: JsonSchema): JsonSchema =>
  schema.properties === undefined ? { ...schema, properties: {} } : schema;

function createWithoutNulls(schema: JsonSchema): (value: unknown) => unknown {
  let compiled: CompiledSchema | undefined;
  return (value) => {
    compiled ??= compileSchema(schema, { subject: "inputSchema" });
    return compiled.amend(value, { unknownKeys: "keep", coerce: true, nullsOnly: true }).value;
  };
}

/**
 * Definitions as tools of OpenAI's API: strict where the schema allows it, under names that its rule takes.
 * @throws {ToolError} PARAM_INVALID for a definition or an option that is wrong, naming its path; for a tool in `custom` that does not take
 *   one text; and for an option that the API does not have
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
    throw new ToolError("PARAM_INVALID", "options: Chat Completions has neither namespaces nor tool search");
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
    const { namespace, name } = names.placeOf(toolName);
    const isCustom = custom.includes(toolName);
    if (isCustom && converted.reading.textProperty === undefined) {
      throw new ToolError(
        "PARAM_INVALID",
        `options.custom: expected tools that take one required text, got ${JSON.stringify(toolName)}`,
      );
    }
    const isStrict = strict === "auto" && converted.strict && !isCustom;
    const parameters = (isStrict || !converted.strict ? converted.parameters : unstrict(definition)) as {
      [key: string]: unknown;
    };
    readings.set(toolName, isStrict ? converted.reading : { ...converted.reading, withoutNulls: undefined });
    notes.push({ toolName, alias: name, strict: isStrict, ...reasonOf(isStrict, isCustom, converted.reason) });
    if (api === "chat") {
      top.push(
        isCustom
          ? { type: "custom", custom: { name, description } }
          : { type: "function", function: { name, description, parameters, strict: isStrict } },
      );
      continue;
    }
    const deferred = toolSearch ? { defer_loading: true } : {};
    const tool: ResponsesFunctionTool | ResponsesCustomTool = isCustom
      ? { type: "custom", name, description, ...deferred }
      : { type: "function", name, description, parameters, strict: isStrict, ...deferred };
    if (namespace === undefined) top.push(tool);
    else groupOf(grouped, namespace, namespaces).tools.push(tool);
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

/** @throws {ToolError} PARAM_INVALID for anything but undefined and what {@link toOpenAITools} returned */
export function checkOpenAITools(tools: unknown, what: string): void {
  if (tools === undefined) return;
  if (isPlainObject(tools) && tools.names instanceof ToolNames && typeof tools.readingOf === "function") return;
  throw new ToolError("PARAM_INVALID", `${what}: Expected what toOpenAITools() returns, got ${describeKind(tools)}`);
}

function reasonOf(isStrict: boolean, isCustom: boolean, reason: string | undefined): { readonly reason?: string } {
  if (isStrict) return {};
  if (isCustom) return { reason: "A custom tool has no schema" };
  return { reason: reason ?? "Strict mode was not asked for" };
}

/** As the wire takes it without being strict. */
function unstrict({ inputSchema }: ToolDefinition): JsonSchema {
  return withProperties(isPlainRoot(inputSchema) ? { ...inputSchema, type: "object" } : wrap(inputSchema));
}

function groupOf(
  grouped: Map<string, ResponsesNamespaceTool>,
  namespace: string,
  descriptions: { readonly [namespace: string]: string },
): ResponsesNamespaceTool {
  const group = grouped.get(namespace) ?? {
    ...{ type: "namespace" as const, name: namespace },
    ...{ description: descriptions[namespace] ?? "", tools: [] },
  };
  grouped.set(namespace, group);
  return group;
}
