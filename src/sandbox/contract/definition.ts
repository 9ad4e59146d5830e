// Types and schemas of a tool definition, named as in MCP. A definition is extracted by running the tool's code in an isolate, so the
// schemas here parse untrusted input.
import * as z from "zod";
import { type CapabilityRequests, CapabilityRequestsSchema } from "./capability-requests.ts";
import type { JsonValue } from "./errors.ts";
import type { PartialLimits } from "./limits.ts";
import { PartialLimitsSchema } from "./partial-limits.ts";
import { plainObject, strictObject } from "./plain-object.ts";
import { MAX_MISNAMED } from "./schema-names.ts";
import type { ToolAnnotations } from "./tool-annotations.ts";
import { ToolNameSchema } from "./tool-name.ts";

/** A JSON Schema (2020-12) as an object. The boolean schemas `true` and `false` are not accepted as a tool's whole schema. */
export type JsonSchema = { readonly [keyword: string]: JsonValue };
const JsonSchemaSchema = z.record(z.string(), z.json()) as unknown as z.ZodType<JsonSchema>;

export const ToolAnnotationsSchema: z.ZodType<ToolAnnotations, ToolAnnotations> = strictObject({
  title: z.string().max(256).optional(),
  readOnlyHint: z.boolean().optional(),
  destructiveHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  openWorldHint: z.boolean().optional(),
});

/** Definition of a tool, named as in MCP: what a model sees, and what the tool requests from its host. */
export interface ToolDefinition {
  /** 1 to 128 characters out of A-Z a-z 0-9 _ - . */
  readonly name: string;
  /** What the tool does, for the model. */
  readonly description: string;
  /** Schema of the arguments. Calls with other arguments fail with PARAM_INVALID. */
  readonly inputSchema: JsonSchema;
  /** Schema of the output. Another output fails the call with OUTPUT_INVALID. */
  readonly outputSchema?: JsonSchema | undefined;
  readonly annotations?: ToolAnnotations | undefined;
  /** Capabilities that the tool requests, by name. The host decides which it grants. */
  readonly capabilities?: CapabilityRequests | undefined;
  /** Limits that the tool sets for itself. They can only lower those of the host. */
  readonly limits?: PartialLimits | undefined;
  /**
   * Whether the tool runs only as a durable run.
   * @default false
   */
  readonly durable?: boolean | undefined;
  /**
   * Whether the tool's top-level code may run before the tool is called.
   * @default true
   */
  readonly prewarm?: boolean | undefined;
  /** Upstream server that the tool comes from. That server supplied the rest of the definition. */
  readonly origin?: ToolOrigin | undefined;
}

/** Returns the definition's annotations, or undefined if they come from an upstream server that the host does not trust. */
export const trustedAnnotations = ({ annotations, origin }: ToolDefinition): ToolAnnotations | undefined =>
  origin?.isTrusted === false ? undefined : annotations;

/** Whether a call of the tool may be made again when it is not known how it has ended. */
export function isRepeatableTool(definition: ToolDefinition): boolean {
  const annotations = trustedAnnotations(definition);
  return annotations?.idempotentHint === true || annotations?.readOnlyHint === true;
}

/** The upstream server of a tool. Set by the host, never by the tool's author. */
export interface ToolOrigin {
  readonly server: string;
  /** Name of the tool on that server. */
  readonly toolName: string;
  /** Whether the host trusts the server's annotations. */
  readonly isTrusted: boolean;
}

const definitionFields = {
  name: ToolNameSchema,
  description: z.string().max(16_384),
  inputSchema: JsonSchemaSchema,
  outputSchema: JsonSchemaSchema.optional(),
  annotations: ToolAnnotationsSchema.optional(),
  capabilities: CapabilityRequestsSchema.optional(),
  limits: PartialLimitsSchema.optional(),
  durable: z.boolean().optional(),
  prewarm: z.boolean().optional(),
};

/** A definition as the guest returns it. Without a name, the tool is named after its source. */
export type ExtractedToolDefinition = Omit<ToolDefinition, "name" | "origin"> & {
  readonly name?: string | undefined;
  /** Names of ignored fields that look like a misspelled schema field. */
  readonly misnamed?: readonly string[] | undefined;
};
export const ExtractedToolDefinitionSchema: z.ZodType<ExtractedToolDefinition> = z.strictObject({
  ...definitionFields,
  name: ToolNameSchema.optional(),
  misnamed: z.array(z.string().max(64)).max(MAX_MISNAMED).optional(),
});

/** A definition that the host has stored and passes on again. */
export const ToolDefinitionSchema: z.ZodType<ToolDefinition> = strictObject(definitionFields);

/** Fields of a definition that the host supplies or overrides. */
export type DefinitionOverrides = {
  readonly [Key in Exclude<keyof ToolDefinition, "origin">]?: ToolDefinition[Key] | undefined;
};
export const DefinitionOverridesSchema: z.ZodType<DefinitionOverrides> = plainObject(
  z.strictObject(definitionFields).partial(),
);

/** Default input schema. MCP requires an input schema whose type is an object. */
export const ANY_OBJECT_SCHEMA: JsonSchema = { type: "object" };
