// What clients do with the server's API, step by step: each scenario returns what they saw, as data that is the same in every set-up.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Call, CallEvent, GloveboxClient, TenantClient } from "../../../src/client/index.ts";
import { failureOf, normalise, showCall, showEvent, showTimeline } from "./normalise.ts";
import { SINGLE_CALLS } from "./single-calls.ts";

export interface ScenarioContext {
  readonly client: GloveboxClient;
  /** The tenant with the tools of the table. */
  readonly acme: TenantClient;
  /** Origin of a server that echoes the header `authorization`. */
  readonly origin: string;
  /** Returns the body of a response that is not JSON. */
  readonly text: (path: string) => Promise<string>;
}

export interface Scenario {
  readonly what: string;
  readonly run: (context: ScenarioContext) => Promise<unknown>;
  /** What must be part of the outcome. */
  readonly expected: unknown;
}

const ENDED = /^(?:succeeded|failed|cancelled)$/;

/** Waits until a call has ended. */
export async function endOf(tenant: TenantClient, id: string): Promise<Call> {
  let call: Call | undefined;
  await expect
    .poll(async () => {
      call = await tenant.getCall(id);
      return call.state;
    })
    .toMatch(ENDED);
  return call as Call;
}

/** Waits until a call has logged that it has begun: one that is cancelled before has no effects. */
async function untilBegun(tenant: TenantClient, id: string): Promise<void> {
  for await (const { event } of tenant.watch(id)) if (event === "log" || event === "result") return;
}

/** Waits until a call of a tool runs, in any server, and returns its id. The tool logs that it has begun. */
export async function runningCall(client: GloveboxClient, tenant: string, tool: string): Promise<string> {
  let id: string | undefined;
  await expect
    .poll(async () => {
      const path = `/v1/tenants/${tenant}/running-calls`;
      const { items } = await client.request<{ items: Call[] }>("GET", path);
      id = items.find((call) => call.tool === tool && call.state === "running")?.id ?? id;
      return id;
    })
    .toBeDefined();
  await untilBegun(client.tenant(tenant), id as string);
  return id as string;
}

/** Cancels a call that runs. Again, if the server that runs it has not answered yet. */
export async function cancel(tenant: TenantClient, id: string): Promise<void> {
  await expect
    .poll(async () =>
      tenant.cancelCall(id).then(
        () => true,
        ({ status }) => status === 409,
      ),
    )
    .toBe(true);
}

const collect = async (events: AsyncIterable<CallEvent>): Promise<readonly unknown[]> => {
  const shown: unknown[] = [];
  for await (const event of events) shown.push(showEvent(event));
  return shown;
};

/** Makes a call that reaches its timeout: again with more time, if the machine is so busy that the tool could not begin. */
export async function untilTimeout(
  timeoutMs: number,
  make: (timeoutMs: number) => Promise<Call>,
  hasBegun: (call: Call) => boolean = ({ effects }) => effects !== "none",
): Promise<Call> {
  const call = await make(timeoutMs);
  return hasBegun(call) ? call : await untilTimeout(4 * timeoutMs, make, hasBegun);
}

/** One call at once, its record and its timeline; and the same call from the queue. */
const singleCalls = SINGLE_CALLS.map(
  ({ what, tool, input, timeoutMs, expected }): Scenario => ({
    what,
    run: async ({ acme, origin }) => {
      const make = (limitMs?: number): Promise<Call> =>
        acme.call(tool, { input: input(origin), ...(limitMs && { timeoutMs: limitMs }) });
      // A tool that waits says so first.
      const hasBegun = (made: Call): boolean => (showCall(made) as { logs: readonly object[] }).logs.length > 0;
      const call = await (timeoutMs === undefined ? make() : untilTimeout(timeoutMs, make, hasBegun));
      const { code, message } = (call.error ?? {}) as { readonly code?: string; readonly message?: string };
      const timeline = await acme.timeline(call.id);
      const stored = await endOf(acme, call.id);
      return {
        output: call.output,
        code,
        message: normalise(message),
        logs: (showCall(call) as { logs: object }).logs,
        call: showCall(call),
        stored: showCall(stored),
        timeline: showTimeline(timeline),
      };
    },
    expected,
  }),
);

const QUEUED = ["add", "logs", "throws", "nests", "python", "pythonNests", "nothing"];

export const CALL_SCENARIOS: readonly Scenario[] = [
  ...singleCalls,
  {
    what: "queued calls",
    run: async ({ acme }) => {
      const calls = await Promise.all(
        QUEUED.map(async (tool) => await acme.enqueue(tool, { input: { a: 1, b: 2, n: 3, text: "a b" } })),
      );
      const ended = await Promise.all(calls.map(({ id }) => endOf(acme, id)));
      const timelines = await Promise.all(calls.map(({ id }) => acme.timeline(id)));
      return { calls: ended.map(showCall), timelines: timelines.map(showTimeline) };
    },
    expected: {
      calls: [
        { state: "succeeded", output: { sum: 3 }, mode: "async", effects: "complete" },
        { output: 5 },
        { state: "failed", effects: "possible", error: { code: "TOOL_FAILED" } },
        { output: [{ sum: 4 }, { sum: 5 }] },
        { output: { words: 2 } },
        { output: [{ sum: 3 }, { words: 2 }] },
        { state: "failed", effects: "none", error: { code: "TOOL_UNAVAILABLE" } },
      ],
    },
  },
  {
    what: "a batch of calls",
    run: async ({ acme }) => {
      const calls = [
        { tool: "add", input: { a: 1, b: 2 } },
        { tool: "throws", input: {} },
        { tool: "nothing", input: {} },
        { tool: "strict", input: { n: "1" } },
      ];
      return (await acme.batch(calls)).map((call) => showCall(call as Call));
    },
    expected: [{ output: { sum: 3 } }, { state: "failed" }, { effects: "none" }, { tool: "strict" }],
  },
  {
    what: "a streamed call",
    run: async ({ acme }) => await collect(acme.stream("streams", { input: { chunks: 40 } })),
    expected: expect.objectContaining({ length: 44 }),
  },
  {
    what: "a streamed call that fails",
    run: async ({ acme }) => await collect(acme.stream("throws")),
    expected: [["started", {}], expect.arrayContaining(["result"])],
  },
  {
    what: "a queued call with a reader of its events",
    run: async ({ acme }) => {
      const { id } = await acme.enqueue("logs");
      await endOf(acme, id);
      return await collect(acme.watch(id));
    },
    expected: expect.arrayContaining([["result", expect.objectContaining({ output: 5 })]]),
  },
  {
    what: "calls with an idempotency key",
    run: async ({ acme }) => {
      const call = { input: { key: "idempotency" } };
      const first = await acme.call("counts", call, { idempotencyKey: "k-1" });
      const again = await acme.call("counts", call, { idempotencyKey: "k-1" });
      const other = await failureOf(acme.call("counts", { input: { key: "x" } }, { idempotencyKey: "k-1" }));
      const queued = await acme.enqueue("counts", call, "k-2");
      const repeated = await Promise.all([1, 2, 3].map(() => acme.enqueue("counts", call, "k-2")));
      const ended = await endOf(acme, queued.id);
      const waits = await acme.enqueue("waits", {}, "k-3");
      const open = await failureOf(acme.call("waits", {}, { idempotencyKey: "k-3" }));
      await cancel(acme, waits.id);
      await endOf(acme, waits.id);
      const after = await acme.call("counts", call);
      return {
        first: showCall(first),
        again: showCall(again),
        isSame: first.id === again.id,
        other,
        open,
        areSame: repeated.every(({ id }) => id === queued.id),
        ended: showCall(ended),
        after: after.output,
      };
    },
    expected: {
      isSame: true,
      areSame: true,
      first: { output: 1 },
      again: { output: 1 },
      ended: { output: 2 },
      after: 3,
      other: { status: 409 },
      open: { status: 409 },
    },
  },
  {
    what: "requests to cancel calls",
    run: async ({ client, acme }) => {
      const call = acme.call("waits");
      const id = await runningCall(client, "acme", "waits");
      await cancel(acme, id);
      const cancelled = await call;
      const queued = await acme.enqueue("waits");
      await untilBegun(acme, queued.id);
      await cancel(acme, queued.id);
      const ended = await endOf(acme, queued.id);
      return {
        call: showCall(cancelled),
        ended: showCall(ended),
        again: await failureOf(acme.cancelCall(queued.id)),
        unknown: await failureOf(acme.cancelCall("call_00000000000000000000000000")),
      };
    },
    expected: {
      call: { state: "cancelled", error: { code: "CANCELLED" } },
      ended: { state: "cancelled" },
      again: { status: 409 },
      unknown: { status: 404 },
    },
  },
  {
    what: "clients that disconnect",
    run: async ({ client, acme }) => {
      const leaving = new AbortController();
      const call = acme.call("waits", {}, { signal: leaving.signal }).catch(({ name }) => name);
      const id = await runningCall(client, "acme", "waits");
      leaving.abort();
      const ended = await endOf(acme, await waitFor(acme, id));
      const watching = new AbortController();
      const stream = acme.stream("waits", {}, watching.signal);
      const { value } = await stream.next();
      const streamed = (value as { readonly data: { readonly id: string } }).data.id;
      await untilBegun(acme, streamed);
      watching.abort();
      await stream.next().catch(() => {});
      return {
        thrown: await call,
        call: showCall(ended),
        streamed: showCall(await endOf(acme, await waitFor(acme, streamed))),
      };
    },
    expected: { thrown: "AbortError", call: { state: "cancelled" }, streamed: { state: "cancelled" } },
  },
  {
    what: "requests that are not valid",
    run: async ({ client, acme, origin }) => {
      const path = "/v1/tenants/acme/tools/add/calls";
      const post = (body: unknown, to = path, headers = {}): Promise<unknown> =>
        failureOf(client.request("POST", to, { body, headers }));
      return [
        await post({ inputs: {} }),
        await post({ input: {}, version: 1, alias: "live" }),
        await post({ input: {}, timeoutMs: -1 }),
        await post({}, "/v1/tenants/unknown/tools/add/calls"),
        await post({}, "/v1/tenants/acme/tools/-%20-/calls"),
        await post({}, path, { "idempotency-key": " " }),
        await post({}, path, { authorization: "Bearer gbx_wrong" }),
        await post({ calls: [] }, "/v1/tenants/acme/calls"),
        await failureOf(acme.call("add", { input: {}, version: 9 })),
        await failureOf(acme.getCall("call_00000000000000000000000000")),
        await failureOf(acme.deploy({ name: "broken", source: "export default () => {\n  return (;\n}" })),
        await failureOf(acme.deploy({ name: "wants", source: `import "${origin}/x.js"; export default () => 1` })),
      ];
    },
    expected: [
      ...[422, 422, 422, 404, 422, 422, 401, 422].map((status) => ({ status })),
      ...[expect.anything(), expect.anything(), expect.anything(), expect.anything()],
    ],
  },
];

/** Waits until a call that a client has left has a record. Returns its id. */
async function waitFor(tenant: TenantClient, id: string): Promise<string> {
  await expect
    .poll(async () =>
      tenant.getCall(id).then(
        () => true,
        async () => {
          await sleep(20);
          return false;
        },
      ),
    )
    .toBe(true);
  return id;
}
