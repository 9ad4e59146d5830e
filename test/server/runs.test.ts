// Durable runs of the server: they are started, answered, listed and cancelled over the API, continue by themselves, and are kept within the
// tenant's policy. On both databases.
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deleteExpiredCalls } from "../../src/server/calls/retention.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { apiOf } from "./support/api.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const REFUND = `
  export const capabilities = { waitFor: true, kv: true };
  export default async ({ amount, password = "" }, ctx) => {
    await ctx.kv.set("requested", { amount, password });
    const { approved, reason } = await ctx.waitFor({ approval: "Refund " + amount + " EUR?" });
    if (!approved) return { denied: reason };
    const paid = await ctx.waitFor({ event: "paid" });
    return { refunded: amount, paid, by: 1 };
  };`;
const PATIENT = { timeoutMs: 120_000 };
const POLL = { interval: 200 } as const;

interface Run {
  readonly id: string;
  readonly state: string;
  readonly version: number;
  readonly keyId: string;
  readonly waits: readonly { readonly id: number; readonly kind: string; readonly message?: string }[];
  readonly output: unknown;
  readonly error: { readonly code: string } | null;
  readonly input: unknown;
  readonly attempts: number;
}
interface Entry {
  readonly position: number;
  readonly at: number;
  readonly type: string;
  readonly name?: string;
  readonly input?: unknown;
}
interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const running = useServer(stores, kind, ["acme", "beta", "strict", "gone"]);
  const { api } = running;
  const base = "/v1/tenants/acme";
  const deploy = async (tenant: string, name: string, source: string): Promise<void> => {
    const deployed = await api("POST", `/v1/tenants/${tenant}/tools`, { name, source, approve: true });
    expect(deployed.status).toBe(201);
  };
  const start = async (input: unknown, tool = "refund", tenant = "acme"): Promise<Run> => {
    const { status, body } = await api<Run>("POST", `/v1/tenants/${tenant}/runs`, { tool, input });
    expect([status, body]).toEqual([200, expect.anything()]);
    return body;
  };
  const get = async (id: string): Promise<Run> => (await api<Run>("GET", `${base}/runs/${id}`)).body;
  const keyOf = async (tenant: string, scopes: readonly string[]): Promise<string> =>
    (await api<{ key: string }>("POST", `/v1/tenants/${tenant}/keys`, { name: "k", scopes })).body.key;
  const open = () =>
    openDatabase({
      dataDir: running.store.options.dataDir,
      url: running.store.options.database,
      onError: (error) => expect.fail(String(error)),
    });

  beforeAll(async () => {
    // Calls of a busy machine wait long for a process.
    for (const tenant of ["acme", "beta", "gone"])
      expect((await api("PATCH", `/v1/tenants/${tenant}`, { policy: { limits: PATIENT } })).status).toBe(200);
    await deploy("acme", "refund", REFUND);
    await deploy("acme", "plain", "export default ({ n }) => n + 1;");
  });

  test("a run with long inputs of capabilities ends, and nothing of these inputs is shown", async () => {
    const source = `
      export const capabilities = { waitFor: true, kv: true };
      export default async ({ text }, ctx) => {
        await ctx.kv.set("long", { tokens: [text] });
        await ctx.waitFor({ event: "go" });
        return (await ctx.kv.get("long")).tokens[0].length;
      };`;
    await deploy("acme", "long", source);
    const run = await start({ text: "hunter2".repeat(1_000) }, "long");
    expect(run.state).toBe("suspended");
    const journal = async (): Promise<string> =>
      JSON.stringify((await api("GET", `${base}/runs/${run.id}/journal`)).body);
    const before = await journal();
    expect([before.includes('"name":"kv","input":null'), before.includes("hunter2")]).toEqual([true, false]);
    const { body: ended } = await api<Run>("POST", `${base}/runs/${run.id}/events`, { name: "go" });
    expect([ended.error, ended.state, ended.output]).toEqual([null, "succeeded", 7_000]);
    const after = await journal();
    expect([after.includes('"name":"kv","input":null'), after.length > 100]).toEqual([true, true]);
  });

  test("a run waits for the approval of a call that it makes, by the policy of its tenant", async () => {
    await deploy("acme", "pay", "export default ({ amount }) => 'paid ' + amount;");
    const caller = `export const capabilities = { tools: ["pay"], waitFor: true };
      export default async ({ amount }, ctx) => ({ first: await ctx.tools.call("pay", { amount }), again: amount });`;
    await deploy("acme", "orders", caller);
    const setApprovals = (tools: readonly string[]) =>
      api("PATCH", base, { policy: { limits: PATIENT, approvals: { tools } } });
    expect((await setApprovals(["pay"])).status).toBe(200);
    const run = await start({ amount: 5 }, "orders");
    const message = 'The tool "orders" wants to call the tool "pay" with {"amount":5}. Approve this call?';
    expect([run.state, run.waits]).toEqual(["suspended", [expect.objectContaining({ kind: "approval", message })]]);
    const { body: approvals } = await api<Page<unknown>>("GET", `${base}/approvals?kind=call`);
    expect(approvals.items).toEqual([]);
    const path = `${base}/runs/${run.id}/waits/${run.waits[0]?.id}/approve`;
    const { body: ended } = await api<Run>("POST", path, {});
    expect([ended.state, ended.output]).toEqual(["succeeded", { first: "paid 5", again: 5 }]);
    expect((await setApprovals([])).status).toBe(200);
  });

  // SQLite has one connection, so nothing happens between two statements of a transaction.
  test.runIf(kind === "postgres")("an event for a run that ends at this moment is a conflict", async () => {
    const run = await start({ amount: 5 });
    await using database = await open();
    const { db } = database;
    const ended = Promise.withResolvers<{ readonly status: number }>();
    await db.transaction().execute(async (transaction) => {
      await transaction.updateTable("runs").set({ state: "failed" }).where("id", "=", run.id).execute();
      ended.resolve(api("POST", `${base}/runs/${run.id}/events`, { name: "paid" }));
      const isBlocked = async (): Promise<boolean> => {
        const { rows } = await sql`select 1 from pg_locks where not granted`.execute(db);
        return rows.length > 0;
      };
      await expect.poll(isBlocked, { timeout: 100_000 }).toBe(true);
    });
    expect(await ended.promise).toMatchObject({ status: 409, body: { error: { code: "CONFLICT" } } });
    await db.deleteFrom("runs").where("id", "=", run.id).execute();
  });

  test("a run waits for a person and an event, and becomes a call when it has ended", async () => {
    const run = await start({ amount: 50, password: "hunter2hunter2" });
    expect(run).toMatchObject({ state: "suspended", version: 1, input: { amount: 50 }, output: null, error: null });
    expect(run.waits).toEqual([{ id: 2, kind: "approval", message: "Refund 50 EUR?" }]);
    expect(JSON.stringify(run)).not.toContain("hunter2");
    const path = `${base}/runs/${run.id}`;
    expect((await api("POST", `${path}/waits/1/approve`, {})).status).toBe(409);
    const approved = await api<Run>("POST", `${path}/waits/2/approve`, { reason: "fine" });
    expect([approved.status, approved.body.waits]).toEqual([200, [{ id: 3, kind: "event", name: "paid" }]]);
    expect((await api("POST", `${path}/waits/2/deny`, {})).status).toBe(409);
    const { body: ended } = await api<Run>("POST", `${path}/events`, { name: "paid", value: { by: "card" } });
    expect(ended).toMatchObject({ state: "succeeded", waits: [], attempts: 3 });
    expect(ended.output).toEqual({ refunded: 50, paid: { by: "card" }, by: 1 });
    expect((await get(run.id)).output).toEqual(ended.output);
    expect((await api("POST", `${path}/events`, { name: "paid" })).status).toBe(409);
    const { body: call } = await api("GET", `${base}/calls/${run.id}`);
    expect(call).toMatchObject({
      id: run.id,
      mode: "run",
      state: "succeeded",
      tool: "refund",
      version: 1,
      attempts: 3,
    });
    const { body: audit } = await api<Page<{ action: string; target: string; details: object }>>(
      "GET",
      `${base}/audit`,
    );
    const entries = audit.items.filter(({ target }) => target === run.id);
    expect(entries.map(({ action, details }) => [action, details])).toEqual([
      ["run.event", { event: "paid" }],
      ["run.approved", { wait: 2, reason: "fine" }],
    ]);
  });

  test("the journal has the calls of capabilities in order, in pages, and no secrets", async () => {
    const { id } = await start({ amount: 1, password: "hunter2hunter2" });
    await api("POST", `${base}/runs/${id}/waits/2/deny`, { reason: "no" });
    expect((await get(id)).output).toEqual({ denied: "no" });
    const entries: Entry[] = [];
    for (let cursor: string | undefined; ; ) {
      const query = cursor === undefined ? "" : `&cursor=${cursor}`;
      const { body } = await api<Page<Entry>>("GET", `${base}/runs/${id}/journal?limit=2${query}`);
      entries.push(...body.items);
      if (body.next === null) break;
      cursor = body.next;
    }
    const shown = entries.filter(({ type }) => type !== "turns");
    expect(shown).toMatchObject([
      { type: "start" },
      { type: "request", call: 1, name: "kv" },
      { type: "answer", call: 1 },
      { type: "request", call: 2, name: "waitFor", wait: { kind: "approval", message: "Refund 1 EUR?" } },
      { type: "decision", wait: 2, approved: false, reason: "no" },
      { type: "answer", call: 2, value: { approved: false, reason: "no" } },
    ]);
    expect(entries.map(({ position }) => position)).toEqual(entries.map((_, index) => index));
    expect(entries.every(({ at }) => at > 0)).toBe(true);
    expect(JSON.stringify(entries)).not.toContain("hunter2");
    await using database = await open();
    const stored = await database.db.selectFrom("run_entries").select("text").where("run_id", "=", id).execute();
    expect(JSON.stringify(stored)).not.toContain("hunter2");
  });

  test("lists runs by tool and state, in pages", async () => {
    await start({ n: 1 }, "plain");
    const waiting = [await start({ amount: 1 }), await start({ amount: 2 })].map(({ id }) => id).reverse();
    const list = async (query: string): Promise<Page<Run>> =>
      (await api<Page<Run>>("GET", `${base}/runs?${query}`)).body;
    const { items } = await list("state=suspended&tool=refund");
    expect(items.map(({ id }) => id)).toEqual(waiting);
    expect(items[0]).not.toHaveProperty("input");
    expect((await list("tool=plain")).items).toMatchObject([{ state: "succeeded", tool: "plain" }]);
    const first = await list("state=suspended&limit=1");
    expect([first.items.map(({ id }) => id), first.next]).toEqual([[waiting[0]], waiting[0]]);
    expect((await list(`state=suspended&limit=1&cursor=${first.next}`)).items.map(({ id }) => id)).toEqual([
      waiting[1],
    ]);
    expect((await api("GET", `${base}/runs?state=waiting`)).status).toBe(422);
    expect((await api("GET", `${base}/runs?unknown=1`)).status).toBe(422);
    for (const id of waiting) expect((await api("POST", `${base}/runs/${id}/cancel`)).status).toBe(202);
    expect((await get(waiting[0] ?? "")).state).toBe("cancelled");
    expect((await api("POST", `${base}/runs/${waiting[0]}/cancel`)).status).toBe(409);
  });

  test("a repeated request with the same idempotency key returns the first run", async () => {
    const body = { tool: "refund", input: { amount: 7 } };
    const send = (given: object, key = "order-7") =>
      api<Run>("POST", `${base}/runs`, given, { "idempotency-key": key, prefer: "respond-async" });
    const sent = await Promise.all([send(body), send(body), send(body)]);
    expect(new Set(sent.map(({ status, body: { id } }) => `${status} ${id}`)).size).toBe(1);
    const id = sent[0]?.body.id ?? "";
    expect((await send({ ...body, input: { amount: 8 } })).status).toBe(409);
    await expect.poll(async () => (await get(id)).state, POLL).toBe("suspended");
    expect((await send(body)).body).toMatchObject({ id, state: "suspended" });
    expect((await send({ tool: "none" }, "order-8")).status).toBe(404);
    expect((await send(body, "order-8")).status).toBe(202);
  });

  test("a repeated request that fails leaves the key to a run that is about to begin", async () => {
    const body = { tool: "refund", input: { amount: 9 } };
    const headers = { "idempotency-key": "order-9", prefer: "respond-async" };
    const send = () => api<Run>("POST", `${base}/runs`, body, headers);
    const id = (await send()).body.id;
    await expect.poll(async () => (await get(id)).state, POLL).toBe("suspended");
    // As between the request and the beginning of its run.
    await using database = await open();
    await database.db.deleteFrom("runs").where("id", "=", id).execute();
    const setPolicy = (more: object) => api("PATCH", base, { policy: { limits: PATIENT, ...more } });
    expect((await setPolicy({ approvals: { tools: ["refund"] } })).status).toBe(200);
    expect((await send()).body.error).toMatchObject({ code: "APPROVAL_REQUIRED" });
    expect((await setPolicy({})).status).toBe(200);
    const { status, body: run } = await send();
    expect([status, run.id]).toEqual([202, id]);
  });

  test("continues by itself after a time, and stays on its version", async () => {
    const timed = (version: number): string => `export const capabilities = { waitFor: true };
      export default async (_, ctx) => { await ctx.waitFor({ durationMs: 6_000 }); return ${version}; };`;
    await deploy("acme", "timed", timed(1));
    const run = await start({}, "timed");
    expect(run.waits).toMatchObject([{ kind: "duration" }]);
    await deploy("acme", "timed", timed(2));
    expect((await start({}, "timed")).version).toBe(2);
    expect((await api("DELETE", `${base}/tools/timed`)).status).toBe(409);
    await expect.poll(async () => (await get(run.id)).state, POLL).toBe("succeeded");
    expect((await get(run.id)).output).toBe(1);
  });

  test("a run that is under way is cancelled, and one of a suspended tenant waits", async () => {
    await deploy("acme", "slow", "export default () => new Promise((resolve) => setTimeout(resolve, 60_000));");
    const { body } = await api<Run>("POST", `${base}/runs`, { tool: "slow" }, { prefer: "respond-async" });
    expect(body.state).toBe("running");
    expect((await api("POST", `${base}/runs/${body.id}/cancel`)).status).toBe(202);
    await expect.poll(async () => (await get(body.id)).state, POLL).toBe("cancelled");

    const run = await start({}, "timed");
    await api("PATCH", base, { state: "suspended" });
    expect((await api("POST", `${base}/runs`, { tool: "plain" })).status).toBe(403);
    expect((await api("POST", `${base}/runs/${run.id}/events`, { name: "x" })).status).toBe(403);
    expect((await get(run.id)).state).toBe("suspended");
    await api("PATCH", base, { state: "active" });
    await expect.poll(async () => (await get(run.id)).state, POLL).toBe("succeeded");
  });

  test("each route needs its scope, and no other tenant sees a run", async () => {
    const { id } = await start({ amount: 1 });
    const other = apiOf(
      running.server,
      await keyOf("beta", ["calls:read", "calls:run", "calls:cancel", "calls:approve"]),
    );
    const paths = [
      ["GET", "", undefined, "calls:read"],
      ["GET", "/journal", undefined, "calls:read"],
      ["POST", "/events", { name: "x" }, "calls:run"],
      ["POST", "/waits/2/deny", {}, "calls:approve"],
      ["POST", "/cancel", undefined, "calls:cancel"],
    ] as const;
    for (const [method, path, body, scope] of paths) {
      expect((await other(method, `${base}/runs/${id}${path}`, body)).status).toBe(404);
      expect((await other(method, `/v1/tenants/beta/runs/${id}${path}`, body)).status).toBe(404);
      const without = apiOf(running.server, await keyOf("acme", ["usage:read"]));
      expect((await without(method, `${base}/runs/${id}${path}`, body)).status).toBe(403);
      const scoped = apiOf(running.server, await keyOf("acme", [scope]));
      expect((await scoped(method, `${base}/runs/${id}${path}`, body)).status).not.toBe(403);
    }
    expect((await other("GET", "/v1/tenants/beta/runs")).body).toEqual({ items: [], next: null });
  });

  test("a policy limits runs, and may deny that tools wait", async () => {
    const policy = {
      limits: PATIENT,
      runs: { maxOpen: 1, maxJournalLength: 100_000 },
      retention: { keepContent: false },
    };
    expect((await api("PATCH", "/v1/tenants/strict", { policy })).status).toBe(200);
    await deploy("strict", "refund", REFUND);
    const run = await start({ amount: 1 }, "refund", "strict");
    const path = `/v1/tenants/strict/runs`;
    const full = await api<{ error: { code: string } }>("POST", path, { tool: "refund", input: {} });
    expect([full.status, full.body.error.code]).toEqual([429, "QUOTA_EXCEEDED"]);
    const large = { name: "x", value: "x".repeat(110_000) };
    expect((await api("POST", `${path}/${run.id}/events`, large)).status).toBe(429);
    const deep = { name: "x", value: JSON.parse("[".repeat(1_500) + "]".repeat(1_500)) };
    const rejected = await api<{ error: { code: string } }>("POST", `${path}/${run.id}/events`, deep);
    expect([rejected.status, rejected.body.error.code]).toEqual([422, "PARAM_INVALID"]);
    const { body } = await api<Run>("POST", `${path}/${run.id}/waits/2/deny`, { reason: "no" });
    expect(body).toMatchObject({ state: "succeeded", output: { denied: "no" } });
    expect((await api<Run>("GET", `${path}/${run.id}`)).body).toMatchObject({
      state: "succeeded",
      input: {},
      output: null,
    });
    expect((await api<Page<Entry>>("GET", `${path}/${run.id}/journal`)).body.items).toEqual([]);
    for (const wrong of [{ maxOpen: 0 }, { lifetimeMinutes: "1" }, { unknown: 1 }])
      expect((await api("PATCH", "/v1/tenants/strict", { policy: { runs: wrong } })).status).toBe(422);
    await api("PATCH", "/v1/tenants/strict", { policy: { capabilities: ["kv"] } });
    const denied = await api("POST", "/v1/tenants/strict/tools", { name: "again", source: REFUND, approve: true });
    expect(denied.status).toBe(403);
  });

  test("a version that requests waitFor waits until an operator has approved it", async () => {
    await deploy("acme", "grows", "export default () => 1;");
    const { body } = await api<{ version: { state: string } }>("POST", `${base}/tools`, {
      name: "grows",
      source: "export const capabilities = { waitFor: true }; export default () => 2;",
    });
    expect(body.version.state).toBe("waiting_for_approval");
    expect((await start({}, "grows")).output).toBe(1);
  });

  test("runs of a tool that needs an approval need it when they start", async () => {
    await deploy(
      "acme",
      "drop",
      "export const annotations = { destructiveHint: true }; export default () => 'dropped';",
    );
    const path = `${base}/runs`;
    const denied = await api<{ error: { code: string } }>("POST", path, { tool: "drop" });
    expect(denied.body.error.code).toBe("APPROVAL_REQUIRED");
    const runner = apiOf(running.server, await keyOf("acme", ["calls:run"]));
    expect((await runner("POST", path, { tool: "drop", approve: true })).status).toBe(403);
    expect((await api<Run>("POST", path, { tool: "drop", approve: true })).body.output).toBe("dropped");
  });

  test("a run waits for the answer to an elicitation, which matches its form", async () => {
    await deploy(
      "acme",
      "form",
      `export const capabilities = { elicit: true };
       export default async (_, ctx) => await ctx.elicit({
         message: "Which size?",
         requestedSchema: { type: "object", properties: { size: { type: "integer" } }, required: ["size"] },
       });`,
    );
    const { id, waits } = await start({}, "form");
    expect(waits).toMatchObject([{ kind: "elicitation", message: "Which size?", requestedSchema: { type: "object" } }]);
    const path = `${base}/runs/${id}/waits/${waits[0]?.id}/answer`;
    expect((await api("POST", path, { action: "accept", content: { size: "L" } })).status).toBe(422);
    expect((await api("POST", path, { action: "yes" })).status).toBe(422);
    const { body } = await api<Run>("POST", path, { action: "accept", content: { size: 3 } });
    expect([body.state, body.output]).toEqual(["succeeded", { action: "accept", content: { size: 3 } }]);
    expect((await api("POST", path, { action: "decline" })).status).toBe(409);
  });

  test("a cancelled run is undone, also if it is under way", async () => {
    await deploy(
      "acme",
      "booking",
      `export const capabilities = { waitFor: true, kv: true };
       export default async ({ key, wait }, ctx) => {
         await ctx.kv.set(key, "booked");
         ctx.onRollback(async () => { await ctx.kv.set(key, "undone"); });
         await ctx.kv.set(key + "-ready", true);
         if (wait) await ctx.waitFor({ event: "go" });
         await new Promise((resolve) => setTimeout(resolve, 60_000));
       };`,
    );
    const value = async (key: string): Promise<unknown> =>
      (await api<{ value: unknown }>("GET", `${base}/kv/booking/values/${key}`)).body.value;
    const waiting = await start({ key: "a", wait: true }, "booking");
    expect((await api("POST", `${base}/runs/${waiting.id}/cancel`)).status).toBe(202);
    expect([(await get(waiting.id)).state, await value("a")]).toEqual(["cancelled", "undone"]);
    const input = { tool: "booking", input: { key: "b", wait: false } };
    const { body } = await api<Run>("POST", `${base}/runs`, input, { prefer: "respond-async" });
    await expect.poll(() => value("b-ready"), POLL).toBe(true);
    expect((await api("POST", `${base}/runs/${body.id}/cancel`)).status).toBe(202);
    await expect.poll(async () => (await get(body.id)).state, POLL).toBe("cancelled");
    expect(await value("b")).toBe("undone");
  });

  test("the calls that a run makes have records below it, and are made once", async () => {
    await deploy("acme", "step", "export default ({ n }) => n * 2;");
    await deploy(
      "acme",
      "caller",
      `export const capabilities = { waitFor: true, tools: ["step"] };
       export default async (_, ctx) => {
         const first = await ctx.tools.step({ n: 1 });
         await ctx.waitFor({ event: "go" });
         return [first, await ctx.tools.step({ n: 2 })];
       };`,
    );
    const { id } = await start({}, "caller");
    const { body } = await api<Run>("POST", `${base}/runs/${id}/events`, { name: "go" });
    expect(body.output).toEqual([2, 4]);
    const { body: tree } = await api<{ items: readonly { tool: string; state: string }[] }>(
      "GET",
      `${base}/calls/${id}/tree`,
    );
    expect(tree.items.map(({ tool, state }) => [tool, state])).toEqual([
      ["caller", "succeeded"],
      ["step", "succeeded"],
      ["step", "succeeded"],
    ]);
  });

  test("the calls that undo a run have records next to those of the run", async () => {
    await deploy("acme", "note", "export default ({ what }) => what;");
    await deploy(
      "acme",
      "undone",
      `export const capabilities = { waitFor: true, tools: ["note"] };
       export default async (_, ctx) => {
         await ctx.onRollback(() => ctx.tools.note({ what: "undo" }));
         await ctx.tools.note({ what: "do" });
         throw new Error("failed");
       };`,
    );
    const { id } = await start({}, "undone");
    const names = async (): Promise<readonly string[]> => {
      const { body } = await api<{ items: readonly { tool: string }[] }>("GET", `${base}/calls/${id}/tree`);
      return body.items.map(({ tool }) => tool);
    };
    await expect.poll(names, { timeout: 60_000 }).toEqual(["undone", "note", "note"]);
  });

  test("runs are deleted after the time that the policy sets, and with their tenant", async () => {
    await deploy("gone", "refund", REFUND);
    const ended = await start({ amount: 1 }, "refund", "gone");
    expect((await api("POST", `/v1/tenants/gone/runs/${ended.id}/waits/2/deny`, {})).status).toBe(200);
    const waiting = await start({ amount: 2 }, "refund", "gone");
    await using database = await open();
    const { db } = database;
    const rows = async (): Promise<readonly string[]> => {
      const runs = await db.selectFrom("runs").select("id").where("tenant_id", "=", "gone").orderBy("id").execute();
      return runs.map(({ id }) => id);
    };
    expect(await rows()).toEqual([ended.id, waiting.id]);
    await deleteExpiredCalls(db, Date.now() + 365 * 86_400_000, (error) => expect.unreachable(String(error)));
    expect(await rows()).toEqual([waiting.id]);
    expect((await api("DELETE", "/v1/tenants/gone")).status).toBe(200);
    expect(await rows()).toEqual([]);
    for (const table of ["run_requests", "run_entries"] as const) {
      expect(await db.selectFrom(table).select("run_id").where("tenant_id", "=", "gone").execute()).toEqual([]);
    }
  });
});
