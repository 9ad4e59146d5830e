// Three servers with one Postgres: what one of them is told holds in all of them.
import { sql } from "kysely";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Fleet } from "../../src/client/index.ts";
import { databaseNow } from "../../src/server/database/database-time.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { apiOf } from "./support/api.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { TestStores } from "./support/stores.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly output: unknown;
  readonly effects: string;
  readonly error: { readonly code: string; readonly details?: { readonly reason?: string } } | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const LATER = { prefer: "respond-async" };
const SLOW = "export default async ({ ms = 600_000 }) => { await new Promise((r) => setTimeout(r, ms)); return ms; };";
const deploy = async (api: Api, tenant: string, name: string, source: string, more: object = {}): Promise<void> => {
  const { status, body } = await api("POST", `/v1/tenants/${tenant}/tools`, { name, source, approve: true, ...more });
  expect([status, body.error]).toEqual([201, undefined]);
};
/** Waits until a call of a tenant runs in a server, and returns its id. */
const runningAt = async (api: Api, tenant: string): Promise<string> => {
  let id: string | undefined;
  await expect
    .poll(async () => {
      const { body } = await api<{ items: Call[] }>("GET", `/v1/tenants/${tenant}/running-calls`);
      const [call] = body.items ?? [];
      id = call?.id;
      return call?.state;
    })
    .toBe("running");
  return id ?? "";
};
const endedAt = async (api: Api, tenant: string, id: string): Promise<Call> => {
  let call: Call | undefined;
  await expect
    .poll(async () => {
      call = (await api<Call>("GET", `/v1/tenants/${tenant}/calls/${id}`)).body;
      return call.state;
    })
    .toMatch(/succeeded|failed|cancelled/);
  return call as Call;
};

/** Cancels a call that runs: again, if a busy machine has not answered in time. */
const cancelAt = async (api: Api, path: string): Promise<void> => {
  // 409: an attempt whose answer was late has cancelled it.
  await expect.poll(async () => [202, 409].includes((await api("POST", `${path}/cancel`)).status)).toBe(true);
};

describe("three servers with one Postgres", () => {
  const replicas = useReplicas(stores, 3, ["acme", "beta"]);
  const [one, two, three] = replicas.apis as [Api, Api, Api];
  const withDatabase = async <Value>(use: (db: Awaited<ReturnType<typeof openDatabase>>) => Promise<Value>) => {
    await using database = await openDatabase({ url: replicas.store.options.database, dataDir: "", onError() {} });
    return await use(database);
  };

  test("each of them lists all, and one that has ended without a shutdown as silent", async () => {
    await withDatabase(async ({ db }) => {
      const seen = { started_at: sql<number>`${databaseNow} - 60000`, seen_at: sql<number>`${databaseNow} - 30000` };
      await db
        .insertInto("replicas")
        .values({ id: "replica-killed", version: "0.0.1", ...seen })
        .execute();
    });
    // On a busy machine, one can be late with its sign of life.
    await vi.waitFor(async () => {
      const fleets = await Promise.all(
        [one, two, three].map(async (api) => (await api<Fleet>("GET", "/v1/fleet")).body),
      );
      expect(new Set(fleets.map(({ replicaId }) => replicaId)).size).toBe(3);
      for (const { replicas, ...fleet } of fleets) {
        expect(fleet).toMatchObject({ usesExecutors: false, executors: [], pools: [] });
        expect(replicas[0]).toMatchObject({ id: "replica-killed", version: "0.0.1", state: "silent" });
        const live = replicas.filter(({ state }) => state === "live").map(({ id }) => id);
        expect(live.toSorted()).toEqual(fleets.map(({ replicaId }) => replicaId).toSorted());
      }
    });
    expect((await one("POST", "/v1/fleet/executors/none/drain")).status).toBe(404);
  });

  test("a synchronous call is cancelled at any of them", async () => {
    await deploy(one, "acme", "slow", SLOW);
    const call = one<Call>("POST", "/v1/tenants/acme/tools/slow/calls", {});
    const id = await runningAt(one, "acme");
    expect((await two("POST", `/v1/tenants/beta/calls/${id}/cancel`)).status).toBe(404);
    await cancelAt(two, `/v1/tenants/acme/calls/${id}`);
    expect((await call).body).toMatchObject({ id, state: "cancelled", error: { code: "CANCELLED" } });
    expect((await three("POST", `/v1/tenants/acme/calls/${id}/cancel`)).status).toBe(409);
    const unknown = "call_00000000000000000000000000";
    expect((await two("POST", `/v1/tenants/acme/calls/${unknown}/cancel`)).status).toBe(404);
  });

  test("a streamed call is cancelled at any of them", async () => {
    const response = await fetch(`${replicas.servers[1]?.url}/v1/tenants/acme/tools/slow/calls`, {
      method: "POST",
      body: JSON.stringify({ input: {} }),
      headers: {
        authorization: `Bearer ${replicas.adminKey}`,
        accept: "text/event-stream",
        "content-type": "application/json",
      },
    });
    const events = response.text();
    const id = await runningAt(two, "acme");
    await cancelAt(three, `/v1/tenants/acme/calls/${id}`);
    expect(await events).toMatch(/event: result[\s\S]*CANCELLED/);
  });

  test("queued calls and calls with a key are cancelled at any of them, also while no server can listen", async () => {
    const paths = ["/v1/tenants/acme/tools/slow/calls", "/v1/tenants/acme/tools/slow/calls"];
    const queued = await one<Call>("POST", paths[0] as string, {}, LATER);
    const withKey = two<Call>("POST", paths[1] as string, {}, { "idempotency-key": "k1" });
    const rows = await withDatabase(async ({ db }) => {
      await expect
        .poll(async () => {
          const running = await db.selectFrom("calls").select("id").where("state", "=", "running").execute();
          return running.length;
        })
        .toBe(2);
      return await db.selectFrom("calls").select("id").where("state", "=", "running").execute();
    });
    await withDatabase(async ({ db }) => {
      await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'glovebox-bus' and datname = current_database()`.execute(db);
    });
    for (const { id } of rows) await cancelAt(three, `/v1/tenants/acme/calls/${id}`);
    expect((await withKey).body).toMatchObject({ state: "cancelled" });
    expect(await endedAt(three, "acme", queued.body.id)).toMatchObject({ state: "cancelled" });
  });

  /** Reads the server-sent events of a response as they arrive. */
  async function* eventsOf(index: number, path: string, init: RequestInit = {}, headers: object = {}) {
    const send = (): Promise<Response> =>
      fetch(`${replicas.servers[index]?.url}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${replicas.adminKey}`, ...headers },
      });
    let response = await send();
    // A call of a replica that does not answer in time counts as missing.
    while (init.method === undefined && response.status === 404) response = await send();
    expect(response.status).toBe(200);
    let text = "";
    for await (const chunk of (response.body as ReadableStream<Uint8Array>).pipeThrough(
      new TextDecoderStream() as never,
    )) {
      text += chunk as unknown as string;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const fields = Object.fromEntries(
          text
            .slice(0, end)
            .split("\n")
            .map((line) => line.split(/: (.*)/s, 2)),
        ) as { readonly event: string; readonly data: string };
        text = text.slice(end + 2);
        yield { event: fields.event, data: JSON.parse(fields.data) };
      }
    }
  }
  /** Says one line after the other, and goes on when the key of its number is set. */
  const SAYS = `export const capabilities = { kv: true };
    export default async ({ lines, room }, ctx) => {
      for (let line = 0; line < lines; line += 1) {
        ctx.log.info("line " + line);
        while ((await ctx.kv.get(room + line)) === undefined) await new Promise((r) => setTimeout(r, 100));
      }
      return lines;
    };`;
  const goOn = async (room: string, line: number, tool = "says"): Promise<void> => {
    const path = `/v1/tenants/acme/kv/${tool}/values/${room}${line}`;
    expect((await three("PUT", path, { value: 1 })).status).toBe(200);
  };

  test("the log of a call that runs elsewhere is followed line by line, by several watchers", async () => {
    await deploy(one, "acme", "says", SAYS);
    const call = one<Call>("POST", "/v1/tenants/acme/tools/says/calls", { input: { lines: 3, room: "a" } });
    const id = await runningAt(one, "acme");
    const path = `/v1/tenants/acme/calls/${id}/events`;
    const watchers = [eventsOf(0, path), eventsOf(1, path), eventsOf(2, path)];
    for (let line = 0; line < 3; line += 1) {
      for (const watcher of watchers)
        expect((await watcher.next()).value).toMatchObject({ event: "log", data: { message: `line ${line}` } });
      await goOn("a", line);
    }
    for (const watcher of watchers)
      expect((await watcher.next()).value).toMatchObject({ event: "result", data: { id, state: "succeeded" } });
    expect((await call).body).toMatchObject({ id, output: 3 });
    const missing = await two("GET", "/v1/tenants/acme/calls/call_00000000000000000000000000/events");
    expect(missing.status).toBe(404);
    expect((await two("GET", path.replace("acme", "beta"))).status).toBe(404);
  });

  test("the unfinished timeline of a call that runs elsewhere is that of its replica", async () => {
    await deploy(one, "acme", "tells", SAYS);
    const call = one<Call>("POST", "/v1/tenants/acme/tools/tells/calls", { input: { lines: 1, room: "t" } });
    const id = await runningAt(one, "acme");
    const path = `/v1/tenants/acme/calls/${id}/timeline`;
    interface Timeline {
      readonly isOver: boolean;
      readonly spans: readonly { readonly kind: string; readonly durationMs: number; readonly isOpen?: true }[];
    }
    const read = async (api: Api): Promise<Timeline> => (await api<Timeline>("GET", path)).body;
    for (const api of [one, two, three]) {
      await expect.poll(async () => (await read(api)).spans?.find(({ kind }) => kind === "execute")?.isOpen).toBe(true);
      const before = (await read(api)).spans.find(({ kind }) => kind === "execute")?.durationMs ?? 0;
      // It grows.
      await expect
        .poll(async () => (await read(api)).spans.find(({ kind }) => kind === "execute")?.durationMs, {
          timeout: 20_000,
        })
        .toBeGreaterThan(before);
      expect((await read(api)).spans.some(({ kind }) => kind === "capability")).toBe(true);
    }
    expect((await two("GET", path.replace("acme", "beta"))).status).toBe(404);
    await goOn("t", 0, "tells");
    expect((await call).body).toMatchObject({ id, output: 1 });
    for (const api of [one, two]) {
      await expect.poll(async () => (await read(api)).isOver).toBe(true);
      expect((await read(api)).spans.some(({ isOpen }) => isOpen)).toBe(false);
    }
  });

  test("the stream of a call that waited for its approval has its lines, wherever it runs", async () => {
    const policy = { approvals: { tools: ["says"] } };
    expect((await one("PATCH", "/v1/tenants/acme", { policy })).status).toBe(200);
    const body = JSON.stringify({ input: { lines: 2, room: "b" } });
    const events = eventsOf(...([1, "/v1/tenants/acme/tools/says/calls", { method: "POST", body }] as const), {
      accept: "text/event-stream",
      "content-type": "application/json",
    });
    expect((await events.next()).value).toMatchObject({ event: "started" });
    const approval = (await events.next()).value;
    expect(approval).toMatchObject({ event: "approval" });
    const path = `/v1/tenants/acme/approvals/${approval?.data.approvalId}`;
    expect((await three("POST", `${path}/approve`, {})).status).toBe(200);
    for (let line = 0; line < 2; line += 1) {
      expect((await events.next()).value).toMatchObject({ event: "log", data: { message: `line ${line}` } });
      await goOn("b", line);
    }
    expect((await events.next()).value).toMatchObject({ event: "result", data: { state: "succeeded", output: 2 } });
    expect((await one("PATCH", "/v1/tenants/acme", { policy: {} })).status).toBe(200);
  });

  test("lines without a reader are bounded, and a call that floods its log ends as without a watcher", async () => {
    const source = `export const capabilities = { kv: true };
      export default async (_input, ctx) => {
        console.log("first");
        while ((await ctx.kv.get("c0")) === undefined) await new Promise((r) => setTimeout(r, 100));
        for (let n = 0; n < 20_000; n += 1) {
          console.log("x".repeat(2_000) + n);
          if (n % 500 === 0) await new Promise((r) => setTimeout(r, 20));
        }
        return "done";
      };
      export const limits = { logBytes: 16 * 1024 * 1024, logLines: 100_000 };`;
    await deploy(one, "acme", "floods", source);
    const call = one<Call>("POST", "/v1/tenants/acme/tools/floods/calls", {});
    const id = await runningAt(one, "acme");
    // Reads its first line, and then nothing more.
    const slow = eventsOf(1, `/v1/tenants/acme/calls/${id}/events`);
    expect((await slow.next()).value).toMatchObject({ event: "log" });
    await goOn("c", 0, "floods");
    expect((await call).body).toMatchObject({ id, output: "done" });
    const { lines, bytes } = await withDatabase(async ({ db }) => {
      const rows = await db
        .selectFrom("live_logs")
        .select("text")
        .where("call_id", "=", id)
        .where("position", ">=", 0)
        .execute();
      return { lines: rows.length, bytes: rows.reduce((sum, { text }) => sum + text.length, 0) };
    });
    expect(lines).toBeLessThanOrEqual(1_000);
    expect(bytes).toBeLessThanOrEqual(4 * 1024 * 1024);
    let last: { event: string } | undefined;
    for await (const event of slow) last = event;
    expect(last?.event).toBe("result");
  });

  test("a suspended tenant's calls and sessions end in all of them, and its runs wait", async () => {
    await deploy(one, "beta", "slow", SLOW);
    const session = { isolateLifetime: "session" };
    await deploy(one, "beta", "count", "let n = 0; export default () => (n += 1);", session);
    const count = () => one<Call>("POST", "/v1/tenants/beta/tools/count/calls", { sessionId: "s" });
    expect((await count()).body.output).toBe(1);
    expect((await count()).body.output).toBe(2);
    const path = "/v1/tenants/beta/tools/slow/calls";
    const calls = [one, two].map((api) => api<Call>("POST", path, {}));
    await deploy(one, "beta", "says", SAYS);
    const input = { lines: 1, room: "r" };
    const { body: run } = await three<Call>("POST", "/v1/tenants/beta/runs", { tool: "says", input }, LATER);
    await Promise.all([runningAt(one, "beta"), runningAt(two, "beta"), runningAt(three, "beta")]);
    expect((await three("PATCH", "/v1/tenants/beta", { state: "suspended" })).status).toBe(200);
    for (const call of calls) {
      const { body } = await call;
      expect(body.error).toMatchObject({ code: "CANCELLED", details: { reason: "tenant_suspended" } });
    }
    await expect
      .poll(async () => (await two<Call>("GET", `/v1/tenants/beta/runs/${run.id}`)).body.state)
      .toBe("suspended");
    expect((await two<Call>("POST", path, {})).body.error).toMatchObject({ code: "TOOL_UNAVAILABLE" });
    expect((await two("PATCH", "/v1/tenants/beta", { state: "active" })).status).toBe(200);
    for (const api of [one, two, three])
      await expect.poll(async () => (await api<Call>("POST", path, { input: { ms: 1 } })).status).toBe(200);
    // The isolate with its state is gone.
    expect((await count()).body.output).toBe(1);
    expect((await two("PUT", "/v1/tenants/beta/kv/says/values/r0", { value: 1 })).status).toBe(200);
    await expect
      .poll(async () => (await one<Call>("GET", `/v1/tenants/beta/runs/${run.id}`)).body.state)
      .toBe("succeeded");
  });

  test("a session stays where its isolate is, and never starts again unnoticed", async () => {
    const source = "let n = 0; export default () => (n += 1);";
    await deploy(one, "acme", "counter", source, { isolateLifetime: "session" });
    const path = "/v1/tenants/acme/tools/counter/calls";
    const count = (api: Api, sessionId = "h", headers = {}) => api<Call>("POST", path, { sessionId }, headers);
    for (const [index, api] of [one, two, three, one].entries())
      expect((await count(api)).body).toMatchObject({ output: index + 1, effects: "complete" });
    // A queued call runs where the session is, whoever claims it first.
    const queued = await count(two, "h", LATER);
    expect(await endedAt(three, "acme", queued.body.id)).toMatchObject({ state: "succeeded", output: 5 });
    expect((await count(two, "other")).body.output).toBe(1);
    // A replica that is gone has no sessions.
    await withDatabase(async ({ db }) => {
      await db.updateTable("session_homes").set({ replica_id: "replica-gone" }).where("session_id", "=", "h").execute();
    });
    expect((await count(two)).body.output).toBe(1);
    expect((await count(one)).body.output).toBe(2);
  });

  test("a policy applies to the next calls in all of them, also to those from the queue", async () => {
    const path = "/v1/tenants/beta/tools/slow/calls";
    const input = { input: { ms: 600_000 } };
    expect((await three("PATCH", "/v1/tenants/beta", { policy: { limits: { timeoutMs: 300 } } })).status).toBe(200);
    for (const api of [one, two, three])
      expect((await api<Call>("POST", path, input)).body.error).toMatchObject({ code: "TOOL_TIMEOUT" });
    const queued = await Promise.all([one, two, three].map((api) => api<Call>("POST", path, input, LATER)));
    for (const { body } of queued)
      expect((await endedAt(one, "beta", body.id)).error).toMatchObject({ code: "TOOL_TIMEOUT" });
  });

  test("a revoked key is rejected by all of them at once", async () => {
    const scopes = ["calls:read", "calls:run"];
    const { body } = await one<{ id: string; key: string }>("POST", "/v1/tenants/acme/keys", { name: "k", scopes });
    const with_ = (index: number) => apiOf({ url: replicas.servers[index]?.url ?? "", adminKey: undefined }, body.key);
    for (const index of [0, 1, 2]) expect((await with_(index)("GET", "/v1/tenants/acme/calls")).status).toBe(200);
    expect((await two("DELETE", `/v1/tenants/acme/keys/${body.id}`)).status).toBe(200);
    for (const index of [0, 1, 2]) expect((await with_(index)("GET", "/v1/tenants/acme/calls")).status).toBe(401);
  });

  test("no living call is taken over and no schedule runs early, although no two looks at a machine's clock agree", async () => {
    const realNow = Date.now;
    const spy = vi.spyOn(Date, "now").mockImplementation(() => realNow() + (Math.random() < 0.5 ? -30_000 : 30_000));
    onTestFinished(() => spy.mockRestore());
    const times = { cron: "* * * * * *", timeZone: "UTC", overlap: "queue" };
    const schedule = { name: "often", tool: "slow", input: { ms: 1 }, ...times };
    const created = await one<{ id: string }>("POST", "/v1/tenants/acme/schedules", schedule);
    expect(created.status).toBe(201);
    const path = "/v1/tenants/acme/tools/slow/calls";
    const calls = await Promise.all(
      [one, two, three].map((api) => api<Call>("POST", path, { input: { ms: 3_000 } }, LATER)),
    );
    for (const { body } of calls) expect((await endedAt(two, "acme", body.id)).state).toBe("succeeded");
    await withDatabase(async ({ db, clock }) => {
      const ids = calls.map(({ body }) => body.id);
      const ran = await db.selectFrom("calls").select(["attempts", "fence"]).where("id", "in", ids).execute();
      expect(ran).toEqual(ids.map(() => ({ attempts: 1, fence: 1 })));
      const runs = () =>
        db.selectFrom("calls").select(["idempotency_key"]).where("key_id", "=", created.body.id).execute();
      await expect.poll(async () => (await runs()).length).toBeGreaterThan(2);
      const dueAt = (await runs()).map(({ idempotency_key }) => Number(idempotency_key?.split(":")[1]));
      expect(new Set(dueAt).size).toBe(dueAt.length);
      for (const at of dueAt) expect(at).toBeLessThan(clock.now() + 1_000);
    });
    expect((await one("DELETE", `/v1/tenants/acme/schedules/${created.body.id}`)).status).toBe(200);
  });

  test("a tenant's limit of concurrent calls holds over all of them", async () => {
    const policy = { limits: { maxConcurrentCalls: 3, timeoutMs: 300_000, queueMs: 300_000 } };
    expect((await one("POST", "/v1/tenants", { id: "limited", policy })).status).toBe(201);
    await deploy(one, "limited", "slow", SLOW);
    const path = "/v1/tenants/limited/tools/slow/calls";
    const ids = async (): Promise<readonly string[]> => {
      const lists = await Promise.all(
        replicas.apis.map((api) => api<{ items: Call[] }>("GET", "/v1/tenants/limited/running-calls")),
      );
      return lists.flatMap(({ body }) => body.items.map(({ id }) => id));
    };
    const calls = [one, two, three, one, two, three, one, two].map((api) => api<Call>("POST", path, {}));
    for (let ended = 0; ended < calls.length; ended += 1) {
      const expected = Math.min(3, calls.length - ended);
      await expect.poll(async () => (await ids()).length).toBe(expected);
      expect(await ids()).toHaveLength(expected);
      const [first] = await ids();
      await cancelAt(three, `/v1/tenants/limited/calls/${first}`);
      await expect.poll(async () => (await ids()).includes(first ?? "")).toBe(false);
    }
    for (const call of calls) expect((await call).body.error).toMatchObject({ code: "CANCELLED" });
    // One of them gets all slots when the others do not use theirs.
    const together = [1, 2, 3].map(() => two<Call>("POST", path, {}));
    await expect.poll(async () => (await ids()).length).toBe(3);
    // A call that waits for a slot can be cancelled, at any of them.
    const waiting = await one<Call>("POST", path, {}, LATER);
    await expect
      .poll(async () => (await three<Call>("GET", `/v1/tenants/limited/calls/${waiting.body.id}`)).body.state)
      .toBe("running");
    await cancelAt(three, `/v1/tenants/limited/calls/${waiting.body.id}`);
    expect(await endedAt(two, "limited", waiting.body.id)).toMatchObject({ state: "cancelled" });
    // Without room in the queue, a call fails at once where the slots are, and after its time elsewhere.
    const strict = { limits: { maxConcurrentCalls: 3, maxQueuedCalls: 0, queueMs: 300 } };
    expect((await one("PATCH", "/v1/tenants/limited", { policy: strict })).status).toBe(200);
    for (const api of [one, two]) {
      const { status, body } = await api<Call>("POST", path, {});
      expect([status, body.error?.code, body.effects]).toEqual([503, "OVERLOADED", "none"]);
    }
    for (const id of await ids()) await cancelAt(one, `/v1/tenants/limited/calls/${id}`);
    await Promise.all(together);
    // The slots of a replica that is gone are free when its lease has ended.
    expect((await one("PATCH", "/v1/tenants/limited", { policy })).status).toBe(200);
    await withDatabase(async ({ db }) => {
      const held = { held: 3, expires_at: sql<number>`${databaseNow} + 3000` };
      const gone = { tenant_id: "limited", replica_id: "replica-gone", ...held };
      await db.deleteFrom("concurrency_slots").execute();
      await db.insertInto("concurrency_slots").values(gone).execute();
    });
    expect((await three<Call>("POST", path, { input: { ms: 1 } })).body).toMatchObject({ state: "succeeded" });
  });

  test("a deleted tenant's calls end in all of them, and nothing of it is written afterwards", async () => {
    expect((await one("POST", "/v1/tenants", { id: "gone" })).status).toBe(201);
    const source = `export const capabilities = { kv: true };
      export default async (_, ctx) => {
        for (let n = 0; ; n += 1) {
          await ctx.kv.set("n", n).catch(() => {});
          await new Promise((r) => setTimeout(r, 5));
        }
      };`;
    await deploy(one, "gone", "writes", source);
    const calls = [one, two].map((api) => api<Call>("POST", "/v1/tenants/gone/tools/writes/calls", {}));
    await Promise.all([runningAt(one, "gone"), runningAt(two, "gone")]);
    expect((await three("DELETE", "/v1/tenants/gone")).status).toBe(200);
    for (const call of calls) expect((await call).body.error).toMatchObject({ code: "CANCELLED" });
    for (const api of [one, two, three]) expect((await api("GET", "/v1/tenants/gone")).status).toBe(404);
    await withDatabase(async ({ db }) => {
      for (const table of ["kv_entries", "kv_spaces", "calls"] as const) {
        const rows = await db.selectFrom(table).select("tenant_id").where("tenant_id", "=", "gone").execute();
        expect([table, rows]).toEqual([table, []]);
      }
    });
    // The id can be used again.
    expect((await one("POST", "/v1/tenants", { id: "gone" })).status).toBe(201);
    await deploy(two, "gone", "slow", SLOW);
    for (const api of [one, two, three]) {
      // A server that received the message about the deletion late denies calls until it receives the one about the new tenant.
      const call = async () =>
        (await api<Call>("POST", "/v1/tenants/gone/tools/slow/calls", { input: { ms: 1 } })).status;
      await expect.poll(call).toBe(200);
    }
  });
});
