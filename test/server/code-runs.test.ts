// Durable code of the server's code mode, on both databases: it waits for approvals of the tenant's policy, for events, times and answers, continues
// in another process, and is one of the tenant's runs.
import { spawn } from "node:child_process";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { type CodeClient, connectCodeMode } from "./support/code-mode-client.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const POLL = { interval: 200 } as const;
const PATIENT = { timeoutMs: 120_000 };
const SERVER = fileURLToPath(new URL("./support/server-child.ts", import.meta.url));
/** Counts what it has done for an id. */
const DELETE = `
  export const capabilities = { kv: true };
  export const inputSchema = { type: "object", properties: { id: { type: "number" } }, required: ["id"] };
  export default async ({ id }, ctx) => {
    await ctx.kv.set("deleted-" + id, ((await ctx.kv.get("deleted-" + id)) ?? 0) + 1);
    return { deleted: id };
  };`;

interface Run {
  readonly id: string;
  readonly kind: string;
  readonly tool: string;
  readonly version: number | null;
  readonly state: string;
  readonly input: { readonly code: string; readonly language: string };
  readonly output: { readonly status: string; readonly value: unknown };
  readonly error: { readonly code: string } | null;
  readonly waits: readonly {
    readonly id: number;
    readonly kind: string;
    readonly message?: string;
    readonly until?: number;
  }[];
}
interface Call {
  readonly id: string;
  readonly tool: string;
  readonly state: string;
  readonly mode: string;
}
interface Page<Item> {
  readonly items: readonly Item[];
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("durable code with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let adminKey = "";
  let key = "";
  const base = "/v1/tenants/acme";
  const start = async (): Promise<void> => {
    server = await createServer({ ...store.options, port: 0, logLevel: "silent", warmPythonProcesses: 0 });
    adminKey ||= server.adminKey ?? "";
  };
  const api: ReturnType<typeof apiOf> = (...args) => apiOf(server, adminKey)(...args);
  const restart = async (): Promise<void> => {
    await server.close({ drainMs: 0 });
    await start();
  };
  const keyOf = async (tenant: string): Promise<string> => {
    const scopes = ["calls:run", "tools:read"];
    return (await api<{ key: string }>("POST", `/v1/tenants/${tenant}/keys`, { name: "k", scopes })).body.key;
  };
  const deploy = async (tenant: string, name: string, source: string): Promise<void> => {
    const deployed = await api("POST", `/v1/tenants/${tenant}/tools`, { name, source, approve: true });
    expect(deployed.status).toBe(201);
  };
  const connect = (tenant = "acme", own = key): Promise<CodeClient> => connectCodeMode(server.url, tenant, own);
  const getRun = async (id: string): Promise<Run> => (await api<Run>("GET", `${base}/runs/${id}`)).body;
  const deleted = async (id: number): Promise<unknown> =>
    (await api<{ value: unknown }>("GET", `${base}/kv/delete_item/values/deleted-${id}`)).body.value;
  const open = () =>
    openDatabase({
      dataDir: store.options.dataDir,
      url: store.options.database,
      onError: (error) => expect.fail(String(error)),
    });

  beforeAll(async () => {
    store = await stores.create(kind);
    await start();
    for (const id of ["acme", "beta", "strict", "gone"]) {
      const policy = { limits: PATIENT, ...(id === "acme" ? { approvals: { tools: ["delete_*"] } } : {}) };
      expect((await api("POST", "/v1/tenants", { id, policy })).status).toBe(201);
    }
    await deploy("acme", "delete_item", DELETE);
    await deploy("acme", "list_items", "export default () => [1, 2, 3];");
    key = await keyOf("acme");
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    await store[Symbol.asyncDispose]();
  });

  test("waits for an approval of the tenant's policy, which its client cannot give, and continues after a restart", async () => {
    const code = `
      console.log("start");
      const items = await tools.list_items({});
      const { deleted } = await tools.delete_item({ id: 7 });
      console.log("end");
      return [items.length, deleted];`;
    let id = "";
    {
      const onElicit = (): Promise<never> => expect.fail("The client must not be asked");
      await using code_ = await connectCodeMode(server.url, "acme", key, onElicit);
      expect((await code_.client.listTools()).tools.map(({ name }) => name)).toEqual([
        "get_run",
        "run_code",
        "search_tools",
      ]);
      const output = await code_.run(code);
      const message = 'The code wants to call the tool "delete_item" with {"id":7}. Approve this call?';
      expect(output).toMatchObject({ status: "suspended", run: { waits: [{ kind: "approval", message }] } });
      id = output.run?.id ?? "";
      expect(await code_.get(id)).toEqual(output);
    }
    const listed = await api<Page<Run>>("GET", `${base}/runs?kind=code&state=suspended`);
    expect(listed.body.items).toMatchObject([{ id, kind: "code", tool: "run_code", version: null }]);
    expect((await api<Page<Run>>("GET", `${base}/runs?kind=tool`)).body.items).toEqual([]);
    const run = await getRun(id);
    expect(run).toMatchObject({ state: "suspended", input: { code, language: "javascript" } });
    const [wait] = run.waits;
    expect(wait?.until).toBeGreaterThan(Date.now());
    expect((await api("GET", `${base}/calls/${id}`)).status).toBe(404);

    await restart();
    const approved = await api<Run>("POST", `${base}/runs/${id}/waits/${wait?.id}/approve`, { reason: "fine" });
    expect(approved.body).toMatchObject({ state: "succeeded", output: { status: "ok", value: [3, 7] } });
    expect((await api("POST", `${base}/runs/${id}/waits/${wait?.id}/approve`, {})).status).toBe(409);
    expect(await deleted(7)).toBe(1);
    await using after = await connect();
    expect(await after.get(id)).toMatchObject({ status: "ok", value: [3, 7], logs: ["start", "end"] });
    const { body: call } = await api<Call>("GET", `${base}/calls/${id}`);
    expect(call).toMatchObject({ id, mode: "run", state: "succeeded", tool: "run_code" });
    const tree = await api<Page<Call>>("GET", `${base}/calls/${id}/tree`);
    expect(tree.body.items.map(({ tool, state }) => [tool, state])).toEqual([
      ["run_code", "succeeded"],
      ["list_items", "succeeded"],
      ["delete_item", "succeeded"],
    ]);
    expect((await api<Page<Call>>("GET", `${base}/calls?tool=run_code`)).body.items.map((one) => one.id)).toEqual([id]);
    expect((await api<Page<unknown>>("GET", `${base}/approvals?kind=call`)).body.items).toEqual([]);
    const audit = await api<Page<{ action: string; target: string; details: object }>>("GET", `${base}/audit`);
    expect(audit.body.items.filter(({ target }) => target === id)).toMatchObject([
      {
        action: "run.approved",
        details: { wait: wait?.id, reason: "fine", tool: "delete_item", toolDigest: expect.any(String) },
      },
    ]);
  });

  test("webhooks and the list of problems say that code waits for a person, each time once", async () => {
    const events = ["run.waiting", "approval.requested"];
    const { id } = (await api<{ id: string }>("POST", `${base}/webhooks`, { url: "https://hooks.invalid/", events }))
      .body;
    await using code = await connect();
    const { run } = await code.run(`
      const both = Promise.all([ctx.waitFor({ event: "go" }), tools.delete_item({ id: 6 })]);
      return (await both).length;`);
    const waits = (await getRun(run?.id ?? "")).waits;
    const approval = waits.find((wait) => wait.kind === "approval");
    await api("POST", `${base}/runs/${run?.id}/events`, { name: "go" });
    expect((await getRun(run?.id ?? "")).waits).toMatchObject([{ id: approval?.id }]);
    const { body: deliveries } = await api<Page<{ body: object }>>("GET", `${base}/webhooks/${id}/deliveries`);
    const wait = { id: approval?.id, kind: "approval", tool: "delete_item", until: approval?.until };
    expect(deliveries.items.map(({ body }) => body)).toMatchObject([
      { type: "run.waiting", data: { runId: run?.id, kind: "code", tool: "run_code", waits: [wait] } },
    ]);
    // An overview may be some seconds old.
    const problems = async (): Promise<readonly (readonly unknown[])[]> => {
      const { body } = await api<Page<{ kind: string; target: string; count: number }>>("GET", `${base}/problems`);
      const runs = body.items.filter((one) => one.kind === "runs_waiting_for_approval");
      return runs.map(({ target, count }) => [target, count]);
    };
    await expect.poll(problems, POLL).toEqual([["run_code", 1]]);
    const denied = await api("POST", `${base}/runs/${run?.id}/waits/${approval?.id}/deny`, {});
    expect(denied.body).toMatchObject({ state: "succeeded", output: { status: "failed" } });
    await expect.poll(problems, POLL).toEqual([]);
  });

  test("a denied call is not made, and neither is one whose tool has changed since it was shown", async () => {
    await using code = await connect();
    const source = "return await tools.delete_item({ id: 8 }).catch((error) => [error.code, error.message]);";
    const [denied, changed] = [await code.run(source), await code.run(source)];
    const decide = (output: typeof denied, decision: string) =>
      api<Run>("POST", `${base}/runs/${output.run?.id}/waits/${output.run?.waits[0]?.id}/${decision}`, {
        reason: "no",
      });
    expect((await decide(denied, "deny")).body.output.value).toEqual([
      "APPROVAL_REQUIRED",
      expect.stringContaining("denied and not run: no"),
    ]);
    await deploy("acme", "delete_item", `${DELETE} // in another way`);
    expect((await decide(changed, "approve")).body.output.value).toEqual([
      "TOOL_UNAVAILABLE",
      expect.stringContaining("changed since"),
    ]);
    expect(await deleted(8)).toBeUndefined();
  });

  test("waits for a time, an event and an answer", async () => {
    await using code = await connect();
    const source = `
      await ctx.waitFor({ durationMs: 1_000 });
      const paid = await ctx.waitFor<number>({ event: "paid" });
      const { content } = await ctx.elicit({
        message: "Which size?",
        requestedSchema: { type: "object", properties: { size: { type: "integer" } }, required: ["size"] },
      });
      return [paid, content];`;
    const output = await code.run(source, { language: "typescript" });
    expect(output.status).toBe("suspended");
    const id = output.run?.id ?? "";
    const kinds = async (): Promise<unknown> => (await getRun(id)).waits.map((wait) => wait.kind);
    await expect.poll(kinds, POLL).toEqual(["event"]);
    // The time may have passed before its client saw what the run waits for.
    const { body: journal } = await api<Page<{ readonly wait?: { readonly kind: string } }>>(
      ...(["GET", `${base}/runs/${id}/journal`] as const),
    );
    expect(journal.items.flatMap(({ wait }) => wait?.kind ?? [])).toEqual(["duration", "event"]);
    await api("POST", `${base}/runs/${id}/events`, { name: "paid", value: 5 });
    expect(await kinds()).toEqual(["elicitation"]);
    const path = `${base}/runs/${id}/waits/${(await getRun(id)).waits[0]?.id}/answer`;
    expect((await api("POST", path, { action: "accept", content: { size: "L" } })).status).toBe(422);
    await api("POST", path, { action: "accept", content: { size: 3 } });
    expect(await code.get(id)).toMatchObject({ status: "ok", value: [5, { size: 3 }] });
  });

  test.for(["auto", "legacy"] as const)(
    "asks a connected client (%s) that can answer before the run waits",
    async (mode) => {
      const asked: string[] = [];
      const onElicit = async ({ params }: { readonly params: object }) => {
        const { message } = params as { readonly message: string };
        asked.push(message);
        return message === "Sure?"
          ? { action: "decline" as const }
          : { action: "accept" as const, content: { size: asked.length } };
      };
      const source = `
      const form = { type: "object", properties: { size: { type: "integer" } }, required: ["size"] };
      const ask = (message, more = {}) => ctx.elicit({ message, requestedSchema: form, ...more });
      const first = await ask("Which size?");
      const others = await Promise.all([ask("Sure?"), ask("How many?", { key: "many" })]);
      await ctx.waitFor({ event: "go" });
      return [first, ...others, await ask("And later?")];`;
      await using code = await connectCodeMode(server.url, "acme", key, onElicit, mode);
      const { status, run } = await code.run(source);
      expect([status, run?.waits]).toMatchObject(["suspended", [{ kind: "event" }]]);
      expect(asked.toSorted()).toEqual(["How many?", "Sure?", "Which size?"]);
      const id = run?.id ?? "";
      await api("POST", `${base}/runs/${id}/events`, { name: "go" });
      // Its client does not wait for a response any more.
      const [wait] = (await getRun(id)).waits;
      expect(wait).toMatchObject({ kind: "elicitation", message: "And later?" });
      await api("POST", `${base}/runs/${id}/waits/${wait?.id}/answer`, { action: "accept", content: { size: 9 } });
      const answer = (size: number) => ({ action: "accept", content: { size } });
      const { value } = await code.get(id);
      expect(value).toMatchObject([answer(1), { action: "decline" }, { action: "accept" }, answer(9)]);
      expect(asked).toHaveLength(3);
    },
  );

  // One database is enough, because starting interpreters takes most of the time. With Postgres, Python continues in another replica below.
  test.runIf(kind === "sqlite")("Python waits too, and a value that was saved before is there", async () => {
    await using code = await connect();
    const source = `
await result.save("early", 1)
paid = await ctx.waitFor(event="paid")
[paid, await result.load("early")]`;
    const { run, ...output } = await code.run(source, { language: "python" });
    expect(output.error).toBeUndefined();
    expect([output.status, run?.waits]).toMatchObject(["suspended", [{ kind: "event" }]]);
    await restart();
    await api("POST", `${base}/runs/${run?.id}/events`, { name: "paid", value: 5 });
    await using after = await connect();
    expect(await after.get(run?.id ?? "")).toMatchObject({ status: "ok", value: [5, 1] });
  });

  test("a key finds only the code that it has started", async () => {
    await using code = await connect();
    const { run } = await code.run('return await ctx.waitFor({ event: "go" });');
    const id = run?.id ?? "";
    const missing = expect.stringContaining("There is no run with this id");
    await using sameTenant = await connect("acme", await keyOf("acme"));
    await using otherTenant = await connect("beta", await keyOf("beta"));
    for (const other of [sameTenant, otherTenant]) expect(await other.failure("get_run", { id })).toEqual(missing);
    expect((await api("GET", `/v1/tenants/beta/runs/${id}`)).status).toBe(404);
    await deploy("acme", "plain", "export default () => 1;");
    const { body } = await apiOf(server, key)<Run>("POST", `${base}/runs`, { tool: "plain" });
    expect(await code.failure("get_run", { id: body.id })).toEqual(missing);
    expect((await code.get(id)).status).toBe("suspended");
  });

  test("is cancelled with the API, and when its client gives up before it has the id; both undo what it did", async () => {
    await deploy(
      "acme",
      "mark",
      `export const capabilities = { kv: true };
       export default async ({ key, value }, ctx) => { await ctx.kv.set(key, value); };`,
    );
    const value = async (name: string): Promise<unknown> =>
      (await api<{ value: unknown }>("GET", `${base}/kv/mark/values/${name}`)).body.value;
    const source = (name: string, last: string): string => `
      await tools.mark({ key: "${name}", value: "done" });
      await ctx.onRollback(async () => { await tools.mark({ key: "${name}", value: "undone" }); });
      ${last}`;
    await using code = await connect();
    const { run } = await code.run(source("a", 'await ctx.waitFor({ event: "go" });'));
    expect((await api("POST", `${base}/runs/${run?.id}/cancel`)).status).toBe(202);
    expect([(await getRun(run?.id ?? "")).state, await value("a")]).toEqual(["cancelled", "undone"]);
    expect(await code.get(run?.id ?? "")).toMatchObject({ status: "failed", error: { code: "CANCELLED" } });

    const controller = new AbortController();
    // What undoes it is known when this has run.
    const last = `await tools.mark({ key: "ready", value: true });
      await new Promise((resolve) => setTimeout(resolve, 100_000));`;
    const running = code.run(source("b", last), {}, controller.signal);
    await expect.poll(() => value("ready"), POLL).toBe(true);
    controller.abort();
    await expect(running).rejects.toThrow();
    await expect.poll(() => value("b"), POLL).toBe("undone");
    await expect
      .poll(async () => (await api<Page<Run>>("GET", `${base}/runs?kind=code&state=cancelled`)).body.items.length, POLL)
      .toBe(2);
  });

  test("a tenant's own tool with the name of the one that runs code is another one", async () => {
    await deploy("acme", "run_code", "export default () => 'own';");
    await using code = await connect();
    const { run } = await code.run('await ctx.waitFor({ event: "go" }); return "code";');
    expect((await getRun(run?.id ?? "")).version).toBeNull();
    const { body } = await api<Run>("POST", `${base}/runs`, { tool: "run_code" });
    expect(body).toMatchObject({ kind: "tool", version: 1, output: "own" });
    await api("POST", `${base}/runs/${run?.id}/events`, { name: "go" });
    expect(await code.get(run?.id ?? "")).toMatchObject({ status: "ok", value: "code" });
    await code.run('await ctx.waitFor({ event: "never" });');
    expect((await api("DELETE", `${base}/tools/run_code`)).status).toBe(200);
  });

  test("a policy limits the code that waits, and may keep nothing of it", async () => {
    const policy = { limits: PATIENT, runs: { maxOpen: 1 }, retention: { keepContent: false } };
    expect((await api("PATCH", "/v1/tenants/strict", { policy })).status).toBe(200);
    await using code = await connect("strict", await keyOf("strict"));
    expect(await code.run("return 1;")).toMatchObject({ status: "ok", value: 1 });
    const { run } = await code.run('return await ctx.waitFor({ event: "go" });');
    expect(await code.failure("run_code", { code: "return 2;" })).toContain("QUOTA_EXCEEDED");
    const path = "/v1/tenants/strict";
    expect((await api("POST", `${path}/runs/${run?.id}/events`, { name: "go", value: 3 })).status).toBe(200);
    const ended = await code.get(run?.id ?? "");
    expect([ended.status, ended.value, ended.hint]).toEqual(["ok", undefined, expect.stringContaining("no contents")]);
    const calls = await api<Page<Call>>("GET", `${path}/calls?tool=run_code`);
    expect(calls.body.items.map(({ mode, state }) => `${mode} ${state}`).toSorted()).toEqual([
      "run succeeded",
      "run succeeded",
      "sync failed",
    ]);
  });

  test("is deleted and exported with its tenant", async () => {
    await using code = await connect("gone", await keyOf("gone"));
    const { run } = await code.run('return await ctx.waitFor({ event: "go" });');
    const exported = await fetch(`${server.url}/v1/tenants/gone/export`, {
      headers: { authorization: `Bearer ${adminKey}` },
    });
    const rows = (await exported.text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    expect(rows).toContainEqual(expect.objectContaining({ type: "runs", id: run?.id, kind: "code" }));
    expect((await api("DELETE", "/v1/tenants/gone")).status).toBe(200);
    await using database = await open();
    for (const table of ["runs", "run_requests", "run_entries"] as const)
      expect(await database.db.selectFrom(table).select("tenant_id").where("tenant_id", "=", "gone").execute()).toEqual(
        [],
      );
  });
});

describe("code with two replicas", () => {
  const { apis, servers } = useReplicas(stores, 2, ["acme"]);
  const base = "/v1/tenants/acme";

  test.for(["typescript", "python"] as const)(
    "continues in the one that receives the decision, in %s",
    async (language) => {
      const [one, two] = apis as readonly [Api, Api];
      const [first, second] = servers.map(({ url }) => url);
      await one("PATCH", base, { policy: { approvals: { tools: ["delete_*"] } } });
      await one("POST", `${base}/tools`, { name: "delete_item", source: DELETE, approve: true });
      const scopes = ["calls:run", "tools:read"];
      const { key } = (await one<{ key: string }>("POST", `${base}/keys`, { name: "k", scopes })).body;
      await using code = await connectCodeMode(first ?? "", "acme", key);
      const source = { typescript: "await tools.delete_item({ id: 5 })", python: "await tools.delete_item(id=5)" };
      const { run, status } = await code.run(source[language], { language });
      expect(status).toBe("suspended");
      const path = `${base}/runs/${run?.id}/waits/${run?.waits[0]?.id}/approve`;
      expect((await two<Run>("POST", path, {})).body).toMatchObject({ state: "succeeded", output: { status: "ok" } });
      await using other = await connectCodeMode(second ?? "", "acme", key);
      for (const model of [code, other])
        expect(await model.get(run?.id ?? "")).toMatchObject({ status: "ok", value: { deleted: 5 } });
    },
  );
});

test.for(STORES)("with %s, code continues after its server was killed, and makes no call twice", async (kind) => {
  await using store = await stores.create(kind);
  /** How often each path was requested. */
  const effects = new Map<string, number>();
  const counter = createHttpServer((request, response) => {
    const path = request.url ?? "";
    effects.set(path, (effects.get(path) ?? 0) + 1);
    // The second one answers never: its server is killed meanwhile.
    if (path !== "/second") response.end("done");
  });
  await new Promise<void>((resolve) => counter.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(counter.address() as AddressInfo).port}`;
  let adminKey = "";
  const start = async () => {
    const child = spawn(process.execPath, [SERVER, JSON.stringify(store.options)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
    const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next();
    const { url, adminKey: created } = JSON.parse(String(value)) as { url: string; adminKey?: string };
    adminKey ||= created ?? "";
    const end = async (signal: "SIGKILL"): Promise<void> => {
      child.kill(signal);
      await exited;
    };
    return { url, api: apiOf({ url, adminKey }), end };
  };
  let server = await start();
  const base = "/v1/tenants/acme";
  const egress = { allow: [{ to: origin, addresses: ["127.0.0.0/8"] }] };
  await server.api("POST", "/v1/tenants", { id: "acme", policy: { egress, limits: PATIENT } });
  const source = `export const capabilities = { fetch: true };
    export default async ({ path }) => await (await fetch("${origin}" + path)).text();`;
  expect((await server.api("POST", `${base}/tools`, { name: "act", source, approve: true })).status).toBe(201);
  const scopes = ["calls:run", "tools:read"];
  const { key } = (await server.api<{ key: string }>("POST", `${base}/keys`, { name: "k", scopes })).body;
  const code = `
    const first = await tools.act({ path: "/first" });
    await ctx.waitFor({ event: "go" });
    const second = await tools.act({ path: "/second" }).catch((error) => error.code);
    return [first, second, await tools.act({ path: "/third" })];`;
  const before = await connectCodeMode(server.url, "acme", key);
  const output = await before.run(code);
  expect(output.status).toBe("suspended");
  const id = output.run?.id ?? "";
  await before[Symbol.asyncDispose]();
  await server.end("SIGKILL");

  server = await start();
  const event = { name: "go" };
  await server.api("POST", `${base}/runs/${id}/events`, event, { prefer: "respond-async" });
  await expect.poll(() => effects.get("/second"), POLL).toBe(1);
  await server.end("SIGKILL");

  server = await start();
  const state = async (): Promise<unknown> => (await server.api<Run>("GET", `${base}/runs/${id}`)).body.state;
  // The lease of the server that was killed ends first.
  await expect.poll(state, { interval: 1_000 }).toBe("succeeded");
  {
    await using after = await connectCodeMode(server.url, "acme", key);
    expect(await after.get(id)).toMatchObject({ status: "ok", value: ["done", "EFFECTS_POSSIBLE", "done"] });
  }
  const calls = await server.api<Page<Call>>("GET", `${base}/calls?tool=run_code`);
  expect(calls.body.items.map((call) => [call.id, call.mode])).toEqual([[id, "run"]]);
  await server.end("SIGKILL");
  expect(Object.fromEntries(effects)).toEqual({ "/first": 1, "/second": 1, "/third": 1 });
  counter.closeAllConnections();
  await new Promise((resolve) => counter.close(resolve));
});
