// What clients do with versions, releases, approvals, durable runs, sessions, limits and tenants.
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { prepareUpload } from "../../../src/cli/remote/upload.ts";
import type { ApiError, Call, GloveboxClient, Run, TenantClient } from "../../../src/client/index.ts";
import { failureOf, normalise, showCall, showEvent, showRun } from "./normalise.ts";
import { cancel, endOf, runningCall, type Scenario, untilTimeout } from "./scenarios.ts";

const NPM_TOOL = fileURLToPath(new URL("npm-tool.ts", import.meta.url));

/** Creates a tenant for a scenario, with tools from their sources. */
async function createTenant(
  client: GloveboxClient,
  id: string,
  tools: { readonly [name: string]: string },
  { limits = {}, ...policy }: { readonly limits?: object; readonly [field: string]: unknown } = {},
): Promise<TenantClient> {
  await client.createTenant({ id, policy: { limits: { timeoutMs: 300_000, ...limits }, ...policy } });
  const tenant = client.tenant(id);
  for (const [name, source] of Object.entries(tools)) await tenant.deploy({ name, source, approve: true });
  return tenant;
}

/** Waits until a run is in a state. */
async function runIn(tenant: TenantClient, id: string, state: Run["state"]): Promise<Run> {
  let run: Run | undefined;
  await expect
    .poll(async () => {
      run = await tenant.getRun(id);
      return run.state;
    })
    .toBe(state);
  return run as Run;
}

const VALUE = "export default () => 'value'";
const WAITS =
  "export default () => { console.log('begun'); return new Promise((resolve) => setTimeout(resolve, 300_000)); }";
const COUNTER = "let count = 0; export default ({ by = 1 }) => (count += by);";
/** Counts, and then throws or waits. */
const FICKLE = `let count = 0;
  export default ({ fails = false, waits = false }) => {
    count += 1;
    console.log("call " + count);
    if (fails) throw new Error("failed at " + count);
    return waits ? new Promise((resolve) => setTimeout(resolve, 300_000)) : count;
  }`;
const PYTHON_COUNTER = "count = 0\ndef main(input):\n    global count\n    count += input['by']\n    return count\n";
const REFUND = `export const capabilities = { waitFor: true, kv: true };
  export default async ({ amount }, ctx) => {
    await ctx.kv.set("requested", amount);
    const { approved, reason } = await ctx.waitFor({ approval: "Refund " + amount + " EUR?" });
    if (!approved) return { denied: reason };
    const paid = await ctx.waitFor({ event: "paid" });
    await ctx.waitFor({ durationMs: 50 });
    return { refunded: amount, paid };
  };`;

export const RESOURCE_SCENARIOS: readonly Scenario[] = [
  {
    what: "sessions",
    run: async ({ acme }) => {
      await acme.deploy({ name: "counter", source: COUNTER, isolateLifetime: "session" });
      const outputs: unknown[] = [];
      for (const [sessionId, by] of [
        ["a", 1],
        ["a", 2],
        ["b", 10],
        ["a", 3],
        ["b", 20],
      ] as const) {
        const { output } = await acme.call("counter", { sessionId, input: { by } });
        outputs.push(output);
      }
      const queued = await acme.enqueue("counter", { sessionId: "a", input: { by: 100 } });
      const last = await acme.call("counter", { sessionId: "b", input: { by: 5 } });
      const ended = await endOf(acme, queued.id);
      const batch = await acme.batch([
        { tool: "counter", sessionId: "a", input: { by: 1_000 } },
        { tool: "counter", sessionId: "b", input: { by: 1_000 } },
      ]);
      const events: unknown[] = [];
      for await (const event of acme.stream("counter", { sessionId: "a" })) events.push(showEvent(event));
      const withKey = { sessionId: "b", input: { by: 1 } };
      const first = await acme.call("counter", withKey, { idempotencyKey: "s-1" });
      const again = await acme.call("counter", withKey, { idempotencyKey: "s-1" });
      const together = await Promise.all(Array.from({ length: 12 }, () => acme.call("counter", { sessionId: "c" })));
      return {
        outputs,
        queued: showCall(ended),
        last: showCall(last),
        batch: batch.map((call) => showCall(call as Call)),
        events,
        first: showCall(first),
        isSame: first.id === again.id,
        together: together.map(({ output }) => Number(output)).toSorted((a, b) => a - b),
        wrong: showCall(
          await acme.call("counter", { sessionId: "a", input: { by: 1 }, timeoutMs: 300_000, version: 9 }),
        ),
      };
    },
    expected: {
      outputs: [1, 3, 10, 6, 30],
      queued: { output: 106 },
      last: { output: 35, sessionId: "b" },
      batch: [{ output: 1_106 }, { output: 1_035 }],
      first: { output: 1_036 },
      isSame: true,
      together: Array.from({ length: 12 }, (_, index) => index + 1),
      wrong: { error: { code: "TOOL_UNAVAILABLE" }, effects: "none" },
    },
  },
  {
    what: "sessions whose calls fail or are stopped",
    run: async ({ acme }) => {
      await acme.deploy({ name: "fickle", source: FICKLE, isolateLifetime: "session" });
      const call = async (input: object, timeoutMs?: number): Promise<Call> =>
        await acme.call("fickle", { sessionId: "f", input, ...(timeoutMs && { timeoutMs }) });
      const run = async (input: object): Promise<unknown> => showCall(await call(input));
      return [
        await run({}),
        await run({ fails: true }),
        await run({}),
        showCall(await untilTimeout(2_000, (timeoutMs) => call({ waits: true }, timeoutMs))),
        // A call that was stopped has ended the session.
        await run({}),
        showCall(await acme.call("fickle", { input: {} })),
      ];
    },
    expected: [
      { output: 1, effects: "complete" },
      { error: { code: "TOOL_FAILED" }, effects: "possible" },
      { output: 3 },
      { error: { code: "TOOL_TIMEOUT" }, effects: "possible" },
      ...[{ output: 1 }, { output: 1, sessionId: null }],
    ],
  },
  {
    what: "sessions of a tool in Python",
    run: async ({ acme }) => {
      const isolateLifetime = "session";
      await acme.deploy({ name: "py_counter", source: PYTHON_COUNTER, language: "python", isolateLifetime });
      const outputs: unknown[] = [];
      for (const [sessionId, by] of [
        ["p", 1],
        ["q", 10],
        ["p", 2],
        ["q", 20],
      ] as const)
        outputs.push((await acme.call("py_counter", { sessionId, input: { by } })).output);
      const queued = await acme.enqueue("py_counter", { sessionId: "p", input: { by: 100 } });
      return { outputs, queued: showCall(await endOf(acme, queued.id)) };
    },
    expected: { outputs: [1, 10, 3, 30], queued: { output: 103 } },
  },
  {
    what: "a tool with packages from npm in its bundle",
    run: async ({ acme }) => {
      const { defaultName: _, ...upload } = await prepareUpload(NPM_TOOL);
      const deployed = await acme.deploy({ name: "packages", ...upload });
      const good = await acme.call("packages", { input: { cron: "0 12 * * *", after: "2030-01-01T13:00:00Z" } });
      const bad = await acme.call("packages", { input: { cron: 1 } });
      return { warnings: deployed.warnings, good: showCall(good), bad: showCall(bad) };
    },
    expected: { good: { output: { next: "2030-01-02T12:00:00.000Z" } }, bad: { error: { code: "TOOL_FAILED" } } },
  },
  {
    what: "a canary and rollbacks",
    run: async ({ client }) => {
      const tenant = await createTenant(client, "releases", { split: "export default () => 1" });
      const source = "export default () => 2";
      const { release, version } = await tenant.deploy({ name: "split", source, canaryPercent: 50 });
      const known = await tenant.deploy({ name: "split", source, canaryPercent: 50 });
      const sticky: unknown[] = [];
      for (let n = 0; n < 12; n += 1) {
        const sessionId = `s-${n}`;
        const calls = [await tenant.call("split", { sessionId }), await tenant.call("split", { sessionId })];
        sticky.push(calls.map(({ output }) => output));
      }
      const chosen = [await tenant.call("split", { version: 1 }), await tenant.call("split", { version: 2 })];
      await tenant.deploy({ name: "split", source: "export default () => 3" });
      const full = await tenant.call("split");
      const rolledBack = [await tenant.rollback("split", "live"), await tenant.rollback("split", "live")];
      const first = await tenant.call("split");
      return {
        versions: release?.versions,
        number: version.version,
        isKnown: known.isKnown,
        sticky,
        chosen: chosen.map(showCall),
        full: showCall(full),
        first: showCall(first),
        rolledBack: rolledBack.map(({ versions }) => versions),
        none: await failureOf(tenant.rollback("split", "live")),
        unknown: await failureOf(tenant.setRelease("split", "live", [{ version: 9, weight: 1 }])),
      };
    },
    expected: {
      versions: [
        { version: 1, weight: 50 },
        { version: 2, weight: 50 },
      ],
      isKnown: true,
      chosen: [{ output: 1 }, { output: 2 }],
      full: { output: 3 },
      first: { output: 1 },
      none: { status: 409 },
      unknown: { status: 404 },
    },
  },
  {
    what: "approvals of calls and versions",
    run: async ({ client }) => {
      const tenant = await createTenant(client, "approvals", { pays: VALUE }, { approvals: { tools: ["pay*"] } });
      const waiting = await tenant.call("pays");
      await tenant.approveCall(waiting.approvalId ?? "", "fine");
      const approved = await endOf(tenant, waiting.id);
      const other = await tenant.enqueue("pays");
      await expect.poll(async () => (await tenant.getCall(other.id)).state).toBe("waiting_for_approval");
      const { approvalId } = await tenant.getCall(other.id);
      const pending: unknown[] = [];
      for await (const { state, tool } of tenant.callApprovals()) pending.push([state, tool]);
      await tenant.denyCall(approvalId ?? "", "too much");
      const denied = await endOf(tenant, other.id);
      const atOnce = await tenant.call("pays", { approve: true });
      const grows = await tenant.deploy({
        name: "pays",
        source:
          "export const capabilities = { kv: true }; export default async (_, { kv }) => (await kv.get('x')) ?? 'none'",
      });
      const early = await failureOf(tenant.setRelease("pays", "live", [{ version: 2, weight: 1 }]));
      await tenant.approve("pays", 2);
      await tenant.setRelease("pays", "live", [{ version: 2, weight: 1 }]);
      const later = await tenant.call("pays", { approve: true });
      return {
        waiting: showCall(waiting),
        approved: showCall(approved),
        denied: showCall(denied),
        pending,
        atOnce: showCall(atOnce),
        grows: grows.version.state,
        early,
        later: showCall(later),
        decidedTwice: await failureOf(tenant.approveCall(approvalId ?? "")),
      };
    },
    expected: {
      waiting: { state: "waiting_for_approval" },
      approved: { state: "succeeded", output: "value" },
      denied: { state: "failed", effects: "none" },
      pending: [["pending", "pays"]],
      atOnce: { output: "value" },
      grows: "waiting_for_approval",
      early: { status: 409 },
      later: { output: "none", version: 2 },
      decidedTwice: { status: 409 },
    },
  },
  {
    what: "durable runs that wait",
    run: async ({ client }) => {
      const tenant = await createTenant(client, "runs", { refund: REFUND });
      const run = await tenant.startRun("refund", { input: { amount: 5 } }, { idempotencyKey: "r-1" });
      const same = await tenant.startRun("refund", { input: { amount: 5 } }, { idempotencyKey: "r-1" });
      const approved = await tenant.approveRun(run.id, run.waits[0]?.id ?? 0, "fine");
      await tenant.sendRunEvent(run.id, "paid", { by: "card" });
      const ended = await runIn(tenant, run.id, "succeeded");
      const other = await tenant.startRun("refund", { input: { amount: 6 } });
      const denied = await tenant.denyRun(other.id, other.waits[0]?.id ?? 0, "no");
      const third = await tenant.startRun("refund", { input: { amount: 7 } });
      await tenant.cancelRun(third.id);
      const cancelled = await runIn(tenant, third.id, "cancelled");
      const journal: unknown[] = [];
      for await (const { type, name, input } of tenant.runJournal(run.id)) {
        // How many turns there are depends on what arrives together.
        if (type !== "turns") journal.push(normalise({ type, name, input }));
      }
      return {
        isSame: same.id === run.id,
        journal,
        run: showRun(run),
        approved: showRun(approved),
        ended: showRun(ended),
        denied: showRun(denied),
        cancelled: showRun(cancelled),
      };
    },
    expected: {
      isSame: true,
      run: { state: "suspended", waits: [{ kind: "approval" }] },
      approved: { state: "suspended" },
      ended: { output: { refunded: 5, paid: { by: "card" } } },
      denied: { output: { denied: "no" } },
      cancelled: { state: "cancelled" },
    },
  },
  {
    what: "quotas, rates and limits of concurrent calls",
    run: async ({ client }) => {
      const quotas = await createTenant(client, "quotas", { value: VALUE }, { quotas: { calls: { month: 3 } } });
      const counted: Call[] = [];
      for (let n = 0; n < 4; n += 1) counted.push(await quotas.call("value"));
      const rates = await createTenant(
        client,
        "rates",
        { value: VALUE },
        {
          rateLimit: { calls: 1, per: "minute", burst: 2 },
        },
      );
      const rated: Call[] = [];
      for (let n = 0; n < 3; n += 1) rated.push(await rates.call("value"));
      const limits = { maxConcurrentCalls: 1, maxQueuedCalls: 0 };
      const busy = await createTenant(client, "busy", { waits: WAITS, value: VALUE }, { limits });
      const first = busy.call("waits");
      const id = await runningCall(client, "busy", "waits");
      const policy = { limits: { ...limits, timeoutMs: 300_000, queueMs: 300 } };
      await client.request("PATCH", "/v1/tenants/busy", { body: { policy } });
      const { error, effects, state } = await busy.call("value");
      await cancel(busy, id);
      await first;
      await expect.poll(async () => (await busy.call("value")).output).toBe("value");
      return {
        counted: counted.map(showCall),
        rated: rated.map(showCall),
        full: { code: (error as { readonly code: string }).code, effects, state },
        left: normalise(await quotas.quotas()),
      };
    },
    expected: {
      counted: [{ output: "value" }, {}, {}, { error: { code: "QUOTA_EXCEEDED" }, effects: "none" }],
      rated: [{}, {}, { error: { code: expect.stringMatching(/OVERLOADED|QUOTA_EXCEEDED/) }, effects: "none" }],
      full: { code: "OVERLOADED", effects: "none", state: "failed" },
    },
  },
  {
    what: "a suspended tenant",
    run: async ({ client }) => {
      const tenant = await createTenant(client, "suspended", { waits: WAITS, value: VALUE });
      const running = tenant.call("waits");
      await runningCall(client, "suspended", "waits");
      await client.request("PATCH", "/v1/tenants/suspended", { body: { state: "suspended" } });
      const ended = await running;
      const denied = await tenant.call("value");
      const queued = await tenant.enqueue("value");
      const failed = await endOf(tenant, queued.id);
      await client.request("PATCH", "/v1/tenants/suspended", { body: { state: "active" } });
      // Each server says so within a second.
      for (let n = 0; n < 3; n += 1) await expect.poll(async () => (await tenant.call("value")).output).toBe("value");
      return { ended: showCall(ended), denied: showCall(denied), failed: showCall(failed) };
    },
    expected: {
      ended: { error: { code: "CANCELLED", details: { reason: "tenant_suspended" } } },
      denied: { error: { code: "TOOL_UNAVAILABLE" }, effects: "none" },
      failed: { error: { code: "TOOL_UNAVAILABLE" }, effects: "none" },
    },
  },
  {
    what: "values, exports and usage",
    run: async ({ client, text }) => {
      const source = `export const capabilities = { kv: true };
        export default async ({ key }, { kv }) => { await kv.set("by-tool", key); return await kv.get(key) }`;
      const tenant = await createTenant(client, "exported", {
        reads: source,
        throws: "export default () => { throw 1 }",
      });
      await tenant.setValue("reads", "by-hand", { n: 1 });
      const read = await tenant.call("reads", { input: { key: "by-hand" } });
      await tenant.setSecret("token", { value: "never-exported-value", hosts: ["https://example.com"] });
      await tenant.setValue("reads", "gone", 1);
      await tenant.deleteValue("reads", "gone");
      const again = await failureOf(tenant.deleteValue("reads", "gone"));
      await tenant.call("throws");
      const values: unknown[] = [];
      for await (const { key, value, base64, expiresAt } of tenant.values("reads"))
        values.push({ key, value, base64, expiresAt });
      // Usage is stored soon after the calls.
      const usage = async () =>
        (await tenant.usage()).map(({ tool, outcome, calls }) => `${tool} ${outcome} ${calls}`).sort();
      await expect.poll(usage).toHaveLength(2);
      const lines = await text("/v1/tenants/exported/export");
      const types: { [type: string]: number } = {};
      for (const line of lines.trim().split("\n")) {
        const { type } = JSON.parse(line) as { readonly type: string };
        types[type] = (types[type] ?? 0) + 1;
      }
      return {
        read: showCall(read),
        values,
        again,
        usage: await usage(),
        types,
        hasSecret: lines.includes("never-exported-value"),
      };
    },
    expected: {
      read: { output: { n: 1 } },
      again: { status: 404 },
      hasSecret: false,
      values: [
        { key: "by-hand", value: { n: 1 } },
        { key: "by-tool", value: "by-hand" },
      ],
      usage: ["reads ok 1", "throws TOOL_FAILED 1"],
      types: { end: 1 },
    },
  },
  {
    what: "a deleted tenant",
    run: async ({ client }) => {
      const tenant = await createTenant(client, "deleted", { waits: WAITS });
      const running = tenant.call("waits").then(showCall, ({ status, code }: ApiError) => ({ status, code }));
      await runningCall(client, "deleted", "waits");
      const { receipt } = await client.request<{ readonly receipt: object }>("DELETE", "/v1/tenants/deleted");
      const after = [
        await failureOf(tenant.call("waits")),
        await failureOf(client.request("GET", "/v1/tenants/deleted")),
        await failureOf(tenant.call("waits")),
      ];
      const again = await createTenant(client, "deleted", { value: VALUE });
      return {
        running: await running,
        receipt: Object.keys(receipt).sort(),
        after,
        again: showCall(await again.call("value")),
        old: showCall(await again.call("waits")),
      };
    },
    expected: {
      running: { error: { code: "CANCELLED" } },
      after: [{ status: 404 }, { status: 404 }, { status: 404 }],
      again: { output: "value" },
      old: { error: { code: "TOOL_UNAVAILABLE" } },
    },
  },
];
