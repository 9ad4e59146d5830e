// The limit of concurrent calls of a tenant over two servers with one Postgres: when it is lowered, and for what runs without being a call.
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { type ClusterSlot, ClusterSlots } from "../../src/server/calls/cluster-slots.ts";
import { databaseNow } from "../../src/server/database/database-time.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { PostgresBus } from "../../src/server/replicas/postgres-bus.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { TestStores } from "./support/stores.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly error: { readonly code: string } | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const SLOW = "export default async ({ ms = 600_000 }) => { await new Promise((r) => setTimeout(r, ms)); return ms; };";

/** The slots of two replicas, and of calls that took some. */
async function openSlots() {
  await using resources = new AsyncDisposableStack();
  const store = resources.use(await stores.create("postgres"));
  const url = store.options.database ?? "";
  const database = resources.use(await openDatabase({ url, dataDir: store.options.dataDir, onError() {} }));
  const { db } = database;
  const times = { created_at: 1, updated_at: 1 };
  const tenant = { id: "few", name: "Few", state: "active", policy: "{}", revision: 1, ...times } as const;
  await db.insertInto("tenants").values(tenant).execute();
  const onError = (error: unknown): never => expect.fail(String(error));
  const openReplica = async (): Promise<ClusterSlots> => {
    const bus = resources.use(await PostgresBus.open({ db, url, version: "1.0.0", onError }));
    return resources.use(new ClusterSlots({ database, bus, limits: {}, onError }));
  };
  const replicas = [await openReplica(), await openReplica()] as const;
  let running = 0;
  let begun = 0;
  const opened = resources.move();
  return {
    db,
    get running() {
      return running;
    },
    /** Takes a slot of a replica under a limit. No more calls may run when it has one. */
    acquire: async (replica: 0 | 1, maxConcurrentCalls: number): Promise<ClusterSlot> => {
      const policy = { limits: { maxConcurrentCalls, queueMs: 300_000 } } as never;
      begun += 1;
      const slot = await replicas[replica].acquire({ id: "few", policy }, `call_${begun}`);
      running += 1;
      expect(running).toBeLessThanOrEqual(maxConcurrentCalls);
      return {
        release: () => {
          running -= 1;
          slot.release();
        },
      };
    },
    /** Sets what a third replica has. */
    holdElsewhere: async (held: number): Promise<void> => {
      await db.deleteFrom("concurrency_slots").where("replica_id", "=", "third").execute();
      const row = { tenant_id: "few", replica_id: "third", held, expires_at: sql<number>`${databaseNow} + 600000` };
      if (held > 0) await db.insertInto("concurrency_slots").values(row).execute();
    },
    untilHeld: async (expected: readonly number[]): Promise<void> => {
      const read = async (): Promise<readonly number[]> => {
        const rows = await db.selectFrom("concurrency_slots").select("held").execute();
        return rows.map(({ held }) => Number(held)).sort((one, two) => one - two);
      };
      await expect.poll(read).toEqual(expected);
    },
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

describe("the slots of two replicas", () => {
  test("two replicas divide the slots of a higher limit again", async () => {
    await using slots = await openSlots();
    // Neither of them notices that the other needs slots.
    await slots.holdElsewhere(2);
    const first = await slots.acquire(0, 20);
    await slots.untilHeld([2, 9]);
    const second = await slots.acquire(1, 20);
    await slots.untilHeld([2, 5, 9]);
    await slots.holdElsewhere(0);
    const waiting = [0, 1, 0, 1].map((replica) => slots.acquire(replica as 0 | 1, 2));
    await slots.untilHeld([1, 1]);
    expect(slots.running).toBe(2);
    for (const slot of [first, second]) slot.release();
    await Promise.all(waiting.map(async (slot) => (await slot).release()));
    expect(slots.running).toBe(0);
  });

  test("no further call runs while more calls run than a lowered limit allows", async () => {
    // Calls that wait here and at another replica share a slot that is released: here, this replica keeps it.
    const random = vi.spyOn(Math, "random").mockReturnValue(0.9);
    onTestFinished(() => random.mockRestore());
    await using slots = await openSlots();
    await slots.holdElsewhere(2);
    const running: ClusterSlot[] = [];
    for (const replica of [0, 0, 0, 1, 1, 1] as const) running.push(await slots.acquire(replica, 20));
    await slots.holdElsewhere(0);
    const waiting = [0, 1, 0, 1].map((replica) => slots.acquire(replica as 0 | 1, 2));
    await slots.untilHeld([3, 3]);
    for (const [index, held] of [
      [0, [2, 3]],
      [3, [2, 2]],
      [1, [1, 2]],
      [4, [1, 1]],
    ] as const) {
      running[index]?.release();
      await slots.untilHeld(held);
    }
    for (const index of [2, 5]) running[index]?.release();
    await Promise.all(waiting.map(async (slot) => (await slot).release()));
    expect(slots.running).toBe(0);
  });
});

describe("two servers with one Postgres", () => {
  const replicas = useReplicas(stores, 2, ["one"]);
  const [one, two] = replicas.apis as [Api, Api];

  const policyOf = async (tenant: string, limits: object, more: object = {}): Promise<void> => {
    const policy = { ...more, limits: { timeoutMs: 300_000, queueMs: 300_000, ...limits } };
    expect((await one("PATCH", `/v1/tenants/${tenant}`, { policy })).status).toBe(200);
  };
  /** Ids of the calls that run, without those that wait, by replica. */
  const runningOf = async (tenant: string): Promise<readonly (readonly string[])[]> =>
    await Promise.all(
      [one, two].map(async (api) => {
        const { body } = await api<{ items: Call[] }>("GET", `/v1/tenants/${tenant}/running-calls`);
        return body.items.map(({ id }) => id);
      }),
    );
  const untilRunning = async (tenant: string, counts: readonly number[]): Promise<void> => {
    await expect.poll(async () => (await runningOf(tenant)).map(({ length }) => length)).toEqual(counts);
  };
  /** Cancels the first of the calls that run in a replica. */
  const cancelIn = async (tenant: string, replica: 0 | 1): Promise<void> => {
    const [id] = (await runningOf(tenant))[replica] as readonly string[];
    await expect
      .poll(async () => [202, 409].includes((await one("POST", `/v1/tenants/${tenant}/calls/${id}/cancel`)).status))
      .toBe(true);
    await expect.poll(async () => (await runningOf(tenant)).flat().includes(id ?? "")).toBe(false);
  };
  const start = (tenant: string, api: Api): Promise<{ readonly body: Call }> =>
    api<Call>("POST", `/v1/tenants/${tenant}/tools/slow/calls`, {});

  beforeAll(async () => {
    expect((await one("POST", "/v1/tenants/one/tools", { name: "slow", source: SLOW })).status).toBe(201);
  });

  test("drafts, replays and rehearsals count", async () => {
    const recorded = { recording: {} };
    await policyOf("one", { maxConcurrentCalls: 1 }, recorded);
    const { body: made } = await one<Call>("POST", "/v1/tenants/one/tools/slow/calls", { input: { ms: 1 } });
    expect(made.state).toBe("succeeded");
    const running = start("one", one);
    await untilRunning("one", [1, 0]);
    await policyOf("one", { maxConcurrentCalls: 1, queueMs: 500 }, recorded);
    const draft = { source: "export default () => 1" };
    const replay = `/v1/tenants/one/calls/${made.id}/replays`;
    for (const [path, body] of [
      ["/v1/tenants/one/drafts/calls", draft],
      [replay, {}],
    ] as const)
      expect(await two("POST", path, body)).toMatchObject({ status: 503, body: { error: { code: "OVERLOADED" } } });
    const rehearsal = two("POST", "/v1/tenants/one/tools/slow/rehearsals", { version: 1 });
    await cancelIn("one", 0);
    await running;
    expect(await rehearsal).toMatchObject({ status: 200, body: { replayed: 1, identical: 1, skipped: 0 } });
    expect(await two("POST", "/v1/tenants/one/drafts/calls", draft)).toMatchObject({
      status: 200,
      body: { success: true },
    });
    expect(await two("POST", replay, {})).toMatchObject({ status: 200, body: { verdict: "identical" } });
  });
});
