// Queued calls that wait for their tenant's rate, and calls that the end of a drain cuts off. On both databases.
import { afterAll, describe, expect, test } from "vitest";
import { ToolError, type ToolResult } from "../../src/host/index.ts";
import { toFailedResult } from "../../src/server/calls/call-results.ts";
import { mayBeginLater, RetryTimes } from "../../src/server/calls/queue/retries.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { type CallRow, findCall } from "../../src/server/records/calls/calls.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { startKillableServer } from "./support/killable-server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const patiently = { timeout: 120_000, interval: 20 };

type Failure = Extract<ToolResult, { success: false }>;

interface StoredCall {
  readonly state: string;
  readonly input: { readonly n: number };
  readonly output: unknown;
  readonly error: unknown;
  readonly attempts: number;
  readonly logs: readonly object[];
  readonly createdAt: number;
  readonly endedAt: number | null;
}

describe.for(STORES)("with %s", (kind) => {
  test("a queued call that meets its tenant's rate waits for its turn; one beyond a quota fails", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    const rate = { calls: 4, per: "second", burst: 1 };
    await api("POST", "/v1/tenants", { id: "acme", policy: { rateLimit: rate, quotas: { calls: { month: 12 } } } });
    const source = "export default ({ n }) => { console.log('ran'); return n; }";
    expect((await api("POST", "/v1/tenants/acme/tools", { name: "paced", source })).status).toBe(201);
    const headers = { prefer: "respond-async" };
    const send = (n: number) =>
      api<{ id: string }>("POST", "/v1/tenants/acme/tools/paced/calls", { input: { n } }, headers);
    const sent = await Promise.all(Array.from({ length: 13 }, (_, n) => send(n)));
    const rejected = sent.filter(({ status }) => status !== 202);
    const ids = sent.filter(({ status }) => status === 202).map(({ body }) => body.id);
    const read = async (id: string) => (await api<StoredCall>("GET", `/v1/tenants/acme/calls/${id}`)).body;
    await expect
      .poll(async () => (await Promise.all(ids.map(read))).filter(({ endedAt }) => endedAt === null), patiently)
      .toEqual([]);
    const calls = await Promise.all(ids.map(read));
    const beyond = calls.filter(({ state }) => state !== "succeeded");
    for (const call of calls) {
      if (beyond.includes(call)) continue;
      const { output, attempts, logs, error, input } = call;
      expect([error, output, attempts, logs.length]).toEqual([null, input.n, 1, 1]);
    }
    // On a busy machine, twelve calls may have run when the last one arrives: it is then rejected at once. A store that takes two seconds to
    // count a call denies the call, which is tried again and counted once more.
    expect(beyond.length + rejected.length).toBeGreaterThanOrEqual(1);
    const succeeded = calls.length - beyond.length;
    expect(succeeded).toBeGreaterThanOrEqual(1);
    expect(succeeded).toBeLessThanOrEqual(12);
    const usedUp = { code: "QUOTA_EXCEEDED", details: expect.objectContaining({ reason: "quota_used_up" }) };
    for (const call of beyond) expect(call).toMatchObject({ state: "failed", effects: "none", error: usedUp });
    for (const { status, body } of rejected) expect([status, body]).toMatchObject([429, { error: usedUp }]);
    // The rate gives twelve calls at least eleven quarters of a second.
    const leastMs = (succeeded - 1) * 250 - 50;
    const begun = Math.min(...calls.map(({ createdAt }) => createdAt));
    expect(Math.max(...calls.map(({ endedAt }) => endedAt as number)) - begun).toBeGreaterThan(leastMs);
    // It would wait for the next month.
    expect(await send(99)).toMatchObject({
      status: 429,
      body: { error: { code: "QUOTA_EXCEEDED", details: { reason: "quota_used_up", quota: "calls", limit: 12 } } },
    });
  });

  test("calls that the end of a drain cuts off run again if their tool is idempotent, and fail otherwise", async () => {
    await using store = await stores.create(kind);
    const first = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    let key: string;
    const ids: string[] = [];
    try {
      key = first.adminKey as string;
      const api = apiOf(first);
      await api("POST", "/v1/tenants", { id: "acme" });
      for (const name of ["repeatable", "once"]) {
        const source = `export const capabilities = { kv: true };
          export const annotations = { idempotentHint: ${name === "repeatable"} };
          export const limits = { timeoutMs: 120_000 };
          export default async (_, { kv }) => {
            if ((await kv.get("again")) === true) return "second";
            await kv.set("began", true);
            await new Promise((resolve) => setTimeout(resolve, 100_000));
          };`;
        expect((await api("POST", "/v1/tenants/acme/tools", { name, source, approve: true })).status).toBe(201);
        const headers = { prefer: "respond-async" };
        const { body } = await api<{ id: string }>("POST", `/v1/tenants/acme/tools/${name}/calls`, {}, headers);
        ids.push(body.id);
      }
      for (const name of ["repeatable", "once"]) {
        const path = `/v1/tenants/acme/kv/${name}/values/began`;
        await expect.poll(async () => (await api("GET", path)).status, patiently).toBe(200);
      }
      for (const name of ["repeatable", "once"]) {
        await api("PUT", `/v1/tenants/acme/kv/${name}/values/again`, { value: true });
      }
    } finally {
      await first.close({ drainMs: 0 });
    }
    const { options } = store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const [repeatable = "", once = ""] = ids;
    expect(await findCall(database.db, "acme", repeatable)).toMatchObject({ state: "queued", effects: "none" });
    const cut = (await findCall(database.db, "acme", once)) as CallRow;
    expect([cut.state, cut.effects]).toEqual(["failed", "possible"]);
    expect(JSON.parse(cut.error ?? "{}")).toMatchObject({
      code: "SANDBOX_CRASHED",
      message: expect.stringContaining("shut down"),
      details: { reason: "shutting_down" },
    });
    await using second = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf({ url: second.url, adminKey: key });
    const read = async (id: string) => (await api<StoredCall>("GET", `/v1/tenants/acme/calls/${id}`)).body;
    await expect.poll(async () => (await read(repeatable)).endedAt, patiently).not.toBeNull();
    expect(await read(repeatable)).toMatchObject({ state: "succeeded", output: "second", attempts: 2 });
    expect((await read(once)).state).toBe("failed");
  });

  test("a call that had begun when its server died runs again only if the version that it ran is idempotent", async () => {
    await using store = await stores.create(kind);
    const first = await startKillableServer(store.options);
    const api = apiOf(first);
    expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
    const tools = "/v1/tenants/acme/tools";
    for (const idempotentHint of [true, false]) {
      const source = `export const annotations = { idempotentHint: ${idempotentHint} };
        export const limits = { timeoutMs: 300_000 };
        export default async () => { for (;;) await new Promise((resolve) => setTimeout(resolve, 50)); };`;
      expect((await api("POST", tools, { name: "endless", source })).status).toBe(201);
    }
    const release = async (alias: string, version: number) => {
      const versions = [{ version, weight: 1 }];
      expect((await api("PUT", `${tools}/endless/releases/${alias}`, { versions })).status).toBe(200);
    };
    for (const [alias, version] of [
      ["live", 1],
      ["beta", 2],
      ["changed", 2],
    ] as const)
      await release(alias, version);
    const ids = new Map<string, string>();
    for (const alias of ["live", "beta", "changed"]) {
      const headers = { prefer: "respond-async" };
      const { body } = await api<{ id: string }>("POST", `${tools}/endless/calls`, { alias }, headers);
      ids.set(alias, body.id);
    }
    const { options } = store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const read = (alias: string) => findCall(database.db, "acme", ids.get(alias) ?? "");
    const begun = { state: "running", effects: "possible", attempts: 1 };
    for (const alias of ids.keys()) await expect.poll(() => read(alias), patiently).toMatchObject(begun);
    await release("changed", 1);
    await first.kill();
    await database.db.updateTable("calls").set({ lease_until: 0 }).execute();
    await startKillableServer(store.options);
    for (const alias of ["beta", "changed"]) {
      await expect.poll(async () => (await read(alias))?.ended_at, patiently).not.toBeNull();
      expect(await read(alias)).toMatchObject({ state: "failed", effects: "possible", attempts: 1, tool_version: 2 });
    }
    const again = { state: "running", effects: "possible", attempts: 2, tool_version: 1 };
    await expect.poll(() => read("live"), patiently).toMatchObject(again);
  });
});

test("calls that meet a rate return one after another at its pace, at most a day long", () => {
  const times = new RetryTimes();
  const details = { reason: "rate_limited", limit: 10, period: "second", retryAfterMs: 70 };
  const row = endedRow(Date.now());
  const failure = toFailedResult(row, new ToolError("QUOTA_EXCEEDED", "Too fast", { details }), () => {}) as Failure;
  expect(mayBeginLater(failure, false)).toBe(true);
  const used = new ToolError("QUOTA_EXCEEDED", "Used up", { details: { ...details, reason: "quota_used_up" } });
  expect(
    mayBeginLater(
      toFailedResult(row, used, () => {}),
      false,
    ),
  ).toBe(false);
  const turns = Array.from({ length: 5 }, (_, n) => times.next({ id: `call_${n}`, tenant_id: "acme" }, failure, 1_000));
  expect(turns).toEqual([1_070, 1_170, 1_270, 1_370, 1_470]);
  // Another tenant has a pace of its own.
  expect(times.next({ id: "call_9", tenant_id: "beta" }, failure, 1_000)).toBe(1_070);
  // When the rate is free again, nothing waits for turns that are over.
  expect(times.next({ id: "call_5", tenant_id: "acme" }, failure, 9_000)).toBe(9_070);
  const late = 1_000 + 25 * 3_600_000;
  expect(times.next({ id: "call_0", tenant_id: "acme" }, failure, late)).toBeUndefined();
});
