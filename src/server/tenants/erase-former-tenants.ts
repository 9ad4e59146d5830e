// Erases what earlier releases have kept of deleted tenants in the audit log. This one erases it with the tenant.
import { sql } from "kysely";
import type { OpenDatabase } from "../database/open-database.ts";
import { eraseDeleted } from "../database/vacuum.ts";
import { appendAudit, SERVER_ACTOR } from "../records/audit/audit.ts";
import { AUDIT_ERASED, eraseAuditTexts, TENANT_DELETED } from "../records/audit/audit-chain.ts";
import { changeExclusively } from "../records/write-lock.ts";

/** Erases the entries of deleted tenants. A replica of an earlier release may have left some at any time. */
export async function eraseFormerTenants(
  database: OpenDatabase,
  { vacuumFull }: { readonly vacuumFull: boolean },
): Promise<void> {
  const left = await database.db
    .selectFrom("audit as deleted")
    .select(["deleted.tenant_id", (one) => one.fn.max("deleted.sequence").as("sequence")])
    // A literal, so that the index of deletions is used.
    .where(sql.ref("deleted.action"), "=", sql.lit(TENANT_DELETED))
    .where("deleted.hash_version", "=", 1)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom("audit")
          .select("audit.sequence")
          .whereRef("audit.tenant_id", "=", "deleted.tenant_id")
          .whereRef("audit.sequence", "<", "deleted.sequence")
          .where("audit.erased_by", "is", null)
          .where("audit.action", "!=", TENANT_DELETED),
      ),
    )
    .groupBy("deleted.tenant_id")
    .execute();
  for (const { tenant_id: target, sequence } of left) {
    await changeExclusively(database, async (transaction) => {
      if (target === null) return;
      const erased = await eraseAuditTexts(transaction, target, sequence);
      if (erased === undefined) return;
      // Not an entry of the tenant: one that has the same id today shall not see it.
      const event = { actor: SERVER_ACTOR, tenantId: null, action: AUDIT_ERASED, target };
      await appendAudit(transaction, { ...event, details: { erased } });
    });
  }
  if (left.length > 0) await eraseDeleted(database, ["audit"], { vacuumFull });
}
