// ToolInvoker: returns one result for each invocation, in order, for any input, and limits the concurrency of a tenant.
import { setTimeout as pause, setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ToolInvocation } from "../../../src/host/contract/tool-call.ts";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolInvoker } from "../../../src/host/routing/tool-invoker.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf } from "../../support/host-zone.ts";

/** A tool that counts its concurrent calls, and ends them on request. */
class Gate {
  running = 0;
  most = 0;
  readonly started: string[] = [];
  #open: (() => void)[] = [];
  readonly handler: HostFunction = async (input, { signal }) => {
    this.started.push(String((input as { name?: string }).name));
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    await new Promise<void>((resolve) => {
      this.#open.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    this.running -= 1;
    return input;
  };

  /** Ends this number of waiting calls, oldest first, and waits until others have their slots. */
  async pass(count = Number.POSITIVE_INFINITY): Promise<void> {
    for (const open of this.#open.splice(0, count)) open();
    for (let turns = 0; turns < 20; turns += 1) await turn();
  }

  async passAll(): Promise<void> {
    for (await this.pass(0); this.#open.length > 0; ) await this.pass();
  }
}

interface Setup {
  readonly router: ToolRouter;
  readonly invoker: ToolInvoker;
  readonly gate: Gate;
}

function setUp(maxConcurrentTools?: number, tenancy: "single" | "multi" = "single"): Setup {
  const router = new ToolRouter({ tenancy, limits: { timeoutMs: 120_000 } });
  const gate = new Gate();
  router.register("gate", {}, gate.handler, { scope: "global" });
  router.register("echo", {}, (input) => input, { scope: "global" });
  const fail = (): never => {
    throw new Error("at /root/secret.ts");
  };
  router.register("fail", {}, fail, { scope: "global" });
  router.register("never", {}, () => new Promise(() => {}), { scope: "global" });
  return { router, invoker: new ToolInvoker(router, { maxConcurrentTools }), gate };
}
const echo = (value: unknown): ToolInvocation => ({ toolName: "echo", arguments: { value } });
const gated = (name: string): ToolInvocation => ({ toolName: "gate", arguments: { name } });
function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
const throwing = (): never => {
  throw new Error("a getter, at /root/secret.ts");
};

describe("ToolInvoker.execute()", () => {
  test("turns an invocation into a result, and makes an id where there is none", async () => {
    const { invoker } = setUp();
    const [made, given] = [await invoker.execute(echo(1)), await invoker.execute({ ...echo(2), id: "c7" })];
    expect([outputOf(made), outputOf(given)]).toEqual([{ value: 1 }, { value: 2 }]);
    expect(made.callId).toMatch(/^[0-9a-f-]{36}$/);
    expect(given.callId).toBe("c7");
  });

  test("accepts arguments as JSON text that a model wrote", async () => {
    const { invoker } = setUp();
    const whole = await invoker.execute({ toolName: "echo", argumentsText: '{"value":[1]}' });
    expect(outputOf(whole)).toEqual({ value: [1] });
    expect(codeOf(await invoker.execute({ toolName: "echo", argumentsText: '{"value":' }))).toBe("PARAM_INVALID");
  });

  test("applies each invocation's own timeoutMs and context", async () => {
    const { router, invoker } = setUp();
    router.register("who", {}, (_, { tenantId, stepId, executionId }) => ({ tenantId, stepId, executionId }));
    const late = await invoker.execute({ toolName: "never", timeoutMs: 20 });
    expect([errorOf(late).code, errorOf(late).details]).toEqual(["TOOL_TIMEOUT", { timeoutMs: 20 }]);
    const context = { stepId: "s1", executionId: "e1" };
    expect(outputOf(await invoker.execute({ toolName: "who", context }))).toEqual({ tenantId: "default", ...context });
  });

  test("waits for a slot of its tenant; the timeout of the call starts afterwards", async () => {
    const { invoker, gate } = setUp(1, "multi");
    const context = { tenantId: "acme" };
    const first = invoker.execute({ ...gated("first"), context });
    const second = invoker.execute({ ...echo("second"), timeoutMs: 1_500, context });
    const other = await invoker.execute({ ...echo("other"), context: { tenantId: "other" } });
    expect(codeOf(other)).toBe("ok");
    await pause(1_600);
    await gate.pass();
    expect([codeOf(await first), codeOf(await second)]).toEqual(["ok", "ok"]);
  });

  const HOSTILE: readonly (readonly [string, unknown])[] = [
    ["nothing", undefined],
    ["null", null],
    ["text", "echo"],
    ["a revoked proxy", revoked()],
    [
      "a getter that throws",
      {
        get toolName(): string {
          return throwing();
        },
      },
    ],
    ["an unknown key", { toolName: "echo", args: {} }],
    ["no tool name", { arguments: {} }],
    ["an id that is a number", { id: 5, toolName: "echo" }],
    ["an empty id", { id: "", toolName: "echo" }],
    ["a time that is text", { toolName: "echo", timeoutMs: "5" }],
    ["no time", { toolName: "echo", timeoutMs: 0 }],
    ["a context that is text", { toolName: "echo", context: "acme" }],
    [
      "a context whose getter throws",
      {
        toolName: "echo",
        context: {
          get stepId(): string {
            return throwing();
          },
        },
      },
    ],
    ["an invalid signal", { toolName: "echo", context: { signal: { aborted: true } } }],
    [
      "arguments that cannot be read",
      {
        toolName: "echo",
        arguments: {
          get a(): string {
            return throwing();
          },
        },
      },
    ],
    ["a tenant by another name", { toolName: "echo", context: { tenantID: "acme" } }],
    ["a timeout by another name", { toolName: "echo", context: { timeout: 5 } }],
    ["a promise as context", { toolName: "echo", context: Promise.resolve({ tenantId: "acme" }) }],
    ["a list as context", { toolName: "echo", context: [] }],
    ["maxConcurrency, which only a batch has", { toolName: "echo", context: { maxConcurrency: 1 } }],
    ["a promise", Promise.resolve(echo("later"))],
    ["an instance of a class", Object.assign(new Date(), echo("dated"))],
  ];
  test.for(HOSTILE)("returns PARAM_INVALID for %s, alone and in a batch", async ([, value]) => {
    const { invoker } = setUp();
    const alone = await invoker.execute(value as never);
    const batch = await invoker.executeBatch([echo(1), value as never, echo(2)]);
    expect(codeOf(alone)).toBe("PARAM_INVALID");
    expect(batch.map(codeOf)).toEqual(["ok", "PARAM_INVALID", "ok"]);
    expectPublishable(alone);
  });
});

describe("ToolInvoker.executeBatch()", () => {
  test("returns results in order, failures among successes", async () => {
    const { invoker, gate } = setUp();
    const running = invoker.executeBatch([
      gated("slow"),
      { toolName: "fail" },
      { toolName: "nobody" },
      { toolName: "never", timeoutMs: 10 },
      { id: "same", toolName: "echo", arguments: { n: 1 } },
      { id: "same", toolName: "echo", arguments: { n: 2 } },
    ]);
    await gate.passAll();
    const results = await running;
    expect(results.map(codeOf)).toEqual(["ok", "TOOL_FAILED", "TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "ok", "ok"]);
    expect(results.slice(4).map((result) => [result.callId, outputOf(result)])).toEqual([
      ["same", { n: 1 }],
      ["same", { n: 2 }],
    ]);
  });

  test.for([
    [undefined, 4],
    [1, 1],
    [10, 10],
  ])("maxConcurrency %s: %s at the same time", async ([maxConcurrency, most]) => {
    const { invoker, gate } = setUp();
    const running = invoker.executeBatch(
      Array.from({ length: 25 }, (_, n) => gated(`${n}`)),
      { maxConcurrency },
    );
    await gate.passAll();
    expect((await running).map(codeOf)).toEqual(Array(25).fill("ok"));
    expect(gate.most).toBe(most);
    expect(gate.started).toEqual(Array.from({ length: 25 }, (_, n) => `${n}`));
  });

  test.for([0, -1, 11, 2.5, Number.NaN, "2", null, [2], Promise.resolve(2)])(
    "rejects maxConcurrency %s: each result is PARAM_INVALID",
    async (maxConcurrency) => {
      const { invoker, gate } = setUp();
      const results = await invoker.executeBatch([echo(1), echo(2)], { maxConcurrency } as never);
      expect(results.map((result) => errorOf(result).message)).toEqual(
        Array(2).fill(
          expect.stringMatching(
            /^context\.maxConcurrency: expected a whole number from 1 to 10, the largest value of tools\.maxConcurrentTools, got /,
          ),
        ),
      );
      expect(gate.started).toEqual([]);
    },
  );

  test("a tenant's batches share its slots and take turns, however large one of them is", async () => {
    const { invoker, gate } = setUp(2);
    const large = invoker.executeBatch(
      Array.from({ length: 50 }, (_, n) => gated(`large ${n}`)),
      { maxConcurrency: 10 },
    );
    const small = invoker.executeBatch([gated("small 0"), gated("small 1"), gated("small 2")], { maxConcurrency: 1 });
    let left = 3;
    void small.then(() => {
      left = 0;
    });
    for (let passes = 0; left > 0 && passes < 20; passes += 1) await gate.pass(1);
    expect(left).toBe(0);
    await gate.passAll();
    expect((await large).map(codeOf)).toEqual(Array(50).fill("ok"));
    expect(gate.most).toBe(2);
  });

  test("tenants have separate slots", async () => {
    const { invoker, gate } = setUp(1, "multi");
    const acme = invoker.executeBatch([gated("a"), gated("b")], { tenantId: "acme" });
    expect((await invoker.executeBatch([echo(1), echo(2)], { tenantId: "other" })).map(codeOf)).toEqual(["ok", "ok"]);
    await gate.passAll();
    expect((await acme).map(codeOf)).toEqual(["ok", "ok"]);
  });

  test("when it is cancelled, every call gets its CANCELLED result immediately, and no call starts", async () => {
    const { invoker, gate } = setUp(3);
    const caller = new AbortController();
    const running = invoker.executeBatch(
      Array.from({ length: 10_000 }, (_, n) => gated(`${n}`)),
      {
        signal: caller.signal,
        maxConcurrency: 10,
      },
    );
    await turn();
    caller.abort();
    const results = await running;
    expect(new Set(results.map(codeOf))).toEqual(new Set(["CANCELLED"]));
    expect(results).toHaveLength(10_000);
    expect(gate.started).toHaveLength(3);
    expect(codeOf(await invoker.execute(echo(1)))).toBe("ok");
  });

  test("an invocation's own signal ends only that invocation, waiting or running", async () => {
    const { invoker, gate } = setUp(1);
    const one = new AbortController();
    const running = invoker.executeBatch([gated("a"), { ...gated("b"), context: { signal: one.signal } }, gated("c")]);
    await turn();
    one.abort();
    await gate.passAll();
    expect((await running).map(codeOf)).toEqual(["ok", "CANCELLED", "ok"]);
    expect(gate.started).toEqual(["a", "c"]);
  });

  test("a batch with a tenant rejects an invocation that names another tenant", async () => {
    const { invoker } = setUp(undefined, "multi");
    const results = await invoker.executeBatch(
      [echo(1), { ...echo(2), context: { tenantId: "other" } }, { ...echo(3), context: { tenantId: "acme" } }],
      { tenantId: "acme" },
    );
    expect(results.map(codeOf)).toEqual(["ok", "PARAM_INVALID", "ok"]);
  });

  test("tools that invoke others through it do not wait for themselves", async () => {
    const { router, invoker } = setUp(1);
    const nested: HostFunction = async (input) => {
      const { depth } = input as { depth: number };
      if (depth === 0) return 1;
      const below = { toolName: "nested", arguments: { depth: depth - 1 } };
      const results = await invoker.executeBatch([below, below], { maxConcurrency: 2 });
      return results.reduce((sum, result) => sum + (outputOf(result) as number), 0);
    };
    router.register("nested", {}, nested);
    const batch = [3, 2].map((depth) => ({ toolName: "nested", arguments: { depth } }));
    expect((await invoker.executeBatch(batch)).map(outputOf)).toEqual([8, 4]);
  });

  test.for([
    ["nothing", undefined],
    ["text", "calls"],
    ["a revoked proxy", revoked()],
    ["a proxy that throws", new Proxy([], { get: throwing })],
    ["four billion holes", Object.assign([], { length: 2 ** 32 - 1 })],
  ] as const)("%s instead of a batch: one result, PARAM_INVALID", async ([, batch]) => {
    const results = await setUp().invoker.executeBatch(batch as never);
    expect(results.map(codeOf)).toEqual(["PARAM_INVALID"]);
    expectPublishable(results);
  });

  test("an array item that throws is an invalid call, and the others run", async () => {
    const batch = [echo(1), echo(2), echo(3)];
    Object.defineProperty(batch, 1, { get: throwing });
    expect((await setUp().invoker.executeBatch(batch)).map(codeOf)).toEqual(["ok", "PARAM_INVALID", "ok"]);
  });

  test("options that cannot be read: every call's result is PARAM_INVALID", async () => {
    const { invoker } = setUp();
    const options = {
      get signal(): AbortSignal {
        return throwing();
      },
    };
    const results = await invoker.executeBatch(
      [
        { ...echo(1), id: "a" },
        { ...echo(2), id: "b" },
      ],
      options,
    );
    expect(results.map((result) => [result.callId, codeOf(result)])).toEqual([
      ["a", "PARAM_INVALID"],
      ["b", "PARAM_INVALID"],
    ]);
  });

  test("10,000 calls: each has its own result, and the event loop is not blocked", async () => {
    const { invoker } = setUp();
    let turns = 0;
    const ticking = setInterval(() => {
      turns += 1;
    }, 1);
    const results = await invoker.executeBatch(Array.from({ length: 10_000 }, (_, n) => echo(n)));
    clearInterval(ticking);
    expect(results.map(outputOf)).toEqual(Array.from({ length: 10_000 }, (_, value) => ({ value })));
    expect(turns).toBeGreaterThan(0);
  });

  test("any mix of calls, tenants and limits: one result for each call, with its id", async () => {
    const call = fc.record({
      toolName: fc.constantFrom("echo", "fail", "nobody"),
      id: fc.string({ minLength: 1, maxLength: 5 }),
      context: fc.record({ tenantId: fc.constantFrom("a", "b", "c") }),
    });
    const calls = fc.array(call, { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(
        calls,
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 10 }),
        async (batch, cap, max) => {
          const { invoker } = setUp(max, "multi");
          const results = await invoker.executeBatch(batch, { maxConcurrency: cap });
          const codes = { echo: "ok", fail: "TOOL_FAILED", nobody: "TOOL_UNAVAILABLE" };
          expect(results.map((result) => [result.callId, codeOf(result)])).toEqual(
            batch.map(({ id, toolName }) => [id, codes[toolName]]),
          );
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe("Glovebox.executeBatch()", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox();
    await glovebox.addTool({ name: "double", source: "export default ({ n }) => n * 2" });
    await glovebox.addTool({ name: "loop", source: "export default () => { for (;;) {} }" });
  });
  afterAll(() => glovebox[Symbol.asyncDispose]());

  test("runs sandboxed calls in parallel with one that is killed, each with its own timeout", async () => {
    const results = await glovebox.executeBatch([
      { id: "a", toolName: "double", arguments: { n: 1 } },
      { toolName: "loop", timeoutMs: 200 },
      { id: "a", toolName: "double", arguments: { n: 2 } },
      { toolName: "double", arguments: { n: 3 }, context: { stepId: "s" } },
    ]);
    expect(results.map(codeOf)).toEqual(["ok", "TOOL_TIMEOUT", "ok", "ok"]);
    expect([0, 2, 3].map((index) => results[index]?.success && results[index].output)).toEqual([2, 4, 6]);
  });

  test("cancelling a batch kills running calls", async () => {
    const caller = new AbortController();
    const loops = Array.from({ length: 6 }, () => ({ toolName: "loop" }));
    const running = glovebox.invoker.executeBatch(loops, { signal: caller.signal, maxConcurrency: 2 });
    await pause(100);
    caller.abort();
    expect((await running).map(codeOf)).toEqual(Array(6).fill("CANCELLED"));
    const after = await glovebox.invoker.execute({ toolName: "double", arguments: { n: 4 } });
    expect(outputOf(after)).toBe(8);
  });
});
