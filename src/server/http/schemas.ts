// Schemas of what the API accepts and returns. The OpenAPI document and the typed client follow from them.
import { z } from "@hono/zod-openapi";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import { SCOPES } from "../auth/scopes.ts";
import type { IdKind } from "../ids.ts";
import { isKeyId, KeyCallLimitsSchema, KeyRateLimitSchema } from "../records/api-keys.ts";
import { RollbackPolicySchema } from "../records/releases.ts";
import { LimitsSchema, TenantPolicySchema } from "../records/tenant-policy.ts";
import { TENANT_PATTERN } from "../records/tenants.ts";
import { LineSchema, TextSchema } from "./text-schemas.ts";

export const TenantIdSchema = z.string().regex(TENANT_PATTERN, {
  error: "Expected 1 to 63 of a-z 0-9 . _ -, beginning and ending with a letter or a digit",
});
export const ToolNameSchema = z.string().regex(TOOL_NAME_PATTERN, { error: `Expected ${TOOL_NAME_RULE}` });
export const AliasSchema = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,62}$/, { error: "Expected a name such as live or staging" });
export const VersionSchema = z.coerce.number().int().min(1);
export const IdSchema = z.string().regex(/^[a-z]+_[0-9a-z]{26}$/, { error: "Expected an id, such as call_…" });

/** Id of a call: also that of a nested one, which is its caller's with a number. */
export const CALL_ID_PATTERN = /^call_[0-9a-z]{26}(?:\.[0-9]{1,6}){0,33}$/;
export const CallIdSchema = z.string().regex(CALL_ID_PATTERN, { error: "Expected the id of a call: call_…" });

const MAX_PAGE = 200;
const CURSOR_ERROR = { error: "Expected the cursor of a page of this list, as `next` has it" };

const pageQuery = <Cursor extends z.ZodType>(cursor: Cursor) =>
  z.strictObject({ limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(50), cursor: cursor.optional() });

/** Query of a list whose cursors have a form. Another text would be compared with them, and return a page that means nothing. */
export const pageQueryOf = (pattern: RegExp) => pageQuery(z.string().regex(pattern, CURSOR_ERROR));
/** Query of a list whose cursors are ids. */
export const idPageQuery = (kind: IdKind) => pageQueryOf(new RegExp(`^${kind}_[0-9a-z]{26}$`));
/** Query of a list whose cursors are whole numbers. */
export const numberPageQuery = () =>
  pageQuery(
    z
      .string()
      .regex(/^\d{1,15}$/, CURSOR_ERROR)
      .transform(Number),
  );

export const TimeSchema = z.int().describe("Time in ms since 1970");
const JsonSchema = z.any().describe("Any JSON value");

export const ErrorSchema = z
  .strictObject({
    error: z.strictObject({
      code: z.string(),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).optional(),
      docs: z.string().describe("Path of the page about the code within the package `glovebox`"),
      requestId: z.string(),
    }),
  })
  .openapi("Error");

export const TenantSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    state: z.enum(["active", "suspended", "deleting"]),
    policy: z.record(z.string(), z.unknown()),
    createdAt: TimeSchema,
    updatedAt: TimeSchema,
  })
  .openapi("Tenant");
export const NewTenantSchema = z
  .strictObject({
    // Counters of keys and tenants are in one table, by id.
    id: TenantIdSchema.refine((id) => !isKeyId(id), { error: "Expected an id that does not begin with key_" }),
    name: LineSchema.min(1).max(200).optional(),
    policy: TenantPolicySchema.prefault({}),
  })
  .openapi("NewTenant");
export const TenantChangesSchema = z
  .strictObject({
    name: LineSchema.min(1).max(200).optional(),
    state: z.enum(["active", "suspended"]).optional(),
    policy: TenantPolicySchema.optional(),
  })
  .openapi("TenantChanges");
export const DeletedTenantSchema = z
  .strictObject({ receipt: z.record(z.string(), z.unknown()) })
  .openapi("DeletedTenant");

const keyFields = {
  id: z.string(),
  tenantId: z.string().nullable(),
  name: z.string(),
  prefix: z.string().describe("The first characters of the key"),
  scopes: z.array(z.enum(SCOPES)),
  rateLimit: KeyRateLimitSchema.nullable().describe("Limit of the requests with the key"),
  limits: KeyCallLimitsSchema.shape.limits.unwrap().nullable().describe("Limits of the calls that the key makes"),
  quotas: KeyCallLimitsSchema.shape.quotas.unwrap().nullable().describe("Quotas of the calls that the key makes"),
  maxAsyncCalls: z.int().nullable().describe("Most calls of the key that wait in the queue"),
  createdAt: TimeSchema,
  expiresAt: TimeSchema.nullable(),
  lastUsedAt: TimeSchema.nullable(),
  revokedAt: TimeSchema.nullable(),
};
export const KeySchema = z.strictObject(keyFields).openapi("ApiKey");
export const CreatedKeySchema = z
  .strictObject({ ...keyFields, key: z.string().describe("The key, which is shown only now") })
  .openapi("CreatedApiKey");
export const NewKeySchema = z
  .strictObject({
    name: LineSchema.min(1).max(200),
    scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
    rateLimit: KeyRateLimitSchema.optional(),
    ...KeyCallLimitsSchema.shape,
    expiresInDays: z.int().min(1).max(3_650).optional(),
    expiresInMinutes: z.int().min(1).max(1_440).optional().describe("For an embedded console. Not with expiresInDays"),
  })
  .openapi("NewApiKey");

const CallLimitsShape = KeyCallLimitsSchema.shape;
export const KeyChangesSchema = z
  .strictObject({
    rateLimit: KeyRateLimitSchema.nullable().optional(),
    limits: CallLimitsShape.limits.unwrap().nullable().optional(),
    quotas: CallLimitsShape.quotas.unwrap().nullable().optional(),
    maxAsyncCalls: CallLimitsShape.maxAsyncCalls.unwrap().nullable().optional(),
  })
  .refine((changes) => Object.values(changes).some((value) => value !== undefined), {
    error: "Expected at least one of rateLimit, limits, quotas and maxAsyncCalls",
  })
  .openapi("ApiKeyChanges");

const RequestsSchema = z.strictObject({ added: z.array(z.string()), removed: z.array(z.string()) });
const WeightsSchema = z.array(z.strictObject({ version: z.int(), weight: z.number() }));
export const VersionSummarySchema = z
  .strictObject({
    tool: z.string(),
    version: z.int(),
    contentHash: z.string(),
    state: z.enum(["ready", "waiting_for_approval", "denied"]),
    language: z.enum(["javascript", "python"]),
    definition: z.record(z.string(), z.unknown()),
    grant: z.array(z.string()),
    limits: LimitsSchema.describe(
      "Limits that its author and its upload have set. Those of the tenant and the server apply too",
    ),
    isolateLifetime: z.enum(["call", "tool", "session"]),
    createdBy: z.string(),
    createdAt: TimeSchema,
    decidedBy: z.string().nullable(),
    decidedAt: TimeSchema.nullable(),
  })
  .openapi("ToolVersion");
export const ReleaseSchema = z
  .strictObject({
    tool: z.string(),
    alias: z.string(),
    versions: WeightsSchema,
    rollback: RollbackPolicySchema.nullable(),
    revision: z.int(),
    changedBy: z.string(),
    updatedAt: TimeSchema,
  })
  .openapi("Release");
export const DeployedSchema = z
  .strictObject({
    version: VersionSummarySchema,
    isKnown: z.boolean().describe("Whether the same upload was stored before"),
    isNewlyApproved: z
      .boolean()
      .describe("Whether this request has approved what the version requests, so that it does not wait for approval"),
    requests: RequestsSchema,
    release: ReleaseSchema.nullable(),
    warnings: z.array(z.string()),
  })
  .openapi("Deployed");
export const ToolSummarySchema = z
  .strictObject({ name: z.string(), versions: z.int(), latestVersion: z.int() })
  .openapi("Tool");
export const SetReleaseSchema = z
  .strictObject({
    versions: z
      .array(z.strictObject({ version: z.int().min(1), weight: z.number().gt(0).max(1_000_000) }))
      .min(1)
      .max(10),
    rollback: RollbackPolicySchema.nullable()
      .optional()
      .describe("When the release goes back by itself; null for never. Default: as before"),
  })
  .openapi("SetRelease");

export const CALL_STATES = ["waiting_for_approval", "queued", "running", "succeeded", "failed", "cancelled"] as const;
export const NewCallSchema = z
  .strictObject({
    input: JsonSchema.optional(),
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
          ...{ tool: ToolNameSchema, ...NewCallSchema.shape },
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
    input: JsonSchema,
    output: JsonSchema,
    error: JsonSchema,
    usage: JsonSchema,
    calls: JsonSchema,
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
    logs: JsonSchema.optional(),
    content: JsonSchema.optional().describe(
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
    ...{
      id: z.string(),
      parentId: z.string().nullable(),
      depth: z.int(),
      tool: z.string(),
      version: z.int().nullable(),
    },
    ...{ state: z.enum(CALL_STATES), effects: z.enum(["none", "possible", "complete"]) },
    code: z.string().nullable().describe("`ok` or the code of the error; null before the call has ended"),
    ...{ createdAt: TimeSchema, startedAt: TimeSchema.nullable(), endedAt: TimeSchema.nullable() },
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
      .array(JsonSchema)
      .describe("Nested calls: `{ callId, toolName, durationMs, cpuMs, code, timeline, calls, isOpen }`"),
    isOver: z.boolean().describe("Whether the call has ended: the timeline does not change any more"),
  })
  .openapi("Timeline");
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
  input: JsonSchema.optional().describe(
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
  ...{ id: z.string(), tenantId: z.string() },
  kind: z
    .enum(RUN_KINDS)
    .describe("`code`: code that a model has given to `run_code` of the tenant's code mode, with the tool `run_code`"),
  ...{ tool: z.string(), version: z.int().nullable(), state: z.enum(RUN_STATES) },
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
  .strictObject({ ...runFields, input: JsonSchema, output: JsonSchema, error: JsonSchema })
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
const SECRET_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,127}$/;
export const SecretNameSchema = z
  .string()
  .regex(SECRET_NAME, { error: "Expected 1 to 128 of A-Z a-z 0-9 _ -, beginning with a letter or _" });
export const NewSecretSchema = z
  .strictObject({
    value: z.string().min(8).max(8_192).describe("The value. It is never returned"),
    hosts: z.array(LineSchema.min(1).max(512)).min(1).max(100).describe("Hosts that may receive the value"),
  })
  .openapi("NewSecret");
export const SecretSchema = z
  .strictObject({
    name: z.string(),
    hosts: z.array(z.string()),
    changedBy: z.string(),
    createdAt: TimeSchema,
    updatedAt: TimeSchema,
  })
  .openapi("Secret");
export const UsageSchema = z
  .strictObject({
    tool: z.string(),
    hour: TimeSchema,
    outcome: z.string().describe("ok, or the code of the error"),
    calls: z.int(),
    cpuMs: z.number(),
    wallMs: z.number(),
    inputBytes: z.int(),
    outputBytes: z.int(),
    egressBytesIn: z.int(),
    egressBytesOut: z.int(),
  })
  .openapi("Usage");
const QuotaStatusSchema = z.strictObject({
  name: z.string(),
  limit: z.number(),
  used: z.number(),
  remaining: z.number(),
  windowSeconds: z.int(),
  resetSeconds: z.int(),
});
const concurrencyFields = {
  concurrency:
    "Calls that run at the same time over all replicas (limits.maxConcurrentCalls), without those that they make",
  waiting: "Calls whose clients wait until one of them has ended (limits.maxQueuedCalls), in each replica",
  queue: "Asynchronous calls that wait in the queue (maxAsyncCalls)",
} as const;
const useOf = (about: string) => z.strictObject({ limit: z.int(), used: z.int() }).describe(about);
/** Of a key: null where it has no limit of its own. */
const keyUseOf = (about: string) =>
  z
    .strictObject({ limit: z.int().nullable(), used: z.int() })
    .describe(`${about}. The limit is null if the key has none`);

export const KeyWithUseSchema = z
  .strictObject({
    ...keyFields,
    use: z.strictObject({
      quotas: z.array(QuotaStatusSchema),
      concurrency: keyUseOf(concurrencyFields.concurrency),
      waiting: keyUseOf(concurrencyFields.waiting),
      queue: keyUseOf(concurrencyFields.queue),
    }),
  })
  .openapi("ApiKeyWithUse");

export const QuotasSchema = z
  .strictObject({
    quotas: z.array(QuotaStatusSchema),
    concurrency: useOf(concurrencyFields.concurrency),
    waiting: useOf(concurrencyFields.waiting),
    queue: useOf(concurrencyFields.queue),
    tools: z.strictObject({ limit: z.int(), used: z.int() }),
    storedBytes: z
      .strictObject({ limit: z.int(), used: z.int() })
      .describe(
        "Bytes of all that the tenant stores: code, values of its tools, contents and recordings of calls, and journals of runs",
      ),
  })
  .openapi("Quotas");
export const AuditEntrySchema = z
  .strictObject({
    sequence: z.int(),
    at: TimeSchema,
    actor: z.string(),
    tenantId: z.string().nullable(),
    action: z.string(),
    target: z.string(),
    ip: z.string().nullable(),
    requestId: z.string().nullable(),
    details: z.record(z.string(), z.unknown()),
    hash: z.string(),
    isErased: z.boolean().describe("Whether the texts of the entry were removed with its tenant"),
  })
  .openapi("AuditEntry");
export const OkSchema = z.strictObject({ ok: z.literal(true) }).openapi("Ok");

/** A page of a list. `next` is the cursor of the next page; null on the last one. */
/** What the document says about a list whose pages are bounded by their size. */
export const SHORT_PAGES = "A page of long items can have fewer of them than `limit`, although another one follows.";
export const pageOf = <Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; next: z.ZodNullable<z.ZodString> }> =>
  z.strictObject({ items: z.array(item), next: z.string().nullable() }) as never;

export const PrincipalSchema = z
  .strictObject({ keyId: z.string(), tenantId: z.string().nullable(), scopes: z.array(z.enum(SCOPES)) })
  .openapi("Principal");

export const OpenAIToolsSchema = z
  .strictObject({
    tools: z.array(z.record(z.string(), z.unknown())),
    names: z.record(z.string(), z.string()),
    next: z.string().nullable().describe("Cursor of the next page; null on the last one"),
  })
  .openapi("OpenAITools");

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
    ...{ id: z.string(), tenantId: z.string(), state: z.enum(APPROVAL_STATES), callId: z.string() },
    ...{ parentId: z.string().nullable(), tool: z.string(), version: z.int() },
    input: JsonSchema.describe("The exact arguments, with the secrets in them redacted"),
    omitted: z.boolean().describe("Whether the input is left out here because it is large"),
    inputSha256: z.string().describe("SHA-256 of the input as JSON text"),
    toolDigest: z.string().describe("Digest of the tool's definition, code and grants that the approval is valid for"),
    because: z.enum(["destructive", "policy"]),
    origin: z.enum(["api", "mcp", "nested", "schedule", "trigger"]),
    ...{ requestedBy: z.string(), sessionId: z.string().nullable(), createdAt: TimeSchema, expiresAt: TimeSchema },
    ...{ decidedBy: z.string().nullable(), decidedAt: TimeSchema.nullable(), reason: z.string().nullable() },
  })
  .openapi("CallApproval");
export const DecisionSchema = z
  .strictObject({
    reason: TextSchema.max(2_000).optional().describe("For the audit log. The caller receives the reason of a denial"),
  })
  .openapi("Decision");
