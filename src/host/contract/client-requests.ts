// Requests of a tool to the client that called it (`elicit`, `sample`, `roots`): their schemas and types, in the terms of MCP.
import * as z from "zod";
import { limitedRecord } from "../config/limited-record.ts";

/** Maximum number of fields of a form. */
const MAX_FIELDS = 1_000;
/** Maximum number of parts of a message. More would take long to check, and each of 256 messages can have as many. */
const MAX_CONTENTS = 256;

export const jsonObject = z.record(z.string(), z.unknown());

/** Fields that a tool can add to any request. They are not sent to the client. */
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

export const FormRequestSchema = z.strictObject({
  mode: z.literal("form").optional(),
  message: z.string().min(1).max(8_192),
  requestedSchema: z.looseObject({
    type: z.literal("object"),
    properties: limitedRecord(z.string(), FieldSchema, { max: MAX_FIELDS, what: "fields" }),
    required: z.array(z.string()).max(MAX_FIELDS).optional(),
  }),
});

export const PageSchema = z.strictObject({
  mode: z.literal("url"),
  message: z.string().min(1).max(8_192),
  url: z.url({ protocol: /^https?$/ }).max(8_192),
  elicitationId: z.string().min(1).max(1_024).optional(),
});

/** A request without the guest's key. Unknown keys are dropped. */
export const ElicitRequestSchema = z.union([z.object(FormRequestSchema.shape), z.object(PageSchema.shape)]);

export const KeyedElicitRequestSchema = z.union(
  [FormRequestSchema.extend(requestKeyFields), PageSchema.extend(requestKeyFields)],
  {
    error:
      'Expected { message, requestedSchema } or { mode: "url", message, url }; requestedSchema must describe an object of strings, numbers, booleans and lists',
  },
);

/** Parameters of MCP's ElicitRequest: a form (JSON Schema of an object with plain members) or a URL to open. */
export type ElicitRequest = z.infer<typeof FormRequestSchema> | z.infer<typeof PageSchema>;

export const ElicitResultSchema = z.object({
  action: z.enum(["accept", "decline", "cancel"]),
  content: jsonObject.nullish(),
});

/** MCP's ElicitResult. If the form was accepted, `content` contains its values. */
export type ElicitResult = z.infer<typeof ElicitResultSchema>;

export const ContentSchema = z.looseObject({ type: z.string() });

export const MessageContentSchema = z.union([ContentSchema, z.array(ContentSchema).max(MAX_CONTENTS)], {
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

const isMessageContent = (content: unknown): boolean => {
  const parsed = MessageContentSchema.safeParse(content);
  return parsed.success && [parsed.data].flat().every(({ type, text }) => type !== "text" || typeof text === "string");
};

export const SampleResultSchema = z.looseObject({
  role: z.enum(["user", "assistant"]),
  content: z.unknown().refine(isMessageContent, { error: "Expected content as { type, … }, or a list of it" }),
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
  /** Aborts when the call ends, or when `limits.clientWaitMs` has passed. */
  readonly signal: AbortSignal;
  /** The tool's own key of the request; a repeated request has the same key. It is untrusted and not unique. */
  readonly key?: string | undefined;
}

/**
 * Answers requests of a tool on behalf of its caller: it asks a person, calls a model, or lists folders. A request whose method is missing or
 * returns undefined is not supported, and the tool receives CAPABILITY_DENIED. Responses are validated. If a method throws or rejects, the
 * tool receives TOOL_FAILED; if it does not answer within `limits.clientWaitMs`, the tool receives TOOL_TIMEOUT.
 */
export interface CallClient {
  /** Requests input from a person: a form, or a visit to a page. */
  elicit?(request: ElicitRequest, options: ClientRequestOptions): Promise<ElicitResult> | undefined;
  /** Requests an answer from the client's model. */
  sample?(request: SampleRequest, options: ClientRequestOptions): Promise<SampleResult> | undefined;
  /** Lists the folders that the client shares. */
  listRoots?(options: ClientRequestOptions): Promise<ListRootsResult> | undefined;
}

/** Clients that have the method `elicit` only to report that they do not support it. */
const withoutElicitation = new WeakSet<CallClient>();

/** Notes that a client does not support elicitation, although it has the method. */
export function noteWithoutElicitation(client: CallClient): void {
  withoutElicitation.add(client);
}

/** Returns whether a request of `elicit` can reach a person through this client. */
export const canElicit = (client: CallClient | undefined): boolean =>
  client?.elicit !== undefined && !withoutElicitation.has(client);
