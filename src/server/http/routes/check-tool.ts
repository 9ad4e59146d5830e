// Checks the tool that a schedule or a trigger is to call.
import type { Db } from "../../database/open-database.ts";
import { findLatest } from "../../records/tools/tool-versions.ts";
import { RequestError } from "../request-error.ts";

/**
 * Checks that a tool has a version. It need not be released: its alias can follow.
 * @throws {RequestError} INVALID
 */
export async function checkToolExists(db: Db, tenantId: string, toolName: string): Promise<void> {
  if ((await findLatest(db, { tenantId, toolName })) !== undefined) return;
  throw new RequestError("INVALID", `tool: There is no tool "${toolName}". Deploy it first`);
}
