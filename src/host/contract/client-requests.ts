// Requests of a tool to the client that called it (`elicit`, `sample`, `roots`): their schemas and types, in the terms of MCP.
import * as z from "zod";

export const jsonObject = z.record(z.string(), z.unknown());

/** Options of a request that a tool sends to the client of its caller. */
export const requestKeyFields = {
  key: z
    .string()
    .regex(/^[\w.-]{1,64}$/, "Expected 1 to 64 of A-Z a-z 0-9 _ . -")
    .optional(),
};

/** Fields that a form can have: text, a number, a checkbox, or a list of choices. */
export const FieldSchema = z.union([
  z.looseObject({ type: z.enum(["string", "number", "integer", "boolean"]) }),
  z.looseObject({ type: z.literal("array"), items: jsonObject }),
]);

export const FormSchema = z.strictObject({
  mode: z.literal("form").optional(),
  message: z.string().min(1).max(8_192),
  requestedSchema: z.looseObject({
    type: z.literal("object"),
    properties: z.record(z.string(), FieldSchema),
    required: z.array(z.string()).optional(),
  }),
});

export const PageSchema = z.strictObject({
  mode: z.literal("url"),
  message: z.string().min(1).max(8_192),
  url: z.url({ protocol: /^https?$/ }).max(8_192),
  elicitationId: z.string().min(1).max(1_024).optional(),
});

/** A request as an untrusted guest sends it: unknown keys are dropped. */
export const ElicitRequestSchema = z.union([z.object(FormSchema.shape), z.object(PageSchema.shape)]);

export const KeyedElicitRequestSchema = z.union(
  [FormSchema.extend(requestKeyFields), PageSchema.extend(requestKeyFields)],
  {
    error:
      'Expected { message, requestedSchema }, the schema that of an object whose properties are strings, numbers, booleans or lists, or { mode: "url", message, url }',
  },
);

/** Parameters of MCP's ElicitRequest: a form (JSON Schema of an object with plain members) or a URL to open. */
export type ElicitRequest = z.infer<typeof FormSchema> | z.infer<typeof PageSchema>;

export const ElicitResultSchema = z.object({
  action: z.enum(["accept", "decline", "cancel"]),
  content: jsonObject.nullish(),
});

/** `content` has the values of the form if it was accepted. */
export type ElicitResult = z.infer<typeof ElicitResultSchema>;

export const ContentSchema = z.looseObject({ type: z.string() });

export const MessageContentSchema = z.union([ContentSchema, z.array(ContentSchema)], {
  error: "Expected content as { type, … }, or a list of it",
});

export const SampleRequestSchema = z.looseObject({
  messages: z
    .array(z.looseObject({ role: z.enum(["user", "assistant"]), content: MessageContentSchema }))
    .min(1)
    .max(256),
  maxTokens: z.int().min(1),
});

/** Parameters of MCP's CreateMessageRequest. Other keys are passed to the client unchanged. */
export type SampleRequest = z.infer<typeof SampleRequestSchema>;

export const SampleResultSchema = z.looseObject({
  role: z.enum(["user", "assistant"]),
  content: z.unknown(),
  model: z.string().max(1_024),
});

/** MCP's CreateMessageResult. */
export type SampleResult = z.infer<typeof SampleResultSchema>;

export const RootsSchema = z.object({
  roots: z.array(z.looseObject({ uri: z.string().max(8_192), name: z.string().max(1_024).optional() })).max(1_024),
});

/** MCP's ListRootsResult. */
export type ListRootsResult = z.infer<typeof RootsSchema>;

export interface ClientRequestOptions {
  /** Aborts when the call has ended, or when the response timed out. */
  readonly signal: AbortSignal;
  /** The tool's own key of the request, equal for repeated requests. It is untrusted and not unique. */
  readonly key?: string | undefined;
}

/**
 * Answers requests of a tool on behalf of its caller: a person, a model, or a list of folders. A method that is missing, or that returns
 * undefined, is not supported. Responses are validated. A method that throws, rejects or does not answer within the call's
 */
export interface CallClient {
  elicit?(request: ElicitRequest, options: ClientRequestOptions): Promise<ElicitResult> | undefined;
  sample?(request: SampleRequest, options: ClientRequestOptions): Promise<SampleResult> | undefined;
  listRoots?(options: ClientRequestOptions): Promise<ListRootsResult> | undefined;
}
