// Stores the versions of tools. A version never changes once it is stored, except for the decision about its requests.
import { createHash } from "node:crypto";
import * as z from "zod";
import type { ToolDefinition } from "../../../host/index.ts";
import { LimitsObjectSchema } from "../../../sandbox/contract/partial-limits.ts";
import type { Db } from "../../database/open-database.ts";
import { IS_WAITING_VERSION } from "../../database/partial-indexes.ts";
import type { ToolVersionsTable } from "../../database/tables/tool-tables.ts";
import { type BoundedPage, bytesOfTexts, readBoundedPage } from "../bounded-page.ts";
import { parseColumn } from "../json.ts";
import { toWholeLimits } from "../tenants/tenant-policy.ts";

/** How a version runs, as its uploader chose it. */
const VersionSettingsSchema = z.strictObject({
  /** Capabilities and engine features that the version has. */
  grant: z.array(z.string()),
  /** Limits of the version, in addition to those of its author. */
  limits: z.preprocess(toWholeLimits, LimitsObjectSchema).optional(),
  isolateLifetime: z.enum(["call", "tool", "session"]).default("call"),
});
export type VersionSettings = z.infer<typeof VersionSettingsSchema>;

const DefinitionSchema = z.looseObject({
  name: z.string(),
  description: z.string(),
  inputSchema: z.record(z.string(), z.json()),
}) as unknown as z.ZodType<ToolDefinition>;

export interface ToolVersionRecord {
  readonly toolName: string;
  readonly version: number;
  readonly contentHash: string;
  readonly state: ToolVersionsTable["state"];
  readonly language: ToolVersionsTable["language"];
  readonly bundleHash: string;
  readonly definition: ToolDefinition;
  readonly settings: VersionSettings;
  readonly createdBy: string;
  readonly createdAt: number;
  readonly decidedBy: string | null;
  readonly decidedAt: number | null;
}

const toVersion = (row: ToolVersionsTable): ToolVersionRecord => ({
  toolName: row.tool_name,
  version: row.version,
  contentHash: row.content_hash,
  state: row.state,
  language: row.language,
  bundleHash: row.bundle_hash,
  definition: parseColumn(DefinitionSchema, row.definition, "definition of a tool"),
  settings: parseColumn(VersionSettingsSchema, row.settings, "version of a tool"),
  createdBy: row.created_by,
  createdAt: row.created_at,
  decidedBy: row.decided_by,
  decidedAt: row.decided_at,
});

const bytesOfVersion = ({ definition, settings }: ToolVersionsTable): number => bytesOfTexts(definition, settings);

interface ToolKey {
  readonly tenantId: string;
  readonly toolName: string;
}

export async function findVersion(
  db: Db,
  { tenantId, toolName }: ToolKey,
  version: number,
): Promise<ToolVersionRecord | undefined> {
  const row = await db
    .selectFrom("tool_versions")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("version", "=", version)
    .executeTakeFirst();
  return row === undefined ? undefined : toVersion(row);
}

/** A definition, and the bytes that it has as JSON. */
export interface SizedDefinition {
  readonly definition: ToolDefinition;
  readonly bytes: number;
}

/** Returns the definitions of versions that can be called, by the names of their tools. @param versions at most 500 */
export async function findDefinitions(
  db: Db,
  tenantId: string,
  versions: readonly { readonly toolName: string; readonly version: number }[],
): Promise<ReadonlyMap<string, SizedDefinition>> {
  if (versions.length === 0) return new Map();
  const rows = await db
    .selectFrom("tool_versions")
    .select(["tool_name", "definition"])
    .where("tenant_id", "=", tenantId)
    .where("state", "=", "ready")
    .where(({ eb, refTuple, tuple }) =>
      eb(
        refTuple("tool_name", "version"),
        "in",
        versions.map(({ toolName, version }) => tuple(toolName, version)),
      ),
    )
    .execute();
  return new Map(
    rows.map((row) => [
      row.tool_name,
      {
        definition: parseColumn(DefinitionSchema, row.definition, "definition of a tool"),
        bytes: bytesOfTexts(row.definition),
      },
    ]),
  );
}

/** Returns the latest version of a tool. */
export async function findLatest(db: Db, { tenantId, toolName }: ToolKey): Promise<ToolVersionRecord | undefined> {
  const row = await db
    .selectFrom("tool_versions")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .orderBy("version", "desc")
    .limit(1)
    .executeTakeFirst();
  return row === undefined ? undefined : toVersion(row);
}

/** Returns a page of the versions of a tool, the newest first. */
export async function listVersions(
  db: Db,
  { tenantId, toolName }: ToolKey,
  { before, limit }: { readonly before?: number | undefined; readonly limit: number },
): Promise<BoundedPage<ToolVersionRecord>> {
  const all = db
    .selectFrom("tool_versions")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .orderBy("version", "desc");
  const read = async (last: ToolVersionsTable | undefined, rows: number): Promise<readonly ToolVersionsTable[]> => {
    const from = last?.version ?? before;
    return await (from === undefined ? all : all.where("version", "<", from)).limit(rows).execute();
  };
  const { rows, hasMore } = await readBoundedPage(limit, read, bytesOfVersion);
  return { rows: rows.map(toVersion), hasMore };
}

export interface ToolSummaryRecord {
  readonly name: string;
  readonly versions: number;
  readonly latestVersion: number;
}

/** Lists the tools of a tenant by name. */
export async function listToolNames(
  db: Db,
  tenantId: string,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<readonly ToolSummaryRecord[]> {
  let query = db
    .selectFrom("tool_versions")
    .select(({ fn }) => ["tool_name", fn.countAll<number>().as("versions"), fn.max("version").as("latest")])
    .where("tenant_id", "=", tenantId)
    .groupBy("tool_name")
    .orderBy("tool_name")
    .limit(limit);
  if (after !== undefined) query = query.where("tool_name", ">", after);
  const rows = await query.execute();
  return rows.map((row) => ({
    name: row.tool_name,
    versions: Number(row.versions),
    latestVersion: Number(row.latest),
  }));
}

/** Files of a version: what was uploaded, and the bundle that was built from it. Both are JSON. */
export interface VersionFiles {
  readonly source: string;
  readonly bundle: string;
}

export async function insertVersion(
  db: Db,
  tenantId: string,
  version: Omit<ToolVersionRecord, "createdAt" | "decidedBy" | "decidedAt">,
  files: VersionFiles,
): Promise<ToolVersionRecord> {
  const row: ToolVersionsTable = {
    tenant_id: tenantId,
    tool_name: version.toolName,
    version: version.version,
    content_hash: version.contentHash,
    state: version.state,
    language: version.language,
    bundle_hash: version.bundleHash,
    definition: JSON.stringify(version.definition),
    settings: JSON.stringify(version.settings),
    created_by: version.createdBy,
    created_at: Date.now(),
    decided_by: null,
    decided_at: null,
  };
  await db.insertInto("tool_versions").values(row).execute();
  for (const kind of ["source", "bundle"] as const) {
    const bytes = Buffer.from(files[kind]);
    const hash = createHash("sha256").update(bytes).digest("hex");
    await db
      .insertInto("blobs")
      .values({ tenant_id: tenantId, hash, bytes, size: bytes.byteLength })
      .onConflict((conflict) => conflict.columns(["tenant_id", "hash"]).doNothing())
      .execute();
    await db
      .insertInto("version_files")
      .values({ tenant_id: tenantId, tool_name: version.toolName, version: version.version, kind, blob_hash: hash })
      .execute();
  }
  return toVersion(row);
}

/** Returns a file of a version as text. */
export async function readVersionFile(
  db: Db,
  { tenantId, toolName }: ToolKey,
  version: number,
  kind: keyof VersionFiles,
): Promise<string | undefined> {
  const row = await db
    .selectFrom("version_files")
    .innerJoin("blobs", (join) =>
      join.onRef("blobs.tenant_id", "=", "version_files.tenant_id").onRef("blobs.hash", "=", "version_files.blob_hash"),
    )
    .select("blobs.bytes")
    .where("version_files.tenant_id", "=", tenantId)
    .where("version_files.tool_name", "=", toolName)
    .where("version_files.version", "=", version)
    .where("version_files.kind", "=", kind)
    .executeTakeFirst();
  return row === undefined ? undefined : Buffer.from(row.bytes).toString("utf8");
}

/** Lists the versions of a tenant that can be called. */
export async function listReadyVersions(db: Db, tenantId: string): Promise<readonly ToolVersionRecord[]> {
  const rows = await db
    .selectFrom("tool_versions")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("state", "=", "ready")
    .execute();
  return rows.map(toVersion);
}

/** Lists the versions of a tenant that wait for approval, the oldest first: at most `limit`, and fewer if they are long. */
export async function listWaiting(db: Db, tenantId: string, limit: number): Promise<readonly ToolVersionRecord[]> {
  const all = db
    .selectFrom("tool_versions")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where(IS_WAITING_VERSION)
    .orderBy("created_at")
    .orderBy("tool_name")
    .orderBy("version");
  let offset = 0;
  const read = async (_last: unknown, size: number): Promise<readonly ToolVersionsTable[]> => {
    const found = await all.limit(size).offset(offset).execute();
    offset += found.length;
    return found;
  };
  return (await readBoundedPage(limit, read, bytesOfVersion)).rows.map(toVersion);
}

/** Decides about a version that waits for approval. Returns false if it does not wait. */
export async function decideVersion(
  db: Db,
  { tenantId, toolName }: ToolKey,
  version: number,
  { state, decidedBy }: { readonly state: "ready" | "denied"; readonly decidedBy: string },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("tool_versions")
    .set({ state, decided_by: decidedBy, decided_at: Date.now() })
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("version", "=", version)
    .where("state", "=", "waiting_for_approval")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Returns how many versions of a tool are stored. */
export async function countVersions(db: Db, { tenantId, toolName }: ToolKey): Promise<number> {
  const { count } = await db
    .selectFrom("tool_versions")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Removes one version with its files. Whether something needs it is the caller's question. */
export async function deleteVersion(db: Db, { tenantId, toolName }: ToolKey, version: number): Promise<void> {
  for (const table of ["version_files", "tool_versions"] as const) {
    await db
      .deleteFrom(table)
      .where("tenant_id", "=", tenantId)
      .where("tool_name", "=", toolName)
      .where("version", "=", version)
      .execute();
  }
  await deleteUnusedBlobs(db, tenantId);
}

/** Removes a tool with all its versions and releases. Returns the number of versions. */
export async function deleteTool(db: Db, { tenantId, toolName }: ToolKey): Promise<number> {
  for (const table of ["releases", "release_history"] as const) {
    await db.deleteFrom(table).where("tenant_id", "=", tenantId).where("tool_name", "=", toolName).execute();
  }
  await db.deleteFrom("version_files").where("tenant_id", "=", tenantId).where("tool_name", "=", toolName).execute();
  const { numDeletedRows } = await db
    .deleteFrom("tool_versions")
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .executeTakeFirst();
  await deleteUnusedBlobs(db, tenantId);
  return Number(numDeletedRows);
}

/** Removes blobs of a tenant that no version refers to. */
export async function deleteUnusedBlobs(db: Db, tenantId: string): Promise<void> {
  await db
    .deleteFrom("blobs")
    .where("tenant_id", "=", tenantId)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("version_files")
            .select("version_files.blob_hash")
            .whereRef("version_files.tenant_id", "=", "blobs.tenant_id")
            .whereRef("version_files.blob_hash", "=", "blobs.hash"),
        ),
      ),
    )
    .execute();
}
