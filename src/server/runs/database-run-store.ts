// Keeps durable runs in the server's database, so that any server process continues them.

import { sql } from "kysely";
import type {
  DueFilter,
  NewRun,
  RunClaim,
  RunFilter,
  RunKey,
  RunLease,
  RunRecord,
  RunRelease,
  RunState,
  RunStore,
  RunWait,
  ToolResult,
} from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import { SYSTEM_CLOCK, type WallClock } from "../database/database-clock.ts";
import type { Db } from "../database/open-database.ts";
import { IS_OPEN_RUN } from "../database/partial-indexes.ts";
import type { RunsTable } from "../database/tables/call-tables.ts";
import { deleteInBatches, someRows } from "../records/batches.ts";
import { isRollingBack } from "../records/calls/runs.ts";
import { checkStoredBytes } from "../records/tenants/stored-bytes.ts";
import { isNotInUse } from "../records/tenants/tenants.ts";

const OPEN = ["running", "suspended"] as const;
const ENTRIES_PER_INSERT = 100;
/** What the server has runs of: tools, and code of models. */
const KINDS = ["tool", "code"] as const;
type RunKind = (typeof KINDS)[number];
const isKind = (kind: string): kind is RunKind => KINDS.some((one) => one === kind);

const toRecord = (row: RunsTable): RunRecord => ({
  id: row.id,
  tenantId: row.tenant_id,
  kind: row.kind,
  toolName: row.tool_name,
  input: row.input,
  state: row.state,
  ...(row.tool_version === null ? {} : { toolVersion: row.tool_version }),
  fence: row.fence,
  leaseUntil: row.lease_until,
  waits: JSON.parse(row.waits) as readonly RunWait[],
  ...(row.wake_at === null ? {} : { wakeAt: row.wake_at }),
  ...(row.result === null ? {} : { result: JSON.parse(row.result) as ToolResult }),
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  journalLength: row.journal_length,
  entries: row.entries,
});

export interface DatabaseRunStoreOptions {
  readonly db: Db;
  readonly kind: DatabaseKind;
  /** Default: the clock of this machine. */
  readonly clock?: WallClock | undefined;
  /** Called in the transaction that ends a run. @param now ms since 1970 */
  readonly onEnded?: ((transaction: Db, run: RunRecord, result: ToolResult, now: number) => Promise<void>) | undefined;
  /** Called in the transaction that suspends a run, with what a person can end and the run has not waited for before. */
  readonly onWaiting?: ((transaction: Db, run: RunRecord, waits: readonly RunWait[]) => Promise<void>) | undefined;
}

const isForPerson = ({ kind }: RunWait): boolean => kind === "approval" || kind === "elicitation";

export class DatabaseRunStore implements RunStore {
  readonly #db: Db;
  readonly #kind: DatabaseKind;
  readonly #clock: WallClock;
  readonly #onEnded: DatabaseRunStoreOptions["onEnded"];
  readonly #onWaiting: DatabaseRunStoreOptions["onWaiting"];

  constructor({ db, kind, clock = SYSTEM_CLOCK, onEnded, onWaiting }: DatabaseRunStoreOptions) {
    this.#clock = clock;
    this.#db = db;
    this.#kind = kind;
    this.#onEnded = onEnded;
    this.#onWaiting = onWaiting;
  }

  now(): number {
    return this.#clock.now();
  }

  /** @throws {Error} for a run of an unknown kind; {ToolError} QUOTA_EXCEEDED if the tenant may not store its input */
  async create(run: NewRun, maxOpen: number): Promise<"created" | "taken" | "full"> {
    const { kind } = run;
    if (!isKind(kind)) throw new Error(`The database keeps runs of these kinds only: ${KINDS.join(", ")}`);
    return await this.#db.transaction().execute(async (transaction) => {
      // Concurrent starts of one tenant are counted one after the other.
      const tenant = transaction.selectFrom("tenants").select("id").where("id", "=", run.tenantId);
      await (this.#kind === "postgres" ? tenant.forUpdate() : tenant).executeTakeFirst();
      const { open } = await transaction
        .selectFrom("runs")
        .select(({ fn }) => fn.countAll().as("open"))
        .where("tenant_id", "=", run.tenantId)
        .where("kind", "=", kind)
        .where("state", "in", OPEN)
        .executeTakeFirstOrThrow();
      const row: RunsTable = {
        id: run.id,
        tenant_id: run.tenantId,
        kind,
        tool_name: run.toolName,
        tool_version: run.toolVersion ?? null,
        input: run.input,
        state: "running",
        fence: 1,
        lease_until: run.leaseUntil,
        wake_at: null,
        waits: "[]",
        result: null,
        created_at: run.createdAt,
        expires_at: run.expiresAt,
        journal_length: 0,
        entries: 0,
        ended_at: null,
      };
      if (Number(open) >= maxOpen) {
        const known = await this.#rowOf(transaction, run);
        return known === undefined ? "full" : "taken";
      }
      const { numInsertedOrUpdatedRows = 0n } = await transaction
        .insertInto("runs")
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst();
      if (numInsertedOrUpdatedRows === 0n) return "taken";
      const bytes = Buffer.byteLength(run.input);
      await checkStoredBytes(transaction, run.tenantId, { what: "The input of the run", bytes, isStored: true });
      return "created";
    });
  }

  async #rowOf(db: Db, { tenantId, id }: RunKey): Promise<RunsTable | undefined> {
    const query = db.selectFrom("runs").selectAll().where("tenant_id", "=", tenantId);
    return await query.where("id", "=", id).executeTakeFirst();
  }

  async find(key: RunKey): Promise<RunRecord | undefined> {
    const row = await this.#rowOf(this.#db, key);
    return row && toRecord(row);
  }

  async journal({ tenantId, id }: RunKey): Promise<readonly string[]> {
    const rows = await this.#db
      .selectFrom("run_entries")
      .select("text")
      .where("tenant_id", "=", tenantId)
      .where("run_id", "=", id)
      .orderBy("position")
      .execute();
    return rows.map(({ text }) => text);
  }

  async list(tenantId: string, { state, before, limit }: RunFilter): Promise<readonly RunRecord[]> {
    let query = this.#db.selectFrom("runs").selectAll().where("tenant_id", "=", tenantId);
    if (state !== undefined) query = query.where("state", "=", state);
    if (before !== undefined) query = query.where("id", "<", before);
    return (await query.orderBy("id", "desc").limit(limit).execute()).map(toRecord);
  }

  async claim({ tenantId, id }: RunKey, { kind, now, until }: RunLease): Promise<number | undefined> {
    if (!isKind(kind)) return undefined;
    const claimed = await this.#db
      .updateTable("runs")
      .set((column) => ({ state: "running", fence: column("fence", "+", 1), lease_until: until }))
      .where("tenant_id", "=", tenantId)
      .where("id", "=", id)
      .where("kind", "=", kind)
      .where((of) =>
        of.or([of("state", "=", "suspended"), of.and([of("state", "=", "running"), of("lease_until", "<", now)])]),
      )
      .returning("fence")
      .executeTakeFirst();
    return claimed?.fence;
  }

  async renew({ tenantId, id, fence }: RunClaim, until: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable("runs")
      .set({ lease_until: until })
      .where("tenant_id", "=", tenantId)
      .where("id", "=", id)
      .where("fence", "=", fence)
      .where("state", "=", "running")
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** Counts entries, which locks the row of the run, and adds them. Returns the state of the run; undefined if it is not in one of these. */
  async #add(
    { tenantId, id }: RunKey,
    texts: readonly string[],
    from: { readonly states: readonly RunState[]; readonly fence?: number },
  ): Promise<RunState | undefined> {
    if (!this.#db.isTransaction) {
      return await this.#db
        .transaction()
        .execute((transaction) => this.in(transaction).#add({ tenantId, id }, texts, from));
    }
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    const transaction = this.#db;
    let counting = transaction
      .updateTable("runs")
      .set((column) => ({
        entries: column("entries", "+", texts.length),
        journal_length: column("journal_length", "+", length),
      }))
      .where("tenant_id", "=", tenantId)
      .where("id", "=", id)
      .where("state", "in", from.states);
    if (from.fence !== undefined) counting = counting.where("fence", "=", from.fence);
    const counted = await counting.returning(["state", "entries"]).executeTakeFirst();
    if (counted === undefined) return undefined;
    const first = counted.entries - texts.length;
    const key = { tenant_id: tenantId, run_id: id, created_at: this.now() };
    const rows = texts.map((text, index) => ({ ...key, position: first + index, text }));
    for (let start = 0; start < rows.length; start += ENTRIES_PER_INSERT) {
      await transaction
        .insertInto("run_entries")
        .values(rows.slice(start, start + ENTRIES_PER_INSERT))
        .execute();
    }
    await this.#checkQuota({ tenantId, id }, texts);
    return counted.state;
  }

  /** @throws {ToolError} QUOTA_EXCEEDED, but not while a run is rolled back: what undoes it has room of its own in the journal */
  async #checkQuota(key: RunKey, texts: readonly string[]): Promise<void> {
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    try {
      await checkStoredBytes(this.#db, key.tenantId, { what: "The journal of the run", bytes, isStored: true });
    } catch (thrown) {
      if (!(await isRollingBack(this.#db, key))) throw thrown;
    }
  }

  /** Returns the store as part of a transaction. */
  in(transaction: Db): DatabaseRunStore {
    const hooks = { onEnded: this.#onEnded, onWaiting: this.#onWaiting };
    return new DatabaseRunStore({ db: transaction, kind: this.#kind, clock: this.#clock, ...hooks });
  }

  async append({ fence, ...key }: RunClaim, entries: readonly string[]): Promise<boolean> {
    return (await this.#add(key, entries, { states: ["running"], fence })) !== undefined;
  }

  async appendEvent(key: RunKey, entry: string): Promise<RunState | undefined> {
    return await this.#add(key, [entry], { states: OPEN });
  }

  async release(
    { tenantId, id, fence }: RunClaim,
    release: RunRelease,
    entries: number,
  ): Promise<"released" | "changed" | "lost"> {
    const onEnded = this.#onEnded;
    if (onEnded !== undefined && release.state !== "suspended" && !this.#db.isTransaction) {
      return await this.#db.transaction().execute(async (transaction) => {
        const outcome = await this.in(transaction).release({ tenantId, id, fence }, release, entries);
        const row = outcome === "released" ? await this.#rowOf(transaction, { tenantId, id }) : undefined;
        if (row !== undefined) await onEnded(transaction, toRecord(row), release.result, this.now());
        return outcome;
      });
    }
    const onWaiting = this.#onWaiting;
    if (onWaiting !== undefined && release.state === "suspended" && !this.#db.isTransaction) {
      const waits = release.waits.filter(isForPerson);
      if (waits.length > 0)
        return await this.#db.transaction().execute(async (transaction) => {
          const before = await this.#rowOf(transaction, { tenantId, id });
          const outcome = await this.in(transaction).release({ tenantId, id, fence }, release, entries);
          if (outcome !== "released" || before === undefined) return outcome;
          const run = toRecord(before);
          const isNew = (wait: RunWait): boolean => run.waits.every((known) => known.id !== wait.id);
          if (waits.some(isNew)) await onWaiting(transaction, run, waits.filter(isNew));
          return outcome;
        });
    }
    const isSuspended = release.state === "suspended";
    let query = this.#db
      .updateTable("runs")
      .set({
        state: release.state,
        waits: isSuspended ? JSON.stringify(release.waits) : "[]",
        wake_at: isSuspended ? (release.wakeAt ?? null) : null,
        result: isSuspended ? null : JSON.stringify(release.result),
        ended_at: isSuspended ? null : this.now(),
      })
      .where("tenant_id", "=", tenantId)
      .where("id", "=", id)
      .where("fence", "=", fence)
      .where("state", "=", "running");
    if (isSuspended) query = query.where("entries", "=", entries);
    const { numUpdatedRows } = await query.executeTakeFirst();
    if (numUpdatedRows > 0n) return "released";
    const row = await this.#rowOf(this.#db, { tenantId, id });
    return row?.state === "running" && row.fence === fence ? "changed" : "lost";
  }

  async due(now: number, { kind, tenantId, except = [], perTenant, limit }: DueFilter): Promise<readonly RunKey[]> {
    if (!isKind(kind)) return [];
    // The runs of a tenant that is suspended wait until it is active again.
    const active = this.#db.selectFrom("tenants").select("id").where("state", "=", "active");
    let due = this.#db
      .selectFrom("runs")
      .select(["tenant_id", "id"])
      .select(({ fn }) =>
        fn
          .agg<number>("row_number")
          .over((over) => over.partitionBy("tenant_id").orderBy("id"))
          .as("rank"),
      )
      .where(IS_OPEN_RUN)
      .where("kind", "=", kind)
      .where("tenant_id", "in", active)
      .where((of) =>
        of.or([
          of.and([of("state", "=", "running"), of("lease_until", "<", now)]),
          of.and([of("state", "=", "suspended"), of.or([of("wake_at", "<=", now), of("expires_at", "<=", now)])]),
        ]),
      );
    if (tenantId !== undefined) due = due.where("tenant_id", "=", tenantId);
    if (except.length > 0) due = due.where("tenant_id", "not in", except);
    const rows = await this.#db
      .selectFrom(due.as("due"))
      .select(["tenant_id", "id"])
      .where("rank", "<=", perTenant)
      .orderBy("rank")
      .orderBy("id")
      .limit(limit)
      .execute();
    return rows.map((row) => ({ tenantId: row.tenant_id, id: row.id }));
  }

  async deleteTenant(tenantId: string): Promise<number> {
    return await deleteInBatches(async (limit) => {
      const { numDeletedRows } = await this.#db
        .deleteFrom("runs")
        .where(someRows(this.#kind, "runs", sql`tenant_id = ${tenantId} and ${isNotInUse(tenantId)}`, limit))
        .executeTakeFirst();
      return Number(numDeletedRows);
    });
  }
}
