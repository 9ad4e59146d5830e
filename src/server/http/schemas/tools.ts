// Schemas of tools: versions, releases, deployments.
import { z } from "@hono/zod-openapi";
import { LimitsObjectSchema } from "../../../sandbox/contract/partial-limits.ts";
import { ReleasedVersionsSchema, RollbackPolicySchema } from "../../records/tools/releases.ts";
import { EtagSchema } from "../entity-tag.ts";
import { TimeSchema } from "./common.ts";

export const RequestsSchema = z.strictObject({ added: z.array(z.string()), removed: z.array(z.string()) });

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
    limits: LimitsObjectSchema.describe(
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
    etag: EtagSchema,
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
    versions: ReleasedVersionsSchema,
    rollback: RollbackPolicySchema.nullable()
      .optional()
      .describe("When the release goes back by itself; null for never. Default: as before"),
  })
  .openapi("SetRelease");

export const OpenAIToolsSchema = z
  .strictObject({
    tools: z.array(z.record(z.string(), z.unknown())),
    names: z.record(z.string(), z.string()),
    next: z.string().nullable().describe("Cursor of the next page; null on the last one"),
  })
  .openapi("OpenAITools");
