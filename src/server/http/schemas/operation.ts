// Schemas for operators of a tenant: usage, quotas, secrets, the audit log.
import { z } from "@hono/zod-openapi";
import { TimeSchema } from "./common.ts";
import { keyFields } from "./tenants.ts";
import { LineSchema } from "./text.ts";

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

export const QuotasResponseSchema = z
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
