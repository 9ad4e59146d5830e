// One suite for all stores of durable runs: claims, fences, limits, and what is due. With real databases, real processes that are killed continue
// elsewhere, and 1,000 suspended runs stay on the version with which they began.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createRuns, type DueFilter, MemoryRunStore, type NewRun, type RunStore } from "../../src/host/index.ts";
import { SqliteRunStore } from "../../src/host/runs/sqlite-run-store.ts";
import { type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import type { RunRequestsTable } from "../../src/server/database/tables/call-tables.ts";
import { deleteRequest, findRequest, insertRequest, listToCancel } from "../../src/server/records/calls/runs.ts";
import { DatabaseRunStore } from "../../src/server/runs/database-run-store.ts";
import { makeGlovebox } from "../support/host-zone.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
const folder = mkdtempSync(join(tmpdir(), "glovebox-run-stores-"));
afterAll(async () => {
  await stores[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const CHILD = fileURLToPath(new URL("./support/run-child.ts", import.meta.url));
/** Versions of a tool: the output names the version. */
const release = (name: string, versions: readonly number[], wait = "") =>
  versions.map((version) => ({
    version: String(version),
    source: `export const capabilities = { waitFor: true };
      export default async ({ n }, ctx) => { ${wait} const value = await ctx.waitFor({ event: "go" }); return [${version}, n, value]; };`,
    name,
  }));

describe.for(["memory", "file", ...STORES] as const)("the run store: %s", (kind) => {
  let place: TestStore | undefined;
  let database: OpenDatabase | undefined;
  let store: RunStore;
  let file: SqliteRunStore | undefined;
  let count = 0;
  const newRun = (more: Partial<NewRun> = {}): NewRun => {
    count += 1;
    const times = { createdAt: 1, expiresAt: 1_000_000, leaseUntil: 100 };
    return {
      id: `run${String(count).padStart(4, "0")}`,
      tenantId: "acme",
      kind: "tool",
      toolName: "tool",
      input: "{}",
      ...times,
      ...more,
    };
  };

  beforeAll(async () => {
    if (kind === "memory") {
      store = new MemoryRunStore();
      return;
    }
    if (kind === "file") {
      store = file = new SqliteRunStore({ path: join(folder, "runs", "runs.sqlite") });
      return;
    }
    place = await stores.create(kind);
    const { dataDir, database: url } = place.options;
    database = await openDatabase({ dataDir, url, onError() {} });
    const at = { created_at: 1, updated_at: 1 };
    for (const id of ["acme", "beta", "many", "few"])
      await database.db
        .insertInto("tenants")
        .values({ id, name: id, state: "active", policy: "{}", revision: 1, ...at })
        .execute();
    store = new DatabaseRunStore(database);
  });
  afterAll(async () => {
    file?.[Symbol.dispose]();
    await database?.[Symbol.asyncDispose]();
    await place?.[Symbol.asyncDispose]();
  });

  /** Deletes the runs of a tenant, which a database deletes only while the tenant is being deleted. */
  const deleteRunsOf = async (tenantId: string): Promise<number> => {
    const setState = async (state: "active" | "deleting"): Promise<void> => {
      await database?.db.updateTable("tenants").set({ state }).where("id", "=", tenantId).execute();
    };
    await setState("deleting");
    const count = await store.deleteTenant(tenantId);
    await setState("active");
    return count;
  };

  test("a run is created once, and a tenant has a limited number of open ones", async () => {
    const run = newRun({ tenantId: "few", toolVersion: "3", input: '{"a":1}' });
    expect(await store.create(run, 2)).toBe("created");
    expect(await store.create(run, 2)).toBe("taken");
    expect(await store.find(run)).toMatchObject({ ...run, state: "running", fence: 1, waits: [], entries: 0 });
    expect(await store.find({ ...run, tenantId: "beta" })).toBeUndefined();
    const more = Array.from({ length: 8 }, () => newRun({ tenantId: "few" }));
    const created = await Promise.all(more.map((one) => store.create(one, 2)));
    expect(created.filter((outcome) => outcome === "created")).toHaveLength(1);
    expect((await store.list("few", { limit: 10 })).length).toBe(2);
  });

  test("only the latest claim writes, and a run that has ended takes nothing", async () => {
    const key = newRun();
    await store.create(key, 100);
    const first = { ...key, fence: 1 };
    expect(await store.append(first, ["a", "b"])).toBe(true);
    expect(await store.claim(key, { kind: "tool", now: 100, until: 300 })).toBeUndefined();
    expect(await store.claim(key, { kind: "tool", now: 101, until: 300 })).toBe(2);
    expect(await store.append(first, ["lost"])).toBe(false);
    expect(await store.renew(first, 500)).toBe(false);
    expect(await store.release(first, { state: "suspended", waits: [], wakeAt: undefined }, 2)).toBe("lost");
    const second = { ...key, fence: 2 };
    expect(await store.renew(second, 500)).toBe(true);
    expect(await store.appendEvent(key, "event")).toBe("running");
    const waits = [{ id: 1, kind: "event" as const, name: "go" }];
    expect(await store.release(second, { state: "suspended", waits, wakeAt: 50 }, 2)).toBe("changed");
    expect(await store.release(second, { state: "suspended", waits, wakeAt: 50 }, 3)).toBe("released");
    expect(await store.find(key)).toMatchObject({
      state: "suspended",
      waits,
      wakeAt: 50,
      entries: 3,
      journalLength: 7,
    });
    expect(await store.append(second, ["late"])).toBe(false);
    expect(await store.claim(key, { kind: "tool", now: 1, until: 9 })).toBe(3);
    const result = { success: true } as never;
    expect(await store.release({ ...key, fence: 3 }, { state: "succeeded", result }, 0)).toBe("released");
    expect(await store.find(key)).toMatchObject({ state: "succeeded", result, waits: [] });
    expect(await store.claim(key, { kind: "tool", now: 1_000, until: 2_000 })).toBeUndefined();
    expect(await store.appendEvent(key, "late")).toBeUndefined();
    expect(await store.journal(key)).toEqual(["a", "b", "event"]);
  });

  test("50 concurrent claimers get one claim", async () => {
    const key = newRun();
    await store.create(key, 100);
    for (let round = 0; round < 5; round += 1) {
      const now = 1_000 * (round + 1);
      const claims = await Promise.all(
        Array.from({ length: 50 }, () => store.claim(key, { kind: "tool", now, until: now + 500 })),
      );
      expect(claims.filter((claim) => claim !== undefined)).toEqual([round + 2]);
    }
  });

  test("due are those whose time has come, and those whose process is gone", async () => {
    const [sleeping, waiting, lost] = [
      newRun({ tenantId: "beta" }),
      newRun({ tenantId: "beta" }),
      newRun({ tenantId: "beta", leaseUntil: 5_000 }),
    ];
    for (const run of [sleeping, waiting, lost]) await store.create(run, 100);
    await store.release({ ...sleeping, fence: 1 }, { state: "suspended", waits: [], wakeAt: 7_000 }, 0);
    await store.release({ ...waiting, fence: 1 }, { state: "suspended", waits: [], wakeAt: undefined }, 0);
    const dueAt = async (now: number): Promise<readonly string[]> =>
      (await store.due(now, { kind: "tool", perTenant: 100, limit: 100 }))
        .filter(({ tenantId }) => tenantId === "beta")
        .map(({ id }) => id);
    expect(await dueAt(5_000)).toEqual([]);
    expect(await dueAt(6_000)).toEqual([lost.id]);
    expect(await dueAt(7_000)).toEqual([sleeping.id, lost.id]);
    expect(await dueAt(1_000_000)).toEqual([sleeping.id, waiting.id, lost.id]);
    expect(await deleteRunsOf("beta")).toBe(3);
    expect([await store.list("beta", { limit: 9 }), await store.journal(waiting)]).toEqual([[], []]);
  });

  test("due are a few runs of each tenant, of the tenants and the kind that a process continues", async () => {
    const lost = (tenantId: string): NewRun => newRun({ tenantId, leaseUntil: 1 });
    const runs = [...["many", "many", "many", "many", "beta", "few"].map(lost)];
    for (const run of runs) expect(await store.create(run, 100)).toBe("created");
    const dueOf = async (more: Partial<DueFilter>): Promise<readonly string[]> => {
      const due = await store.due(50, { kind: "tool", except: ["acme"], perTenant: 2, limit: 100, ...more });
      return due.filter(({ id }) => runs.some((run) => run.id === id)).map(({ id }) => id);
    };
    const [a, b, c, d, beta, few] = runs.map(({ id }) => id);
    expect(await dueOf({})).toEqual([a, beta, few, b]);
    expect(await dueOf({ perTenant: 4 })).toEqual([a, beta, few, b, c, d]);
    expect(await dueOf({ limit: 3 })).toEqual([a, beta, few]);
    expect(await dueOf({ tenantId: "many", perTenant: 3 })).toEqual([a, b, c]);
    expect(await dueOf({ except: ["acme", "many", "few"] })).toEqual([beta]);
    expect(await dueOf({ kind: "code" })).toEqual([]);
    expect(
      await store.claim({ tenantId: "beta", id: beta ?? "" }, { kind: "code", now: 50, until: 60 }),
    ).toBeUndefined();
    for (const tenantId of ["many", "beta", "few"]) await deleteRunsOf(tenantId);
  });

  test("a run has a kind, by which it is claimed and counted", async () => {
    const [tool, code] = [
      newRun({ tenantId: "few", leaseUntil: 1 }),
      newRun({ tenantId: "few", kind: "code", leaseUntil: 1 }),
    ];
    expect([await store.create(tool, 1), await store.create(code, 1)]).toEqual(["created", "created"]);
    expect([await store.create(newRun({ tenantId: "few", kind: "code" }), 1), (await store.find(code))?.kind]).toEqual([
      "full",
      "code",
    ]);
    expect(await store.due(50, { kind: "code", tenantId: "few", perTenant: 9, limit: 9 })).toEqual([
      { tenantId: "few", id: code.id },
    ]);
    expect(await store.claim(code, { kind: "tool", now: 50, until: 60 })).toBeUndefined();
    expect(await store.claim(code, { kind: "code", now: 50, until: 60 })).toBe(2);
    await deleteRunsOf("few");
  });

  test.skipIf(kind === "memory" || kind === "file")(
    "the oldest runs are cancelled first, and none that is rolled back",
    async () => {
      const { db } = database as OpenDatabase;
      const runs = [3, 1, 2, 0].map((n) => newRun({ tenantId: "few", id: `cancelled${n}` }));
      for (const run of runs) {
        await store.create(run, 100);
        const common = { key_id: "key", request_hash: "", idempotency_key: null, created_at: 1 };
        await insertRequest(db, { ...common, tenant_id: "few", run_id: run.id, cancel_requested: 1 });
      }
      await store.append({ tenantId: "few", id: "cancelled0", fence: 1 }, ['{"type":"rollback","state":"failed"}']);
      expect((await listToCancel(db, 2)).map(({ id }) => id)).toEqual(["cancelled1", "cancelled2"]);
      await deleteRunsOf("few");
    },
  );

  test.skipIf(kind === "memory" || kind === "file")(
    "a request that fails keeps its idempotency key for the other requests that begin its run",
    async () => {
      const { db } = database as OpenDatabase;
      const common = { tenant_id: "few", key_id: "key", request_hash: "h", idempotency_key: "k", created_at: 1 };
      const insert = (id: string, more: object = {}) =>
        insertRequest(db, { ...common, run_id: id, cancel_requested: 0, ...more });
      const find = (id: string) => findRequest(db, { tenantId: "few", id });
      const alone = (await insert("alone")) as RunRequestsTable;
      await deleteRequest(db, alone);
      expect(await find("alone")).toBeUndefined();
      const first = (await insert("first")) as RunRequestsTable;
      expect([first.run_id, (await insert("second"))?.run_id]).toEqual(["first", "first"]);
      await deleteRequest(db, first);
      expect(await find("first")).toMatchObject({ key_id: "key", idempotency_key: "k" });
      const others = [await insert("other", { request_hash: "other" }), await insert("other", { key_id: "other" })];
      expect([...others, await find("second"), await find("other")]).toEqual(Array(4).fill(undefined));
      await deleteRequest(db, (await find("first")) as RunRequestsTable);
    },
  );

  test("suspended runs stay on their version while every tool has a new one", async () => {
    const total = Number(process.env.GLOVEBOX_SUSPENDED_RUNS ?? 20);
    const options = { tenancy: "multi", workers: { max: 2 } } as const;
    const open = async (versions: readonly number[]) => {
      const glovebox = await makeGlovebox(options);
      const built = await Promise.all(
        release("pinned", versions).map(async ({ version, ...tool }) => {
          const { definition, bundle } = await glovebox.inspectTool(tool, { tenantId: "many", grant: ["waitFor"] });
          const weight = version === String(versions.at(-1)) ? 1 : 0;
          return { version, weight, definition, sha256: bundle.sha256, load: () => bundle, grant: ["waitFor"] };
        }),
      );
      glovebox.setRelease("pinned", built, { tenantId: "many" });
      return { glovebox, runs: createRuns(glovebox, { store, pollMs: 0, maxOpen: 2_000 }) };
    };
    const before = await open([1]);
    const ids = Array.from({ length: total }, (_, n) => `pinned${n}`);
    const inBatches = async (work: (id: string, n: number) => Promise<unknown>): Promise<void> => {
      for (let start = 0; start < total; start += 20)
        await Promise.all(ids.slice(start, start + 20).map((id, index) => work(id, start + index)));
    };
    await inBatches(async (id, n) => {
      const run = await before.runs.start({ tenantId: "many", toolName: "pinned", arguments: { n }, id });
      expect([run.state, run.toolVersion]).toEqual(["suspended", "1"]);
    });
    await before.runs.close();
    await before.glovebox.close();
    const after = await open([1, 2]);
    const outputs: unknown[] = [];
    await inBatches(async (id, n) => {
      const run = await after.runs.signal(id, { event: "go", value: n }, { tenantId: "many" });
      outputs[n] = run.result?.success === true ? run.result.output : run.result?.error;
    });
    expect(outputs).toEqual(ids.map((_, n) => [1, n, n]));
    const fresh = await after.runs.start({ tenantId: "many", toolName: "pinned", id: "fresh" });
    expect(fresh.toolVersion).toBe("2");
    await after.glovebox.close();
  });

  test.skipIf(kind === "memory")(
    "a run whose process is killed continues in another one, and does nothing twice",
    async () => {
      const options = place?.options;
      const { dataDir = join(folder, "runs", "runs.sqlite"), database: url } = options ?? {};
      const effects = (): Promise<readonly string[]> => store.journal({ tenantId: "acme", id: "effects" });
      await store.create({ ...newRun({ id: "effects" }), leaseUntil: 9e12 }, 1_000);
      const child = (kill: string) =>
        new Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null; readonly output: string }>(
          (resolve) => {
            const run = spawn(process.execPath, [CHILD, JSON.stringify({ kind, dataDir, url, kill })], {
              stdio: ["ignore", "pipe", "inherit"],
            });
            let output = "";
            run.stdout.on("data", (text: Buffer) => {
              output += text;
            });
            run.on("close", (code, signal) => resolve({ code, signal, output }));
          },
        );
      for (const point of ["first", "second"]) expect((await child(point)).signal).toBe("SIGKILL");
      const last = await child("none");
      expect(JSON.parse(last.output)).toEqual({
        state: "succeeded",
        output: ["first done", "EFFECTS_POSSIBLE", "third done"],
      });
      expect(await effects()).toEqual(["first", "second", "third"]);
    },
  );
});

test("a file of the format before has runs of the kinds that their tools say", async () => {
  const path = join(folder, "format1.sqlite");
  new SqliteRunStore({ path })[Symbol.dispose]();
  const database = new DatabaseSync(path);
  database.exec("ALTER TABLE runs DROP COLUMN kind; PRAGMA user_version = 1");
  const insert = database.prepare(
    "INSERT INTO runs VALUES ('acme', ?, ?, NULL, '{}', 'suspended', 1, 1, 1, '[]', NULL, 1, 9, 0, 0)",
  );
  for (const name of ["refund", "run_code", "agent"]) insert.run(name, name);
  database.close();
  for (let opened = 0; opened < 2; opened += 1) {
    using store = new SqliteRunStore({ path });
    const found = await store.list("acme", { limit: 9 });
    expect(found.map(({ id, kind }) => [id, kind])).toEqual([
      ["run_code", "code"],
      ["refund", "tool"],
      ["agent", "agent"],
    ]);
  }
});

test("a file is private, and one with other content is left as it is", () => {
  const path = join(folder, "own.sqlite");
  using _store = new SqliteRunStore({ path });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const text = join(folder, "text.txt");
  writeFileSync(text, "not a database, and long enough to be read as the header of one".repeat(10));
  for (const wrong of [
    { path: text },
    { path: folder },
    { path: "" },
    { path: ":memory:" },
    { path: "file:runs?mode=memory" },
    { file: path },
    {},
  ])
    expect(() => new SqliteRunStore(wrong as never)).toThrow(/options/);
  expect(statSync(text).size).toBe(630);
  const other = join(folder, "other.sqlite");
  const database = new DatabaseSync(other);
  database.exec("CREATE TABLE runs (id TEXT)");
  database.close();
  expect(() => new SqliteRunStore({ path: other })).toThrow("options.path");
});
