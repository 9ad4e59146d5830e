// Calls on the main thread of their process, and calls next to computing ones of their tenant. A tool gets there after some short calls.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

/** Short unless its input says otherwise. */
const SOURCE = `
  export const capabilities = { add: {} };
  const work = {
    none: () => {},
    loop: () => { for (;;); },
    microtasks: async () => { for (;;) await null; },
    allocate: () => { const kept = []; for (;;) kept.push(new Array(10_000).fill({})); },
    builtin: () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1),
    reject: () => { void Promise.reject(new Error("unhandled")); },
    dispatch: () => { throw new Error("Script execution timed out."); },
  };
  export default async ({ what = "none", after, id }, ctx) => {
    if (after === "capability") await ctx.add(1);
    if (after === "timer") await new Promise((resolve) => setTimeout(resolve, 1));
    if (after === "log") console.log("begins");
    await work[what]();
    return id ?? "done";
  };`;
const OTHER = "export default ({ id }) => id;";
/** Computes for about 0.1 s, which is long. */
const LONG = "export default () => { for (let n = 0, x = 0; n < 6e7; n += 1) x += Math.sqrt(n); return 'done'; };";
/** Far more than a short call needs on a busy machine, and far less than a test may take. */
const LONG_MS = 60_000;
const SHORT_CALLS = 5;

const add = defineCapability({
  name: "add",
  inputSchema: { type: "number" },
  outputSchema: { type: "number" },
  handler: async (n) => (n as number) + 1,
});

async function openGlovebox(options: GloveboxOptions = {}): Promise<Glovebox> {
  // A call's own limit can only be lower than these.
  const limits = { timeoutMs: 4 * LONG_MS, cpuMs: 4 * LONG_MS, ...options.limits };
  const glovebox = await makeGlovebox({ capabilities: [add], ...options, limits });
  onTestFinished(() => glovebox.close());
  await glovebox.addTool({ name: "tool", source: SOURCE }, { grant: ["add"], isolateLifetime: "tool" });
  await glovebox.addTool({ name: "other", source: OTHER });
  for (let n = 0; n < SHORT_CALLS; n += 1) {
    expect(outputOf(await run(glovebox, {}))).toBe("done");
    expect(outputOf(await glovebox.execute({ id: "o", toolName: "other", arguments: { id: n } }))).toBe(n);
  }
  return glovebox;
}
const run = (glovebox: Glovebox, args: object, context?: CallContext): Promise<ToolResult> =>
  glovebox.execute({ id: "c", toolName: "tool", arguments: args }, context);

/** CPU time of a process's first thread, in ticks of 10 ms. */
function mainThreadTicks(pid: number): number {
  const text = readFileSync(`/proc/${pid}/task/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

describe("a tool whose calls have been short", () => {
  test.skipIf(process.platform !== "linux")("runs on the main thread of its process", async () => {
    // On a slow machine, a call can take too much CPU time to be short, but not each time.
    await vi.waitFor(async () => {
      const glovebox = await openGlovebox();
      const before = new Map(glovebox.workerPids.map((pid) => [pid, mainThreadTicks(pid)]));
      const controller = new AbortController();
      const looping = run(glovebox, { what: "loop" }, { signal: controller.signal, timeoutMs: LONG_MS });
      const grown = (): boolean => [...before].some(([pid, ticks]) => mainThreadTicks(pid) > ticks + 20);
      try {
        await vi.waitFor(() => expect(grown()).toBe(true), { timeout: LONG_MS / 2 });
      } finally {
        controller.abort();
      }
      expect(codeOf(await looping)).toBe("CANCELLED");
    });
  });

  test.for([
    ["loop", undefined],
    ["loop", "capability"],
    ["loop", "timer"],
    ["microtasks", undefined],
    ["microtasks", "capability"],
  ] as const)("a tool that runs %s after %s ends by its deadline, and its process does not", async ([what, after]) => {
    // On a busy machine, a process can be so late that it is ended all the same, but not each time.
    await vi.waitFor(async () => {
      const glovebox = await openGlovebox();
      const pids = glovebox.workerPids;
      expect(codeOf(await run(glovebox, { what, after }, { timeoutMs: 300 }))).toBe("TOOL_TIMEOUT");
      expect(outputOf(await run(glovebox, {}))).toBe("done");
      expect(glovebox.workerPids).toEqual(expect.arrayContaining([...pids]));
    });
  });

  test("ends by its CPU limit", async () => {
    const glovebox = await openGlovebox({ limits: { cpuMs: 300, timeoutMs: LONG_MS } });
    const error = errorOf(await run(glovebox, { what: "loop" }));
    expect(error.code).toBe("CPU_LIMIT");
  });

  test("ends by its memory limit, and later calls work", async () => {
    const glovebox = await openGlovebox({ limits: { memoryMiB: 32, timeoutMs: LONG_MS } });
    expect(["MEMORY_LIMIT", "SANDBOX_CRASHED"]).toContain(codeOf(await run(glovebox, { what: "allocate" })));
    expect(outputOf(await run(glovebox, {}))).toBe("done");
  });

  test("ends by its deadline in code that V8 cannot stop, and later calls work", async () => {
    const glovebox = await openGlovebox();
    expect(codeOf(await run(glovebox, { what: "builtin" }, { timeoutMs: 300 }))).toBe("TOOL_TIMEOUT");
    expect(outputOf(await run(glovebox, {}))).toBe("done");
  });

  test.for(["loop", "microtasks", "builtin"])("ends at once when its caller cancels %s", async (what) => {
    const glovebox = await openGlovebox();
    const controller = new AbortController();
    const context = { timeoutMs: LONG_MS, signal: controller.signal, onLog: () => controller.abort() };
    // The line reaches the caller although the guest computes on from there.
    expect(codeOf(await run(glovebox, { what, after: "log" }, context))).toBe("CANCELLED");
    expect(outputOf(await run(glovebox, {}))).toBe("done");
  });

  test("is not ended by its own words", async () => {
    const glovebox = await openGlovebox();
    const error = errorOf(await run(glovebox, { what: "dispatch" }, { timeoutMs: LONG_MS }));
    expect([error.code, error.message]).toEqual([
      "TOOL_FAILED",
      expect.stringContaining("Script execution timed out."),
    ]);
    expect(outputOf(await run(glovebox, {}))).toBe("done");
  });

  test("survives an unhandled rejection", async () => {
    const glovebox = await openGlovebox();
    for (const after of [undefined, "capability", "timer"]) {
      expect(outputOf(await run(glovebox, { what: "reject", after }))).toBe("done");
    }
  });

  test("delays no call of another tool when it computes", async () => {
    const glovebox = await openGlovebox();
    const order: string[] = [];
    const controller = new AbortController();
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const context = { timeoutMs: LONG_MS, signal: controller.signal, onLog: () => resolve() };
    const looping = run(glovebox, { what: "loop", after: "log" }, context).then(() => order.push("loop"));
    await begun;
    for (let n = 0; n < 20; n += 1) {
      expect(outputOf(await glovebox.execute({ id: "o", toolName: "other", arguments: { id: n } }))).toBe(n);
    }
    order.push("others");
    controller.abort();
    await looping;
    expect(order).toEqual(["others", "loop"]);
  });

  test("returns each of many concurrent calls its own result", async () => {
    const glovebox = await openGlovebox();
    const afters = [undefined, "capability", "timer", "log"];
    const calls = Array.from({ length: 200 }, (_, id) => run(glovebox, { id, after: afters[id % 4] }));
    expect((await Promise.all(calls)).map(outputOf)).toEqual(calls.map((_, id) => id));
  });

  test("a call that computes when its process is killed counts as begun", async () => {
    const glovebox = await openGlovebox();
    const onLog = async (): Promise<void> => {
      await pause(50);
      for (const pid of glovebox.workerPids) process.kill(pid, "SIGKILL");
    };
    const error = errorOf(
      await run(glovebox, { what: "loop", after: "log" }, { timeoutMs: LONG_MS, onLog: () => void onLog() }),
    );
    expect([error.code, error.details]).toEqual(["SANDBOX_CRASHED", { begun: true }]);
    expect(outputOf(await run(glovebox, {}))).toBe("done");
  });
});

describe("calls that compute without end", () => {
  const ENDLESS = {
    loop: "export default () => { for (;;); };",
    allocations: "export default () => { for (;;) new Array(1_000).fill(1); };",
    microtasks: "export default async () => { for (;;) await null; };",
  };

  test("delay no other tool whose calls compute for long, though these may wait for each other", async () => {
    const glovebox = await openGlovebox({ limits: { queueMs: 4 * LONG_MS } });
    await glovebox.addTool({ name: "endless", source: ENDLESS.loop });
    await glovebox.addTool({ name: "long", source: LONG });
    const long = (): Promise<ToolResult> => glovebox.execute({ id: "l", toolName: "long" });
    // Now the pool knows that its calls are long.
    expect(outputOf(await long())).toBe("done");
    const controller = new AbortController();
    const ended: unknown[] = [];
    const context = { timeoutMs: 4 * LONG_MS, signal: controller.signal };
    const endless = Array.from({ length: 8 }, (_, n) =>
      glovebox.execute({ id: `e${n}`, toolName: "endless" }, context).then((result) => ended.push(codeOf(result))),
    );
    // The owner's priority falls within some tenths of a second: once before that, and once after it.
    for (const pauseMs of [0, 400]) {
      await pause(pauseMs);
      const results = await Promise.all([long(), long()]);
      expect(results.map(outputOf)).toEqual(["done", "done"]);
      expect(ended).toEqual([]);
    }
    controller.abort();
    await Promise.all(endless);
    expect(new Set(ended)).toEqual(new Set(["CANCELLED"]));
  });

  test.for(Object.entries(ENDLESS))(
    "%s: 8 of them delay no other tool of their tenant",
    {
      timeout: 5 * LONG_MS,
    },
    async ([, source]) => {
      // A busy machine may start a process late. What counts is the order in which calls end.
      const glovebox = await openGlovebox({ limits: { queueMs: 4 * LONG_MS } });
      await glovebox.addTool({ name: "endless", source });
      const controller = new AbortController();
      // Longer than the other calls take on a busy machine.
      const context = { timeoutMs: 4 * LONG_MS, signal: controller.signal };
      const ended: unknown[] = [];
      const endless = Array.from({ length: 8 }, (_, n) =>
        glovebox.execute({ id: `e${n}`, toolName: "endless" }, context).then((result) => {
          const { code, message } = errorOf(result);
          ended.push(message);
          return code;
        }),
      );
      for (let n = 0; n < 6; n += 1) {
        expect(outputOf(await glovebox.execute({ id: "o", toolName: "other", arguments: { id: n } }))).toBe(n);
        expect(outputOf(await run(glovebox, { after: "capability" }))).toBe("done");
        await pause(10);
      }
      // They all ended before any endless call did.
      expect(ended).toEqual([]);
      controller.abort();
      expect(new Set(await Promise.all(endless))).toEqual(new Set(["CANCELLED"]));
    },
  );
});
