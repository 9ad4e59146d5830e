// Encrypts all secrets of a database with another master key, in one transaction.
import type { Db } from "../database/open-database.ts";
import { type MasterKey, readMasterKeyId, type SealedFor } from "./master-key.ts";

/**
 * @returns how many values were encrypted again
 * @throws {ToolError} INTERNAL if a value cannot be decrypted; nothing is changed then
 */
export async function rotateMasterKey(db: Db, from: MasterKey, to: MasterKey): Promise<number> {
  return await db.transaction().execute(async (transaction) => {
    let count = 0;
    const seal = (sealed: Uint8Array, owner: SealedFor): Buffer => {
      count += 1;
      return to.seal(from.open(sealed, owner), owner);
    };
    for (const { tenant_id: tenantId, name, sealed } of await transaction.selectFrom("secrets").selectAll().execute()) {
      await transaction
        .updateTable("secrets")
        .set({ sealed: seal(sealed, { table: "secrets", tenantId, name }) })
        .where("tenant_id", "=", tenantId)
        .where("name", "=", name)
        .execute();
    }
    for (const table of ["webhooks", "triggers"] as const) {
      const rows = await transaction.selectFrom(table).select(["id", "tenant_id", "sealed_secret"]).execute();
      for (const { id, tenant_id: tenantId, sealed_secret: sealed } of rows) {
        await transaction
          .updateTable(table)
          .set({ sealed_secret: seal(sealed, { table, tenantId, name: id }) })
          .where("id", "=", id)
          .execute();
      }
    }
    await transaction.updateTable("settings").set({ value: to.id }).where("name", "=", "master_key_id").execute();
    return (await readMasterKeyId(transaction)) === to.id ? count : 0;
  });
}
