// Schemas of durable runs and their journals.
import { z } from "@hono/zod-openapi";
import { AnyJsonSchema, TimeSchema } from "./common.ts";

export const RUN_KINDS = ["tool", "code"] as const;

export const RUN_STATES = ["running", "suspended", "succeeded", "failed", "cancelled"] as const;

export const RUN_WAIT_KINDS = ["event", "approval", "duration", "elicitation"] as const;

const RunWaitSchema = z.strictObject({
  id: z.int().describe("Position of the request in the run, which identifies the wait"),
  kind: z.enum(RUN_WAIT_KINDS),
  name: z.string().optional().describe("Name of the event"),
  message: z.string().optional().describe("What a person is to approve, to fill in, or to visit"),
  requestedSchema: z.record(z.string(), z.unknown()).optional().describe("JSON Schema of the form to fill in"),
  toolName: z.string().optional().describe("For a call that code makes: the tool"),
  input: AnyJsonSchema.optional().describe(
    "For a call that code makes: its exact arguments, without secrets. Left out above 16,384 characters of JSON",
  ),
  toolDigest: z
    .string()
    .optional()
    .describe("For a call that code makes: digest of the tool, for which alone an approval is valid"),
  url: z.string().optional().describe("Page to visit"),
  until: TimeSchema.optional().describe("Time in ms since 1970 at which the wait ends by itself"),
});

const runFields = {
  id: z.string(),
  tenantId: z.string(),
  kind: z
    .enum(RUN_KINDS)
    .describe("`code`: code that a model has given to `run_code` of the tenant's code mode, with the tool `run_code`"),
  tool: z.string(),
  version: z.int().nullable(),
  state: z.enum(RUN_STATES),
  keyId: z.string().nullable().describe("The key that has started the run"),
  waits: z.array(RunWaitSchema).describe("What the run waits for"),
  attempts: z.int().describe("How often it was started and continued"),
  entries: z.int().describe("Number of entries of its journal"),
  journalLength: z.int().describe("Size of its journal in UTF-16 code units"),
  createdAt: TimeSchema,
  expiresAt: TimeSchema.describe("Time in ms since 1970 at which it fails if it has not ended"),
  wakeAt: TimeSchema.nullable().describe("Time in ms since 1970 at which it continues by itself"),
  endedAt: TimeSchema.nullable(),
};

export const RunSummarySchema = z.strictObject(runFields).openapi("RunSummary");

export const RunSchema = z
  .strictObject({ ...runFields, input: AnyJsonSchema, output: AnyJsonSchema, error: AnyJsonSchema })
  .openapi("Run");

export const RunEntrySchema = z
  .looseObject({
    position: z.int(),
    at: TimeSchema.nullable(),
    type: z
      .string()
      .describe(
        "`start`, `turns` (answers and timers that reached the tool), `request` (a call of a capability), `answer` (to the request with the same `call`), `event`, `decision`, `elicited`, `rollback` (the run is undone)",
      ),
  })
  .openapi("RunEntry");
