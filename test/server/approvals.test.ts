// Approvals of single calls: which calls wait, what is approved, and that each runs at most once, on both databases.
import { createHash } from "node:crypto";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type CallApproval, createClient } from "../../src/client/index.ts";
import { type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly effects: string;
  readonly version: number;
  readonly approvalId: string | null;
  readonly parentId: string | null;
  readonly input: unknown;
  readonly output: unknown;
  readonly attempts: number;
  readonly error: { readonly code: string; readonly message: string; readonly details?: object } | null;
}
interface List<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

const ANNOTATIONS = "export const annotations = { destructiveHint: true };";
const WIPE = `export default ({ what }) => "wiped " + what;\n${ANNOTATIONS}`;
const KEYS = ["calls:run", "calls:read", "calls:cancel", "tools:read"] as const;

const open = ({ options }: TestStore): Promise<OpenDatabase> =>
  openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let api: ReturnType<typeof apiOf>;
  let model: ReturnType<typeof apiOf>;
  let modelKey: string;
  const base = "/v1/tenants/acme";

  const start = async (): Promise<void> => {
    server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  };
  beforeAll(async () => {
    store = await stores.create(kind);
    await start();
    const { adminKey } = server;
    api = (...args) => apiOf(server, adminKey)(...args);
    for (const id of ["acme", "beta"]) expect((await api("POST", "/v1/tenants", { id })).status).toBe(201);
    const { body } = await api<{ key: string }>("POST", `${base}/keys`, { name: "model", scopes: KEYS });
    modelKey = body.key;
    model = (...args) => apiOf(server, modelKey)(...args);
    const wrapper = `export default async ({ what }, { tools }) => {
      try { return await tools.wipe({ what }); } catch (error) { return { code: error.code, message: error.message }; }
    };
    export const capabilities = { tools: true };`;
    for (const [name, source] of Object.entries({ wipe: WIPE, read: "export default () => 1", wrapper })) {
      expect((await api("POST", `${base}/tools`, { name, source, approve: true })).status).toBe(201);
    }
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    await store[Symbol.asyncDispose]();
  });

  const wipe = (what: string, headers = {}, more: object = {}) =>
    model<Call>("POST", `${base}/tools/wipe/calls`, { input: { what }, ...more }, headers);
  const approval = async (id: string | null) => (await api<CallApproval>("GET", `${base}/approvals/${id}`)).body;
  const decide = (id: string | null, decision: "approve" | "deny", reason?: string) =>
    api<CallApproval>("POST", `${base}/approvals/${id}/${decision}`, reason === undefined ? {} : { reason });
  const ended = (id: string) =>
    vi.waitFor(
      async () => {
        const { body } = await api<Call>("GET", `${base}/calls/${id}`);
        expect(["succeeded", "failed", "cancelled"]).toContain(body.state);
        return body;
      },
      { interval: 20 },
    );
  const actions = async (target: string | null): Promise<readonly string[]> => {
    const { body } = await api<List<{ action: string; target: string }>>("GET", `${base}/audit?limit=200`);
    return body.items.filter((entry) => entry.target === target).map(({ action }) => action);
  };

  test("a call of a destructive tool waits, and runs once with its arguments when it was approved", async () => {
    const { status, headers, body } = await wipe("disk");
    expect([status, body.state, body.effects, body.version]).toEqual([202, "waiting_for_approval", "none", 1]);
    expect(headers.get("location")).toBe(`${base}/calls/${body.id}`);
    expect(headers.get("glovebox-approval")).toBe(body.approvalId);
    const waiting = await approval(body.approvalId);
    expect(waiting).toMatchObject({
      kind: "call",
      state: "pending",
      callId: body.id,
      tool: "wipe",
      version: 1,
      input: { what: "disk" },
      because: "destructive",
      origin: "api",
      decidedBy: null,
      omitted: false,
      inputSha256: createHash("sha256").update('{"what":"disk"}').digest("hex"),
    });
    expect(waiting.expiresAt).toBeGreaterThan(waiting.createdAt);
    expect((await decide(body.approvalId, "approve", "checked")).body).toMatchObject({ state: "approved" });
    expect(await ended(body.id)).toMatchObject({ state: "succeeded", output: "wiped disk", attempts: 1 });
    for (const again of ["approve", "deny"] as const) expect((await decide(body.approvalId, again)).status).toBe(409);
    expect(await actions(body.approvalId)).toEqual(["approval.approved"]);
    expect(await approval(body.approvalId)).toMatchObject({
      state: "approved",
      reason: "checked",
      input: { what: "disk" },
    });
  });

  test("no call of a key that was revoked meanwhile runs, whether it waits for an approval or in the queue", async () => {
    const create = async (): Promise<{ readonly id: string; readonly key: string }> =>
      (await api<{ id: string; key: string }>("POST", `${base}/keys`, { name: "leaked", scopes: KEYS })).body;
    const [first, second] = [await create(), await create()];
    const waitingOf = async ({ key }: { readonly key: string }): Promise<Call> =>
      (await apiOf(server, key)<Call>("POST", `${base}/tools/wipe/calls`, { input: { what: "all" } })).body;
    const revoke = (id: string) => api("DELETE", `${base}/keys/${id}`);
    const waiting = await waitingOf(first);
    await revoke(first.id);
    const refused = await decide(waiting.approvalId, "approve");
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([409, expect.stringContaining("was revoked")]);
    expect((await decide(waiting.approvalId, "deny")).status).toBe(200);
    expect(await ended(waiting.id)).toMatchObject({ state: "failed", effects: "none" });

    // It was approved, and its key is revoked before the queue gets to it.
    const approved = await waitingOf(second);
    const database = await open(store);
    const { db } = database;
    await db.updateTable("api_keys").set({ revoked_at: Date.now() }).where("id", "=", second.id).execute();
    await db
      .updateTable("approvals")
      .set({ state: "approved", decided_by: "key_x", decided_at: Date.now() })
      .where("id", "=", approved.approvalId)
      .execute();
    await db.updateTable("calls").set({ state: "queued", run_at: 0 }).where("id", "=", approved.id).execute();
    await database[Symbol.asyncDispose]();
    expect(await ended(approved.id)).toMatchObject({
      state: "failed",
      effects: "none",
      output: null,
      error: { code: "TOOL_UNAVAILABLE", details: { reason: "key_revoked" } },
    });
  });

  test("a denied call ends without having run, with the reason", async () => {
    const { body } = await wipe("secret", { prefer: "respond-async" });
    expect((await decide(body.approvalId, "deny", "not today")).body.state).toBe("denied");
    expect(await ended(body.id)).toMatchObject({
      state: "failed",
      effects: "none",
      output: null,
      error: {
        code: "APPROVAL_REQUIRED",
        details: { approved: false, reason: "not today", approvalId: body.approvalId },
      },
    });
    expect(await actions(body.approvalId)).toEqual(["approval.denied"]);
  });

  test("many decisions at once: one counts", async () => {
    const { body } = await wipe("race");
    const statuses = await Promise.all(
      Array.from(
        { length: 8 },
        async (_, index) => (await decide(body.approvalId, index % 2 === 0 ? "approve" : "deny")).status,
      ),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 409)).toHaveLength(7);
    await ended(body.id);
    expect(await actions(body.approvalId)).toHaveLength(1);
  });

  test("only a key with calls:approve decides, and approves its own call at once", async () => {
    const { body } = await wipe("mine");
    for (const decision of ["approve", "deny"]) {
      expect((await model("POST", `${base}/approvals/${body.approvalId}/${decision}`, {})).status).toBe(403);
    }
    expect((await wipe("mine", {}, { approve: true })).status).toBe(403);
    const own = await api<Call>("POST", `${base}/tools/wipe/calls`, { input: { what: "own" }, approve: true });
    expect([own.status, own.body.output]).toEqual([200, "wiped own"]);
    expect(await actions(own.body.id)).toEqual(["approval.approved"]);
    const later = await api<Call>(
      ...(["POST", `${base}/tools/wipe/calls`, { input: { what: "later" }, approve: true }] as const),
      { prefer: "respond-async" },
    );
    expect(later.body.approvalId).not.toBeNull();
    expect(await ended(later.body.id)).toMatchObject({ state: "succeeded", output: "wiped later" });
    await decide(body.approvalId, "deny");
  });

  test("another tenant sees and decides nothing", async () => {
    const { body } = await wipe("ours");
    const id = body.approvalId;
    const { body: key } = await api<{ key: string }>("POST", "/v1/tenants/beta/keys", {
      name: "b",
      scopes: ["calls:read", "calls:approve", "tools:read"],
    });
    const other = apiOf(server, key.key);
    for (const path of ["/v1/tenants/beta", base]) {
      expect((await other("GET", `${path}/approvals/${id}`)).status).toBe(404);
      expect((await other("POST", `${path}/approvals/${id}/approve`, {})).status).toBe(404);
    }
    expect((await other<List<object>>("GET", "/v1/tenants/beta/approvals")).body.items).toEqual([]);
    expect((await approval(id)).state).toBe("pending");
    await decide(id, "deny");
  });

  test("a call of a tool by another one waits by itself, and its caller gets an error", async () => {
    const { body } = await model<Call>("POST", `${base}/tools/wrapper/calls`, { input: { what: "nested" } });
    expect(body.output).toMatchObject({ code: "APPROVAL_REQUIRED", message: expect.stringContaining("approval_") });
    const nested = await api<Call>("GET", `${base}/calls/${body.id}.1`);
    expect(nested.body).toMatchObject({ state: "waiting_for_approval", parentId: body.id });
    expect(await approval(nested.body.approvalId)).toMatchObject({ origin: "nested", input: { what: "nested" } });
    await decide(nested.body.approvalId, "approve");
    expect(await ended(nested.body.id)).toMatchObject({ state: "succeeded", output: "wiped nested" });
  });

  test("the policy names tools by pattern, and can turn the tools' own annotations off", async () => {
    const policy = { approvals: { tools: ["re*"], destructive: false } };
    expect((await api("PATCH", base, { policy })).status).toBe(200);
    expect((await model<Call>("POST", `${base}/tools/wipe/calls`, { input: { what: "x" } })).body.output).toBe(
      "wiped x",
    );
    const { body } = await model<Call>("POST", `${base}/tools/read/calls`, {});
    expect(body.state).toBe("waiting_for_approval");
    expect(await approval(body.approvalId)).toMatchObject({ because: "policy" });
    expect((await api("PATCH", base, { policy: {} })).status).toBe(200);
    expect((await decide(body.approvalId, "approve")).status).toBe(200);
    expect(await ended(body.id)).toMatchObject({ output: 1 });
    for (const tools of [[""], ["a b"], ["**"], [1]]) {
      expect((await api("PATCH", base, { policy: { approvals: { tools } } })).status).toBe(422);
    }
  });

  test("the approval is valid for the version that was shown, also after another release", async () => {
    await api("POST", `${base}/tools`, { name: "moves", source: `export default () => "first";\n${ANNOTATIONS}` });
    const { body } = await model<Call>("POST", `${base}/tools/moves/calls`, {});
    await api("POST", `${base}/tools`, { name: "moves", source: `export default () => "second";\n${ANNOTATIONS}` });
    await decide(body.approvalId, "approve");
    expect(await ended(body.id)).toMatchObject({ state: "succeeded", version: 1, output: "first" });
  });

  test("a call that waits for the slot of its key does not run a destructive version that was released meanwhile", async () => {
    const limited = { name: "limited", scopes: KEYS, limits: { maxConcurrentCalls: 1 } };
    const { body: key } = await api<{ id: string; key: string }>("POST", `${base}/keys`, limited);
    const user = apiOf(server, key.key);
    const held = `export default async (_input, { kv }) => {
      for (let turn = 0; turn < 3000 && (await kv.get("go")) === undefined; turn += 1) await new Promise((wake) => setTimeout(wake, 20));
    };
    export const capabilities = { kv: true };`;
    expect((await api("POST", `${base}/tools`, { name: "held", source: held, approve: true })).status).toBe(201);
    const deploy = (source: string) => api("POST", `${base}/tools`, { name: "shift", source, approve: true });
    expect((await deploy("export default () => 1")).status).toBe(201);
    const use = async () =>
      (
        await api<{ use: { concurrency: { used: number }; waiting: { used: number } } }>(
          "GET",
          `${base}/keys/${key.id}`,
        )
      ).body.use;
    const first = user<Call>("POST", `${base}/tools/held/calls`, { input: {} });
    await vi.waitFor(async () => expect((await use()).concurrency.used).toBe(1), { timeout: 60_000 });
    const second = user<Call>("POST", `${base}/tools/shift/calls`, { input: {} });
    await vi.waitFor(async () => expect((await use()).waiting.used).toBe(1), { timeout: 60_000 });
    expect((await deploy(`export default () => "destroyed";\n${ANNOTATIONS}`)).status).toBe(201);
    // The call of another key makes the server run the new version from now on.
    expect((await model<Call>("POST", `${base}/tools/shift/calls`, { input: {} })).status).toBe(202);
    expect((await api("PUT", `${base}/kv/held/values/go`, { value: true })).status).toBe(200);
    expect((await first).body.state).toBe("succeeded");
    const { status, body } = await second;
    expect([status, body.state, body.effects]).toEqual([409, "failed", "none"]);
    expect(body.error).toMatchObject({ code: "TOOL_UNAVAILABLE", details: { reason: "tool_changed" } });
  });

  test("arguments that were changed in the database do not run", async () => {
    const { body } = await wipe("safe");
    await using database = await openDatabase({
      url: store.options.database,
      dataDir: store.options.dataDir,
      onError() {},
    });
    await database.db.updateTable("calls").set({ input: '{"what":"all"}' }).where("id", "=", body.id).execute();
    await decide(body.approvalId, "approve");
    expect(await ended(body.id)).toMatchObject({
      state: "failed",
      effects: "none",
      error: { code: "APPROVAL_REQUIRED" },
    });
  });

  test("secrets in arguments are redacted for the person who decides, and the tool gets them", async () => {
    await api("POST", `${base}/tools`, {
      name: "login",
      source: `export default ({ password }) => password.length;\n${ANNOTATIONS}`,
    });
    const input = { password: "hunter2hunter2" };
    const { body } = await model<Call>("POST", `${base}/tools/login/calls`, { input });
    expect(JSON.stringify(await approval(body.approvalId))).not.toContain("hunter2");
    await decide(body.approvalId, "approve");
    expect(await ended(body.id)).toMatchObject({ output: 14, input: { password: "[redacted]" } });
  });

  test("a large input is left out of lists, and whole in its approval and for its tool", async () => {
    const what = "x".repeat(50_000);
    const { body } = await wipe(what);
    const { body: list } = await model<List<CallApproval>>("GET", `${base}/approvals?kind=call&limit=200`);
    expect(list.items.find(({ id }) => id === body.approvalId)).toMatchObject({ omitted: true, input: null });
    expect(await approval(body.approvalId)).toMatchObject({ omitted: false, input: { what } });
    await decide(body.approvalId, "approve");
    expect((await ended(body.id)).output).toBe(`wiped ${what}`);
  });

  test("an idempotency key makes one call and one approval", async () => {
    const key = { "idempotency-key": `once-${kind}` };
    const both = await Promise.all([wipe("once", key), wipe("once", key)]);
    expect(new Set(both.map(({ body }) => body.id)).size).toBe(1);
    const [first] = both;
    await decide(first.body.approvalId, "approve");
    await ended(first.body.id);
    const again = await wipe("once", key);
    expect([again.status, again.body.id, again.body.output]).toEqual([200, first.body.id, "wiped once"]);
    expect((await wipe("twice", key)).status).toBe(409);
  });

  test("a cancelled call takes its approval with it", async () => {
    const { body } = await wipe("never");
    expect((await model("POST", `${base}/calls/${body.id}/cancel`)).status).toBe(202);
    expect(await ended(body.id)).toMatchObject({ state: "cancelled", effects: "none" });
    expect((await approval(body.approvalId)).state).toBe("cancelled");
    expect((await decide(body.approvalId, "approve")).status).toBe(409);
  });

  test("a call that no one approves in time fails, and cannot be approved any more", async () => {
    const { body } = await wipe("late");
    await using database = await openDatabase({
      url: store.options.database,
      dataDir: store.options.dataDir,
      onError() {},
    });
    await database.db.updateTable("approvals").set({ expires_at: 1 }).where("id", "=", body.approvalId).execute();
    expect(await ended(body.id)).toMatchObject({
      state: "failed",
      effects: "none",
      error: { code: "APPROVAL_REQUIRED", details: { expired: true } },
    });
    expect((await decide(body.approvalId, "approve")).status).toBe(409);
    expect(await actions(body.approvalId)).toEqual(["approval.expired"]);
  });

  test("the list pages, and shows what was decided by state", async () => {
    const made = [await wipe("p1"), await wipe("p2"), await wipe("p3")].map(({ body }) => body.approvalId);
    const tenant = createClient({ url: server.url, key: modelKey }).tenant("acme");
    const pending: (string | null)[] = [];
    for await (const { id } of tenant.callApprovals()) pending.push(id);
    expect(pending.filter((id) => made.includes(id))).toEqual(made);
    const page = await model<List<CallApproval>>("GET", `${base}/approvals?kind=call&limit=1`);
    expect(page.body.items).toHaveLength(1);
    expect(page.body.next).toBe(page.body.items[0]?.id);
    for (const id of made) await decide(id, "deny");
    const denied = await model<List<CallApproval>>("GET", `${base}/approvals?state=denied&limit=3`);
    expect(denied.body.items.map(({ id }) => id)).toEqual(made.toReversed());
    const { body } = await api<{ key: string }>("POST", `${base}/keys`, { name: "t", scopes: ["tools:read"] });
    const reader = apiOf(server, body.key);
    expect((await reader("GET", `${base}/approvals?kind=call`)).status).toBe(403);
    expect((await reader<List<object>>("GET", `${base}/approvals?state=denied`)).body.items).toEqual([]);
  });

  test("at most 1,000 calls of a tenant wait", async () => {
    const { body } = await wipe("full");
    await using database = await open(store);
    const { db } = database;
    const call = await db.selectFrom("calls").selectAll().where("id", "=", body.id).executeTakeFirstOrThrow();
    const pending = await db
      .selectFrom("approvals")
      .selectAll()
      .where("id", "=", body.approvalId)
      .executeTakeFirstOrThrow();
    await db.transaction().execute(async (transaction) => {
      for (let index = 0; index < 1_000; index += 1) {
        const [id, call_id] = [`approval_full_${index}`, `call_full_${index}`];
        await transaction
          .insertInto("calls")
          .values({ ...call, id: call_id, approval_id: id })
          .execute();
        await transaction
          .insertInto("approvals")
          .values({ ...pending, id, call_id })
          .execute();
      }
    });
    const { status, headers, body: denied } = await wipe("one more");
    expect([status, denied.error?.code, headers.get("retry-after")]).toEqual([429, "QUOTA_EXCEEDED", "60"]);
    await db.deleteFrom("approvals").where("id", "like", "approval_full_%").execute();
    await db.deleteFrom("calls").where("id", "like", "call_full_%").execute();
    await decide(body.approvalId, "deny");
  });

  test("a schedule's call waits too", async () => {
    const schedule = { name: "wipes", tool: "wipe", cron: "* * * * * *", input: { what: "tmp" }, overlap: "skip" };
    const { status, body } = await api<{ id: string }>("POST", `${base}/schedules`, schedule);
    expect(status).toBe(201);
    const waiting = await vi.waitFor(
      async () => {
        const { body: list } = await api<List<CallApproval>>("GET", `${base}/approvals?kind=call&limit=200`);
        const found = list.items.find(({ requestedBy }) => requestedBy === body.id);
        expect(found).toMatchObject({ origin: "schedule", input: { what: "tmp" } });
        return found as CallApproval;
      },
      { interval: 50 },
    );
    await api("DELETE", `${base}/schedules/${body.id}`);
    await decide(waiting.id, "approve");
    expect(await ended(waiting.callId)).toMatchObject({ state: "succeeded", output: "wiped tmp" });
  });

  test("a call over MCP waits for the decision, and a repeated one joins it", async () => {
    const connect = async (): Promise<Client> => {
      const client = new Client({ name: "test", version: "1" });
      const url = new URL(`${server.url}${base}/mcp`);
      const requestInit = { headers: { authorization: `Bearer ${modelKey}` } };
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
      return client;
    };
    const pendingOf = (what: string) =>
      vi.waitFor(
        async () => {
          const { body } = await api<List<CallApproval>>("GET", `${base}/approvals?kind=call&limit=200`);
          const found = body.items.filter(({ input }) => (input as { what?: string } | null)?.what === what);
          expect(found).toHaveLength(1);
          return found[0] as CallApproval;
        },
        { interval: 20 },
      );
    const client = await connect();
    const other = await connect();
    const args = { name: "wipe", arguments: { what: "by model" } };
    // The server reports to each of them that it waits.
    const both = [client, other].map((one) => {
      const waits = Promise.withResolvers<void>();
      return { waits: waits.promise, result: one.callTool(args, { onprogress: () => waits.resolve() }) };
    });
    await Promise.all(both.map(({ waits }) => waits));
    const waiting = await pendingOf("by model");
    expect(waiting).toMatchObject({ origin: "mcp", state: "pending" });
    await decide(waiting.id, "approve");
    for (const result of await Promise.all(both.map((one) => one.result))) {
      expect(result).toMatchObject({ content: [{ type: "text", text: "wiped by model" }] });
    }
    const denied = client.callTool({ name: "wipe", arguments: { what: "too much" } });
    await decide((await pendingOf("too much")).id, "deny", "too much");
    expect(await denied).toMatchObject({ isError: true });
    const stop = new AbortController();
    const cancelled = client.callTool({ name: "wipe", arguments: { what: "stopped" } }, { signal: stop.signal });
    cancelled.catch(() => {});
    const { id } = await pendingOf("stopped");
    stop.abort();
    await expect.poll(async () => (await approval(id)).state).toBe("cancelled");
    await client.close();
    await other.close();
  });

  test("a stream reports the approval, and the result when it was given", async () => {
    const tenant = createClient({ url: server.url, key: modelKey }).tenant("acme");
    const events: string[] = [];
    for await (const event of tenant.stream("wipe", { input: { what: "stream" } })) {
      events.push(event.event);
      if (event.event === "approval") await decide(event.data.approvalId, "approve");
      if (event.event === "result") expect(event.data).toMatchObject({ state: "succeeded", output: "wiped stream" });
    }
    expect(events).toEqual(["started", "approval", "result"]);
  });

  test("a stream whose client leaves ends while its call waits, and the call runs when it is approved", async () => {
    const leaving = new AbortController();
    const response = await fetch(`${server.url}${base}/tools/wipe/calls`, {
      method: "POST",
      signal: leaving.signal,
      body: JSON.stringify({ input: { what: "left" } }),
      headers: { authorization: `Bearer ${modelKey}`, "content-type": "application/json", accept: "text/event-stream" },
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let text = "";
    while (!text.includes("event: approval")) {
      const { value, done } = await reader.read();
      if (done) expect.fail(`The stream ended: ${text}`);
      text += decoder.decode(value, { stream: true });
    }
    const { approvalId, callId } = JSON.parse(/event: approval\ndata: (.*)/.exec(text)?.[1] ?? "{}") as {
      readonly approvalId: string;
      readonly callId: string;
    };
    leaving.abort();
    await expect(reader.read()).rejects.toThrow();
    expect((await approval(approvalId)).state).toBe("pending");
    expect((await decide(approvalId, "approve")).status).toBe(200);
    expect(await ended(callId)).toMatchObject({ state: "succeeded", output: "wiped left", attempts: 1 });
  });

  test("a batch returns calls that wait next to those that have ended", async () => {
    const calls = [{ tool: "read" }, { tool: "wipe", input: { what: "batch" } }];
    const { status, body } = await model<List<Call>>("POST", `${base}/calls`, { calls });
    expect([status, body.items.map(({ state }) => state)]).toEqual([200, ["succeeded", "waiting_for_approval"]]);
    await decide(body.items[1]?.approvalId ?? null, "deny");
  });

  test("a draft cannot make a call that would wait, unless its key may approve it", async () => {
    const source = `export default async (_, { tools }) => await tools.wipe({ what: "draft" }); export const capabilities = { tools: true };`;
    const { body } = await api<{ key: string }>("POST", `${base}/keys`, {
      name: "author",
      scopes: ["tools:deploy", "tools:approve"],
    });
    const author = apiOf(server, body.key);
    interface Result {
      readonly success: boolean;
      readonly output: unknown;
      readonly error: { readonly message: string };
    }
    const denied = await author<Result>("POST", `${base}/drafts/calls`, { source });
    expect([denied.body.success, denied.body.error.message]).toEqual([false, expect.stringContaining("calls:approve")]);
    const own = await author<{ error: { code: string } }>("POST", `${base}/drafts/calls`, { source: WIPE });
    expect(own.body.error.code).toBe("APPROVAL_REQUIRED");
    expect((await api<Result>("POST", `${base}/drafts/calls`, { source })).body.output).toBe("wiped draft");
  });

  test("pending approvals survive a restart, and appear among the problems", async () => {
    const { body } = await wipe("after restart");
    await server.close({ drainMs: 0 });
    await start();
    expect((await approval(body.approvalId)).state).toBe("pending");
    const { body: found } = await api<List<{ kind: string; target: string }>>("GET", `${base}/problems`);
    expect(found.items).toContainEqual(expect.objectContaining({ kind: "calls_waiting_for_approval", target: "wipe" }));
    await decide(body.approvalId, "approve");
    expect(await ended(body.id)).toMatchObject({ state: "succeeded", output: "wiped after restart" });
  });
});
