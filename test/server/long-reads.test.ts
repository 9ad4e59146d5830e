// Reads of many calls: one at a time for each tenant, in slices, so that other requests have their turn meanwhile.
import { afterAll, describe, expect, test, vi } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { listCalls } from "../../src/server/records/call-list.ts";
import { type CallRow, insertCalls } from "../../src/server/records/calls.ts";
import { readOverview, readVersionStats } from "../../src/server/records/overview.ts";
import { TenantPolicySchema } from "../../src/server/records/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const COUNT = 3_000;

async function fill({ options }: TestStore, rows: readonly CallRow[]): Promise<AsyncDisposable & { db: never }> {
  const { dataDir, database: url } = options;
  const database = await openDatabase({ url, dataDir, onError() {} });
  await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  for (let from = 0; from < rows.length; from += 500) await insertCalls(database.db, rows.slice(from, from + 500));
  return database as never;
}

/** Counts the turns of the event loop while something is read. */
async function countTurns(read: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const tick = (): void => {
    turns += 1;
    if (!isOver) setImmediate(tick);
  };
  setImmediate(tick);
  await read();
  isOver = true;
  return turns;
}

describe.for(STORES)("with %s", (kind) => {
  test("a search finds every call once, over slices and pages, and lets others have their turn", async () => {
    await using store = await stores.create(kind);
    const begun = Date.now() - COUNT;
    const isMatch = (index: number): boolean => index % 700 === 3;
    const rows = Array.from({ length: COUNT }, (_, index) =>
      endedRow(begun + index, { input: isMatch(index) ? '"Needle"' : '"hay"' }),
    );
    await using database = await fill(store, rows);
    const expected = rows.filter((_, index) => isMatch(index)).map(({ id }) => id);
    const found: string[] = [];
    let before: string | undefined;
    const turns = await countTurns(async () => {
      do {
        const page = await listCalls(database.db, "acme", { text: "nEEdle", limit: 2, before });
        found.push(...page.rows.map(({ id }) => id));
        before = page.next ?? undefined;
      } while (before !== undefined);
    });
    expect(found).toEqual(expected.sort().reverse());
    expect(turns).toBeGreaterThan(2);
  });

  test("an overview counts all calls in slices, and sorts their times", async () => {
    await using store = await stores.create(kind);
    const now = Date.now();
    const rows = Array.from({ length: COUNT }, (_, index) => {
      const at = now - 60_000 + index;
      return endedRow(at, {
        ended_at: at + ((index * 7) % 100),
        tool_version: (index % 2) + 1,
        state: index % 10 === 0 ? "failed" : "succeeded",
      });
    });
    await using database = await fill(store, rows);
    const window = { tenantId: "acme", from: now - 120_000, until: now + 1, buckets: 10 };
    let total: object | undefined;
    const turns = await countTurns(async () => {
      total = (await readOverview(database.db, window)).total;
    });
    expect(total).toEqual({ calls: COUNT, failed: 300, p50: 50, p95: 95, p99: 99, cpuMs: 0, waitP95: 0 });
    expect(turns).toBeGreaterThan(2);
    const stats = await readVersionStats(database.db, { tenantId: "acme", toolName: "common" }, now - 120_000);
    expect(stats.map(({ version, calls }) => [version, calls]).sort()).toEqual([
      [1, COUNT / 2],
      [2, COUNT / 2],
    ]);
  });
});

describe("a tenant that searches without end", () => {
  test("has one search at a time, and is told to wait", async () => {
    await using store = await stores.create("sqlite");
    const begun = Date.now() - COUNT;
    await using _database = await fill(
      store,
      Array.from({ length: COUNT }, (_, index) => endedRow(begun + index)),
    );
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    // Requests that arrive slowly find searches that have ended.
    await vi.waitFor(async () => {
      const searches = Array.from({ length: 30 }, async () => {
        const { status, headers } = await api("GET", "/v1/tenants/acme/calls?text=none");
        return [status, headers.get("retry-after")];
      });
      const replies = await Promise.all(searches);
      const denied = replies.filter(([status]) => status === 429);
      expect(denied.length).toBeGreaterThan(0);
      expect(denied.every(([, retryAfter]) => retryAfter === "1")).toBe(true);
      expect(replies.length - denied.length).toBeGreaterThanOrEqual(9);
      expect(replies.filter(([status]) => status !== 429).every(([status]) => status === 200)).toBe(true);
    });
    expect((await api("GET", "/v1/tenants/acme/calls?text=none")).status).toBe(200);
  });

  test("gets the same overview for lengths and buckets that differ a little", async () => {
    await using store = await stores.create("sqlite");
    await using _database = await fill(store, [endedRow(Date.now() - 1_000)]);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    const read = async (query: string): Promise<readonly unknown[]> => {
      const { body } = await api<{ from: number; until: number; buckets: readonly unknown[] }>(
        ...(["GET", `/v1/tenants/acme/overview?${query}`] as const),
      );
      return [body.until - body.from - 1, body.buckets.length];
    };
    expect(await read("ms=3600000&buckets=10")).toEqual([3_600_000, 10]);
    expect(await read("ms=3599999&buckets=9")).toEqual([3_600_000, 10]);
    expect(await read("ms=3600001&buckets=61")).toEqual([4_500_000, 100]);
    expect(await read("ms=86400000&buckets=500")).toEqual([86_400_000, 500]);
    expect(await read("ms=86400001")).toEqual([108_000_000, 60]);
    expect(await read("ms=2678400000&buckets=1")).toEqual([2_678_400_000, 1]);
  });
});
