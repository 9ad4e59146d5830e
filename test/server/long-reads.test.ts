// Reads of many calls: one at a time for each tenant, in slices, so that other requests have their turn meanwhile.
import { afterAll, describe, expect, test, vi } from "vitest";
import { type Db, openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { PAGE_BYTES } from "../../src/server/records/bounded-page.ts";
import { listCalls } from "../../src/server/records/calls/call-list.ts";
import { listTimelines, listTree, type TreeCall } from "../../src/server/records/calls/call-tree.ts";
import { type CallRow, insertCalls } from "../../src/server/records/calls/calls.ts";
import { readOverview, readVersionStats } from "../../src/server/records/reports/overview.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const COUNT = 3_000;

const linesOf = (count: number, bytes: number): string =>
  JSON.stringify(Array.from({ length: count }, () => ({ message: "x".repeat(Math.floor(bytes / count)) })));

const nestedRow = (root: CallRow, index: number, more: Partial<CallRow> = {}): CallRow =>
  endedRow(root.created_at + index, {
    id: `${root.id}.${index}`,
    mode: "nested",
    parent_id: root.id,
    root_id: root.id,
    ...more,
  });

/** Measures the largest result of a query, as JSON text. */
function measure(db: Db): { readonly db: Db; readonly largest: () => number } {
  let largest = 0;
  const measured = db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      largest = Math.max(largest, JSON.stringify(result.rows).length);
      return result;
    },
  });
  return { db: measured, largest: () => largest };
}

async function fill({ options }: TestStore, rows: readonly CallRow[]): Promise<AsyncDisposable & { db: Db }> {
  const { dataDir, database: url } = options;
  const database = await openDatabase({ url, dataDir, onError() {} });
  await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  for (let from = 0; from < rows.length; from += 500) await insertCalls(database.db, rows.slice(from, from + 500));
  return database;
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

  test("the tree of a call whose nested calls have long logs reads them in parts, and keeps none", async () => {
    await using store = await stores.create(kind);
    const now = Date.now();
    const root = endedRow(now, { logs: linesOf(1, 10), calls: "[]" });
    const nested = Array.from({ length: 60 }, (_, index) =>
      nestedRow(root, index + 1, {
        state: index === 7 ? "failed" : "succeeded",
        error: index === 7 ? JSON.stringify({ code: "TOOL_FAILED", message: "x\u0000y" }) : null,
        logs: index === 9 ? null : linesOf(index + 1, 256 * 1024),
        input: JSON.stringify("x".repeat(16_000)),
      }),
    );
    await using database = await fill(store, [root, ...nested, nestedRow(endedRow(now), 1)]);
    const { db, largest } = measure(database.db);
    let tree: readonly TreeCall[] = [];
    const turns = await countTurns(async () => {
      tree = await listTree({ db, kind }, { tenantId: "acme", rootId: root.id }, 10_000);
    });
    expect(turns).toBeGreaterThan(3);
    expect(largest()).toBeLessThan(64 * 1024);
    const shown = tree.map(({ id, parent_id, errorCode, logLines }) => [id, parent_id, errorCode, logLines]);
    expect(shown.toSorted()).toEqual(
      [
        [root.id, null, null, 1],
        ...nested.map(({ id }, index) => {
          const code = index === 7 ? "TOOL_FAILED" : null;
          return [id, root.id, code, index === 9 ? 0 : index + 1];
        }),
      ].toSorted(),
    );
    expect(await listTree({ db, kind }, { tenantId: "beta", rootId: root.id }, 10_000)).toEqual([]);
    expect(await listTree({ db, kind }, { tenantId: "acme", rootId: root.id }, 5)).toHaveLength(6);
  });

  test("the timelines of nested calls are read in parts, as many as have 16 MiB", async () => {
    await using store = await stores.create(kind);
    const timelineOf = (name: string): string => JSON.stringify({ spans: [{ name: name.repeat(1024 * 1024) }] });
    const root = endedRow(Date.now());
    const nested = Array.from({ length: 30 }, (_, index) =>
      // Some are in the rows of their calls, as short ones are, and the others in the table of large contents.
      nestedRow(root, index + 1, index % 2 === 0 ? { timeline: timelineOf("x") } : { content: 4 }),
    );
    await using database = await fill(store, [root, ...nested]);
    const contents = nested
      .filter(({ content }) => content === 4)
      .map(({ id }) => ({ call_id: id, tenant_id: "acme", kind: "timeline" as const, text: timelineOf("y") }));
    await database.db.insertInto("call_contents").values(contents).execute();
    const { db, largest } = measure(database.db);
    const ids = nested.map(({ id }) => id);
    const timelines = await listTimelines({ db }, "acme", ids);
    expect(largest()).toBeLessThan(PAGE_BYTES + 64 * 1024);
    expect(timelines.map(({ id }) => id).toSorted()).toEqual(ids.slice(0, 15).toSorted());
    expect(timelines.every(({ timeline }) => JSON.parse(timeline ?? "").spans.length === 1)).toBe(true);
    expect(await listTimelines({ db }, "beta", ids)).toEqual([]);
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
