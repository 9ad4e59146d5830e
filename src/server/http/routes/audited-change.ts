// A change of a route and its entry in the audit log, in one transaction: there is no change without its entry.
import type { Context } from "hono";
import type { Db } from "../../database/open-database.ts";
import { type AuditEvent, appendAudit } from "../../records/audit/audit.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { AppEnv, ServerDependencies } from "../context.ts";

/**
 * Runs a change of the request's tenant.
 * @param isChanged returns whether the change was made, from its result; otherwise no entry is added. Default: not for undefined and false
 */
export async function changeAudited<Result>(
  c: Context<AppEnv>,
  { database }: Pick<ServerDependencies, "database">,
  entry: Omit<AuditEvent, "actor" | "tenantId">,
  change: (transaction: Db) => Promise<Result>,
  isChanged: (result: Result) => boolean = (result) => result !== undefined && result !== false,
): Promise<Result> {
  const event = { actor: c.get("actor"), tenantId: c.get("tenant").id, ...entry };
  return await changeExclusively(database, async (transaction) => {
    const result = await change(transaction);
    if (isChanged(result)) await appendAudit(transaction, event);
    return result;
  });
}
