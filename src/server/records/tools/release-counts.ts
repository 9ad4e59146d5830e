// Stores how many calls of a version have ended and failed under a release. The replicas add what they have counted.
import { sql } from "kysely";
import type { Db } from "../../database/open-database.ts";

/** A version under a release. */
export interface ReleasedVersion {
  readonly tenantId: string;
  readonly toolName: string;
  readonly alias: string;
  /** Revision of the release. */
  readonly revision: number;
  readonly version: number;
}

export interface ReleaseCount {
  readonly calls: number;
  /** Calls that have failed because of the version. */
  readonly faults: number;
}

/**
 * Adds to the counts of a version, and removes those of earlier revisions of the release.
 * @returns the counts of all replicas; none for a tenant that was deleted
 */
export async function addReleaseCount(
  db: Db,
  { tenantId, toolName, alias, revision, version }: ReleasedVersion,
  { calls, faults }: ReleaseCount,
): Promise<ReleaseCount> {
  const { rows } = await sql<ReleaseCount>`
    insert into release_counts (tenant_id, tool_name, alias, revision, version, calls, faults)
    select id, cast(${toolName} as text), cast(${alias} as text), cast(${revision} as bigint),
      cast(${version} as bigint), cast(${calls} as bigint), cast(${faults} as bigint)
    from tenants where id = ${tenantId}
    on conflict (tenant_id, tool_name, alias, revision, version) do update
    set calls = release_counts.calls + excluded.calls, faults = release_counts.faults + excluded.faults
    returning calls, faults`.execute(db);
  const [total] = rows;
  if (total === undefined) return { calls: 0, faults: 0 };
  // The first count of this version.
  if (Number(total.calls) === calls)
    await db
      .deleteFrom("release_counts")
      .where("tenant_id", "=", tenantId)
      .where("tool_name", "=", toolName)
      .where("alias", "=", alias)
      .where("revision", "<", revision)
      .execute();
  return { calls: Number(total.calls), faults: Number(total.faults) };
}
