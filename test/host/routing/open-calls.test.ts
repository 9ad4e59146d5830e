// listCalls() and cancelCall(): a host lists the calls that it has accepted and cancels them in any state.
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { StreamItem } from "../../../src/host/contract/tool-stream.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { CallInfo, CallState } from "../../../src/host/routing/open-calls.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const A = { tenantId: "a" } as const;
const LONG_MS = 120_000;

/** Polls until a call matches. */
async function until(glovebox: Glovebox, fits: (call: CallInfo) => boolean): Promise<CallInfo> {
  const end = performance.now() + 200_000;
  for (;;) {
    const found = glovebox.listCalls({ scope: "all" }).find(fits);
    if (found !== undefined) return found;
    if (performance.now() > end) {
      throw new Error(`No such call among ${JSON.stringify(glovebox.listCalls({ scope: "all" }))}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const isIn = (callId: string, state: CallState) => (call: CallInfo) => call.callId === callId && call.state === state;

function expectCancelled(result: ToolResult): void {
  expect(errorOf(result)).toMatchObject({ code: "CANCELLED", details: { reason: "cancelled_by_host" } });
}

const LOOP = "export default () => { for (;;); }";

describe("Glovebox.listCalls() and cancelCall()", () => {
  let glovebox: Glovebox;
  const opens: (() => void)[] = [];
  beforeAll(async () => {
    glovebox = await makeGlovebox({
      tenancy: "multi",
      limits: { timeoutMs: LONG_MS, cpuMs: LONG_MS },
      tenants: { narrow: { limits: { maxConcurrentCalls: 1 } } },
      hooks: [
        {
          name: "slow",
          timeoutMs: 30_000,
          validate: ({ call }) => (call.callId.startsWith("hooked") ? new Promise(() => {}) : undefined),
          result: ({ call }) => (call.callId.startsWith("shown") ? new Promise(() => {}) : undefined),
        },
      ],
    });
    const held = (): Promise<string> => new Promise((resolve) => opens.push(() => resolve("opened")));
    for (const tenantId of ["a", "b", "narrow"]) {
      glovebox.router.register("held", {}, held, { tenantId });
      glovebox.router.register("quick", {}, () => "done", { tenantId });
      await glovebox.addTool({ source: LOOP, name: "loop" }, { tenantId });
    }
    const calling = "export default async (_input, ctx) => await ctx.tools.held({});";
    await glovebox.addTool({ source: calling, name: "calling" }, { ...A, grant: ["tools"] });
    await glovebox.addTool(
      { source: "export default async (_i, ctx) => ctx.tools.loop({})", name: "outer" },
      { ...A, grant: ["tools"] },
    );
    await glovebox.addTool(
      {
        source: "export default async function* () { yield 1; for (;;) await new Promise(() => {}); }",
        name: "streaming",
      },
      A,
    );
    await glovebox.addTool(
      {
        source: "export default async ({ wait }) => { if (wait) await new Promise(() => {}); return 1; }",
        name: "kept",
      },
      { ...A, isolateLifetime: "session" },
    );
  });
  // Removes what a failed test has left.
  afterEach(() => {
    for (const { id, tenantId } of glovebox.listCalls({ scope: "all" })) glovebox.cancelCall(id, { tenantId });
  });
  afterAll(async () => await glovebox.close());

  const call = (id: string, toolName: string, context: object = A, args: object = {}): Promise<ToolResult> =>
    glovebox.execute({ id, toolName, arguments: args }, context);

  test("lists each call until it has its result", async () => {
    expect([glovebox.listCalls(A), glovebox.listCalls({ scope: "all" })]).toEqual([[], []]);
    const before = Date.now();
    const running = call("c1", "held", { ...A, timeoutMs: 60_000 });
    const info = await until(glovebox, isIn("c1", "running"));
    expect(info).toMatchObject({ callId: "c1", toolName: "held", tenantId: "a" });
    expect(info.id).not.toBe("c1");
    expect(info.ageMs).toBeGreaterThanOrEqual(0);
    expect(info.startedAt).toBeGreaterThanOrEqual(before - 1);
    expect(info.startedAt).toBeLessThanOrEqual(Date.now());
    // The clock starts a moment after the call. 2 ms are for rounding.
    expect(info.deadlineAt).toBeGreaterThanOrEqual(info.startedAt + 60_000 - 2);
    expect(info.deadlineAt).toBeLessThanOrEqual(Date.now() + 60_000 + 2);
    expect(info).not.toHaveProperty("parentId");
    for (const open of opens.splice(0)) open();
    expect(outputOf(await running)).toBe("opened");
    expect(glovebox.listCalls(A)).toEqual([]);
    expect(glovebox.cancelCall(info.id, A)).toBe(false);
  });

  test.for<[string, string, CallState]>([
    ["that waits for a hook", "hooked", "starting"],
    ["that computes", "loop", "running"],
    ["that waits in a capability", "calling", "running"],
    ["of a host function", "held", "running"],
    ["whose result is shown to hooks", "shown", "ending"],
  ])("cancelCall() ends a call %s", async ([, kind, state]) => {
    const toolName = kind === "hooked" || kind === "shown" ? "quick" : kind;
    const running = call(`${kind}-1`, toolName);
    const { id } = await until(glovebox, isIn(`${kind}-1`, state));
    expect(glovebox.cancelCall(id, A)).toBe(true);
    expectCancelled(await running);
    expect(glovebox.listCalls(A)).toEqual([]);
    expect(glovebox.cancelCall(id, A)).toBe(false);
  });

  test("cancelCall() ends a call that waits for a worker process, and the one that runs goes on", async () => {
    const narrow = { tenantId: "narrow" };
    const running = call("runs", "loop", narrow);
    await until(glovebox, isIn("runs", "running"));
    const waiting = call("waits", "loop", narrow);
    const { id } = await until(glovebox, isIn("waits", "queued"));
    expect(glovebox.cancelCall(id, narrow)).toBe(true);
    expectCancelled(await waiting);
    expect(glovebox.listCalls(narrow).map(({ callId }) => callId)).toEqual(["runs"]);
    expect(glovebox.cancelCall("runs", narrow)).toBe(true);
    expectCancelled(await running);
  });

  test("a nested call is listed with its parent, and ends with it", async () => {
    const running = call("outer-1", "outer");
    const nested = await until(glovebox, ({ toolName, state }) => toolName === "loop" && state === "running");
    const parent = await until(glovebox, ({ callId }) => callId === "outer-1");
    expect(nested.parentId).toBe(parent.id);
    expect(glovebox.cancelCall(parent.id, A)).toBe(true);
    expectCancelled(await running);
    await expect.poll(() => glovebox.listCalls(A)).toEqual([]);
  });

  test("a nested call that is cancelled alone is an error of its caller's", async () => {
    const running = call("outer-2", "outer");
    const nested = await until(glovebox, ({ toolName, state }) => toolName === "loop" && state === "running");
    expect(glovebox.cancelCall(nested.id, A)).toBe(true);
    const error = errorOf(await running);
    expect([error.code, error.message]).toEqual(["TOOL_FAILED", expect.stringContaining("cancelled by its host")]);
  });

  test("a stream that is cancelled gives its chunks and one result", async () => {
    const items: StreamItem[] = [];
    let isCancelled = false;
    for await (const item of glovebox.stream({ id: "s1", toolName: "streaming" }, A)) {
      items.push(item);
      if (!isCancelled) isCancelled = glovebox.cancelCall("s1", A);
    }
    expect(items.map(({ type }) => type)).toEqual(["chunk", "result"]);
    expectCancelled(items[1] as ToolResult);
  });

  test("calls of a batch are listed while they wait, and each can be cancelled", async () => {
    const ids = ["b1", "b2", "b3", "b4"];
    const batch = glovebox.executeBatch(
      ids.map((id) => ({ id, toolName: "held" })),
      { ...A, maxConcurrency: 1 },
    );
    await until(glovebox, isIn("b1", "running"));
    expect(glovebox.listCalls(A).map(({ callId, state }) => [callId, state])).toEqual([
      ["b1", "running"],
      ["b2", "queued"],
      ["b3", "queued"],
      ["b4", "queued"],
    ]);
    expect(glovebox.listCalls(A)[1]).not.toHaveProperty("deadlineAt");
    for (const id of ["b3", "b1", "b2"]) expect(glovebox.cancelCall(id, A)).toBe(true);
    const { id } = await until(glovebox, isIn("b4", "running"));
    expect(glovebox.cancelCall(id, A)).toBe(true);
    const results = await batch;
    expect(results.map(({ callId }) => callId)).toEqual(ids);
    for (const result of results) expectCancelled(result);
    expect(glovebox.listCalls(A)).toEqual([]);
  });

  test("an invocation that waits for its tenant's slot is cancelled at once", async () => {
    const running = Array.from({ length: 10 }, (_, index) =>
      glovebox.invoker.execute({ id: `i${index}`, toolName: "held", context: A }),
    );
    const waiting = glovebox.invoker.execute({ id: "late", toolName: "held", context: A });
    await until(glovebox, isIn("i9", "running"));
    const { id } = await until(glovebox, isIn("late", "queued"));
    expect(glovebox.cancelCall(id, A)).toBe(true);
    expectCancelled(await waiting);
    for (const { id: other } of glovebox.listCalls(A)) glovebox.cancelCall(other, A);
    for (const result of await Promise.all(running)) expectCancelled(result);
  });

  test("calls of a session tool are listed with their session; one that waits for its turn is cancelled alone", async () => {
    const context = { ...A, sessionId: "s1" };
    const first = call("k1", "kept", context, { wait: true });
    expect(await until(glovebox, isIn("k1", "running"))).toMatchObject({ sessionId: "s1", toolName: "kept" });
    const second = call("k2", "kept", context);
    await until(glovebox, isIn("k2", "queued"));
    expect(glovebox.cancelCall("k2", A)).toBe(true);
    expectCancelled(await second);
    expect(glovebox.listCalls(A).map(({ callId }) => callId)).toEqual(["k1"]);
    expect(glovebox.cancelCall("k1", A)).toBe(true);
    expectCancelled(await first);
  });

  test("runs of an open session are listed, those that wait included; one that waits is cancelled alone", async () => {
    await using session = await glovebox.openSession({ ...A, id: "open" });
    const first = session.run("await new Promise(() => {})");
    const second = session.run("2");
    await until(glovebox, isIn("open.1", "running"));
    expect(glovebox.listCalls(A).map(({ callId, state, sessionId }) => [callId, state, sessionId])).toEqual([
      ["open.1", "running", "open"],
      ["open.2", "queued", "open"],
    ]);
    expect(glovebox.cancelCall("open.2", A)).toBe(true);
    expect(glovebox.cancelCall("open.1", A)).toBe(true);
    expectCancelled(await first);
    expectCancelled(await second);
    expect(glovebox.listCalls(A)).toEqual([]);
  });

  test("a caller's own id ends all calls with it, the id of the list only one", async () => {
    const twins = [call("twin", "held"), call("twin", "held"), call("twin", "held")];
    await until(glovebox, isIn("twin", "running"));
    const [one, ...others] = glovebox.listCalls(A);
    expect(new Set(glovebox.listCalls(A).map(({ id }) => id)).size).toBe(3);
    expect(glovebox.cancelCall(one?.id as string, A)).toBe(true);
    expectCancelled((await twins[0]) as ToolResult);
    expect(glovebox.listCalls(A).map(({ id }) => id)).toEqual(others.map(({ id }) => id));
    expect(glovebox.cancelCall("twin", A)).toBe(true);
    for (const result of await Promise.all(twins)) expectCancelled(result);
  });

  test("a tenant sees and ends its own calls only", async () => {
    const running = [call("same", "held"), call("same", "held", { tenantId: "b" })];
    await until(glovebox, ({ tenantId, state }) => tenantId === "b" && state === "running");
    const [own] = glovebox.listCalls(A);
    const [foreign] = glovebox.listCalls({ tenantId: "b" });
    expect(glovebox.listCalls(A).map(({ tenantId }) => tenantId)).toEqual(["a"]);
    expect(glovebox.listCalls({ scope: "all" }).map(({ tenantId }) => tenantId)).toEqual(["a", "b"]);
    expect(glovebox.cancelCall(foreign?.id as string, A)).toBe(false);
    expect(glovebox.cancelCall("same", A)).toBe(true);
    expectCancelled((await running[0]) as ToolResult);
    expect(glovebox.listCalls({ scope: "all" }).map(({ id }) => id)).toEqual([foreign?.id]);
    expect(glovebox.cancelCall(own?.id as string, { tenantId: "b" })).toBe(false);
    expect(glovebox.cancelCall("same", { tenantId: "b" })).toBe(true);
    expectCancelled((await running[1]) as ToolResult);
  });

  test.for<[string, () => unknown, string]>([
    ["listCalls() without a tenant", () => glovebox.listCalls(), "options.tenantId"],
    ["listCalls() of a tenant and of all", () => glovebox.listCalls({ tenantId: "a", scope: "all" }), "options"],
    ["listCalls() with another scope", () => glovebox.listCalls({ scope: "global" as never }), "options.scope"],
    ["listCalls() with an unknown key", () => glovebox.listCalls({ tenant: "a" } as never), "options.tenant"],
    ["cancelCall() without a tenant", () => glovebox.cancelCall("c1"), "options.tenantId"],
    ["cancelCall() of all tenants", () => glovebox.cancelCall("c1", { scope: "all" } as never), "options.scope"],
    ["cancelCall() of a number", () => glovebox.cancelCall(5 as never, A), "id"],
    ["cancelCall() of a promise", () => glovebox.cancelCall(Promise.resolve("c1") as never, A), "id"],
  ])("rejects %s", ([, run, path]) => {
    expect(run).toThrow(expect.objectContaining({ code: "PARAM_INVALID", message: expect.stringContaining(path) }));
  });
});

test("cancels a call that waits for a flag before its tool is looked up", async () => {
  const glovebox = await makeGlovebox({ tenancy: "multi", flags: () => new Promise(() => {}) });
  onTestFinished(async () => await glovebox.close());
  const running = glovebox.execute({ id: "f1", toolName: "any" }, A);
  await until(glovebox, isIn("f1", "starting"));
  expect(glovebox.cancelCall("f1", A)).toBe(true);
  expectCancelled(await running);
});

test("a call that has its outcome when it is cancelled has one result, and it is CANCELLED", async () => {
  const glovebox = await makeGlovebox({ tenancy: "multi" });
  onTestFinished(async () => await glovebox.close());
  let isCancelled = false;
  glovebox.router.register(
    "late",
    {},
    async () => {
      // In the same turn in which the function's answer arrives.
      const cancel = (): void => {
        isCancelled = glovebox.cancelCall("l1", A);
      };
      queueMicrotask(() => queueMicrotask(cancel));
      return "done";
    },
    A,
  );
  const result = await glovebox.execute({ id: "l1", toolName: "late" }, A);
  expect(codeOf(result)).toBe(isCancelled ? "CANCELLED" : "ok");
  expect(glovebox.listCalls({ scope: "all" })).toEqual([]);
});

test("with one tenant, neither method takes a tenant", async () => {
  const glovebox = await makeGlovebox({ tenancy: "single" });
  onTestFinished(async () => await glovebox.close());
  expect(() => glovebox.listCalls(A)).toThrow(expect.objectContaining({ code: "PARAM_INVALID" }));
  expect(() => glovebox.cancelCall("c1", A)).toThrow(expect.objectContaining({ code: "PARAM_INVALID" }));
  expect([glovebox.listCalls(), glovebox.cancelCall("c1")]).toEqual([[], false]);
});
