// Calls in the database: claims, leases, outcomes, retention, and calls whose server has died. On both databases.
import { afterAll, describe, expect, test } from "vitest";
import { CallQueue } from "../../src/server/calls/queue/call-queue.ts";
import { deleteExpiredCalls } from "../../src/server/calls/retention.ts";
import { CallJournal } from "../../src/server/calls/running/call-journal.ts";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { createId } from "../../src/server/ids.ts";
import {
  claimCalls,
  findExpired,
  markStarted,
  putBackCall,
  requeue,
} from "../../src/server/records/calls/call-claims.ts";
import {
  type CallOutcome,
  finishCall,
  insertEndedOnce,
  storeOutcome,
} from "../../src/server/records/calls/call-outcomes.ts";
import { type CallRow, findCall, insertCalls, insertOnce } from "../../src/server/records/calls/calls.ts";
import { claimSession } from "../../src/server/records/calls/session-homes.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const toRow = (more: Partial<CallRow> = {}): CallRow => ({
  id: createId("call"),
  tenant_id: "acme",
  tool_name: "t",
  tool_version: null,
  alias: "live",
  mode: "async",
  state: "queued",
  effects: "none",
  key_id: "key",
  session_id: null,
  idempotency_key: null,
  request_hash: null,
  timeout_ms: null,
  input: "{}",
  output: null,
  content: 0,
  error: null,
  logs: null,
  usage: null,
  calls: null,
  timeline: null,
  created_at: Date.now(),
  started_at: null,
  ended_at: null,
  run_at: 0,
  lease_owner: null,
  lease_until: null,
  fence: 0,
  attempts: 0,
  cancel_requested: 0,
  parent_id: null,
  root_id: null,
  approval_id: null,
  ...more,
});
const outcome: CallOutcome = {
  state: "succeeded",
  effects: "complete",
  tool_version: 1,
  input: "{}",
  output: "1",
  error: null,
  logs: null,
  usage: null,
  calls: null,
  timeline: null,
  ended_at: 1,
};

interface Opened extends AsyncDisposable {
  readonly database: OpenDatabase;
  readonly db: Db;
}

async function open(kind: (typeof STORES)[number]): Promise<Opened> {
  const store = await stores.create(kind);
  const database = await openDatabase({ url: store.options.database, dataDir: store.options.dataDir, onError() {} });
  await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  return {
    database,
    db: database.db,
    [Symbol.asyncDispose]: async () => {
      await database[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

describe.for(STORES)("with %s", (kind) => {
  test("concurrent claims share the queued calls, each call with one of them", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    await insertCalls(
      db,
      Array.from({ length: 60 }, () => toRow()),
    );
    const owners = Array.from({ length: 6 }, (_, index) => `owner-${index}`);
    const claimed = await Promise.all(
      owners.map((owner) => claimCalls(database, 10, { owner, until: Date.now() + 60_000 })),
    );
    const ids = claimed.flat().map(({ id }) => id);
    expect([ids.length, new Set(ids).size]).toEqual([60, 60]);
    expect(await claimCalls(database, 10, { owner: "late", until: Date.now() + 60_000 })).toEqual([]);
  });

  test.runIf(kind === "postgres")(
    "a call of a session is claimed by the replica that has it, while that one lives",
    async () => {
      await using opened = await open(kind);
      const { db, database } = opened;
      await insertCalls(db, [toRow({ session_id: "a" })]);
      const see = (id: string, seenAt: number) =>
        db
          .insertInto("replicas")
          .values({ id, version: "1", started_at: 0, seen_at: seenAt })
          .onConflict((conflict) => conflict.column("id").doUpdateSet({ seen_at: seenAt }))
          .execute();
      const { id: home, ...key } = { id: "home", tenantId: "acme", toolName: "t", sessionId: "a" };
      await see(home, Date.now() + 600_000);
      expect(await claimSession(db, key, home, 600_000)).toBe("won");
      expect(await claimSession(db, key, home, 600_000)).toBe("kept");
      expect(await claimSession(db, key, "other", 600_000)).toBe("elsewhere");
      const claim = (replicaId?: string) =>
        claimCalls(database, 10, { owner: "o", until: Date.now() + 60_000, replicaId });
      const giveBack = (row: CallRow) => putBackCall(db, row, 0);
      expect(await claim("other")).toEqual([]);
      const [own] = await claim(home);
      expect(own?.session_id).toBe("a");
      await giveBack(own as CallRow);
      await see(home, 0);
      const [orphan] = await claim("other");
      expect(orphan?.session_id).toBe("a");
      await giveBack(orphan as CallRow);
      // Nothing else of the session's tenant is affected.
      await see(home, Date.now() + 600_000);
      await insertCalls(db, [toRow(), toRow({ session_id: "b" }), toRow({ session_id: "a", tool_name: "plain" })]);
      expect((await claim("other")).length).toBe(3);
    },
  );

  test("an outcome counts only with the number of the latest claim", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const row = toRow();
    await insertCalls(db, [row]);
    const [first] = await claimCalls(database, 1, { owner: "a", until: Date.now() - 1 });
    expect(await findExpired(db, Date.now())).toHaveLength(1);
    expect(await requeue(db, first as CallRow, 0)).toBe(true);
    expect(await requeue(db, first as CallRow, 0)).toBe(false);
    const [second] = await claimCalls(database, 1, { owner: "b", until: Date.now() + 60_000 });
    expect(await markStarted(db, first as CallRow, 1)).toBe(false);
    expect(await storeOutcome(db, first as CallRow, { ...outcome, output: '"late"' })).toBe(false);
    expect(await markStarted(db, second as CallRow, 1)).toBe(true);
    expect(await storeOutcome(db, second as CallRow, outcome)).toBe(true);
    expect(await storeOutcome(db, second as CallRow, outcome)).toBe(false);
    expect(await findCall(db, "acme", row.id)).toMatchObject({ state: "succeeded", output: "1", attempts: 2 });
  });

  test("decides about calls whose server has died by what may have happened", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const dead = { state: "running", lease_owner: "dead", lease_until: 1, fence: 1, attempts: 1 } as const;
    const claimed = toRow({ ...dead, tool_name: "claimed" });
    const started = toRow({
      ...dead,
      effects: "possible",
      tool_name: "started",
      input: '{"password":"hunter2hunter2"}',
    });
    const repeatable = toRow({ ...dead, effects: "possible", tool_name: "idempotent" });
    const sync = toRow({ ...dead, effects: "possible", mode: "sync", tool_name: "idempotent", input: null });
    const hopeless = toRow({ ...dead, tool_name: "claimed", attempts: 99 });
    const cancelled = toRow({ ...dead, effects: "possible", tool_name: "idempotent", cancel_requested: 1 });
    const policy = TenantPolicySchema.parse({ retention: { keepContent: false } });
    await insertTenant(db, { id: "discreet", name: "discreet", policy });
    const discreet = toRow({ ...dead, tenant_id: "discreet", effects: "possible", input: '"not kept"' });
    await insertCalls(db, [claimed, started, repeatable, sync, hopeless, cancelled, discreet]);
    const ran: string[] = [];
    const queue = new CallQueue({
      db,
      kind: database.kind,
      onError: (error) => expect.fail(String(error)),
      run: async ({ id }) => {
        ran.push(id);
        return { callId: id, success: true } as never;
      },
      toStored: async () => ({ outcome }),
      isIdempotent: async ({ tool_name }) => tool_name === "idempotent",
    });
    queue.start();
    const all = [claimed, started, repeatable, sync, hopeless, cancelled, discreet];
    const find = ({ tenant_id: tenantId, id }: CallRow) => findCall(db, tenantId, id);
    await expect
      .poll(async () => (await Promise.all(all.map(find))).map((row) => row?.state))
      .toEqual(["succeeded", "failed", "succeeded", "failed", "failed", "cancelled", "failed"]);
    await queue[Symbol.asyncDispose]();
    expect(ran.toSorted()).toEqual([claimed.id, repeatable.id].toSorted());
    const failed = await findCall(db, "acme", started.id);
    expect(failed).toMatchObject({ effects: "possible", error: expect.stringContaining("server_ended") });
    expect(JSON.parse(failed?.error ?? "")).toMatchObject({ docs: "docs/reference/errors/SANDBOX_CRASHED.md" });
    expect(failed?.input).not.toContain("hunter2hunter2");
    expect(failed?.input).toContain("password");
    expect((await find(discreet))?.input).toBeNull();
    expect(JSON.parse((await find(cancelled))?.error ?? "")).toMatchObject({
      code: "CANCELLED",
      message: expect.stringContaining("Effects of the call are possible"),
    });
    const neverBegun = await find(hopeless);
    expect(neverBegun).toMatchObject({ effects: "none", error: expect.stringContaining("The call had not begun") });
    expect(neverBegun?.error).not.toContain("are possible");
  });

  test("two queues run each call once", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const rows = Array.from({ length: 150 }, () => toRow());
    await insertCalls(db, rows);
    const ran: string[] = [];
    const makeQueue = (): CallQueue =>
      new CallQueue({
        db,
        kind: database.kind,
        onError: (error) => expect.fail(String(error)),
        run: async ({ id }) => {
          ran.push(id);
          return { success: true } as never;
        },
        toStored: async () => ({ outcome }),
        isIdempotent: async () => false,
      });
    const queues = [makeQueue(), makeQueue()];
    for (const queue of queues) queue.start();
    await expect.poll(() => ran.length).toBe(150);
    for (const queue of queues) await queue[Symbol.asyncDispose]();
    expect(new Set(ran).size).toBe(150);
    const left = await db.selectFrom("calls").select("id").where("state", "!=", "succeeded").execute();
    expect(left).toEqual([]);
  });

  test("the end of an earlier claim of a call leaves the newer one to the queue", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const row = toRow();
    await insertCalls(db, [row]);
    const claims: PromiseWithResolvers<void>[] = [];
    let stored = 0;
    const queue = new CallQueue({
      db,
      kind: database.kind,
      onError: (error) => expect.fail(String(error)),
      run: async () => {
        const claim = Promise.withResolvers<void>();
        claims.push(claim);
        await claim.promise;
        return { success: true } as never;
      },
      toStored: async () => {
        stored += 1;
        return { outcome };
      },
      isIdempotent: async () => false,
    });
    queue.start();
    await expect.poll(() => claims.length).toBe(1);
    // As after the end of its lease.
    const waiting = { state: "queued", lease_owner: null, lease_until: null } as const;
    await db.updateTable("calls").set(waiting).where("id", "=", row.id).execute();
    await expect.poll(() => claims.length).toBe(2);
    claims[0]?.resolve();
    await expect.poll(() => stored).toBe(1);
    for (let turn = 0; turn < 20; turn += 1) await findCall(db, "acme", row.id);
    expect(queue.cancel(row.id, "acme")).toBe(true);
    claims[1]?.resolve();
    await queue[Symbol.asyncDispose]();
    expect(await findCall(db, "acme", row.id)).toMatchObject({ state: "succeeded", attempts: 2 });
  });

  test("a queue without room reports the calls that were added, so that another one runs them", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    await insertCalls(
      db,
      Array.from({ length: 33 }, () => toRow()),
    );
    let reports = 0;
    const release = Promise.withResolvers<void>();
    const queue = new CallQueue({
      db,
      kind: database.kind,
      onError: (error) => expect.fail(String(error)),
      run: async () => {
        await release.promise;
        return { success: true } as never;
      },
      toStored: async () => ({ outcome }),
      isIdempotent: async () => false,
      onFull: () => {
        reports += 1;
      },
    });
    queue.start();
    // While the first claim runs, which takes the last slot.
    queue.notify([]);
    const claimed = () => db.selectFrom("calls").select("id").where("lease_owner", "is not", null).execute();
    await expect.poll(async () => (await claimed()).length).toBe(24);
    await expect.poll(() => reports).toBe(1);
    for (let added = 0; added < 10; added += 1) queue.notify([]);
    await expect.poll(() => reports).toBe(2);
    release.resolve();
    await expect.poll(async () => (await claimed()).length).toBe(0);
    await queue[Symbol.asyncDispose]();
  });

  test("stores one call for an idempotency key, also if it is requested several times at once", async () => {
    await using opened = await open(kind);
    const { db } = opened;
    const rows = Array.from({ length: 8 }, () => toRow({ idempotency_key: "k" }));
    const known = await Promise.all(rows.map((row) => insertOnce(db, row)));
    expect(known.filter((row) => row === undefined)).toHaveLength(1);
    expect(new Set(known.flatMap((row) => row?.id ?? [])).size).toBe(1);
  });

  // With SQLite, no other connection writes within a transaction.
  test.runIf(kind === "postgres")("stores a call whose idempotency key is released while it is inserted", async () => {
    await using opened = await open(kind);
    const { db } = opened;
    const first = toRow({ state: "running", idempotency_key: "k" });
    await insertOnce(db, first);
    let releases = 0;
    const released = db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        if (result.numAffectedRows !== 0n || releases > 0) return result;
        releases += 1;
        await finishCall(db, first, { ...outcome, idempotency_key: null, request_hash: null });
        return result;
      },
    });
    const row = toRow({ idempotency_key: "k" });
    expect(await insertOnce(released, row)).toBeUndefined();
    expect([releases, (await findCall(db, "acme", row.id))?.idempotency_key]).toEqual([1, "k"]);
    expect((await insertOnce(db, toRow({ idempotency_key: "k" })))?.id).toBe(row.id);
  });

  test("deletes finished calls after the time of the tenant's policy, and no others", async () => {
    await using opened = await open(kind);
    const { db } = opened;
    const policy = TenantPolicySchema.parse({ retention: { callDays: 2 } });
    await insertTenant(db, { id: "brief", name: "brief", policy });
    const day = 86_400_000;
    const now = Date.now();
    const ended = (days: number, more: Partial<CallRow> = {}) =>
      toRow({ state: "succeeded", ended_at: now - days * day, ...more });
    const kept = [
      ended(10),
      ended(1, { tenant_id: "brief" }),
      toRow({ tenant_id: "brief", created_at: now - 9 * day }),
    ];
    const old = Array.from({ length: 1_100 }, () => ended(3, { tenant_id: "brief" }));
    await insertCalls(db, [...kept, ...old, ended(31)]);
    expect(await deleteExpiredCalls(db, now, (error) => expect.unreachable(String(error)))).toBe(1_101);
    const rows = await db.selectFrom("calls").select("id").execute();
    expect(rows.map(({ id }) => id).sort()).toEqual(kept.map(({ id }) => id).sort());
  });

  test("the journal writes all records but those of a tenant that is gone", async () => {
    await using opened = await open(kind);
    const { db } = opened;
    const errors: unknown[] = [];
    const journal = new CallJournal(db, (error) => errors.push(error));
    const rows = Array.from({ length: 450 }, (_, index) =>
      toRow({ state: "succeeded", tenant_id: index === 7 ? "gone" : "acme" }),
    );
    for (const row of rows) void journal.add({ row });
    await journal[Symbol.asyncDispose]();
    expect(errors).toHaveLength(1);
    const { count } = await db
      .selectFrom("calls")
      .select(({ fn }) => fn.countAll().as("count"))
      .executeTakeFirstOrThrow();
    expect(Number(count)).toBe(449);
  });

  test("a call that was taken for lost keeps its first record, and is counted once", async () => {
    await using opened = await open(kind);
    const { db } = opened;
    const errors: unknown[] = [];
    const journal = new CallJournal(db, (error) => errors.push(error));
    const ended = { ended_at: 1, started_at: 1 };
    const rows = Array.from({ length: 3 }, () => toRow({ ...ended, state: "succeeded", output: "1" }));
    const [late] = rows as [CallRow];
    const lost = { ...late, state: "failed", output: null, error: '{"code":"SANDBOX_CRASHED"}' } as const;
    expect(await insertEndedOnce(db, { row: lost })).toBeUndefined();
    for (const row of rows) void journal.add({ row });
    await journal[Symbol.asyncDispose]();
    expect(errors).toEqual([]);
    expect(await findCall(db, "acme", late.id)).toMatchObject({ state: "failed", output: null });
    expect((await insertEndedOnce(db, { row: late }))?.state).toBe("failed");
    const usage = await db.selectFrom("usage").select(["outcome", "calls"]).orderBy("outcome").execute();
    expect(usage).toEqual([
      { outcome: "SANDBOX_CRASHED", calls: 1 },
      { outcome: "ok", calls: 2 },
    ]);
    await expect(insertEndedOnce(db, { row: toRow({ ...ended, tenant_id: "gone" }) })).rejects.toThrow();
  });
});
