// Messages between replicas about a call of a tool session, or a request of an MCP session. Each message is JSON, which a strict schema parses,
// and the long texts of the call or the request.
import * as z from "zod";
import { ERROR_CODES, type ErrorCode } from "../../../host/index.ts";
import { PeerProtocolError } from "./frames.ts";

const IdSchema = z.string().min(1).max(1_024);
const TextSchema = z.string().max(65_536);
const TimeSchema = z.int().min(0);
const CallIdSchema = z.string().regex(/^call_[0-9a-z]{26}$/);

/** The first message of an exchange. */
export const HelloSchema = z.strictObject({
  type: z.literal("hello"),
  /** When it was sent, by the clock of the database. */
  at: TimeSchema,
  /** What follows. Replicas of earlier releases send none. */
  kind: z.enum(["call", "request"]).default("call"),
});
export type ExchangeKind = z.infer<typeof HelloSchema>["kind"];

/**
 * Why a replica does not run a call. Nothing of it has run.
 * `stopping`: it runs no further calls. `busy`: too many calls of other replicas run there. `expired`: the message is too old. `not_home`: another
 * replica has the session. `no_tenant`, `key_revoked`: the call may not run any more.
 */
const DeclinedSchema = z.strictObject({
  type: z.literal("declined"),
  reason: z.enum(["stopping", "busy", "expired", "not_home", "no_tenant", "key_revoked"]),
});
export type DeclineReason = z.infer<typeof DeclinedSchema>["reason"];

/** The answer to a hello. */
export const ReadySchema = z.discriminatedUnion("type", [z.strictObject({ type: z.literal("ready") }), DeclinedSchema]);

/** A call. Its input is a text of the message, unless it has none. */
export const PeerCallMessageSchema = z.strictObject({
  type: z.literal("call"),
  at: TimeSchema,
  mode: z.enum(["sync", "stream"]),
  callId: CallIdSchema,
  tenantId: IdSchema,
  keyId: IdSchema,
  toolName: z.string().max(1_024),
  sessionId: z.string().min(1).max(256),
  version: z.int().min(1).optional(),
  alias: IdSchema.optional(),
  timeoutMs: z.int().min(1).max(300_000).optional(),
  idempotencyKey: z.string().min(1).max(200).optional(),
  approvedBy: z
    .strictObject({ name: IdSchema, ip: z.string().max(64).nullable(), requestId: IdSchema.nullable() })
    .optional(),
});
export type PeerCallMessage = z.infer<typeof PeerCallMessageSchema>;

/** The headers of a request that the home of an MCP session needs. */
export const REQUEST_HEADERS = [
  ...["accept", "authorization", "content-type", "host", "last-event-id"],
  ...["mcp-protocol-version", "mcp-session-id", "origin"],
] as const;
const HeaderSchema = z.string().max(16_384);

/** A request of an MCP session. Its body is a text of the message, unless it has none. */
export const PeerRequestMessageSchema = z.strictObject({
  type: z.literal("request"),
  at: TimeSchema,
  tenantId: IdSchema,
  keyId: IdSchema,
  endpoint: z.enum(["mcp", "code-mode"]),
  method: z.enum(["GET", "POST", "DELETE"]),
  headers: z.partialRecord(z.enum(REQUEST_HEADERS), HeaderSchema),
});
export type PeerRequestMessage = z.infer<typeof PeerRequestMessageSchema>;

/** The only message of the caller after its hello. */
export const PeerMessageSchema = z.discriminatedUnion("type", [PeerCallMessageSchema, PeerRequestMessageSchema]);

const LogEntrySchema = z.strictObject({
  level: z.enum(["debug", "info", "warn", "error"]),
  time: z.number(),
  message: z.string(),
  data: z.unknown().optional(),
  place: z.string().optional(),
  callId: z.string().optional(),
});

const ProgressSchema = z.strictObject({
  progress: z.number(),
  total: z.number().optional(),
  message: TextSchema.optional(),
});

/** The texts of a record, which follow in this order. The timeline is not sent, because a client that waits for a call does not get it. */
export const RESULT_TEXTS = ["input", "output", "error", "logs", "usage", "calls", "parts"] as const;
export type ResultText = (typeof RESULT_TEXTS)[number];

/** The call or the request has not ended yet. */
const AliveSchema = z.strictObject({ type: z.literal("alive") });

/** Messages of the home of an MCP session about the response to a request, from its status to its end. */
export const ResponseSchema = z.discriminatedUnion("type", [
  DeclinedSchema,
  AliveSchema,
  z.strictObject({
    type: z.literal("head"),
    status: z.int().min(200).max(599),
    headers: z.record(z.string().max(256), HeaderSchema),
  }),
  /** A part of the body, which is a text of the message. */
  z.strictObject({ type: z.literal("body") }),
  z.strictObject({ type: z.literal("end") }),
]);
export type ResponseMessage = z.infer<typeof ResponseSchema>;

const numberOrNull = z.number().nullable();
const textOrNull = TextSchema.nullable();
/** The columns of a record apart from its texts. */
export const ResultRowSchema = z.strictObject({
  id: CallIdSchema,
  tenant_id: IdSchema,
  tool_name: z.string().max(1_024),
  tool_version: numberOrNull,
  alias: IdSchema,
  mode: z.enum(["sync", "async", "stream"]),
  key_id: IdSchema,
  session_id: textOrNull,
  state: z.enum(["waiting_for_approval", "queued", "running", "succeeded", "failed", "cancelled"]),
  effects: z.enum(["none", "possible", "complete"]),
  idempotency_key: textOrNull,
  request_hash: textOrNull,
  timeout_ms: numberOrNull,
  content: z.int(),
  created_at: TimeSchema,
  started_at: numberOrNull,
  ended_at: numberOrNull,
  run_at: numberOrNull,
  lease_owner: textOrNull,
  lease_until: numberOrNull,
  fence: z.int(),
  attempts: z.int(),
  cancel_requested: z.int(),
  parent_id: textOrNull,
  root_id: textOrNull,
  approval_id: textOrNull,
});

const CODES = Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]];

/** Messages of the replica that has the session about a call, from its log lines to its end. */
export const AnswerSchema = z.discriminatedUnion("type", [
  DeclinedSchema,
  AliveSchema,
  z.strictObject({ type: z.literal("log"), entry: LogEntrySchema }),
  z.strictObject({ type: z.literal("progress"), progress: ProgressSchema }),
  /** The chunk is a text of the message. */
  z.strictObject({ type: z.literal("chunk") }),
  /** The call waits for an approval. */
  z.strictObject({ type: z.literal("waiting"), callId: CallIdSchema }),
  /** The idempotency key was used for another request, its call has not ended, or the approval was decided about meanwhile. */
  z.strictObject({
    type: z.literal("conflict"),
    because: z.enum(["other_request", "open_call", "approval"]),
    message: TextSchema,
  }),
  /** The request failed, and has no record. */
  z.strictObject({
    type: z.literal("thrown"),
    code: z.enum(CODES),
    message: TextSchema,
    recoverable: z.boolean(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
  /** The record, whose texts follow as far as they are listed. Without `hasInput`, the input is that of the request. */
  z.strictObject({
    type: z.literal("result"),
    row: ResultRowSchema,
    hasInput: z.boolean(),
    texts: z.array(z.enum(RESULT_TEXTS)).max(RESULT_TEXTS.length),
  }),
]);
export type AnswerMessage = z.infer<typeof AnswerSchema>;

/** Returns the parts of a message. */
export const toParts = (message: object, texts: readonly string[] = []): readonly Buffer[] =>
  [JSON.stringify(message), ...texts].map((text) => Buffer.from(text));

/** A message with its texts. */
export interface Parsed<Message> {
  readonly message: Message;
  readonly texts: readonly string[];
}

/** @throws {PeerProtocolError} for a message that does not match the schema */
export function parsePeerMessage<Message>(schema: z.ZodType<Message>, parts: readonly Buffer[]): Parsed<Message> {
  const [first = "", ...texts] = parts.map((part) => part.toString());
  let value: unknown;
  try {
    value = JSON.parse(first);
  } catch {
    throw new PeerProtocolError("Expected JSON");
  }
  const { data, error } = schema.safeParse(value);
  if (error !== undefined) throw new PeerProtocolError(`Invalid message: ${z.prettifyError(error).slice(0, 500)}`);
  return { message: data as Message, texts };
}
