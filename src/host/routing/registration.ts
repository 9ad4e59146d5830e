// Checks what a host passes to register a function as a tool: its definition, its schemas, its handler and its options.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import * as z from "zod";
import {
  ANY_OBJECT_SCHEMA,
  type JsonSchema,
  ToolAnnotationsSchema,
  type ToolDefinition,
} from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { HostFunctionSchemas } from "../executors/host-function.ts";
import { isStandardSchema, toJsonSchema } from "../json-schema/standard-schema.ts";
import { type ArgumentOptions, ArgumentOptionsSchema } from "../pipeline/coercion.ts";
import { ownerFields } from "./tenant-scope.ts";

/** A schema of a host's tool: of any library that implements Standard Schema (zod, valibot, arktype …), or JSON Schema 2020-12. */
export type HostSchema = StandardSchemaV1 | JsonSchema;

/** The type of a handler's input: the output type of a Standard Schema, after its defaults and transforms; else any value. */
export type HostInput<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Schema> : ToolValue;

/**
 * The definition of a host's tool, without its name. A library's schema is listed as the JSON Schema that the library converts
 * it to (`~standard.jsonSchema`). For a library without that conversion, the tool is listed with `{ type: "object" }` and without an output
 * schema, and the library still validates each call.
 */
export interface HostToolDefinition<Input extends HostSchema = JsonSchema>
  extends Partial<Omit<ToolDefinition, "name" | "capabilities" | "inputSchema" | "outputSchema">> {
  /** Arguments are validated by it. Default: any object. */
  readonly inputSchema?: Input | undefined;
  /** The handler's output is validated by it, unless it is streamed in chunks. Default: any JSON value. */
  readonly outputSchema?: HostSchema | undefined;
}

/** Options of a host's tool. */
export interface RegisterOptions {
  /** The tenant that the tool belongs to, 1 to 1,024 characters. With `tenancy: "multi"`, this or `scope` is required. */
  readonly tenantId?: string | undefined;
  /** `"global"`: every tenant may call it. */
  readonly scope?: "global" | undefined;
  /** How arguments are coerced that the schema would reject. */
  readonly arguments?: ArgumentOptions | undefined;
}

const SCHEMA_RULE = "Expected a Standard Schema or a JSON Schema object";
const HostSchemaSchema = z.custom<HostSchema>((value) => isStandardSchema(value) || isPlainObject(value), {
  error: ({ input }) => `${SCHEMA_RULE}, got ${describeKind(input)}`,
});

/** What only the host may state of a tool's source; built from a server's configuration. */
const OriginSchema = strictObject({ server: z.string(), toolName: z.string(), isTrusted: z.boolean() });

const HostDefinitionSchema = strictObject({
  description: z.string().optional(),
  inputSchema: HostSchemaSchema.optional(),
  outputSchema: HostSchemaSchema.optional(),
  annotations: ToolAnnotationsSchema.optional(),
  limits: PartialLimitsSchema.optional(),
  prewarm: z.boolean().optional(),
  origin: OriginSchema.optional(),
});

const registerShape = { ...ownerFields, arguments: ArgumentOptionsSchema.optional() };
const RegisterOptionsSchema = strictObject(registerShape);
const SourceToolOptionsSchema = strictObject({ ...registerShape, nameAtSource: z.string().min(1).optional() });

/** A definition with JSON Schema only, and the schemas of a library, which validate each call. */
export interface ParsedDefinition {
  readonly definition: Omit<ToolDefinition, "name">;
  readonly schemas: HostFunctionSchemas | undefined;
}

/** @throws {ToolError} PARAM_INVALID, naming the path of each field that is wrong */
export function parseHostDefinition(given: unknown): ParsedDefinition {
  const parsed = parseOptions(HostDefinitionSchema, given, "definition");
  const { description = "", inputSchema, outputSchema, ...rest } = parsed;
  const input = isStandardSchema(inputSchema) ? inputSchema : undefined;
  const output = isStandardSchema(outputSchema) ? outputSchema : undefined;
  const listedInput = input === undefined ? (inputSchema as JsonSchema | undefined) : toJsonSchema(input, "input");
  const listedOutput = output === undefined ? (outputSchema as JsonSchema | undefined) : toJsonSchema(output, "output");
  return {
    definition: {
      ...rest,
      description,
      inputSchema: listedInput ?? ANY_OBJECT_SCHEMA,
      ...(listedOutput === undefined ? {} : { outputSchema: listedOutput }),
    },
    schemas: input === undefined && output === undefined ? undefined : { input, output },
  };
}

/** @throws {ToolError} PARAM_INVALID */
export function parseRegisterOptions(options: unknown = {}): RegisterOptions {
  return parseOptions(RegisterOptionsSchema, options, "options");
}

/** Options of a tool of an added source. @throws {ToolError} PARAM_INVALID */
export function parseSourceToolOptions(
  options: unknown = {},
): RegisterOptions & { readonly nameAtSource?: string | undefined } {
  return parseOptions(SourceToolOptionsSchema, options, "options");
}

/** @throws {ToolError} PARAM_INVALID for a handler that is not a function */
export function checkHandler(toolName: unknown, handler: unknown): void {
  if (typeof handler === "function") return;
  throw new ToolError(
    "PARAM_INVALID",
    `The handler of ${JSON.stringify(toolName)}: expected a function, got ${describeKind(handler)}`,
  );
}
