// The quota of stored bytes. Triggers of the database count what a tenant stores, within the transaction that stores it; here the counts are
// read, compared with the tenant's policy, and kept short.
//
// The counts are exact. With SQLite, so is the check. With Postgres, transactions that check at the same time do not see each other, so a
// tenant can exceed its quota by one write for each connection to the database.
import { sql } from "kysely";
import * as z from "zod";
import { ToolError } from "../../../host/index.ts";
import type { DatabaseKind } from "../../database/column-types.ts";
import { COUNT_ALL, COUNTED_COLUMNS } from "../../database/migrations/0012-stored-bytes.ts";
import type { Db, OpenDatabase } from "../../database/open-database.ts";
import { toQuotaName, WARN_AT } from "../../quotas/quota-status.ts";
import { parseColumn } from "../json.ts";
import { TenantPolicySchema } from "./tenant-policy.ts";

/** Share of the quota that records of ended calls fill. The rest is left to what a tenant stores on purpose. */
const HISTORY_SHARE = 0.8;
/** Counts of one tenant that a sweep leaves as they are. */
const MAX_PARTS = 8;
const TENANTS_PER_PAGE = 500;
const DAY_MS = 86_400_000;

const LimitSchema = z.looseObject({ maxStoredBytes: TenantPolicySchema.shape.maxStoredBytes });

export interface StoredBytes {
  readonly used: number;
  readonly limit: number;
}

/** Returns what tenants have stored and may store, by id. A tenant that does not exist is not in it. */
export async function readStoredBytes(db: Db, tenantIds: readonly string[]): Promise<ReadonlyMap<string, StoredBytes>> {
  if (tenantIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("tenants")
    .select(["id", "policy"])
    .select(({ selectFrom }) =>
      selectFrom("stored_bytes")
        .select(({ fn }) => fn.sum<number | string | null>("bytes").as("sum"))
        .whereRef("stored_bytes.tenant_id", "=", "tenants.id")
        .as("used"),
    )
    .where("id", "in", tenantIds)
    .execute();
  return new Map(
    rows.map(({ id, policy, used }) => [
      id,
      { used: Number(used ?? 0), limit: parseColumn(LimitSchema, policy, "policy of a tenant").maxStoredBytes },
    ]),
  );
}

export interface StoredAddition {
  /** What is stored, as the error names it: `The upload`. */
  readonly what: string;
  readonly bytes: number;
  /** Whether the transaction has stored it already, which the error undoes. @default false */
  readonly isStored?: boolean | undefined;
}

/**
 * Checks that a tenant may store more. Part of the transaction that stores it.
 * @throws {ToolError} QUOTA_EXCEEDED, also for a tenant that does not exist
 */
export async function checkStoredBytes(
  db: Db,
  tenantId: string,
  { what, bytes, isStored = false }: StoredAddition,
): Promise<void> {
  if (bytes <= 0) return;
  const { used: counted, limit } = (await readStoredBytes(db, [tenantId])).get(tenantId) ?? { used: 0, limit: 0 };
  const used = isStored ? counted - bytes : counted;
  if (used + bytes <= limit) return;
  throw new ToolError(
    "QUOTA_EXCEEDED",
    `${what} needs ${bytes} bytes, but the tenant has stored ${used} of ${limit} bytes (policy.maxStoredBytes). Delete values or versions first, or raise the limit`,
    { details: { limit: "maxStoredBytes", allowed: limit, used, needed: used + bytes } },
  );
}

/** Decides which records of ended calls are stored with their contents. */
export class HistoryRoom {
  readonly #left: Map<string, number>;

  private constructor(left: Map<string, number>) {
    this.#left = left;
  }

  /**
   * Reads how much room tenants have. Part of the transaction that stores the records.
   * @param hasRow whether the calls have rows, so that their inputs were stored within the quota: their outcomes may use all of it
   */
  static async read(db: Db, tenantIds: readonly string[], hasRow: boolean): Promise<HistoryRoom> {
    const stored = await readStoredBytes(db, [...new Set(tenantIds)]);
    const share = hasRow ? 1 : HISTORY_SHARE;
    return new HistoryRoom(new Map([...stored].map(([id, { used, limit }]) => [id, limit * share - used])));
  }

  /** Takes room for a record. Returns false if the tenant has none left. */
  take(tenantId: string, texts: readonly (string | null | undefined)[]): boolean {
    const size = texts.reduce((sum, text) => sum + (text == null ? 0 : Buffer.byteLength(text)), 0);
    const left = (this.#left.get(tenantId) ?? 0) - size;
    if (left < 0) return false;
    this.#left.set(tenantId, left);
    return true;
  }
}

/** Counts everything again, after rows were written without triggers. Part of that transaction. */
export async function recountStoredBytes(db: Db): Promise<void> {
  await db.deleteFrom("stored_bytes").execute();
  await sql.raw(COUNT_ALL).execute(db);
}

/**
 * Turns the triggers off or on for a transaction that writes very many rows. SQLite updates a count in place; Postgres keeps each version of it
 * until the end of the transaction.
 */
export async function setCounting(db: Db, kind: DatabaseKind, state: "enable" | "disable"): Promise<void> {
  if (kind === "sqlite") return;
  for (const table of Object.keys(COUNTED_COLUMNS)) {
    await sql`alter table ${sql.table(table)} ${sql.raw(state)} trigger user`.execute(db);
  }
}

export interface StorageWarning extends StoredBytes {
  readonly tenantId: string;
  readonly name: string;
}

/** Adds up the counts of connections, and warns tenants whose quota is nearly used up, each once a day. */
export class StoredBytesSweeper {
  readonly #database: Pick<OpenDatabase, "db" | "kind" | "clock">;
  readonly #onWarning: (warning: StorageWarning) => void;

  constructor(database: Pick<OpenDatabase, "db" | "kind" | "clock">, onWarning: (warning: StorageWarning) => void) {
    this.#database = database;
    this.#onWarning = onWarning;
  }

  async sweep(): Promise<void> {
    const { db, kind } = this.#database;
    if (kind === "postgres") await this.#fold();
    // Left by a release that deletes tenants without their counts.
    await db
      .deleteFrom("stored_bytes")
      .where("bytes", "=", 0)
      .where("tenant_id", "not in", (query) => query.selectFrom("tenants").select("id"))
      .execute();
    let after = "";
    for (;;) {
      const page = await db
        .selectFrom("tenants")
        .select("id")
        .where("id", ">", after)
        .orderBy("id")
        .limit(TENANTS_PER_PAGE)
        .execute();
      for (const [tenantId, stored] of await readStoredBytes(
        db,
        page.map(({ id }) => id),
      )) {
        if (stored.used >= stored.limit * WARN_AT) await this.#warn(tenantId, stored);
      }
      after = page.at(-1)?.id ?? "";
      if (page.length < TENANTS_PER_PAGE) return;
    }
  }

  async #fold(): Promise<void> {
    const { db } = this.#database;
    const tenants = await db
      .selectFrom("stored_bytes")
      .select("tenant_id")
      .groupBy("tenant_id")
      .having(({ fn }) => fn.countAll(), ">", MAX_PARTS)
      .execute();
    for (const { tenant_id: tenantId } of tenants) {
      // One statement for each tenant that waits for no other transaction: it leaves out the counts that are being changed.
      await sql`with removed as (
          delete from stored_bytes where (tenant_id, part) in (
            select tenant_id, part from stored_bytes where tenant_id = ${tenantId} and part <> 0 for update skip locked
          ) returning bytes
        )
        insert into stored_bytes as stored (tenant_id, part, bytes)
        select ${tenantId}, 0, coalesce(sum(bytes), 0) from removed
        on conflict (tenant_id, part) do update set bytes = stored.bytes + excluded.bytes`.execute(db);
    }
  }

  async #warn(tenantId: string, { used, limit }: StoredBytes): Promise<void> {
    const { db, clock } = this.#database;
    const day = Math.floor(clock.now() / DAY_MS) * DAY_MS;
    const name = `storedBytes:day:${day}`;
    const { numInsertedOrUpdatedRows = 0n } = await db
      .insertInto("quota_counters")
      .values({ tenant_id: tenantId, name, value: used, ends_at: day + DAY_MS, is_warned: 1 })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows > 0n) this.#onWarning({ tenantId, name: toQuotaName(name), used, limit });
  }
}
