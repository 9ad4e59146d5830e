// What a model sees of a tool, in MCP's words. A definition is learned inside an isolate: here it is parsed as hostile text.
import * as z from "zod";
import type { JsonValue } from "./errors.ts";
import { type PartialLimits, PartialLimitsSchema } from "./limits.ts";
import { plainObject, strictObject } from "./plain-object.ts";
import { MAX_MISNAMED } from "./schema-names.ts";

/** MCP allows 1-128 of these, and dots (spec 2025-11-25, tools, "Tool Names"). */
export const TOOL_NAME_PATTERN = /^[A-Za-z0-9_.-]{1,128}$/;
export const TOOL_NAME_RULE = "1 to 128 of A-Z a-z 0-9 _ - .";

const ToolNameSchema: z.ZodString = z.string().regex(TOOL_NAME_PATTERN, `Expected ${TOOL_NAME_RULE}`);

/** A JSON Schema (2020-12) as an object; `true` and `false` are no use as a tool's whole schema. */
export type JsonSchema = { readonly [keyword: string]: JsonValue };
const JsonSchemaSchema = z.record(z.string(), z.json()) as unknown as z.ZodType<JsonSchema>;

/** MCP's ToolAnnotations: hints, never trusted for a decision about safety. */
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

/** Capabilities asked for by name, each with its own settings; the host decides. */
export type CapabilityRequests = { readonly [name: string]: JsonValue };
/** A process is told the names at each start; the protocol carries 256. */
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
  /** Whether the tool's top level may be run before anybody has called; true unless stated. */
  readonly prewarm?: boolean | undefined;
  /** Where an upstream server's tool comes from; all the rest of its definition is that server's word. */
  readonly origin?: ToolOrigin | undefined;
}

/** What a definition's annotations say where they are to be believed: nothing, where they are an upstream server's own word. */
export const believedAnnotations = ({ annotations, origin }: ToolDefinition): ToolAnnotations | undefined =>
  origin?.isTrusted === false ? undefined : annotations;

/** Set by the host, never by an author. */
export interface ToolOrigin {
  readonly server: string;
  /** What the server calls it. */
  readonly toolName: string;
  /** Whether the host believes its annotations. */
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

/** A definition as the guest tells it: the name may be missing, and then the source gives it. */
export type LearnedDefinition = Omit<ToolDefinition, "name" | "origin"> & {
  readonly name?: string | undefined;
  /** Fields that look like a schema under another name, and are not read. */
  readonly misnamed?: readonly string[] | undefined;
};
export const LearnedDefinitionSchema: z.ZodType<LearnedDefinition> = z.strictObject({
  ...definitionFields,
  name: ToolNameSchema.optional(),
  misnamed: z.array(z.string().max(64)).max(MAX_MISNAMED).optional(),
});

/** Fields that a host supplies or overrides. */
export type DefinitionOverrides = {
  readonly [Key in Exclude<keyof ToolDefinition, "origin">]?: ToolDefinition[Key] | undefined;
};
export const DefinitionOverridesSchema: z.ZodType<DefinitionOverrides> = plainObject(
  z.strictObject(definitionFields).partial(),
);

/** The input schema of a tool that states none: MCP demands an object. */
export const ANY_OBJECT_SCHEMA: JsonSchema = { type: "object" };
