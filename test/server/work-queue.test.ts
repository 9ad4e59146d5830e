// Asynchronous calls of servers with executors: NATS distributes them, and the database decides. With a real nats-server, Postgres, an executor,
// and messages and streams that are lost, repeated or forged.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type RunningExecutor, startExecutor } from "../../src/executor/index.ts";
import { workStreamName, workSubject } from "../../src/host/fleet/protocol/subjects.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server, type ServerOptions } from "../../src/server/index.ts";
import { readQueueId } from "../../src/server/records/calls/queued-calls.ts";
import { cliEnvironment, NodeProcess } from "../support/cli-process.ts";
import { hasNatsServer, type NatsServer, startNatsServer } from "../support/nats-server.ts";
import { apiOf } from "./support/api.ts";
import { type TestStore, TestStores } from "./support/stores.ts";

interface StoredCall {
  readonly id: string;
  readonly state: string;
  readonly effects: string;
  readonly output: unknown;
  readonly error: { readonly code: string; readonly details?: object } | null;
  readonly attempts: number;
  readonly logs: readonly object[];
  readonly endedAt: number | null;
}
type Api = ReturnType<typeof apiOf>;

const SLOTS = 2;
const patiently = { timeout: 200_000, interval: 250 };
/** Says that it runs, and waits until its tenant's store says that it may end. */
const GATED = `export const capabilities = { kv: true };
  export const limits = { timeoutMs: 300_000 };
  export default async ({ gate, n }, { kv }) => {
    console.log("ran");
    await kv.set("began-" + gate + "-" + n, true);
    while ((await kv.get(gate)) !== true) await new Promise((resolve) => setTimeout(resolve, 100));
    return n;
  };`;
/** Takes a while, and may be repeated. It needs no answer of the server, which could be lost with NATS. */
const BRIEF = `export const annotations = { idempotentHint: true };
  export default async ({ n, ms = 0 }) => { await new Promise((resolve) => setTimeout(resolve, ms)); return n; };`;

describe.skipIf(!hasNatsServer)("the work queue", () => {
  const stores = new TestStores();
  const folder = mkdtempSync(join(tmpdir(), "glovebox-work-"));
  const folders: string[] = [];
  let nats: NatsServer;
  let connection: NatsConnection;
  let manager: JetStreamManager;
  let executor: RunningExecutor;
  let store: TestStore;
  let server: Server;
  let api: Api;
  let adminKey: string;
  let queueId: string;

  const optionsOf = (of: TestStore): ServerOptions & { readonly masterKey: string } => {
    const dataDir = mkdtempSync(join(tmpdir(), "glovebox-work-server-"));
    folders.push(dataDir);
    return {
      ...of.options,
      dataDir,
      port: 0,
      masterKey: "00".repeat(32),
      maxWorkers: 2,
      logLevel: "silent",
      natsUrl: nats.url,
      executorSilenceMs: 60_000,
      limits: { timeoutMs: 300_000 },
    };
  };
  const queueIdOf = async (of: TestStore): Promise<string> => {
    await using database = await openDatabase({ url: of.options.database, dataDir: of.options.dataDir, onError() {} });
    return await readQueueId(database.db);
  };
  const prepare = async (using: Api): Promise<void> => {
    for (const id of ["acme", "beta"]) expect((await using("POST", "/v1/tenants", { id })).status).toBe(201);
    await using("POST", "/v1/tenants", { id: "remote", policy: { pools: ["nowhere"] } });
    for (const id of ["acme", "beta"]) {
      for (const [name, source] of [["gated", GATED] as const, ["brief", BRIEF] as const]) {
        const { status } = await using("POST", `/v1/tenants/${id}/tools`, { name, source, approve: true });
        expect(status).toBe(201);
      }
    }
  };
  const enqueue = async (
    using: Api,
    tenant: string,
    tool: string,
    input: object,
    body: object = {},
  ): Promise<string> => {
    const path = `/v1/tenants/${tenant}/tools/${tool}/calls`;
    const { status, body: call } = await using<StoredCall>(
      "POST",
      path,
      { input, ...body },
      { prefer: "respond-async" },
    );
    expect(status).toBe(202);
    return call.id;
  };
  const enqueueGated = async (gate: string, count: number, tenant = "acme"): Promise<readonly string[]> => {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) ids.push(await enqueue(api, tenant, "gated", { gate, n }));
    return ids;
  };
  const read = async (id: string, tenant = "acme", using: Api = api): Promise<StoredCall> =>
    (await using<StoredCall>("GET", `/v1/tenants/${tenant}/calls/${id}`)).body;
  const statesOf = async (ids: readonly string[]): Promise<readonly string[]> =>
    (await Promise.all(ids.map((id) => read(id)))).map(({ state }) => state).sort();
  const open = async (gate: string, tenant = "acme", tool = "gated", using: Api = api): Promise<void> => {
    const path = `/v1/tenants/${tenant}/kv/${tool}/values/${gate}`;
    expect((await using("PUT", path, { value: true })).status).toBeLessThan(300);
  };
  const untilState = async (ids: readonly string[], states: readonly string[]): Promise<void> =>
    void (await expect.poll(() => statesOf(ids), patiently).toEqual([...states].sort()));
  const messagesIn = async (queue = queueId): Promise<number> =>
    (await manager.streams.info(workStreamName(queue))).state.messages;
  const untilEmpty = async (queue = queueId): Promise<void> =>
    void (await expect.poll(() => messagesIn(queue), patiently).toBe(0));
  const succeeded = (count: number): readonly string[] => Array.from({ length: count }, () => "succeeded");
  /** Each of them has run once, from its beginning to its end. */
  const expectOneRunEach = async (ids: readonly string[]): Promise<void> => {
    for (const [n, id] of ids.entries()) {
      const { state, output, attempts, logs } = await read(id);
      expect([state, output, attempts, logs.length]).toEqual(["succeeded", n, 1, 1]);
    }
  };
  const metric = async (name: string): Promise<number | undefined> => {
    const response = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${adminKey}` } });
    const [, value] = new RegExp(`^${name}\\{pool="default"\\} (\\S+)$`, "m").exec(await response.text()) ?? [];
    return value === undefined ? undefined : Number(value);
  };

  beforeAll(async () => {
    nats = await startNatsServer();
    connection = await connect({ servers: nats.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
    manager = await jetstreamManager(connection);
    store = await stores.create("postgres");
    server = await createServer(optionsOf(store));
    adminKey = server.adminKey as string;
    api = apiOf(server);
    executor = await startExecutor({ url: nats.url, slots: SLOTS, cacheDir: folder, workers: { max: 6 } });
    await prepare(api);
    queueId = await queueIdOf(store);
    await vi.waitFor(async () => expect(await metric("glovebox_executor_slots")).toBe(SLOTS));
  });
  afterAll(async () => {
    await server?.close({ drainMs: 0 });
    await executor?.[Symbol.asyncDispose]();
    await connection?.close();
    await nats?.[Symbol.asyncDispose]();
    await stores[Symbol.asyncDispose]();
    for (const one of [folder, ...folders]) rmSync(one, { recursive: true, force: true });
  });

  test("takes as many calls as there are free slots: the others stay in NATS, and count as waiting", async () => {
    const ids = await enqueueGated("full", SLOTS + 4);
    await untilState(ids, [...Array(SLOTS).fill("running"), ...Array(4).fill("queued")]);
    // A message that was delivered a moment too early waits to be delivered again, and is not counted.
    await expect.poll(() => metric("glovebox_executor_queue_calls"), patiently).toBeGreaterThanOrEqual(2);
    await expect.poll(() => metric("glovebox_executor_queue_oldest_seconds"), patiently).toBeGreaterThan(0);
    expect(await messagesIn()).toBe(SLOTS + 4);
    // A call that is cancelled while it waits does not run.
    const cancelled = ids.at(-1) as string;
    await api("POST", `/v1/tenants/acme/calls/${cancelled}/cancel`);
    await open("full");
    await untilState(ids, [...succeeded(SLOTS + 3), "cancelled"]);
    await expectOneRunEach(ids.slice(0, -1));
    expect(await read(cancelled)).toMatchObject({ effects: "none", attempts: 0 });
    await untilEmpty();
    await expect.poll(() => metric("glovebox_executor_queue_calls"), patiently).toBe(0);
  });

  test("a tenant with many waiting calls does not keep another tenant out", async () => {
    const many: string[] = [];
    for (let n = 0; n < SLOTS + 8; n += 1) many.push(await enqueue(api, "acme", "gated", { gate: `many-${n}`, n }));
    await untilState(many, [...Array(SLOTS).fill("running"), ...Array(8).fill("queued")]);
    const other = await enqueue(api, "beta", "gated", { gate: "other", n: 0 });
    await open("other", "beta");
    await open("many-0");
    // Its queue is served when the first slot is free. In a common queue, eight calls would be before it.
    await expect.poll(async () => (await read(other, "beta")).state, patiently).not.toBe("queued");
    expect((await statesOf(many)).filter((state) => state === "queued").length).toBeGreaterThanOrEqual(5);
    for (let n = 1; n < many.length; n += 1) await open(`many-${n}`);
    await expect.poll(async () => (await read(other, "beta")).state, patiently).toBe("succeeded");
    await untilState(many, succeeded(many.length));
    await expectOneRunEach(many);
    await untilEmpty();
  });

  test("a message of a call that has ended is acknowledged, and the call does not run again", async () => {
    await open("ended");
    const [id = ""] = await enqueueGated("ended", 1);
    await untilState([id], ["succeeded"]);
    await untilEmpty();
    const again = workSubject(queueId, "default", 3, id);
    await manager.jetstream().publish(again, JSON.stringify({ v: 1, id }));
    await untilEmpty();
    expect(await read(id)).toMatchObject({ state: "succeeded", attempts: 1, logs: [expect.anything()] });
  });

  test("removes messages that no server has published, and serves the others", async () => {
    const forged = "call_00000000000000000000000000";
    const payloads = [
      "",
      "{",
      "null",
      "[]",
      JSON.stringify({ v: 2, id: forged }),
      JSON.stringify({ v: 1, id: forged, tenantId: "acme" }),
      JSON.stringify({ v: 1, id: "call_../../etc" }),
      JSON.stringify({ v: 1, id: "call_1" }),
      // A call that does not exist.
      JSON.stringify({ v: 1, id: forged }),
    ];
    const client = manager.jetstream();
    for (const [index, payload] of payloads.entries()) {
      const name = index === payloads.length - 1 ? forged : `poison-${index}`;
      await client.publish(workSubject(queueId, "default", index % 8, name), payload);
    }
    await open("poison");
    const ids = await enqueueGated("poison", 2);
    await untilState(ids, succeeded(2));
    await untilEmpty();
  });

  test("a call whose message is lost runs when a slot is free", async () => {
    const ids = await enqueueGated("purged", SLOTS + 1);
    await untilState(ids, [...Array(SLOTS).fill("running"), "queued"]);
    await manager.streams.purge(workStreamName(queueId));
    await open("purged");
    await untilState(ids, succeeded(SLOTS + 1));
    await expectOneRunEach(ids);
  });

  test("a call of a session is taken by the server that has the session, and runs on executors only", async () => {
    const tool = {
      name: "counts",
      source: "let n = 0; export default () => { console.log('ran'); n += 1; return n; }",
      isolateLifetime: "session",
    };
    for (const tenant of ["remote", "acme"])
      expect((await api("POST", `/v1/tenants/${tenant}/tools`, tool)).status).toBe(201);
    // The pool of this tenant has no executor.
    const waiting = await enqueue(api, "remote", "counts", {}, { sessionId: "s1" });
    for (const expected of [1, 2]) {
      const id = await enqueue(api, "acme", "counts", {}, { sessionId: "s1" });
      await expect.poll(async () => (await read(id)).state, patiently).toBe("succeeded");
      expect(await read(id)).toMatchObject({ output: expected });
    }
    await api("POST", `/v1/tenants/remote/calls/${waiting}/cancel`);
    await expect.poll(async () => (await read(waiting, "remote")).endedAt, patiently).not.toBeNull();
    const { state, logs } = await read(waiting, "remote");
    expect([["cancelled", "failed"].includes(state), logs ?? []]).toEqual([true, []]);
    await untilEmpty();
  });

  test("servers share the queue: what one has accepted, the other runs when the first stops", async () => {
    const second = await createServer(optionsOf(store));
    try {
      const ids = await enqueueGated("shared", SLOTS + 4);
      await untilState(ids, [...Array(SLOTS).fill("running"), ...Array(4).fill("queued")]);
      const closing = server.close({ drainMs: 120_000 });
      server = second;
      api = apiOf(second, adminKey);
      await open("shared");
      await untilState(ids, succeeded(SLOTS + 4));
      await closing;
      await expectOneRunEach(ids);
      await untilEmpty();
    } finally {
      server = second;
    }
  });

  test("calls end when NATS restarts without its files, and when the stream is deleted", async () => {
    const enqueueBrief = async (count: number, ms = 0): Promise<readonly string[]> => {
      const ids: string[] = [];
      for (let n = 0; n < count; n += 1) ids.push(await enqueue(api, "acme", "brief", { n, ms }));
      return ids;
    };
    const expectOutputs = async (ids: readonly string[]): Promise<void> => {
      await untilState(ids, succeeded(ids.length));
      for (const [n, id] of ids.entries()) expect(await read(id)).toMatchObject({ output: n, attempts: 1 });
    };
    const untilServed = async (): Promise<void> =>
      void (await expect.poll(async () => await messagesIn().catch(() => -1), patiently).toBe(0));
    const running = await enqueueBrief(SLOTS, 3_000);
    const waiting = await enqueueBrief(2);
    await nats.restart({ losesFiles: true });
    const during = await enqueueBrief(2);
    for (const ids of [running, waiting, during]) await expectOutputs(ids);
    await untilServed();
    await manager.streams.delete(workStreamName(queueId));
    await expectOutputs(await enqueueBrief(3));
    await untilServed();
  });

  test("a server that is killed between claim and acknowledgement leaves each call with one result", async () => {
    await using other = await stores.create("postgres");
    const home = mkdtempSync(join(tmpdir(), "glovebox-work-killed-"));
    folders.push(home);
    const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
    const flags = ["--port", "0", "--log-level", "silent", "--nats", nats.url];
    await using killed = new NodeProcess([main, "serve", ...flags, "--database", other.options.database as string], {
      cwd: home,
      env: cliEnvironment(home),
    });
    const [, key = ""] = await killed.says("stdout", /Admin key, shown only now: (\S+)/);
    const [, url = ""] = await killed.says("stdout", /Listening at (\S+)/);
    const first = apiOf({ url, adminKey: key });
    await first("POST", "/v1/tenants", { id: "acme", policy: { limits: { timeoutMs: 300_000 } } });
    const ids: string[] = [];
    for (const name of ["repeatable", "once"]) {
      const source = `export const annotations = { idempotentHint: ${name === "repeatable"} };\n${GATED}`;
      expect((await first("POST", "/v1/tenants/acme/tools", { name, source, approve: true })).status).toBe(201);
      ids.push(await enqueue(first, "acme", name, { gate: "gate", n: 7 }));
    }
    for (const name of ["repeatable", "once"]) {
      const path = `/v1/tenants/acme/kv/${name}/values/began-gate-7`;
      await expect.poll(async () => (await first("GET", path)).status, patiently).toBe(200);
    }
    killed.signal("SIGKILL");
    await killed.exit;
    const queue = await queueIdOf(other);
    expect(await messagesIn(queue)).toBe(2);
    const { masterKey: _own, ...options } = optionsOf(other);
    await using next = await createServer({ ...options, dataDir: join(home, "glovebox-data") });
    const using = apiOf(next, key);
    for (const name of ["repeatable", "once"]) await open("gate", "acme", name, using);
    const [repeatable = "", once = ""] = ids;
    await expect.poll(async () => (await read(repeatable, "acme", using)).endedAt, patiently).not.toBeNull();
    await expect.poll(async () => (await read(once, "acme", using)).endedAt, patiently).not.toBeNull();
    expect(await read(repeatable, "acme", using)).toMatchObject({ state: "succeeded", output: 7, attempts: 2 });
    expect(await read(once, "acme", using)).toMatchObject({
      state: "failed",
      effects: "possible",
      attempts: 1,
      error: { code: "SANDBOX_CRASHED", details: { reason: "server_ended" } },
    });
    await untilEmpty(queue);
  });
});
