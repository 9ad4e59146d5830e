// Schemas of tenants, their API keys, and who sends a request.
import { z } from "@hono/zod-openapi";
import { SCOPES } from "../../auth/scopes.ts";
import { isKeyId, KeyCallLimitsSchema } from "../../records/tenants/api-keys.ts";
import { RateLimitSchema, TenantPolicySchema } from "../../records/tenants/tenant-policy.ts";
import { EtagSchema } from "../entity-tag.ts";
import { TenantIdParamSchema, TimeSchema } from "./common.ts";
import { LineSchema } from "./text.ts";

export const TenantSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    state: z.enum(["active", "suspended", "deleting"]),
    policy: z.record(z.string(), z.unknown()),
    etag: EtagSchema,
    createdAt: TimeSchema,
    updatedAt: TimeSchema,
  })
  .openapi("Tenant");

export const NewTenantSchema = z
  .strictObject({
    // Counters of keys and tenants are in one table, by id.
    id: TenantIdParamSchema.refine((id) => !isKeyId(id), { error: "Expected an id that does not begin with key_" }),
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

export const keyFields = {
  id: z.string(),
  tenantId: z.string().nullable(),
  name: z.string(),
  prefix: z.string().describe("The first characters of the key"),
  scopes: z.array(z.enum(SCOPES)),
  rateLimit: RateLimitSchema.nullable().describe("Limit of the requests with the key"),
  limits: KeyCallLimitsSchema.shape.limits.unwrap().nullable().describe("Limits of the calls that the key makes"),
  quotas: KeyCallLimitsSchema.shape.quotas.unwrap().nullable().describe("Quotas of the calls that the key makes"),
  maxAsyncCalls: z.int().nullable().describe("Maximum number of calls of the key that wait in the queue"),
  etag: EtagSchema,
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
    rateLimit: RateLimitSchema.optional(),
    ...KeyCallLimitsSchema.shape,
    expiresInDays: z.int().min(1).max(3_650).optional(),
    expiresInMinutes: z.int().min(1).max(1_440).optional().describe("For an embedded console. Not with expiresInDays"),
  })
  .openapi("NewApiKey");

const CallLimitsShape = KeyCallLimitsSchema.shape;

export const KeyChangesSchema = z
  .strictObject({
    rateLimit: RateLimitSchema.nullable().optional(),
    limits: CallLimitsShape.limits.unwrap().nullable().optional(),
    quotas: CallLimitsShape.quotas.unwrap().nullable().optional(),
    maxAsyncCalls: CallLimitsShape.maxAsyncCalls.unwrap().nullable().optional(),
  })
  .refine((changes) => Object.values(changes).some((value) => value !== undefined), {
    error: "Expected at least one of rateLimit, limits, quotas and maxAsyncCalls",
  })
  .openapi("ApiKeyChanges");

export const PrincipalSchema = z
  .strictObject({
    keyId: z.string(),
    tenantId: z.string().nullable(),
    scopes: z.array(z.enum(SCOPES)),
    expiresAt: z
      .int()
      .nullable()
      .openapi({ description: "When the key, token or session expires, in ms since 1970; null if it does not" }),
  })
  .openapi("Principal");
