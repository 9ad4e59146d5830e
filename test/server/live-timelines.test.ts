// Timelines so far that a replica writes for those who watch a call at another one: their length and age, and who may read them.
import { afterAll, expect, test } from "vitest";
import type { OpenTimeline, TimelineSpan } from "../../src/host/index.ts";
import { LiveCalls } from "../../src/server/calls/running/live-calls.ts";
import { WatchedCalls } from "../../src/server/calls/running/watched-calls.ts";
import { type Db, openDatabase } from "../../src/server/database/open-database.ts";
import { readSnapshot, storeLines, storeSnapshot } from "../../src/server/records/calls/live-logs.ts";
import { LocalBus, type ReplicaBus } from "../../src/server/replicas/bus.ts";
import { ReplicaRequests } from "../../src/server/replicas/requests.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const KEY = { tenantId: "acme", callId: "call_1" };
const HOUR_MS = 3_600_000;
const stage: TimelineSpan = { kind: "execute", name: "execute", startMs: 0, durationMs: 9, code: "ok", isOpen: true };
const useOf = (index: number, target: string): TimelineSpan => ({
  kind: "capability",
  name: "tools",
  startMs: index,
  durationMs: 1,
  code: "ok",
  target,
  callId: `call_1.${index}`,
});

async function withDatabase(test: (db: Db) => Promise<void>): Promise<void> {
  // A server with SQLite has one process.
  await using store = await stores.create("postgres");
  const { database: url, dataDir } = store.options;
  await using database = await openDatabase({ url, dataDir, onError() {} });
  await test(database.db);
}

const timelineOf = (targetLength: number, nestedLength: number): OpenTimeline => ({
  spans: [stage, ...Array.from({ length: 500 }, (_, index) => useOf(index, "t".repeat(targetLength)))],
  calls: Array.from({ length: 500 }, (_, index) => ({
    callId: `call_1.${index}`,
    toolName: "inner",
    durationMs: 1,
    cpuMs: 0,
    code: "ok" as const,
    timeline: [useOf(index, "n".repeat(nestedLength))],
  })),
});

test("stores a timeline as a whole if it is short, and otherwise the newest of it", async () => {
  await withDatabase(async (db) => {
    const store = async (
      timeline: OpenTimeline,
    ): Promise<{ readonly spans: readonly object[]; readonly calls: readonly object[] }> => {
      await storeSnapshot(db, { ...KEY, attempt: "a" }, timeline);
      const { text } = await db.selectFrom("live_logs").select("text").executeTakeFirstOrThrow();
      expect(text.length).toBeLessThanOrEqual(512 * 1024);
      return (await readSnapshot(db, KEY, HOUR_MS)) ?? { spans: [], calls: [] };
    };
    const short = timelineOf(10, 10);
    expect(await store(short)).toEqual(short);

    const { spans, calls } = await store(timelineOf(10, 1_000));
    expect([spans.length, calls.length]).toEqual([501, 500]);
    expect(calls.some((call) => "timeline" in call)).toBe(false);

    const newest = await store(timelineOf(2_000, 0));
    expect([newest.spans[0], newest.spans.at(-1)]).toMatchObject([{ kind: "execute" }, { callId: "call_1.499" }]);
    expect(newest.spans.length).toBe(newest.calls.length + 1);
    expect(newest.calls.length).toBeGreaterThan(100);

    expect(await store(timelineOf(600_000, 0))).toEqual({ spans: [stage], calls: [] });
  });
});

test("a timeline is for its tenant, until it is old, and is no log line", async () => {
  await withDatabase(async (db) => {
    const timeline = { spans: [stage], calls: [] };
    await storeSnapshot(db, { ...KEY, attempt: "a" }, timeline);
    await storeLines(db, { ...KEY, attempt: "a" }, [{ index: 5, text: "{}" }], 5);
    expect(await readSnapshot(db, KEY, HOUR_MS)).toEqual(timeline);
    expect(await readSnapshot(db, { ...KEY, tenantId: "globex" }, HOUR_MS)).toBeUndefined();
    // The replica that wrote it has died.
    await db
      .updateTable("live_logs")
      .set((of) => ({ created_at: of("created_at", "-", 10_000) as never }))
      .execute();
    expect(await readSnapshot(db, KEY, 3_000)).toBeUndefined();
    // Another attempt has begun.
    await storeLines(db, { ...KEY, attempt: "b" }, [{ index: 0, text: "{}" }], 0);
    expect(await readSnapshot(db, KEY, HOUR_MS)).toBeUndefined();
  });
});

test("is read and written only while someone at another replica watches the timeline", async () => {
  await withDatabase(async (db) => {
    const onError = (error: unknown): void => expect.fail(String(error));
    const bus = new LocalBus(onError, "1.0.0");
    // What comes over the bus is from another replica.
    const own: ReplicaBus = {
      replicaId: "this",
      setUrl: async () => {},
      publish: (message) => bus.publish(message),
      subscribe: (type, handler) => bus.subscribe(type, handler),
      peers: () => bus.peers(),
      replicas: () => bus.replicas(),
      [Symbol.asyncDispose]: async () => {},
    };
    using requests = new ReplicaRequests(own);
    const live = new LiveCalls();
    let reads = 0;
    const watchedTimeline = (): OpenTimeline => {
      reads += 1;
      return { spans: [stage], calls: [] };
    };
    await using _ = new WatchedCalls({ db, bus: own, requests, live, timelineOf: watchedTimeline, onError });
    const call = live.begin("acme", "call_1");
    const rows = async (): Promise<readonly number[]> =>
      (await db.selectFrom("live_logs").select("position").orderBy("position").execute()).map(
        ({ position }) => position,
      );
    call.log({ level: "info", time: 1, message: "first" });
    await bus.publish({ type: "watch", request: "request_1", tenant: "acme", call: "call_1" });
    await expect.poll(rows, { timeout: 30_000 }).toEqual([0]);
    call.log({ level: "info", time: 2, message: "second" });
    await expect.poll(rows, { timeout: 30_000 }).toEqual([0, 1]);
    expect(reads).toBe(0);
    // Another tenant has no such call.
    await bus.publish({ type: "watch", request: "request_2", tenant: "globex", call: "call_1", timeline: true });
    await bus.publish({ type: "watch", request: "request_3", tenant: "acme", call: "call_1", timeline: true });
    await expect.poll(rows, { timeout: 30_000 }).toEqual([-1, 0, 1]);
    await live.end("call_1");
  });
});
