// Creates keys that may do everything: the first one when a server starts without any, and another one for an operator who has lost it.
import type { OpenDatabase } from "../database/open-database.ts";
import { createId } from "../ids.ts";
import { appendAudit, SERVER_ACTOR } from "../records/audit/audit.ts";
import { findKeyByHash, hasPlatformKey, insertKey } from "../records/tenants/api-keys.ts";
import { changeExclusively } from "../records/write-lock.ts";
import { createApiKey, type NewApiKey } from "./api-key.ts";
import { SCOPES } from "./scopes.ts";

async function storeAdminKey(
  transaction: OpenDatabase["db"],
  { hash, prefix }: NewApiKey,
  details: { readonly [name: string]: string },
): Promise<void> {
  const id = createId("key");
  const owner = { id, tenantId: null, name: "admin", prefix, scopes: SCOPES, expiresAt: null, rateLimit: null, hash };
  await insertKey(transaction, owner);
  await appendAudit(transaction, {
    actor: SERVER_ACTOR,
    tenantId: null,
    action: "key.created",
    target: id,
    details: { name: "admin", ...details },
  });
}

/**
 * Stores a key of the platform unless there is a valid one, and returns it. If the connection is lost while it is stored, the next attempt
 * finds out whether it was. Call it when nothing can fail before the key is shown.
 */
export async function createFirstAdminKey(database: OpenDatabase, newKey: NewApiKey): Promise<string | undefined> {
  return await changeExclusively(database, async (transaction) => {
    if (await hasPlatformKey(transaction, database.clock.now()))
      return (await findKeyByHash(transaction, newKey.hash)) === undefined ? undefined : newKey.key;
    await storeAdminKey(transaction, newKey, {});
    return newKey.key;
  });
}

/** Stores another key with all scopes, whatever keys there are, and returns it. The audit log says that the command line created it. */
export async function createAdminKey(database: OpenDatabase): Promise<string> {
  const newKey = createApiKey();
  await changeExclusively(database, (transaction) =>
    storeAdminKey(transaction, newKey, { by: "glovebox db admin-key" }),
  );
  return newKey.key;
}
