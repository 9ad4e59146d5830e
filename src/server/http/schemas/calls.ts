// Schemas of calls: requests, records, trees of nested calls, timelines, approvals.

import { z } from "@hono/zod-openapi";
import { AliasSchema } from "../../records/tools/releases.ts";
import { AnyJsonSchema, ErrorSchema, TimeSchema, ToolNameParamSchema } from "./common.ts";
import { LineSchema, TextSchema } from "./text.ts";
import { RequestsSchema } from "./tools.ts";

export const CALL_STATES = ["waiting_for_approval", "queued", "running", "succeeded", "failed", "cancelled"] as const;

export const NewCallSchema = z
  .strictObject({
    input: AnyJsonSchema.optional(),
    version: z.int().min(1).optional(),
    alias: AliasSchema.optional(),
    sessionId: LineSchema.min(1).max(256).optional(),
    timeoutMs: z.int().min(1).max(300_000).optional(),
    approve: z
      .boolean()
      .optional()
      .describe("Approves the call at once, if it needs an approval. Needs the scope calls:approve"),
  })
  .openapi("NewCall");

const MAX_BATCH = 100;

export const BatchSchema = z
  .strictObject({
    calls: z
      .array(
        z.strictObject({
          tool: ToolNameParamSchema,
          ...NewCallSchema.shape,
          idempotencyKey: z
            .string()
            .regex(/^[A-Za-z0-9._:-]{1,200}$/)
            .optional(),
        }),
      )
      .min(1)
      .max(MAX_BATCH),
  })
  .openapi("Batch");

export const CallSchema = z
  .strictObject({
    id: z.string(),
    tenantId: z.string(),
    tool: z.string(),
    version: z.int().nullable(),
    alias: z.string(),
    mode: z.enum(["sync", "async", "stream", "nested", "run"]),
    state: z.enum(CALL_STATES),
    effects: z
      .enum(["none", "possible", "complete"])
      .describe("Whether effects have left the sandbox. `none`: none can have, so that a retry is safe"),
    keyId: z.string(),
    sessionId: z.string().nullable(),
    input: AnyJsonSchema,
    output: AnyJsonSchema,
    error: AnyJsonSchema,
    usage: AnyJsonSchema,
    calls: AnyJsonSchema,
    createdAt: TimeSchema,
    startedAt: TimeSchema.nullable(),
    endedAt: TimeSchema.nullable(),
    attempts: z.int(),
    parentId: z.string().nullable().describe("The call that made this one; null for a call of a client"),
    rootId: z.string().nullable().describe("The call of a client that this one belongs to; null for that call itself"),
    approvalId: z.string().nullable().describe("The approval that the call waits or has waited for"),
    isRecorded: z.boolean().describe("Whether the call has a recording, and can be replayed"),
    omitted: z
      .array(z.enum(["input", "output"]))
      .describe("What is left out here because it is large, or because the quota of stored bytes is used up"),
    logs: AnyJsonSchema.optional(),
    content: AnyJsonSchema.optional().describe(
      "Content parts that the tool returned in addition to the output, as MCP has them: text, images and audio in base64. Above 4 MiB, bytes are not kept (`isOmitted`). Not in lists",
    ),
  })
  .openapi("Call");

/** A call of a batch that was rejected, while the others of the batch went on. */
export const RejectedCallSchema = z
  .strictObject({
    state: z.literal("rejected").describe("Nothing has run, and the call has no record"),
    tool: z.string(),
    error: ErrorSchema.shape.error,
  })
  .openapi("RejectedCall");

export const TreeCallSchema = z
  .strictObject({
    id: z.string(),
    parentId: z.string().nullable(),
    depth: z.int(),
    tool: z.string(),
    version: z.int().nullable(),
    state: z.enum(CALL_STATES),
    effects: z.enum(["none", "possible", "complete"]),
    code: z.string().nullable().describe("`ok` or the code of the error; null before the call has ended"),
    createdAt: TimeSchema,
    startedAt: TimeSchema.nullable(),
    endedAt: TimeSchema.nullable(),
    durationMs: z.number().nullable(),
    cpuMs: z.number().nullable(),
    logs: z.int().describe("Number of log lines"),
  })
  .openapi("TreeCall");

const SpanSchema = z.strictObject({
  kind: z.enum(["validate", "queue", "start", "execute", "output", "capability", "tool"]),
  name: z
    .string()
    .describe(
      "Name of the capability or of the tool's span, or the kind. The wait of a queued call before `validate` is a `queue` with the name `queued`, or `waiting_for_approval` for a call that needed an approval",
    ),
  startMs: z.number().describe("Start in ms after the call was accepted"),
  durationMs: z.number(),
  code: z.string().describe("`ok`, or the code of the error"),
  operation: z.string().optional(),
  target: z.string().optional().describe("URL without its query, key, or name of a tool"),
  status: z.int().optional(),
  bytesOut: z.int().optional(),
  bytesIn: z.int().optional(),
  waitMs: z.number().optional().describe("Time in ms until the headers of the response"),
  limits: z
    .strictObject({ timeoutMs: z.number(), cpuMs: z.number(), memoryMiB: z.number() })
    .optional()
    .describe("Limits of the call"),
  attributes: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .optional()
    .describe("What the tool says about its own span"),
  callId: z.string().optional().describe("Id of a nested call, which is in `calls`"),
  isOpen: z
    .literal(true)
    .optional()
    .describe("Set while the call runs, for what has not ended: `durationMs` is the time so far"),
});

export const TimelineSchema = z
  .strictObject({
    spans: z.array(SpanSchema),
    calls: z
      .array(AnyJsonSchema)
      .describe("Nested calls: `{ callId, toolName, durationMs, cpuMs, code, timeline, calls, isOpen }`"),
    isOver: z.boolean().describe("Whether the call has ended: the timeline does not change any more"),
  })
  .openapi("Timeline");

export const ApprovalSchema = z
  .strictObject({
    kind: z.literal("version"),
    tool: z.string(),
    version: z.int(),
    requests: RequestsSchema,
    createdBy: z.string(),
    createdAt: TimeSchema,
  })
  .openapi("Approval");

export const APPROVAL_STATES = ["pending", "approved", "denied", "expired", "cancelled"] as const;

export const CallApprovalSchema = z
  .strictObject({
    kind: z.literal("call"),
    id: z.string(),
    tenantId: z.string(),
    state: z.enum(APPROVAL_STATES),
    callId: z.string(),
    parentId: z.string().nullable(),
    tool: z.string(),
    version: z.int(),
    input: AnyJsonSchema.describe("The exact arguments, with the secrets in them redacted"),
    omitted: z.boolean().describe("Whether the input is left out here because it is large"),
    inputSha256: z.string().describe("SHA-256 of the input as JSON text"),
    toolDigest: z.string().describe("Digest of the tool's definition, code and grants that the approval is valid for"),
    because: z.enum(["destructive", "policy"]),
    origin: z.enum(["api", "mcp", "nested", "schedule", "trigger"]),
    requestedBy: z.string(),
    sessionId: z.string().nullable(),
    createdAt: TimeSchema,
    expiresAt: TimeSchema,
    decidedBy: z.string().nullable(),
    decidedAt: TimeSchema.nullable(),
    reason: z.string().nullable(),
  })
  .openapi("CallApproval");

export const DecisionSchema = z
  .strictObject({
    reason: TextSchema.max(2_000).optional().describe("For the audit log. The caller receives the reason of a denial"),
  })
  .openapi("Decision");
