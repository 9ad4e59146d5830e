// Stores releases: which versions of a tool an alias runs, each with its share of the calls, and the history of its changes.
import * as z from "zod";
import { ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { ReleaseHistoryTable, ReleasesTable } from "../../database/tables/tool-tables.ts";
import { parseColumn } from "../json.ts";

/** Name of an alias: it stands for the versions of a tool that a release runs. */
export const AliasSchema = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,62}$/, { error: "Expected 1 to 63 of a-z 0-9 _ -, beginning with a letter" });

/** Maximum number of versions of a release. */
export const MAX_RELEASED = 10;

export const ReleasedVersionsSchema = z
  .array(z.strictObject({ version: z.int().min(1), weight: z.number().gt(0).max(1_000_000) }))
  .min(1)
  .max(MAX_RELEASED)
  .refine((versions) => new Set(versions.map(({ version }) => version)).size === versions.length, {
    error: "Expected different versions",
  });
export type ReleasedVersions = z.infer<typeof ReleasedVersionsSchema>;

/** When a release goes back by itself. */
export const RollbackPolicySchema = z.strictObject({
  /** Share of failed calls of one version above which the release goes back, 0 to 1. */
  errorRate: z.number().min(0).max(1),
  /** Calls of the version before the share counts. */
  minCalls: z.int().min(1).max(1_000_000).default(20),
});
export type RollbackPolicy = z.infer<typeof RollbackPolicySchema>;

/** Maximum number of aliases of a tool. */
const MAX_ALIASES = 100;
/** Shares that differ by less are the same. */
const SHARE_TOLERANCE = 1e-9;

export interface ReleaseRecord {
  readonly toolName: string;
  readonly alias: string;
  readonly versions: ReleasedVersions;
  readonly rollback: RollbackPolicy | null;
  readonly revision: number;
  readonly changedBy: string;
  readonly updatedAt: number;
}

const toRelease = (row: ReleasesTable): ReleaseRecord => ({
  toolName: row.tool_name,
  alias: row.alias,
  versions: parseColumn(ReleasedVersionsSchema, row.versions, "release"),
  rollback: row.rollback === null ? null : parseColumn(RollbackPolicySchema, row.rollback, "rollback policy"),
  revision: row.revision,
  changedBy: row.changed_by,
  updatedAt: row.updated_at,
});

const isSamePolicy = (a: RollbackPolicy | null, b: RollbackPolicy | null): boolean =>
  a?.errorRate === b?.errorRate && a?.minCalls === b?.minCalls;

interface AliasKey {
  readonly tenantId: string;
  readonly toolName: string;
  readonly alias: string;
}

/** Lists the releases of a tenant, or those of one tool. */
export async function listReleases(
  db: Db,
  { tenantId, toolName }: { readonly tenantId: string; readonly toolName?: string | undefined },
): Promise<readonly ReleaseRecord[]> {
  let query = db
    .selectFrom("releases")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .orderBy("tool_name")
    .orderBy("alias");
  if (toolName !== undefined) query = query.where("tool_name", "=", toolName);
  return (await query.execute()).map(toRelease);
}

/** Lists the releases of an alias by the names of their tools. */
export async function listAlias(
  db: Db,
  { tenantId, alias }: { readonly tenantId: string; readonly alias: string },
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<readonly ReleaseRecord[]> {
  let query = db
    .selectFrom("releases")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("alias", "=", alias)
    .orderBy("tool_name")
    .limit(limit);
  if (after !== undefined) query = query.where("tool_name", ">", after);
  return (await query.execute()).map(toRelease);
}

export async function findRelease(db: Db, { tenantId, toolName, alias }: AliasKey): Promise<ReleaseRecord | undefined> {
  const row = await db
    .selectFrom("releases")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("alias", "=", alias)
    .executeTakeFirst();
  return row === undefined ? undefined : toRelease(row);
}

/** Removes an alias with its history. Returns what it ran; undefined if there is none. */
export async function deleteRelease(db: Db, key: AliasKey): Promise<ReleaseRecord | undefined> {
  const release = await findRelease(db, key);
  for (const table of ["releases", "release_history"] as const) {
    await db
      .deleteFrom(table)
      .where("tenant_id", "=", key.tenantId)
      .where("tool_name", "=", key.toolName)
      .where("alias", "=", key.alias)
      .execute();
  }
  return release;
}

export interface ReleaseChange {
  readonly versions: ReleasedVersions;
  readonly reason: ReleaseHistoryTable["reason"];
  readonly changedBy: string;
  /** Default: none. */
  readonly rollback?: RollbackPolicy | null;
}

/** Returns whether two releases give the same shares to the same versions. */
function isSameRelease(a: ReleasedVersions, b: ReleasedVersions): boolean {
  const sharesOf = (versions: ReleasedVersions): ReadonlyMap<number, number> => {
    const total = versions.reduce((sum, { weight }) => sum + weight, 0);
    return new Map(versions.map(({ version, weight }) => [version, weight / total]));
  };
  const [first, second] = [sharesOf(a), sharesOf(b)];
  const isEqual = ([version, share]: [number, number]): boolean =>
    Math.abs((second.get(version) ?? Number.NaN) - share) < SHARE_TOLERANCE;
  return first.size === second.size && [...first].every(isEqual);
}

/**
 * Sets what an alias runs, and adds the change to its history. Setting what it runs already stores only its rollback policy and adds nothing
 * to the history, so that a rollback goes back to something else.
 */
export async function storeRelease(
  db: Db,
  key: AliasKey,
  { versions, reason, changedBy, rollback = null }: ReleaseChange,
): Promise<ReleaseRecord> {
  const { tenantId, toolName, alias } = key;
  const current = reason === "set" ? await findRelease(db, key) : undefined;
  if (current !== undefined && isSameRelease(current.versions, versions))
    return await storeRollbackPolicy(db, key, current, { rollback, changedBy });
  await checkAliases(db, key);
  const last = await db
    .selectFrom("release_history")
    .select(({ fn }) => fn.max("revision").as("revision"))
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("alias", "=", alias)
    .executeTakeFirst();
  const revision = Number(last?.revision ?? 0) + 1;
  const now = Date.now();
  const names = { tenant_id: tenantId, tool_name: toolName, alias };
  const row: ReleasesTable = {
    ...names,
    versions: JSON.stringify(versions),
    revision,
    rollback: rollback === null ? null : JSON.stringify(rollback),
    changed_by: changedBy,
    updated_at: now,
  };
  await db
    .insertInto("releases")
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(["tenant_id", "tool_name", "alias"]).doUpdateSet({
        versions: row.versions,
        rollback: row.rollback,
        revision,
        changed_by: changedBy,
        updated_at: now,
      }),
    )
    .execute();
  await db
    .insertInto("release_history")
    .values({ ...names, revision, versions: row.versions, reason, changed_by: changedBy, created_at: now })
    .execute();
  return toRelease(row);
}

/** @throws {ToolError} QUOTA_EXCEEDED for one alias too many */
async function checkAliases(db: Db, { tenantId, toolName, alias }: AliasKey): Promise<void> {
  const rows = await db
    .selectFrom("releases")
    .select("alias")
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .execute();
  if (rows.length < MAX_ALIASES || rows.some((row) => row.alias === alias)) return;
  throw new ToolError(
    "QUOTA_EXCEEDED",
    `The tool ${JSON.stringify(toolName)} has ${MAX_ALIASES} aliases, which is the most`,
  );
}

async function storeRollbackPolicy(
  db: Db,
  { tenantId, toolName, alias }: AliasKey,
  current: ReleaseRecord,
  { rollback, changedBy }: { readonly rollback: RollbackPolicy | null; readonly changedBy: string },
): Promise<ReleaseRecord> {
  if (isSamePolicy(current.rollback, rollback)) return current;
  const updatedAt = Date.now();
  await db
    .updateTable("releases")
    .set({ rollback: rollback && JSON.stringify(rollback), changed_by: changedBy, updated_at: updatedAt })
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("alias", "=", alias)
    .execute();
  return { ...current, rollback, changedBy, updatedAt };
}

/** Returns what the alias ran before its latest change; undefined if it ran nothing before. A rollback undoes one change. */
export async function findPrevious(
  db: Db,
  { tenantId, toolName, alias }: AliasKey,
): Promise<ReleasedVersions | undefined> {
  const rows = await db
    .selectFrom("release_history")
    .select(["versions", "reason"])
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("alias", "=", alias)
    .orderBy("revision")
    .execute();
  const states: string[] = [];
  for (const { versions, reason } of rows) {
    // Earlier releases stored entries that changed nothing, and rollbacks to the same.
    if (reason !== "set") while (states.length > 0 && states.at(-1) !== versions) states.pop();
    if (states.at(-1) !== versions) states.push(versions);
  }
  const before = states.at(-2);
  return before === undefined ? undefined : parseColumn(ReleasedVersionsSchema, before, "release");
}
