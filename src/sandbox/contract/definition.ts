// Types and schemas of a tool definition, named as in MCP. A definition is extracted by running the tool's code in an isolate, so the
// schemas here parse untrusted input.
import * as z from "zod";
import type { JsonValue } from "./errors.ts";
import { type PartialLimits, PartialLimitsSchema } from "./limits.ts";
import { plainObject, strictObject } from "./plain-object.ts";
import { MAX_MISNAMED } from "./schema-names.ts";

/** Tool names that MCP allows (spec 2025-11-25, tools, "Tool Names"). */
export const TOOL_NAME_PATTERN = /^[A-Za-z0-9_.-]{1,128}$/;
export const TOOL_NAME_RULE = "1 to 128 of A-Z a-z 0-9 _ - .";

const ToolNameSchema: z.ZodString = z.string().regex(TOOL_NAME_PATTERN, `Expected ${TOOL_NAME_RULE}`);

/** A JSON Schema (2020-12) as an object. The boolean schemas `true` and `false` are not accepted as a tool's whole schema. */
export type JsonSchema = { readonly [keyword: string]: JsonValue };
const JsonSchemaSchema = z.record(z.string(), z.json()) as unknown as z.ZodType<JsonSchema>;

/** MCP's ToolAnnotations: hints only. No security decision relies on them. */
export interface ToolAnnotations {
  readonly title?: string | undefined;
  readonly readOnlyHint?: boolean | undefined;
  readonly destructiveHint?: boolean | undefined;
  readonly idempotentHint?: boolean | undefined;
  readonly openWorldHint?: boolean | undefined;
}
export const ToolAnnotationsSchema: z.ZodType<ToolAnnotations, ToolAnnotations> = strictObject({
  title: z.string().max(256).optional(),
  readOnlyHint: z.boolean().optional(),
  destructiveHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  openWorldHint: z.boolean().optional(),
});

/** Capabilities that a tool requests, by name, each with its settings. The host decides which it grants. */
export type CapabilityRequests = { readonly [name: string]: JsonValue };
/** The names are sent to each worker process that runs the tool; a protocol message carries at most 256. */
const MAX_CAPABILITY_REQUESTS = 64;
export const CapabilityRequestsSchema: z.ZodType<CapabilityRequests> = z
  .record(z.string().max(64), z.json())
  .refine(
    (requests) => Object.keys(requests).length <= MAX_CAPABILITY_REQUESTS,
    `Expected at most ${MAX_CAPABILITY_REQUESTS} capabilities`,
  ) as unknown as z.ZodType<CapabilityRequests>;

export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema | undefined;
  readonly annotations?: ToolAnnotations | undefined;
  readonly capabilities?: CapabilityRequests | undefined;
  readonly limits?: PartialLimits | undefined;
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
