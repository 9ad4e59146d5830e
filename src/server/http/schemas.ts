// Schemas of what the API accepts and returns. The OpenAPI document and the typed client follow from them.
import { z } from "@hono/zod-openapi";
import { SCOPES } from "../auth/scopes.ts";
import { KeyRateLimitSchema } from "../records/api-keys.ts";
import { RollbackPolicySchema } from "../records/releases.ts";
import { TenantPolicySchema } from "../records/tenant-policy.ts";

const TENANT_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;

export const TenantIdSchema = z.string().regex(TENANT_PATTERN, {
  error: "Expected 1 to 63 of a-z 0-9 . _ -, beginning and ending with a letter or a digit",
});
export const ToolNameSchema = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/, { error: "Expected 1 to 128 of A-Z a-z 0-9 _ - ." });
export const AliasSchema = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,62}$/, { error: "Expected a name such as live or staging" });
export const VersionSchema = z.coerce.number().int().min(1);
export const IdSchema = z.string().regex(/^[a-z]+_[0-9a-z]{26}$/, { error: "Expected an id, such as call_…" });

const MAX_PAGE = 200;
export const PageQuerySchema = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(50),
  cursor: z.string().min(1).max(256).optional(),
});

export const TimeSchema = z.int().describe("Time in ms since 1970");
const JsonSchema = z.any().describe("Any JSON value");

export const ErrorSchema = z
  .strictObject({
    error: z.strictObject({
      code: z.string(),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).optional(),
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
    id: TenantIdSchema,
    name: z.string().min(1).max(200).optional(),
    policy: TenantPolicySchema.prefault({}),
  })
  .openapi("NewTenant");
export const TenantChangesSchema = z
  .strictObject({
    name: z.string().min(1).max(200).optional(),
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
  rateLimit: KeyRateLimitSchema.nullable(),
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
    name: z.string().min(1).max(200),
    scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
    rateLimit: KeyRateLimitSchema.optional(),
    expiresInDays: z.int().min(1).max(3_650).optional(),
    expiresInMinutes: z.int().min(1).max(1_440).optional().describe("For an embedded console. Not with expiresInDays"),
  })
  .openapi("NewApiKey");

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
    rollback: RollbackPolicySchema.optional().describe("When the release goes back by itself. Default: never"),
  })
  .openapi("SetRelease");

export const CALL_STATES = ["queued", "running", "succeeded", "failed", "cancelled"] as const;
export const NewCallSchema = z
  .strictObject({
    input: JsonSchema.optional(),
    version: z.int().min(1).optional(),
    alias: AliasSchema.optional(),
    sessionId: z.string().min(1).max(256).optional(),
    timeoutMs: z.int().min(1).max(300_000).optional(),
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
    mode: z.enum(["sync", "async", "stream"]),
    state: z.enum(CALL_STATES),
    effects: z.enum(["none", "possible", "complete"]),
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
    omitted: z.array(z.enum(["input", "output"])).describe("What is left out here because it is large"),
    logs: JsonSchema.optional(),
  })
  .openapi("Call");
const SpanSchema = z.strictObject({
  kind: z.enum(["validate", "queue", "start", "execute", "output", "capability"]),
  name: z.string(),
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
  callId: z.string().optional().describe("Id of a nested call, which is in `calls`"),
});
export const TimelineSchema = z
  .strictObject({
    spans: z.array(SpanSchema),
    calls: z
      .array(JsonSchema)
      .describe("Nested calls: `{ callId, toolName, durationMs, cpuMs, code, timeline, calls }`"),
  })
  .openapi("Timeline");
const SECRET_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,127}$/;
export const SecretNameSchema = z
  .string()
  .regex(SECRET_NAME, { error: "Expected 1 to 128 of A-Z a-z 0-9 _ -, beginning with a letter or _" });
export const NewSecretSchema = z
  .strictObject({
    value: z.string().min(8).max(8_192).describe("The value. It is never returned"),
    hosts: z.array(z.string().min(1).max(512)).min(1).max(100).describe("Hosts that may receive the value"),
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
export const QuotasSchema = z
  .strictObject({
    quotas: z.array(
      z.strictObject({
        name: z.string(),
        limit: z.number(),
        used: z.number(),
        remaining: z.number(),
        windowSeconds: z.int(),
        resetSeconds: z.int(),
      }),
    ),
    tools: z.strictObject({ limit: z.int(), used: z.int() }),
    storedBytes: z.strictObject({ limit: z.int(), used: z.int() }),
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
  })
  .openapi("AuditEntry");
export const OkSchema = z.strictObject({ ok: z.literal(true) }).openapi("Ok");

/** A page of a list. `next` is the cursor of the next page; null on the last one. */
export const pageOf = <Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; next: z.ZodNullable<z.ZodString> }> =>
  z.strictObject({ items: z.array(item), next: z.string().nullable() }) as never;

export const PrincipalSchema = z
  .strictObject({ keyId: z.string(), tenantId: z.string().nullable(), scopes: z.array(z.enum(SCOPES)) })
  .openapi("Principal");

export const OpenAIToolsSchema = z
  .strictObject({ tools: z.array(z.record(z.string(), z.unknown())), names: z.record(z.string(), z.string()) })
  .openapi("OpenAITools");

export const ApprovalSchema = z
  .strictObject({
    tool: z.string(),
    version: z.int(),
    requests: RequestsSchema,
    createdBy: z.string(),
    createdAt: TimeSchema,
  })
  .openapi("Approval");
