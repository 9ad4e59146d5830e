// What a tenant, a tool and the host may have at one time, and what passing it says.
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { GloveboxOptions } from "../../src/host/config.ts";
import type { Glovebox } from "../../src/host/runtime.ts";
import type { ToolResult } from "../../src/host/tool-call.ts";
import type { PartialLimits } from "../../src/sandbox/limits.ts";
import { codeOf, errorOf, failureOf, makeBox, outputOf } from "../support/host-zone.ts";

const SLEEP = "export default ({ ms }) => new Promise((done) => setTimeout(done, ms, ms))";
const LOOP = "export default () => { for (;;); }";

async function boxOf(options: GloveboxOptions, toolLimits?: PartialLimits): Promise<Glovebox> {
  const box = await makeBox({ tenancy: "multi", ...options });
  onTestFinished(() => box.close());
  const definition = toolLimits === undefined ? {} : { definition: { limits: toolLimits } };
  await box.addTool({ name: "sleep", source: SLEEP, ...definition }, { scope: "global" });
  await box.addTool({ name: "loop", source: LOOP }, { scope: "global" });
  return box;
}
const sleep = (box: Glovebox, ms: number, tenantId = "acme"): Promise<ToolResult> =>
  box.execute({ id: "c", toolName: "sleep", arguments: { ms } }, { tenantId, timeoutMs: 20_000 });

describe("queuedCalls", () => {
  test("answers OVERLOADED at once, with retryAfterMs, when a tenant's queue is full; others are served", async () => {
    const box = await boxOf({ limits: { concurrentCalls: 1, queuedCalls: 1, timeoutMs: 20_000 } });
    const running = [sleep(box, 600), sleep(box, 1)];
    const began = performance.now();
    const error = errorOf(await sleep(box, 1));
    // Before the first of them is over.
    expect(performance.now() - began).toBeLessThan(500);
    expect([error.code, error.recoverable, error.details?.queuedCalls]).toEqual(["OVERLOADED", true, 1]);
    expect(error.details?.retryAfterMs).toBeGreaterThan(0);
    expect(error.message).toMatch(
      /^The queue is full: 1 calls of this tenant may wait at one time; try again in \d+ ms$/,
    );
    expect(outputOf(await sleep(box, 1, "other"))).toBe(1);
    expect((await Promise.all(running)).map(codeOf)).toEqual(["ok", "ok"]);
  });

  test("of 0 lets run what can run at once", async () => {
    const box = await boxOf({ limits: { concurrentCalls: 1, queuedCalls: 0, timeoutMs: 20_000 } });
    expect(codeOf(await sleep(box, 1))).toBe("ok");
    const [first, second] = await Promise.all([sleep(box, 100), sleep(box, 100)]);
    expect([codeOf(first), codeOf(second)]).toEqual(["ok", "OVERLOADED"]);
  });

  test("of the whole host is workers.maxQueued", async () => {
    const box = await boxOf({ limits: { concurrentCalls: 1, timeoutMs: 20_000 }, workers: { maxQueued: 1 } });
    const calls = ["a", "a", "b", "b"].map((tenantId) => sleep(box, 300, tenantId));
    expect((await Promise.all(calls)).map(codeOf).sort()).toEqual(["OVERLOADED", "ok", "ok", "ok"]);
  });
});

describe("queueMs", () => {
  test("ends a wait with OVERLOADED before the call's own deadline", async () => {
    const box = await boxOf({ limits: { concurrentCalls: 1, queueMs: 100, timeoutMs: 20_000 } });
    const running = sleep(box, 800);
    const error = errorOf(await sleep(box, 1));
    expect([error.code, error.details?.queueMs]).toEqual(["OVERLOADED", 100]);
    expect(error.details?.retryAfterMs).toBeGreaterThan(0);
    expect(codeOf(await running)).toBe("ok");
  });
});

describe("concurrentCalls", () => {
  test("of a tool holds that tool back and no other", async () => {
    const box = await boxOf({ limits: { timeoutMs: 20_000 } }, { concurrentCalls: 1 });
    await box.addTool({ name: "free", source: SLEEP.replace("ms, ms", "ms, 0 + ms") }, { scope: "global" });
    const order: string[] = [];
    const call = async (toolName: string, id: string, ms: number): Promise<void> => {
      outputOf(await box.execute({ id, toolName, arguments: { ms } }, { tenantId: "acme", timeoutMs: 20_000 }));
      order.push(id);
    };
    await call("free", "warm-up", 1);
    await Promise.all([call("sleep", "first", 1_500), call("sleep", "second", 1), call("free", "passing", 1)]);
    expect(order.filter((id) => id !== "passing")).toEqual(["warm-up", "first", "second"]);
    expect(order.indexOf("passing")).toBeLessThan(order.indexOf("second"));
  });
});

describe("tenants", () => {
  test("have limits of their own; the lowest of all that are stated wins", async () => {
    const tenants = { small: { limits: { timeoutMs: 150 } }, large: { limits: { timeoutMs: 60_000 } } };
    const box = await boxOf({ limits: { timeoutMs: 400 }, tenants });
    const detailsOf = async (tenantId: string, timeoutMs?: number): Promise<unknown> =>
      errorOf(await box.execute({ id: "c", toolName: "loop" }, { tenantId, timeoutMs })).details?.timeoutMs;
    expect(await Promise.all([detailsOf("small"), detailsOf("large"), detailsOf("none", 200)])).toEqual([
      150, 400, 200,
    ]);
  });

  test("may be a function, asked for each call", async () => {
    const asked: string[] = [];
    const tenants = (tenantId: string) => {
      asked.push(tenantId);
      return tenantId === "small" ? { limits: { outputBytes: 4 } } : {};
    };
    const box = await boxOf({ tenants });
    await box.addTool({ name: "text", source: 'export default () => "long enough"' }, { scope: "global" });
    const codes = ["small", "large"].map(async (tenantId) =>
      codeOf(await box.execute({ id: "c", toolName: "text" }, { tenantId })),
    );
    expect(await Promise.all(codes)).toEqual(["OUTPUT_TOO_LARGE", "ok"]);
    expect(asked).toContain("large");
  });

  test("that cannot be used are named at the start, or cost the call INTERNAL", async () => {
    const error = await failureOf(makeBox({ tenancy: "multi", tenants: { acme: { weight: 0 } } }));
    expect([error.code, error.message]).toEqual(["PARAM_INVALID", expect.stringContaining("options.tenants")]);
    const heard: unknown[] = [];
    const tenants = () => {
      throw new Error("the tenants' database is down");
    };
    const box = await makeBox({ tenancy: "multi", tenants, onError: (thrown) => heard.push(thrown) });
    onTestFinished(() => box.close());
    await box.addTool({ name: "sleep", source: SLEEP }, { scope: "global" });
    expect(codeOf(await sleep(box, 1))).toBe("INTERNAL");
    expect(heard).toHaveLength(1);
  });
});

describe("a tenant with a hundred busy loops", () => {
  test("does not keep another's calls from being served soon", async () => {
    const box = await boxOf({ limits: { timeoutMs: 2_500, concurrentCalls: 16 } });
    expect(codeOf(await sleep(box, 1, "good"))).toBe("ok");
    const loops = Array.from({ length: 100 }, () => box.execute({ id: "c", toolName: "loop" }, { tenantId: "bad" }));
    await pause(500);
    const waits: number[] = [];
    for (let index = 0; index < 30; index += 1) {
      const began = performance.now();
      expect(codeOf(await sleep(box, 1, "good"))).toBe("ok");
      waits.push(performance.now() - began);
    }
    const codes = new Set((await Promise.all(loops)).map(codeOf));
    expect([...codes].filter((code) => code !== "TOOL_TIMEOUT")).toEqual([]);
    expect(waits.sort((a, b) => a - b)[15]).toBeLessThan(500);
  });
});

describe("MEMORY_LIMIT", () => {
  test.for([
    ["memory that V8 counts", "for (const all = []; ; ) all.push(new Array(1000).fill(all.length))"],
    [
      "memory that it does not",
      "for (const all = []; ; ) all.push(new Intl.DateTimeFormat('en', { timeZone: 'Asia/Tokyo' }))",
    ],
  ] as const)("names limit and peak: %s", async ([, body]) => {
    const box = await makeBox({ limits: { memoryMiB: 32, timeoutMs: 20_000, cpuMs: 20_000 } });
    onTestFinished(() => box.close());
    await box.addTool({ name: "hog", source: `export default () => { ${body}; }` });
    const { code, message, details } = errorOf(await box.execute({ id: "c", toolName: "hog" }));
    expect([code, message, details?.limitMiB]).toEqual([
      "MEMORY_LIMIT",
      "hog used more than 32 MiB of memory and was stopped",
      32,
    ]);
    expect(details?.peakMiB).toBeGreaterThanOrEqual(32);
    expect(details?.peakMiB).toBeLessThan(400);
  });
});

describe("sourceBytes and bundleBytes", () => {
  const source = `export default () => ${JSON.stringify("x".repeat(2_000))}`;

  test.for([
    ["the host", { limits: { sourceBytes: 1_000 } }, undefined, "sourceBytes is 1000 bytes"],
    ["a tenant", { tenants: { acme: { limits: { sourceBytes: 1_500 } } } }, undefined, "sourceBytes is 1500 bytes"],
    ["a tool", {}, { sourceBytes: 500 }, "sourceBytes is 500 bytes"],
    [
      "the bundler's options",
      { bundler: { limits: { sourceBytes: 300 } }, limits: { sourceBytes: 999 } },
      undefined,
      "300",
    ],
    ["the host, of the bundle", { limits: { bundleBytes: 1_000 } }, undefined, "outputBytes is 1000 bytes"],
  ] as const)("stated by %s refuse what is larger", async ([, options, limits, expected]) => {
    const box = await makeBox({ tenancy: "multi", ...options });
    onTestFinished(() => box.close());
    const tool = { name: "big", source, definition: limits === undefined ? {} : { limits } };
    const error = await failureOf(box.addTool(tool, { tenantId: "acme" }));
    expect([error.code, error.message]).toEqual(["BUNDLE_FAILED", expect.stringContaining(expected)]);
  });
});
