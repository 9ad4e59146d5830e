// Three servers with one Postgres: calls of a tool session at any of them reach its one isolate, and are made once.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Fleet } from "../../src/client/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { releaseSessions } from "../../src/server/records/calls/session-homes.ts";
import { apiOf } from "./support/api.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { TestStores } from "./support/stores.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly mode: string;
  readonly output: unknown;
  readonly effects: string;
  readonly input: unknown;
  readonly logs?: readonly { readonly message: string }[];
  readonly error: { readonly code: string; readonly details?: { readonly reason?: string } } | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const CHILD = fileURLToPath(new URL("./support/server-child.ts", import.meta.url));

/** Starts a server in a process of its own. */
async function startServer(options: object) {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next();
  const { url } = JSON.parse(String(value)) as { readonly url: string };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal);
    await exited;
  };
  return {
    url,
    end,
    signal: (signal: NodeJS.Signals) => child.kill(signal),
    [Symbol.asyncDispose]: () => end("SIGKILL"),
  };
}

/** Waits until a call runs in a server, and returns its id. */
async function runningIn(api: Api, count = 1): Promise<string> {
  let ids: readonly string[] = [];
  await expect
    .poll(async () => {
      const { body } = await api<{ items: Call[] }>("GET", "/v1/tenants/acme/running-calls");
      ids = body.items.filter(({ state }) => state === "running").map(({ id }) => id);
      return ids.length;
    })
    .toBe(count);
  return ids[0] as string;
}

const COUNTER = "let count = 0; export default ({ by = 1 } = {}) => (count += by);";
const STREAMS = `let count = 0;
  export default async function* ({ chunks }, ctx) {
    count += 1;
    console.log("call " + count);
    for (let n = 0; n < chunks; n += 1) { ctx.progress({ progress: n + 1, total: chunks }); yield { count, n }; }
  }`;
/** Counts, and waits until the key of its room is set. */
const WAITS = `let count = 0;
  export const capabilities = { kv: true };
  export default async ({ room }, ctx) => {
    count += 1;
    ctx.log.info("begun " + count);
    while (room !== undefined && (await ctx.kv.get(room)) === undefined) await new Promise((r) => setTimeout(r, 50));
    return count;
  };`;

describe("three servers with one Postgres", () => {
  const replicas = useReplicas(stores, 3, ["acme", "beta"]);
  const [one, two, three] = replicas.apis as [Api, Api, Api];
  const deploy = async (tenant: string, name: string, source: string, more: object = {}): Promise<void> => {
    const tool = { name, source, approve: true, isolateLifetime: "session", ...more };
    const { status, body } = await one("POST", `/v1/tenants/${tenant}/tools`, tool);
    expect([status, body.error]).toEqual([201, undefined]);
  };
  const pathOf = (tool: string, tenant = "acme"): string => `/v1/tenants/${tenant}/tools/${tool}/calls`;
  const callAt = (api: Api, tool: string, body: object, headers = {}) => api<Call>("POST", pathOf(tool), body, headers);
  const withDatabase = async <Value>(use: (db: Awaited<ReturnType<typeof openDatabase>>) => Promise<Value>) => {
    await using database = await openDatabase({ url: replicas.store.options.database, dataDir: "", onError() {} });
    return await use(database);
  };
  const records = async (tool: string, sessionId: string): Promise<readonly Call[]> => {
    const { body } = await three<{ items: (Call & { sessionId: string })[] }>(
      "GET",
      `/v1/tenants/acme/calls?tool=${tool}&limit=100`,
    );
    return body.items.filter((call) => call.sessionId === sessionId);
  };
  const goOn = async (room: string): Promise<void> => {
    const path = `/v1/tenants/acme/kv/waits/values/${room}`;
    expect((await three("PUT", path, { value: 1 })).status).toBe(200);
  };
  test("a synchronous call runs where its session is, and its client notices nothing", async () => {
    await deploy("acme", "counter", COUNTER);
    const outputs: unknown[] = [];
    const ids = new Set<string>();
    for (const api of [one, two, three, two, one, three]) {
      const { status, body } = await callAt(api, "counter", { sessionId: "a", input: { by: 2 } });
      expect([status, body.error, body.mode, body.effects]).toEqual([200, null, "sync", "complete"]);
      expect(body.input).toEqual({ by: 2 });
      outputs.push(body.output);
      ids.add(body.id);
      // Its record is found at once, at any of them.
      expect((await three<Call>("GET", `/v1/tenants/acme/calls/${body.id}`)).body).toMatchObject({
        id: body.id,
        state: "succeeded",
        output: body.output,
        input: { by: 2 },
      });
    }
    expect(outputs).toEqual([2, 4, 6, 8, 10, 12]);
    await expect.poll(async () => new Set((await records("counter", "a")).map(({ id }) => id))).toEqual(ids);
    // Another session has another isolate, with its home where it is first called.
    expect((await callAt(three, "counter", { sessionId: "b" })).body.output).toBe(1);
    expect((await callAt(one, "counter", { sessionId: "b" })).body.output).toBe(2);
    // A call without a session has an isolate of its own.
    expect((await callAt(two, "counter", {})).body.output).toBe(1);
  });

  test("fifty calls of one session at the same time get consecutive numbers, at all servers", async () => {
    await deploy("acme", "numbers", COUNTER);
    const apis = Array.from({ length: 50 }, (_, index) => replicas.apis[index % 3] as Api);
    const calls = await Promise.all(apis.map((api) => callAt(api, "numbers", { sessionId: "n" })));
    expect(calls.map(({ status }) => status)).toEqual(calls.map(() => 200));
    const numbers = calls.map(({ body }) => Number(body.output)).toSorted((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
    await expect.poll(async () => (await records("numbers", "n")).length).toBe(50);
    const usage = async (): Promise<number> => {
      const { body } = await two<{ items: { tool: string; calls: number }[] }>("GET", "/v1/tenants/acme/usage");
      return body.items.filter(({ tool }) => tool === "numbers").reduce((sum, { calls }) => sum + calls, 0);
    };
    expect(await usage()).toBe(50);
  });

  test("a batch has calls of several sessions", async () => {
    await deploy("acme", "batched", COUNTER);
    const calls = ["x", "y", "x", "z", "y", "x"].map((sessionId) => ({ tool: "batched", sessionId }));
    const totals: { [session: string]: number[] } = {};
    for (const api of [one, two, three]) {
      const { status, body } = await api<{ items: (Call & { sessionId: string })[] }>(
        "POST",
        "/v1/tenants/acme/calls",
        {
          calls,
        },
      );
      expect(status).toBe(200);
      for (const { sessionId, output } of body.items)
        totals[sessionId] = [...(totals[sessionId] ?? []), Number(output)];
    }
    const sorted = Object.fromEntries(
      Object.entries(totals).map(([key, list]) => [key, list.toSorted((a, b) => a - b)]),
    );
    expect(sorted).toEqual({ x: [1, 2, 3, 4, 5, 6, 7, 8, 9], y: [1, 2, 3, 4, 5, 6], z: [1, 2, 3] });
  });

  /** Returns the events of a streamed call. */
  const streamAt = async (index: number, tool: string, body: object) => {
    const response = await fetch(`${replicas.servers[index]?.url}${pathOf(tool)}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: {
        authorization: `Bearer ${replicas.adminKey}`,
        accept: "text/event-stream",
        "content-type": "application/json",
      },
    });
    const text = await response.text();
    return text
      .trim()
      .split("\n\n")
      .map((block) => {
        const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
        return [fields.event, JSON.parse(fields.data as string)] as readonly [string, unknown];
      });
  };

  test("a streamed call has the same events at every server", async () => {
    await deploy("acme", "streams", STREAMS);
    for (const [count, index] of [0, 1, 2, 0].entries()) {
      const events = await streamAt(index, "streams", { sessionId: "s", input: { chunks: 2 } });
      const [started, ...others] = events;
      const id = (started?.[1] as Call | undefined)?.id;
      expect(others.toSorted(([a], [b]) => (a < b ? -1 : 1))).toMatchObject([
        ["chunk", { count: count + 1, n: 0 }],
        ["chunk", { count: count + 1, n: 1 }],
        ["log", { level: "info", message: `call ${count + 1}` }],
        ["progress", { progress: 1, total: 2 }],
        ["progress", { progress: 2, total: 2 }],
        ["result", { id, mode: "stream", state: "succeeded", effects: "complete" }],
      ]);
      expect([started?.[0], others.at(-1)?.[0]]).toEqual(["started", "result"]);
    }
    const failed = await streamAt(1, "streams", { sessionId: "s", input: {}, alias: "none" });
    expect(failed.map(([event]) => event)).toEqual(["started", "result"]);
    expect(failed.at(-1)?.[1]).toMatchObject({ error: { code: "TOOL_UNAVAILABLE" }, effects: "none" });
  });

  test("failures look the same at every server, and have one record", async () => {
    const source = `let count = 0;
      export const inputSchema = { type: "object", properties: { fails: { type: "boolean" } }, additionalProperties: false };
      export default ({ fails }) => { count += 1; if (fails) throw new Error("failed at " + count); return count; };`;
    await deploy("acme", "fickle", source);
    expect((await callAt(one, "fickle", { sessionId: "f" })).body.output).toBe(1);
    for (const [count, api] of [one, two, three].entries()) {
      const thrown = await callAt(api, "fickle", { sessionId: "f", input: { fails: true } });
      expect([thrown.status, thrown.body.effects]).toEqual([502, "possible"]);
      expect(thrown.body.error).toMatchObject({ code: "TOOL_FAILED", message: `failed at ${count + 2}` });
      const wrong = await callAt(api, "fickle", { sessionId: "f", input: { other: 1 } });
      expect([wrong.status, wrong.body.error?.code, wrong.body.effects]).toEqual([422, "PARAM_INVALID", "none"]);
    }
    await expect.poll(async () => (await records("fickle", "f")).length).toBe(7);
  });

  test("a request with an idempotency key that is repeated at another server returns the same call", async () => {
    await deploy("acme", "once", COUNTER);
    expect((await callAt(one, "once", { sessionId: "o" })).body.output).toBe(1);
    const body = { sessionId: "o", input: { by: 10 } };
    const first = await callAt(two, "once", body, { "idempotency-key": "key-1" });
    expect(first.body).toMatchObject({ output: 11, state: "succeeded" });
    for (const api of [three, one, two]) {
      const again = await callAt(api, "once", body, { "idempotency-key": "key-1" });
      expect([again.status, again.body.id, again.body.output]).toEqual([200, first.body.id, 11]);
      const other = await callAt(api, "once", { sessionId: "o" }, { "idempotency-key": "key-1" });
      expect([other.status, other.body.error?.code]).toEqual([409, "CONFLICT"]);
    }
    // At the same time, one of them runs.
    const together = await Promise.all(
      [one, two, three, two, three].map((api) => callAt(api, "once", body, { "idempotency-key": "key-2" })),
    );
    const ran = together.filter(({ status }) => status === 200);
    expect(ran.length).toBeGreaterThan(0);
    expect(new Set(ran.map((reply) => reply.body.id)).size).toBe(1);
    for (const { status } of together) expect([200, 409]).toContain(status);
    expect((await callAt(three, "once", { sessionId: "o" })).body.output).toBe(22);
    await expect.poll(async () => (await records("once", "o")).length).toBe(4);
  });

  test("quotas and limits count a call once, where it runs", async () => {
    const policy = { quotas: { calls: { month: 6 } }, limits: { maxConcurrentCalls: 1, maxQueuedCalls: 100 } };
    expect((await one("PATCH", "/v1/tenants/beta", { policy })).status).toBe(200);
    await deploy("beta", "counter", COUNTER);
    const apis = [one, two, three, two, three, one];
    const calls = await Promise.all(
      apis.map((api) => api<Call>("POST", pathOf("counter", "beta"), { sessionId: "q" })),
    );
    expect(calls.map(({ body }) => Number(body.output)).toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
    for (const api of [one, two, three]) {
      const { status, body } = await api<Call>("POST", pathOf("counter", "beta"), { sessionId: "q" });
      expect([status, body.error?.code, body.effects]).toEqual([429, "QUOTA_EXCEEDED", "none"]);
    }
  });

  test("a call is cancelled at any server, and when its client leaves", async () => {
    await deploy("acme", "waits", WAITS);
    expect((await callAt(one, "waits", { sessionId: "w" })).body.output).toBe(1);
    const cancelled = callAt(two, "waits", { sessionId: "w", input: { room: "never" } });
    const id = await runningIn(one);
    await expect
      .poll(async () => [202, 409].includes((await three("POST", `/v1/tenants/acme/calls/${id}/cancel`)).status))
      .toBe(true);
    expect((await cancelled).body).toMatchObject({ id, state: "cancelled", error: { code: "CANCELLED" } });
    // The call that was stopped has ended the session. Its home is still the first server.
    const client = new AbortController();
    const left = fetch(`${replicas.servers[2]?.url}${pathOf("waits")}`, {
      method: "POST",
      body: JSON.stringify({ sessionId: "w", input: { room: "never" } }),
      signal: client.signal,
      headers: { authorization: `Bearer ${replicas.adminKey}`, "content-type": "application/json" },
    }).catch((error: unknown) => error);
    const leftId = await runningIn(one);
    client.abort();
    await left;
    await expect
      .poll(async () => (await two<Call>("GET", `/v1/tenants/acme/calls/${leftId}`)).body)
      .toMatchObject({ state: "cancelled", effects: "possible" });
    await expect.poll(async () => (await records("waits", "w")).length).toBe(3);
  });

  test("the log of a call that was passed on is followed at any server", async () => {
    expect((await callAt(one, "waits", { sessionId: "l" })).body.output).toBe(1);
    const call = callAt(two, "waits", { sessionId: "l", input: { room: "l" } });
    const id = await runningIn(one);
    const lines: string[] = [];
    const response = await fetch(`${replicas.servers[2]?.url}/v1/tenants/acme/calls/${id}/events`, {
      headers: { authorization: `Bearer ${replicas.adminKey}` },
    });
    const decoder = new TextDecoder();
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      lines.push(decoder.decode(chunk));
      if (lines.join("").includes("begun 2")) await goOn("l");
    }
    expect(lines.join("")).toContain("event: result");
    expect((await call).body).toMatchObject({ id, output: 2 });
  });

  test("an approval that comes with a call is recorded once, and a call without one waits as anywhere", async () => {
    await deploy("acme", "pays", COUNTER);
    expect((await callAt(one, "pays", { sessionId: "p" })).body.output).toBe(1);
    expect((await one("PATCH", "/v1/tenants/acme", { policy: { approvals: { tools: ["pays"] } } })).status).toBe(200);
    const approved = await callAt(two, "pays", { sessionId: "p", approve: true });
    expect([approved.status, approved.body.output]).toEqual([200, 2]);
    const waiting = await callAt(three, "pays", { sessionId: "p" });
    expect([waiting.status, waiting.body.state]).toEqual([202, "waiting_for_approval"]);
    const { approvalId } = waiting.body as unknown as { readonly approvalId: string };
    expect((await two("POST", `/v1/tenants/acme/approvals/${approvalId}/approve`, {})).status).toBe(200);
    await expect
      .poll(async () => (await one<Call>("GET", `/v1/tenants/acme/calls/${waiting.body.id}`)).body)
      .toMatchObject({ state: "succeeded", output: 3 });
    const { body } = await one<{ items: { action: string; target: string }[] }>("GET", "/v1/tenants/acme/audit");
    const actions = body.items.filter(({ action }) => action === "approval.approved");
    expect(actions.map(({ target }) => target)).toContain(approved.body.id);
    expect(actions.filter(({ target }) => target === approved.body.id)).toHaveLength(1);
    expect((await one("PATCH", "/v1/tenants/acme", { policy: {} })).status).toBe(200);
  });

  test("large inputs and outputs, and bytes, arrive whole", async () => {
    const source = `let count = 0;
      export const limits = { inputBytes: 8 * 1024 * 1024, outputBytes: 8 * 1024 * 1024 };
      export default ({ text }) => { count += 1; return { count, text, bytes: new Uint8Array([1, 2, 255]) }; };`;
    await deploy("acme", "large", source);
    const text = 'ü"\\\n𝄞'.repeat(200_000);
    for (const [index, api] of [one, two, three].entries()) {
      const { status, body } = await callAt(api, "large", { sessionId: "l", input: { text } });
      expect([status, body.error]).toEqual([200, null]);
      const { count, text: returned, bytes } = body.output as { count: number; text: string; bytes: string };
      expect([count, returned === text, bytes]).toEqual([index + 1, true, "AQL/"]);
    }
  });

  test("a replica of an earlier release, which has no URL, gets no calls of others", async () => {
    expect((await callAt(one, "counter", { sessionId: "old" })).body.output).toBe(1);
    const home = ((await one("GET", "/v1/fleet")).body as { replicaId: string }).replicaId;
    const setUrl = (url: string | null) =>
      withDatabase(({ db }) => db.updateTable("replicas").set({ url }).where("id", "=", home).execute());
    // The replica writes its URL with each sign of life.
    await expect
      .poll(async () => {
        await setUrl(null);
        const { status, body } = await callAt(two, "counter", { sessionId: "old" });
        return [status, body.error?.details?.reason, body.effects];
      })
      .toEqual([409, "session_elsewhere", "none"]);
    await expect.poll(async () => (await callAt(two, "counter", { sessionId: "old" })).status).toBe(200);
  });

  test("calls over MCP, and those that other calls make, have isolates of their own at every server", async () => {
    const nests = `export const capabilities = { tools: true };
      export default async (_, ctx) => [await ctx.tools.call("counter", {}), await ctx.tools.call("counter", {})];`;
    await deploy("acme", "nests", nests);
    const { body: key } = await one<{ key: string }>("POST", "/v1/tenants/acme/keys", {
      name: "mcp",
      scopes: ["calls:run", "tools:read"],
    });
    for (const [index, api] of replicas.apis.entries()) {
      expect((await callAt(api, "nests", { sessionId: "nests" })).body.output).toEqual([1, 1]);
      const client = new Client({ name: "test", version: "1.0.0" });
      const requestInit = { headers: { authorization: `Bearer ${key.key}` } };
      const url = new URL(`${replicas.servers[index]?.url}/v1/tenants/acme/mcp`);
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as never);
      try {
        for (let count = 0; count < 2; count += 1)
          expect((await client.callTool({ name: "counter", arguments: {} })).content).toMatchObject([{ text: "1" }]);
      } finally {
        await client.close();
      }
    }
  });

  test("a key that was revoked is denied at every server", async () => {
    const { body } = await one<{ id: string; key: string }>("POST", "/v1/tenants/acme/keys", {
      name: "k",
      scopes: ["calls:read", "calls:run"],
    });
    const at = (index: number) => apiOf({ url: replicas.servers[index]?.url ?? "", adminKey: undefined }, body.key);
    expect((await callAt(at(0), "counter", { sessionId: "k" })).body.output).toBe(1);
    expect((await callAt(at(1), "counter", { sessionId: "k" })).body.output).toBe(2);
    expect((await two("DELETE", `/v1/tenants/acme/keys/${body.id}`)).status).toBe(200);
    expect((await callAt(at(2), "counter", { sessionId: "k" })).status).toBe(401);
    expect((await callAt(two, "counter", { sessionId: "k" })).body.output).toBe(3);
  });
});

describe("a replica in a process of its own that has a session", () => {
  const replicas = useReplicas(stores, 1, ["acme"]);
  const [own] = replicas.apis as [Api];
  const path = "/v1/tenants/acme/tools/waits/calls";
  const start = () => startServer({ ...replicas.store.options, masterKey: "00".repeat(32), maxWorkers: 2 });
  const recordsOf = async (sessionId: string): Promise<readonly Call[]> => {
    const { body } = await own<{ items: (Call & { sessionId: string })[] }>("GET", "/v1/tenants/acme/calls?limit=100");
    return body.items.filter((call) => call.sessionId === sessionId);
  };
  beforeAll(async () => {
    const tool = { name: "waits", source: WAITS, approve: true, isolateLifetime: "session" };
    expect((await own("POST", "/v1/tenants/acme/tools", tool)).status).toBe(201);
  });

  test("is killed between two calls: each session starts anew where it is called next, with and without a key", async () => {
    await using home = await start();
    const api = apiOf({ url: home.url, adminKey: replicas.adminKey });
    const sessions = [
      ["between", {}],
      ["between with a key", { "idempotency-key": "between" }],
    ] as const;
    for (const [sessionId] of sessions) {
      const call = { sessionId, input: {} };
      expect((await api<Call>("POST", path, call)).body.output).toBe(1);
      expect((await own<Call>("POST", path, call)).body.output).toBe(2);
    }
    await home.end("SIGKILL");
    // The client notices nothing but the time until the replica counts as gone. Both wait for that.
    const next = sessions.map(([sessionId, headers]) => own<Call>("POST", path, { sessionId, input: {} }, headers));
    for (const { body } of await Promise.all(next)) expect(body).toMatchObject({ output: 1, state: "succeeded" });
    for (const [sessionId] of sessions)
      expect((await own<Call>("POST", path, { sessionId, input: {} })).body.output).toBe(2);
  });

  test("is frozen while another one is its home: it starts the session anew when it has it again", async () => {
    await using home = await start();
    const api = apiOf({ url: home.url, adminKey: replicas.adminKey });
    const call = { sessionId: "frozen", input: {} };
    for (const count of [1, 2, 3]) expect((await api<Call>("POST", path, call)).body.output).toBe(count);
    const fleetOf = async () => (await own<Fleet>("GET", "/v1/fleet")).body;
    home.signal("SIGSTOP");
    await expect.poll(async () => (await fleetOf()).replicas.map(({ state }) => state)).toContain("silent");
    expect((await own<Call>("POST", path, call)).body.output).toBe(1);
    // The other one gives up its sessions, as when it stops.
    const { replicaId } = await fleetOf();
    await using database = await openDatabase({ url: replicas.store.options.database, dataDir: "", onError() {} });
    await releaseSessions(database.db, replicaId);
    home.signal("SIGCONT");
    const outputs: unknown[] = [];
    for (let count = 0; count < 2; count += 1) outputs.push((await api<Call>("POST", path, call)).body.output);
    expect(outputs).toEqual([1, 2]);
  });

  test("is killed during a synchronous call and one with a key: each ends once, with possible effects", async () => {
    await using home = await start();
    const api = apiOf({ url: home.url, adminKey: replicas.adminKey });
    const headers = { "idempotency-key": "killed" };
    const call = { sessionId: "killed", input: { room: "never" } };
    const keyed = { ...call, sessionId: "killed with a key" };
    for (const { sessionId } of [call, keyed])
      expect((await api<Call>("POST", path, { sessionId, input: {} })).body.output).toBe(1);
    const lost = [own<Call>("POST", path, call), own<Call>("POST", path, keyed, headers)];
    await runningIn(api, lost.length);
    await home.end("SIGKILL");
    const ended = await Promise.all(lost);
    for (const { status, body } of ended) {
      expect([status, body.state, body.effects]).toEqual([502, "failed", "possible"]);
      expect(body.error).toMatchObject({ code: "SANDBOX_CRASHED", details: { reason: "server_ended" } });
      expect((await own<Call>("GET", `/v1/tenants/acme/calls/${body.id}`)).body).toMatchObject({
        id: body.id,
        state: "failed",
        effects: "possible",
        error: { code: "SANDBOX_CRASHED" },
      });
    }
    // The record of the call before it can be lost with the replica.
    for (const [index, { sessionId }] of [call, keyed].entries())
      expect((await recordsOf(sessionId)).filter(({ id }) => id === ended[index]?.body.id)).toHaveLength(1);
    const again = await own<Call>("POST", path, keyed, headers);
    expect([again.status, again.body.id]).toEqual([502, ended[1]?.body.id]);
  });

  test("is stopped: its session starts anew elsewhere at once, and the call that it runs ends there", async () => {
    await using home = await start();
    const api = apiOf({ url: home.url, adminKey: replicas.adminKey });
    expect((await api<Call>("POST", path, { sessionId: "stop", input: {} })).body.output).toBe(1);
    const running = own<Call>("POST", path, { sessionId: "stop", input: { room: "stop" } });
    await runningIn(api);
    const ended = home.end("SIGTERM");
    const isReady = () =>
      fetch(`${home.url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    await expect.poll(isReady).toBe(false);
    expect((await own<Call>("POST", path, { sessionId: "stop", input: {} })).body.output).toBe(1);
    expect((await own("PUT", "/v1/tenants/acme/kv/waits/values/stop", { value: 1 })).status).toBe(200);
    expect((await running).body).toMatchObject({ output: 2, state: "succeeded" });
    await ended;
    expect((await own<Call>("POST", path, { sessionId: "stop", input: {} })).body.output).toBe(2);
  });

  test("is frozen during a call: the call ends once, and what the replica stores later does not count", async () => {
    await using home = await start();
    const api = apiOf({ url: home.url, adminKey: replicas.adminKey });
    expect((await api<Call>("POST", path, { sessionId: "ice", input: {} })).body.output).toBe(1);
    const lost = own<Call>("POST", path, { sessionId: "ice", input: { room: "ice" } });
    const id = await runningIn(api);
    home.signal("SIGSTOP");
    expect((await own("PUT", "/v1/tenants/acme/kv/waits/values/ice", { value: 1 })).status).toBe(200);
    const { status, body } = await lost;
    expect([status, body.id, body.effects, body.error?.code]).toEqual([502, id, "possible", "SANDBOX_CRASHED"]);
    // Meanwhile it counts as gone.
    expect((await own<Call>("POST", path, { sessionId: "ice", input: {} })).body.output).toBe(1);
    home.signal("SIGCONT");
    await expect.poll(async () => (await api("GET", "/v1/tenants/acme/running-calls")).body.items).toEqual([]);
    // Its records are written when it has ended.
    await home.end("SIGTERM");
    const stored = await recordsOf("ice");
    expect(stored.filter((call) => call.id === id)).toMatchObject([{ state: "failed", effects: "possible" }]);
    expect(stored).toHaveLength(3);
  });
});
