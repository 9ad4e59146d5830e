// Keeps the values of tools in the server's database, so that several servers share them and a backup contains them.
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import {
  type KvDeleteOutcome,
  type KvDeletion,
  type KvEntry,
  type KvListOptions,
  type KvPage,
  type KvQuota,
  type KvSetOutcome,
  type KvSpace,
  type KvStore,
  type KvTenantEntry,
  type KvWrite,
  ToolError,
} from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { WallClock } from "../database/database-clock.ts";
import type { Db, OpenDatabase } from "../database/open-database.ts";
import type { KvEntriesTable } from "../database/tables/tool-tables.ts";
import { deleteInBatches, someRows } from "../records/batches.ts";
import { isNotInUse } from "../records/tenants/tenants.ts";

const EXPORT_PAGE = 100;

const PLAIN = /^[A-Za-z0-9._/-]+$/;
/** Returns an id as a column stores it: as it is, or as JSON, because Postgres stores no NUL and neither database a lone surrogate. */
const toColumn = (id: string): string => (PLAIN.test(id) ? id : JSON.stringify(id));
const fromColumn = (text: string): string => (text.startsWith('"') ? (JSON.parse(text) as string) : text);

const toKey = (key: string): Buffer => Buffer.from(key, "utf8");
const toEntry = (row: KvEntriesTable): KvEntry => ({
  key: Buffer.from(row.key).toString("utf8"),
  kind: row.kind,
  data: row.data,
  version: row.version,
  ...(row.expires_at === null ? {} : { expiresAt: row.expires_at }),
});

/** Returns the first key after all keys with a prefix; undefined if there is none. */
function afterPrefix(prefix: Buffer): Buffer | undefined {
  const end = Buffer.from(prefix);
  for (let index = end.length - 1; index >= 0; index -= 1) {
    const byte = end[index] as number;
    if (byte === 0xff) continue;
    end[index] = byte + 1;
    return end.subarray(0, index + 1);
  }
  return undefined;
}

export interface SpaceUsage extends KvQuota {
  readonly tool: string;
}

/** @throws {ToolError} QUOTA_EXCEEDED if the tenant may not store so many bytes more */
export type GrowthCheck = (transaction: Db, tenantId: string, bytes: number) => Promise<void>;

export class DatabaseKvStore implements KvStore {
  readonly #db: Db;
  readonly #clock: WallClock;
  readonly #kind: DatabaseKind;

  readonly #checkGrowth: GrowthCheck;

  /** @param checkGrowth decides whether a tenant may store more, within the transaction that stores it */
  constructor({ db, kind, clock }: Pick<OpenDatabase, "db" | "kind" | "clock">, checkGrowth: GrowthCheck) {
    this.#checkGrowth = checkGrowth;
    this.#db = db;
    this.#clock = clock;
    this.#kind = kind;
  }

  async get(space: KvSpace, key: string): Promise<KvEntry | undefined> {
    const row = await this.#find(this.#db, space, toKey(key));
    return row === undefined ? undefined : toEntry(row);
  }

  async set(space: KvSpace, key: string, write: KvWrite): Promise<KvSetOutcome> {
    // A copy, because the caller may change its bytes before they are written.
    const own = { ...write, data: Buffer.from(write.data) };
    return await this.#db.transaction().execute((transaction) => this.setWithin(transaction, space, key, own));
  }

  /** Sets a value within a transaction, which may change more. */
  async setWithin(transaction: Db, space: KvSpace, key: string, write: KvWrite): Promise<KvSetOutcome> {
    const { kind, data: value, expiresAt, ifVersion, quota } = write;
    const bytes = toKey(key);
    let before = await this.#lock(transaction, space);
    // One time, so that the entry that is replaced does not expire meanwhile.
    const now = this.#clock.now();
    const known = await this.#find(transaction, space, bytes, now);
    if (ifVersion !== undefined && ifVersion !== (known?.version ?? null)) {
      return { status: "conflict", version: known?.version ?? null };
    }
    const size = bytes.byteLength + value.byteLength;
    const next = (used: KvQuota): KvQuota => ({
      keys: used.keys + (known === undefined ? 1 : 0),
      bytes: used.bytes + size - (known?.size ?? 0),
    });
    const sweep = async (): Promise<void> => {
      await deleteInBatches(async (limit) => {
        const removed = await this.#removeExpired(transaction, space, now, limit);
        before = subtract(before, removed);
        return removed.keys;
      });
      // Stored also if the value does not fit.
      await this.#setUsage(transaction, space, before);
    };
    if (exceeded(before, next(before), quota) !== undefined) await sweep();
    if (!(await this.#mayGrow(transaction, space, size - (known?.size ?? 0)))) {
      await sweep();
      await this.#checkGrowth(transaction, toColumn(space.tenantId), size - (known?.size ?? 0));
    }
    const after = next(before);
    const limit = exceeded(before, after, quota);
    if (limit !== undefined) return { status: "full", exceeded: limit, needed: after[limit] };
    const version = randomUUID();
    const row = {
      kind,
      data: Buffer.from(value.buffer, value.byteOffset, value.byteLength),
      version,
      expires_at: expiresAt ?? null,
      size,
    };
    // An expired entry of this key is counted until it is replaced.
    const replaced = known === undefined ? await this.#remove(transaction, space, bytes) : { keys: 0, bytes: 0 };
    await transaction
      .insertInto("kv_entries")
      .values({ tenant_id: toColumn(space.tenantId), tool: toColumn(space.tool), key: bytes, ...row })
      .onConflict((conflict) => conflict.columns(["tenant_id", "tool", "key"]).doUpdateSet(row))
      .execute();
    await this.#setUsage(transaction, space, subtract(after, replaced));
    return { status: "stored", version };
  }

  async delete(space: KvSpace, key: string, ifVersion?: string): Promise<KvDeleteOutcome> {
    return await this.#db.transaction().execute((transaction) => this.deleteWithin(transaction, space, key, ifVersion));
  }

  /** Deletes a value within a transaction, which may change more. */
  async deleteWithin(transaction: Db, space: KvSpace, key: string, ifVersion?: string): Promise<KvDeleteOutcome> {
    const bytes = toKey(key);
    const before = await this.#lock(transaction, space);
    const known = await this.#find(transaction, space, bytes);
    if (known !== undefined) {
      if (ifVersion !== undefined && ifVersion !== known.version) return { status: "conflict" };
      await inSpace(transaction.deleteFrom("kv_entries"), space).where("key", "=", bytes).execute();
      await this.#setUsage(transaction, space, { keys: before.keys - 1, bytes: before.bytes - known.size });
    }
    await this.#removeEmpty(transaction, space);
    return { status: known === undefined ? "missing" : "deleted" };
  }

  async list(space: KvSpace, { prefix, after, limit, bytes }: KvListOptions): Promise<KvPage> {
    const start = toKey(prefix);
    const end = afterPrefix(start);
    let query = inSpace(this.#db.selectFrom("kv_entries").select(["key", "size"]), space)
      .where("key", ">=", start)
      .where(({ eb, or }) => or([eb("expires_at", "is", null), eb("expires_at", ">", this.#clock.now())]))
      .orderBy("key")
      .limit(limit + 1);
    if (end !== undefined) query = query.where("key", "<", end);
    if (after !== undefined) query = query.where("key", ">", toKey(after));
    // The sizes first, so that a page of large values is not read as a whole.
    const found = await query.execute();
    let total = 0;
    const count = found.slice(0, limit).findIndex(({ size }, index) => {
      total += size;
      return total > bytes && index > 0;
    });
    const page = found.slice(0, count < 0 ? limit : count);
    const [first, last] = [page[0], page.at(-1)];
    if (first === undefined || last === undefined) return { entries: [], more: false };
    const rows = await inSpace(this.#db.selectFrom("kv_entries").selectAll(), space)
      .where("key", ">=", first.key)
      .where("key", "<=", last.key)
      .where(({ eb, or }) => or([eb("expires_at", "is", null), eb("expires_at", ">", this.#clock.now())]))
      .orderBy("key")
      .limit(limit)
      .execute();
    return { entries: rows.map(toEntry), more: found.length > page.length };
  }

  async usage(space: KvSpace): Promise<KvQuota> {
    const row = await inSpace(this.#db.selectFrom("kv_spaces").select(["keys", "bytes"]), space).executeTakeFirst();
    return row ?? { keys: 0, bytes: 0 };
  }

  async deleteTenant(tenantId: string): Promise<KvDeletion> {
    const deleted = { keys: 0, bytes: 0 };
    await deleteInBatches(async (limit) => {
      const sizes = await this.#db
        .transaction()
        .execute((transaction) => this.#deleteSome(transaction, tenantId, limit));
      deleted.keys += sizes.length;
      deleted.bytes += sizes.reduce((sum, size) => sum + size, 0);
      return sizes.length;
    });
    return deleted;
  }

  /** Deletes up to `limit` entries of a tenant, and its spaces with the last ones. Returns the sizes of the entries. */
  async #deleteSome(db: Db, tenantId: string, limit: number): Promise<readonly number[]> {
    const tenant = toColumn(tenantId);
    // The spaces first, as every change does: a call in another process may still be writing.
    const spaces = db.selectFrom("kv_spaces").select("tool").where("tenant_id", "=", tenant).orderBy("tool");
    await (this.#kind === "postgres" ? spaces.forUpdate() : spaces).execute();
    const rows = await db
      .deleteFrom("kv_entries")
      .where(someRows(this.#kind, "kv_entries", sql`tenant_id = ${tenant} and ${isNotInUse(tenant)}`, limit))
      .returning(["tool", "size"])
      .execute();
    if (rows.length < limit) {
      await db.deleteFrom("kv_spaces").where("tenant_id", "=", tenant).where(isNotInUse(tenant)).execute();
      return rows.map(({ size }) => size);
    }
    for (const [tool, entries] of Map.groupBy(rows, (row) => row.tool)) {
      const bytes = entries.reduce((sum, { size }) => sum + size, 0);
      await db
        .updateTable("kv_spaces")
        .set(({ eb }) => ({ keys: eb("keys", "-", entries.length), bytes: eb("bytes", "-", bytes) }))
        .where("tenant_id", "=", tenant)
        .where("tool", "=", tool)
        .execute();
    }
    return rows.map(({ size }) => size);
  }

  async *entries(tenantId: string): AsyncGenerator<KvTenantEntry, void> {
    let last: KvEntriesTable | undefined;
    for (;;) {
      const after = last;
      let query = this.#db
        .selectFrom("kv_entries")
        .selectAll()
        .where("tenant_id", "=", toColumn(tenantId))
        .where(({ eb, or }) => or([eb("expires_at", "is", null), eb("expires_at", ">", this.#clock.now())]))
        .orderBy("tool")
        .orderBy("key")
        .limit(EXPORT_PAGE);
      if (after !== undefined) {
        query = query.where(({ eb, or, and }) =>
          or([eb("tool", ">", after.tool), and([eb("tool", "=", after.tool), eb("key", ">", after.key)])]),
        );
      }
      const rows = await query.execute();
      for (const row of rows) yield { ...toEntry(row), tool: fromColumn(row.tool) };
      last = rows.at(-1);
      if (rows.length < EXPORT_PAGE) return;
    }
  }

  /** Lists the tools of a tenant that have values, by name. @param after the last one of the page before */
  async spaces(
    tenantId: string,
    { after, limit }: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<readonly SpaceUsage[]> {
    const all = this.#db
      .selectFrom("kv_spaces")
      .select(["tool", "keys", "bytes"])
      .where("tenant_id", "=", toColumn(tenantId))
      .where("keys", ">", 0)
      .orderBy("tool")
      .limit(limit);
    return await (after === undefined ? all : all.where("tool", ">", toColumn(after))).execute();
  }

  /**
   * Removes expired entries of all tenants, and spaces without entries.
   * @param onError receives the failure of one space. The others go on
   */
  async sweep(onError: (error: unknown) => void): Promise<void> {
    const forEach = async (
      rows: readonly { readonly tenant_id: string; readonly tool: string }[],
      work: (space: KvSpace) => Promise<unknown>,
    ): Promise<void> => {
      for (const row of rows) {
        try {
          await work({ tenantId: fromColumn(row.tenant_id), tool: fromColumn(row.tool) });
        } catch (thrown) {
          onError(thrown);
        }
      }
    };
    const now = this.#clock.now();
    const spaces = this.#db.selectFrom("kv_entries").select(["tenant_id", "tool"]).distinct();
    await forEach(await spaces.where("expires_at", "<=", now).execute(), (space) =>
      deleteInBatches((limit) =>
        this.#db.transaction().execute(async (transaction) => {
          const before = await this.#lock(transaction, space);
          const removed = await this.#removeExpired(transaction, space, now, limit);
          await this.#setUsage(transaction, space, subtract(before, removed));
          return removed.keys;
        }),
      ),
    );
    const empty = this.#db.selectFrom("kv_spaces").select(["tenant_id", "tool"]).where("keys", "=", 0);
    // One row in each statement, so that it waits for no transaction while it holds what that one needs.
    await forEach(await empty.execute(), (space) => this.#removeEmpty(this.#db, space));
  }

  async #mayGrow(db: Db, { tenantId }: KvSpace, bytes: number): Promise<boolean> {
    try {
      await this.#checkGrowth(db, toColumn(tenantId), bytes);
      return true;
    } catch (thrown) {
      if (thrown instanceof ToolError) return false;
      throw thrown;
    }
  }

  /** Returns the usage of a space. With Postgres, others wait until the transaction ends. */
  async #lock(db: Db, space: KvSpace): Promise<KvQuota> {
    // One statement: another transaction may delete the row of an empty space.
    return await db
      .insertInto("kv_spaces")
      .values({ tenant_id: toColumn(space.tenantId), tool: toColumn(space.tool), keys: 0, bytes: 0 })
      .onConflict((conflict) =>
        conflict.columns(["tenant_id", "tool"]).doUpdateSet((of) => ({ keys: of.ref("kv_spaces.keys") })),
      )
      .returning(["keys", "bytes"])
      .executeTakeFirstOrThrow();
  }

  async #setUsage(db: Db, space: KvSpace, usage: KvQuota): Promise<void> {
    await inSpace(db.updateTable("kv_spaces").set(usage), space).execute();
  }

  /** Removes a space if it has no entries. */
  async #removeEmpty(db: Db, space: KvSpace): Promise<void> {
    await inSpace(db.deleteFrom("kv_spaces"), space).where("keys", "=", 0).execute();
  }

  /** Returns an entry that has not expired. */
  async #find(
    db: Db,
    space: KvSpace,
    key: Buffer,
    now: number = this.#clock.now(),
  ): Promise<KvEntriesTable | undefined> {
    const row = await inSpace(db.selectFrom("kv_entries").selectAll(), space).where("key", "=", key).executeTakeFirst();
    return row === undefined || (row.expires_at ?? Number.POSITIVE_INFINITY) <= now ? undefined : row;
  }

  /** Removes the entry of a key. Returns what it counted. */
  async #remove(db: Db, space: KvSpace, key: Buffer): Promise<KvQuota> {
    const row = await inSpace(db.deleteFrom("kv_entries"), space)
      .where("key", "=", key)
      .returning("size")
      .executeTakeFirst();
    return row === undefined ? { keys: 0, bytes: 0 } : { keys: 1, bytes: row.size };
  }

  /** Removes up to `limit` expired entries of a space. Returns what they counted. */
  async #removeExpired(db: Db, space: KvSpace, now: number, limit: number): Promise<KvQuota> {
    const [tenant, tool] = [toColumn(space.tenantId), toColumn(space.tool)];
    const condition = sql`tenant_id = ${tenant} and tool = ${tool} and expires_at <= ${now}`;
    const rows = await db
      .deleteFrom("kv_entries")
      .where(someRows(this.#kind, "kv_entries", condition, limit))
      .returning("size")
      .execute();
    return { keys: rows.length, bytes: rows.reduce((sum, { size }) => sum + size, 0) };
  }
}

const subtract = (usage: KvQuota, removed: KvQuota): KvQuota => ({
  keys: usage.keys - removed.keys,
  bytes: usage.bytes - removed.bytes,
});

function exceeded(before: KvQuota, after: KvQuota, quota: KvQuota): keyof KvQuota | undefined {
  return (["keys", "bytes"] as const).find((name) => after[name] > quota[name] && after[name] > before[name]);
}

/** Restricts a query to one space. */
const inSpace = <Query extends { where(column: "tenant_id" | "tool", operator: "=", value: string): Query }>(
  query: Query,
  { tenantId, tool }: KvSpace,
): Query => query.where("tenant_id", "=", toColumn(tenantId)).where("tool", "=", toColumn(tool));
