// Random operations on SQLite, on Postgres and on a model in memory, which must agree after each of them.

import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import type { CallsTable } from "../../src/server/database/tables/call-tables.ts";
import { DatabaseKvStore } from "../../src/server/kv/database-kv-store.ts";
import { DatabaseQuotaStore } from "../../src/server/quotas/database-quota-store.ts";
import { appendAudit, SERVER_ACTOR } from "../../src/server/records/audit/audit.ts";
import { verifyAudit } from "../../src/server/records/audit/audit-chain.ts";
import { claimCalls, markStarted, requeue } from "../../src/server/records/calls/call-claims.ts";
import { listCalls } from "../../src/server/records/calls/call-list.ts";
import { type CallOutcome, finishCall, requestCancel } from "../../src/server/records/calls/call-outcomes.ts";
import { type CallRow, findCall, insertOnce } from "../../src/server/records/calls/calls.ts";
import { readUsage } from "../../src/server/records/reports/usage.ts";
import { recountStoredBytes } from "../../src/server/records/tenants/stored-bytes.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { findPrevious, findRelease, storeRelease } from "../../src/server/records/tools/releases.ts";
import { changeExclusively } from "../../src/server/records/write-lock.ts";
import { TABLES } from "../../src/server/transfer/table-rows.ts";
import { collect } from "./support/collect.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const TENANTS = ["a", "b"] as const;
const TOOLS = ["x", "y"] as const;
const KEYS = ["k", "é", "k/1"] as const;
const HOUR_MS = 3_600_000;
const NOW = 1_800_000_000_000;

const tenant = fc.constantFrom(...TENANTS);
const tool = fc.constantFrom(...TOOLS);
const index = fc.nat({ max: 11 });
const operation = fc.oneof(
  fc.record({ op: fc.constant("createTenant" as const), tenant }),
  fc.record({ op: fc.constant("deleteTenant" as const), tenant }),
  fc.record({ op: fc.constant("release" as const), tenant, tool, version: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ op: fc.constant("rollback" as const), tenant, tool }),
  fc.record({ op: fc.constant("enqueue" as const), tenant, tool, key: fc.option(fc.constantFrom("i1", "i2")) }),
  fc.record({ op: fc.constant("claim" as const), limit: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ op: fc.constant("start" as const), index }),
  fc.record({ op: fc.constant("finish" as const), index, isOk: fc.boolean(), isStale: fc.boolean() }),
  fc.record({ op: fc.constant("requeue" as const), index }),
  fc.record({ op: fc.constant("cancel" as const), tenant, index }),
  fc.record({
    op: fc.constant("list" as const),
    tenant,
    state: fc.constantFrom("queued", "running", "succeeded", "cancelled" as const),
  }),
  fc.record({ op: fc.constant("usage" as const), tenant }),
  fc.record({
    op: fc.constant("kvSet" as const),
    tenant,
    tool,
    key: fc.constantFrom(...KEYS),
    size: fc.nat({ max: 40 }),
    isNew: fc.boolean(),
  }),
  fc.record({ op: fc.constant("kvDelete" as const), tenant, tool, key: fc.constantFrom(...KEYS) }),
  fc.record({ op: fc.constant("kvList" as const), tenant, tool, prefix: fc.constantFrom("", "k", "z") }),
  fc.record({
    op: fc.constant("consume" as const),
    tenant,
    amounts: fc.array(fc.nat({ max: 4 }), { minLength: 1, maxLength: 2 }),
  }),
);
type Operation = typeof operation extends fc.Arbitrary<infer Value> ? Value : never;

const KV_QUOTA = { keys: 2, bytes: 60 } as const;
const LIMITS = [7, 5] as const;

const toRow = (
  id: string,
  { tenant: tenantId, tool: toolName, key }: { tenant: string; tool: string; key: string | null },
): CallRow => ({
  id,
  tenant_id: tenantId,
  tool_name: toolName,
  tool_version: null,
  alias: "live",
  mode: "async",
  state: "queued",
  effects: "none",
  key_id: "key",
  session_id: null,
  idempotency_key: key,
  request_hash: null,
  timeout_ms: null,
  input: "{}",
  output: null,
  error: null,
  logs: null,
  usage: null,
  calls: null,
  timeline: null,
  created_at: NOW,
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
  content: 0,
});
const outcomeOf = (isOk: boolean): CallOutcome => ({
  state: isOk ? "succeeded" : "failed",
  effects: isOk ? "complete" : "possible",
  tool_version: 1,
  input: "{}",
  output: isOk ? "1" : null,
  error: isOk ? null : '{"code":"TOOL_FAILED"}',
  logs: null,
  calls: null,
  timeline: null,
  usage: '{"cpuMs":2,"inputBytes":3}',
  ended_at: NOW + 5,
});

/** Something that operations run on. Each returns what a caller would see. */
interface Machine {
  run(operation: Operation, ids: readonly string[], newId: string): Promise<unknown>;
}

class DatabaseMachine implements Machine {
  readonly #database: OpenDatabase;
  readonly #kv: DatabaseKvStore;
  readonly #quotas: DatabaseQuotaStore;
  /** What each claim has returned, as the process that made it knows it. */
  readonly #claims = new Map<string, CallRow[]>();

  constructor(database: OpenDatabase) {
    this.#database = database;
    this.#kv = new DatabaseKvStore(database, async () => {});
    this.#quotas = new DatabaseQuotaStore({ db: database.db, kind: database.kind, now: () => NOW });
  }

  async clear(): Promise<void> {
    for (const table of TABLES.toReversed()) await this.#database.db.deleteFrom(table).execute();
    this.#claims.clear();
  }

  async run(operation: Operation, ids: readonly string[], newId: string): Promise<unknown> {
    const { db } = this.#database;
    const id = "index" in operation ? (ids[operation.index] ?? "none") : "none";
    const claim = this.#claims.get(id)?.at("isStale" in operation && operation.isStale ? 0 : -1);
    const space =
      "tenant" in operation
        ? { tenantId: operation.tenant, tool: `tenant/${"tool" in operation ? operation.tool : ""}` }
        : undefined;
    switch (operation.op) {
      case "createTenant":
        return await changeExclusively(this.#database, async (transaction) => {
          await insertTenant(transaction, {
            id: operation.tenant,
            name: operation.tenant,
            policy: TenantPolicySchema.parse({}),
          });
          await appendAudit(transaction, {
            actor: SERVER_ACTOR,
            tenantId: operation.tenant,
            action: "tenant.created",
            target: operation.tenant,
            details: {},
          });
          return "created";
        });
      case "deleteTenant": {
        await db.updateTable("tenants").set({ state: "deleting" }).where("id", "=", operation.tenant).execute();
        await this.#kv.deleteTenant(operation.tenant);
        await this.#quotas.deleteTenant(operation.tenant);
        const { numDeletedRows } = await db.deleteFrom("tenants").where("id", "=", operation.tenant).executeTakeFirst();
        return numDeletedRows > 0n;
      }
      case "release": {
        const key = { tenantId: operation.tenant, toolName: operation.tool, alias: "live" };
        const versions = [{ version: operation.version, weight: 100 }];
        return (await storeRelease(db, key, { versions, reason: "set", changedBy: "key" })).versions[0]?.version;
      }
      case "rollback": {
        const key = { tenantId: operation.tenant, toolName: operation.tool, alias: "live" };
        const versions = await findPrevious(db, key);
        if (versions === undefined) return "none";
        await storeRelease(db, key, { versions, reason: "rollback", changedBy: "key" });
        return (await findRelease(db, key))?.versions[0]?.version;
      }
      case "enqueue":
        return (await insertOnce(db, toRow(newId, operation)))?.id ?? newId;
      case "claim": {
        const rows = await claimCalls(this.#database, operation.limit, { owner: "o", until: NOW });
        for (const row of rows) this.#claims.set(row.id, [...(this.#claims.get(row.id) ?? []), row]);
        return rows.map((row) => row.id).toSorted();
      }
      case "start":
        return claim !== undefined && (await markStarted(db, claim, NOW));
      case "finish":
        return claim !== undefined && (await finishCall(db, claim, outcomeOf(operation.isOk)));
      case "requeue":
        return claim !== undefined && (await requeue(db, claim, 0));
      case "cancel":
        return (await requestCancel(db, operation.tenant, id)) ?? "none";
      case "list": {
        const { rows } = await listCalls(db, operation.tenant, {
          state: operation.state as CallsTable["state"],
          limit: 100,
        });
        return await Promise.all(
          rows.map(async (row) => {
            const { effects, attempts } = (await findCall(db, operation.tenant, row.id)) as CallRow;
            return [row.id, effects, attempts];
          }),
        );
      }
      case "usage": {
        const rows = await collect(readUsage(db, operation.tenant, { from: 0, until: NOW + HOUR_MS }));
        return rows.map((row) => [row.tool, row.outcome, row.calls, row.cpuMs, row.inputBytes]);
      }
      case "kvSet": {
        const data = Buffer.alloc(operation.size);
        const ifVersion = operation.isNew ? null : undefined;
        const outcome = await this.#kv.set(space as never, operation.key, {
          kind: "bytes",
          data,
          quota: KV_QUOTA,
          ifVersion,
        });
        return outcome.status === "full" ? [outcome.exceeded, outcome.needed] : outcome.status;
      }
      case "kvDelete":
        return (await this.#kv.delete(space as never, operation.key)).status;
      case "kvList": {
        const page = await this.#kv.list(space as never, { prefix: operation.prefix, limit: 10, bytes: 1_000 });
        const usage = await this.#kv.usage(space as never);
        return [page.entries.map(({ key, data }) => [key, data.byteLength]), usage.keys, usage.bytes];
      }
      case "consume": {
        const outcome = await this.#quotas.consume(
          operation.amounts.map((amount, at) => ({
            kind: "window",
            tenantId: operation.tenant,
            name: `w${at}`,
            amount,
            limit: LIMITS[at],
            endsAt: NOW + HOUR_MS,
          })) as never,
        );
        return outcome.allowed ? "allowed" : outcome.denied;
      }
    }
  }

  async check(): Promise<void> {
    const { db } = this.#database;
    expect((await verifyAudit(db)).brokenAt).toBeUndefined();
    const sumOf = async (): Promise<unknown> =>
      (
        await db
          .selectFrom("stored_bytes")
          .select(["tenant_id", sql<string>`cast(sum(bytes) as text)`.as("bytes")])
          .groupBy("tenant_id")
          .having(sql`sum(bytes)`, "<>", 0)
          .orderBy("tenant_id")
          .execute()
      ).map(({ tenant_id, bytes }) => [tenant_id, bytes]);
    const counted = await sumOf();
    await db.transaction().execute(recountStoredBytes);
    expect(counted).toEqual(await sumOf());
  }
}

interface ModelCall {
  readonly id: string;
  readonly tenant: string;
  readonly tool: string;
  readonly key: string | null;
  state: string;
  effects: string;
  fence: number;
  attempts: number;
}

/** The same in memory, written as plainly as possible. */
class Model implements Machine {
  readonly #tenants = new Set<string>();
  #calls: ModelCall[] = [];
  readonly #claims = new Map<string, number[]>();
  readonly #releases = new Map<string, number[]>();
  readonly #usage = new Map<string, [string, string, number, number, number]>();
  readonly #kv = new Map<string, Map<string, number>>();
  readonly #counters = new Map<string, number>();

  async run(operation: Operation, ids: readonly string[], newId: string): Promise<unknown> {
    const id = "index" in operation ? (ids[operation.index] ?? "none") : "none";
    const call = this.#calls.find((one) => one.id === id);
    const fences = this.#claims.get(id);
    const fence = fences?.at("isStale" in operation && operation.isStale ? 0 : -1);
    const isHeld = call !== undefined && call.state === "running" && fence === call.fence;
    const name = JSON.stringify([
      "tenant" in operation ? operation.tenant : "",
      "tool" in operation ? operation.tool : "",
    ]);
    switch (operation.op) {
      case "createTenant":
        if (this.#tenants.has(operation.tenant)) throw new Error("NAME_TAKEN");
        this.#tenants.add(operation.tenant);
        return "created";
      case "deleteTenant": {
        this.#calls = this.#calls.filter((one) => one.tenant !== operation.tenant);
        const prefix = `["${operation.tenant}",`;
        for (const map of [this.#releases, this.#usage, this.#kv, this.#counters])
          for (const key of map.keys()) if (key.startsWith(prefix)) map.delete(key);
        return this.#tenants.delete(operation.tenant);
      }
      case "release":
        if (!this.#tenants.has(operation.tenant)) throw new Error("no tenant");
        // What runs already is no change.
        if (this.#releases.get(name)?.at(-1) !== operation.version)
          this.#releases.set(name, [...(this.#releases.get(name) ?? []), operation.version]);
        return operation.version;
      case "rollback": {
        const states = this.#releases.get(name) ?? [];
        if (states.length < 2) return "none";
        this.#releases.set(name, states.slice(0, -1));
        return states.at(-2);
      }
      case "enqueue": {
        const known = this.#calls.find(
          (one) => operation.key !== null && one.tenant === operation.tenant && one.key === operation.key,
        );
        if (known !== undefined) return known.id;
        if (!this.#tenants.has(operation.tenant)) throw new Error("no tenant");
        const { tenant: owner, tool: toolName, key } = operation;
        this.#calls.push({
          id: newId,
          tenant: owner,
          tool: toolName,
          key,
          state: "queued",
          effects: "none",
          fence: 0,
          attempts: 0,
        });
        return newId;
      }
      case "claim": {
        const claimed = this.#calls.filter((one) => one.state === "queued").slice(0, operation.limit);
        for (const one of claimed) {
          Object.assign(one, { state: "running", fence: one.fence + 1, attempts: one.attempts + 1 });
          this.#claims.set(one.id, [...(this.#claims.get(one.id) ?? []), one.fence]);
        }
        return claimed.map((one) => one.id).toSorted();
      }
      case "start":
        if (isHeld) call.effects = "possible";
        return isHeld;
      case "finish": {
        if (!isHeld) return false;
        const { isOk } = operation;
        Object.assign(call, { state: isOk ? "succeeded" : "failed", effects: isOk ? "complete" : "possible" });
        const outcome = isOk ? "ok" : "TOOL_FAILED";
        const key = JSON.stringify([call.tenant, call.tool, outcome]);
        const [, , calls, cpu, bytes] = this.#usage.get(key) ?? [call.tool, outcome, 0, 0, 0];
        this.#usage.set(key, [call.tool, outcome, calls + 1, cpu + 2, bytes + 3]);
        return true;
      }
      case "requeue":
        if (isHeld) Object.assign(call, { state: "queued", effects: "none", fence: call.fence + 1 });
        return isHeld;
      case "cancel": {
        if (call === undefined || call.tenant !== operation.tenant) return "none";
        const before = call.state;
        if (before === "queued") {
          call.state = "cancelled";
          // It has ended without having run: counted, with nothing used.
          const key = JSON.stringify([call.tenant, call.tool, "CANCELLED"]);
          const [, , calls] = this.#usage.get(key) ?? [call.tool, "CANCELLED", 0, 0, 0];
          this.#usage.set(key, [call.tool, "CANCELLED", calls + 1, 0, 0]);
        }
        return before;
      }
      case "list":
        return this.#calls
          .filter((one) => one.tenant === operation.tenant && one.state === operation.state)
          .map((one) => [one.id, one.effects, one.attempts])
          .toReversed();
      case "usage":
        return [...this.#usage]
          .filter(([key]) => key.startsWith(`["${operation.tenant}",`))
          .map(([, row]) => row)
          .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
      case "kvSet": {
        const space = this.#kv.get(name) ?? new Map<string, number>();
        this.#kv.set(name, space);
        const known = space.get(operation.key);
        if (operation.isNew && known !== undefined) return "conflict";
        const size = Buffer.byteLength(operation.key) + operation.size;
        const used = [...space.values()].reduce((sum, one) => sum + one, 0);
        const bytes = used + size - (known ?? 0);
        const keys = space.size + (known === undefined ? 1 : 0);
        if (keys > KV_QUOTA.keys && keys > space.size) return ["keys", keys];
        if (bytes > KV_QUOTA.bytes && bytes > used) return ["bytes", bytes];
        space.set(operation.key, size);
        return "stored";
      }
      case "kvDelete":
        return this.#kv.get(name)?.delete(operation.key) === true ? "deleted" : "missing";
      case "kvList": {
        const space = [...(this.#kv.get(name) ?? [])].toSorted(([a], [b]) =>
          Buffer.compare(Buffer.from(a), Buffer.from(b)),
        );
        const entries = space.filter(([key]) => key.startsWith(operation.prefix));
        const used = space.reduce((sum, [, size]) => sum + size, 0);
        return [entries.map(([key, size]) => [key, size - Buffer.byteLength(key)]), space.length, used];
      }
      case "consume": {
        const keys = operation.amounts.map((_amount, at) => `["${operation.tenant}",${at}]`);
        const denied = operation.amounts.findIndex((amount, at) => {
          const used = this.#counters.get(keys[at] as string) ?? 0;
          return used >= (LIMITS[at] as number) || used + amount > (LIMITS[at] as number);
        });
        if (denied >= 0) return denied;
        for (const [at, amount] of operation.amounts.entries())
          this.#counters.set(keys[at] as string, (this.#counters.get(keys[at] as string) ?? 0) + amount);
        return "allowed";
      }
    }
  }
}

const stores = new TestStores();
const opened: { readonly store: TestStore; readonly database: OpenDatabase; readonly machine: DatabaseMachine }[] = [];
beforeAll(async () => {
  for (const kind of STORES) {
    const store = await stores.create(kind);
    const { dataDir, database: url } = store.options;
    const database = await openDatabase({ dataDir, url, onError() {} });
    opened.push({ store, database, machine: new DatabaseMachine(database) });
  }
});
afterAll(async () => {
  for (const { store, database } of opened) {
    await database[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
  }
  await stores[Symbol.asyncDispose]();
});

/** Messages differ between databases; whether an operation fails does not. */
const runSafely = async (machine: Machine, ...args: Parameters<Machine["run"]>): Promise<unknown> => {
  try {
    return await machine.run(...args);
  } catch {
    return "error";
  }
};

test("SQLite, Postgres and a model agree about every operation", async () => {
  let operations = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 20, maxLength: 60 }), async (list) => {
      for (const { machine } of opened) await machine.clear();
      const model = new Model();
      const ids: string[] = [];
      const setUp: Operation = { op: "createTenant", tenant: "a" };
      for (const [at, one] of [setUp, ...list].entries()) {
        const newId = `call_${String(at).padStart(4, "0")}`;
        const expected = await runSafely(model, one, ids, newId);
        for (const { machine, database } of opened)
          expect([database.kind, one, await runSafely(machine, one, ids, newId)]).toEqual([
            database.kind,
            one,
            expected,
          ]);
        if (one.op === "enqueue" && expected === newId) ids.push(newId);
        operations += 1;
      }
      for (const { machine } of opened) await machine.check();
    }),
    { numRuns: 30 },
  );
  expect(operations).toBeGreaterThan(500);
});
