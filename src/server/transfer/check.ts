// Checks a database: its file, its references, and the chain of the audit log.
import { sql } from "kysely";
import type { OpenDatabase } from "../database/open-database.ts";
import { verifyAudit } from "../records/audit/audit-chain.ts";

export interface CheckedDatabase {
  /** What is wrong, one line each. */
  readonly problems: readonly string[];
  /** How many entries of the audit log were erased with their tenants, which is in order. */
  readonly erased: number;
}

export async function checkDatabase({ db, kind }: OpenDatabase): Promise<CheckedDatabase> {
  const problems: string[] = [];
  if (kind === "sqlite") {
    const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(db);
    problems.push(...rows.map((row) => row.integrity_check).filter((text) => text !== "ok"));
    const references = await sql<{ table: string }>`pragma foreign_key_check`.execute(db);
    problems.push(...references.rows.map(({ table }) => `A row of ${table} refers to a row that is missing`));
  }
  const missing = await db
    .selectFrom("version_files")
    .leftJoin("blobs", (join) =>
      join.onRef("blobs.tenant_id", "=", "version_files.tenant_id").onRef("blobs.hash", "=", "version_files.blob_hash"),
    )
    .select(["version_files.tenant_id", "tool_name", "version", "version_files.kind"])
    .where("blobs.hash", "is", null)
    .limit(100)
    .execute();
  problems.push(
    ...missing.map((row) => `The ${row.kind} of ${row.tenant_id}/${row.tool_name}@${row.version} is missing`),
  );
  const { brokenAt, erased } = await verifyAudit(db);
  if (brokenAt !== undefined)
    problems.push(`The audit log was changed: entry ${brokenAt} does not match its hash or the entry before it`);
  return { problems, erased };
}
