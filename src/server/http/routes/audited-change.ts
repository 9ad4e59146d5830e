// A change of a route and its entry in the audit log, in one transaction: there is no change without its entry.
import type { Context } from "hono";
import { type AuditEvent, appendAudit } from "../../records/audit/audit.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { AppEnv, ServerDependencies } from "../context.ts";

type Db = Parameters<Parameters<typeof changeExclusively>[1]>[0];

/**
 * Runs a change of the request's tenant.
 * @param change returns undefined or false if there is nothing to change; no entry is added then
 */
export async function changeAudited<Result>(
  c: Context<AppEnv>,
  { database }: Pick<ServerDependencies, "database">,
  entry: Omit<AuditEvent, "actor" | "tenantId">,
  change: (transaction: Db) => Promise<Result>,
): Promise<Result> {
  const event = { actor: c.get("actor"), tenantId: c.get("tenant").id, ...entry };
  return await changeExclusively(database, async (transaction) => {
    const result = await change(transaction);
    if (result !== undefined && result !== false) await appendAudit(transaction, event);
    return result;
  });
}
