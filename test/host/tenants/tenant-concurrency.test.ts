// Concurrency limits of a tenant, a tool and the host, and the errors when they are exceeded.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf, errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const ECHO = "export default ({ ms }) => ms";
const LOOP = "export default () => { for (;;); }";

/** The same few tools again and again: each is built once. */
const CACHE = mkdtempSync(join(tmpdir(), "glovebox-quotas-"));
afterAll(() => rmSync(CACHE, { recursive: true, force: true }));

async function gloveboxOf(options: GloveboxOptions): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ cache: { directory: CACHE }, tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  return glovebox;
}

interface Gated {
  readonly glovebox: Glovebox;
  /** Calls a tool that waits until `open()`. */
  readonly wait: (tenantId?: string) => Promise<ToolResult>;
  /** Resolves when `count` calls of the tool run. */
  readonly running: (count: number) => Promise<void>;
  readonly open: () => void;
}

/** A Glovebox with a tool whose calls end on request of the test. */
async function gatedGlovebox(options: GloveboxOptions, toolLimits?: PartialLimits): Promise<Gated> {
  const opened = Promise.withResolvers<number>();
  let inside = 0;
  const handler = (): Promise<number> => {
    inside += 1;
    return opened.promise;
  };
  const gate = defineCapability({ name: "gate", inputSchema: {}, outputSchema: {}, handler });
  const limits = { timeoutMs: 60_000, ...options.limits };
  const glovebox = await gloveboxOf({ ...options, limits, capabilities: [gate] });
  const definition = toolLimits === undefined ? {} : { overrides: { limits: toolLimits } };
  const source = "export default (_, ctx) => ctx.gate()";
  await glovebox.addTool({ name: "wait", source, ...definition }, { scope: "global", grant: ["gate"] });
  return {
    glovebox,
    wait: (tenantId = "acme") => glovebox.execute({ id: "c", toolName: "wait" }, { tenantId }),
    running: (count) => expect.poll(() => inside).toBe(count),
    open: () => opened.resolve(1),
  };
}

describe("maxQueuedCalls", () => {
  test("answers OVERLOADED at once, with retryAfterMs, when a tenant's queue is full; others are served", async () => {
    const { wait, running, open } = await gatedGlovebox({ limits: { maxConcurrentCalls: 1, maxQueuedCalls: 1 } });
    const admitted = [wait(), wait()];
    // Both wait for the gate, which is closed until this one has its answer.
    const error = errorOf(await wait());
    expect([error.code, error.recoverable, error.details?.maxQueuedCalls]).toEqual(["OVERLOADED", true, 1]);
    expect(error.details?.retryAfterMs).toBeGreaterThan(0);
    expect(error.message).toMatch(
      /^The queue is full: at most 1 calls may wait \(limits\.maxQueuedCalls\); try again in \d+ ms$/,
    );
    const other = wait("other");
    await running(2);
    open();
    expect((await Promise.all([...admitted, other])).map(codeOf)).toEqual(["ok", "ok", "ok"]);
  });

  test("maxQueuedCalls of 0 lets run what can run at once", async () => {
    const { wait, open } = await gatedGlovebox({ limits: { maxConcurrentCalls: 1, maxQueuedCalls: 0 } });
    const first = wait();
    expect(codeOf(await wait())).toBe("OVERLOADED");
    open();
    expect(codeOf(await first)).toBe("ok");
    expect(codeOf(await wait())).toBe("ok");
  });

  test("the maxQueuedCalls of the whole host is workers.maxQueued", async () => {
    const { wait, open } = await gatedGlovebox({ limits: { maxConcurrentCalls: 1 }, workers: { maxQueued: 1 } });
    const codes: string[] = [];
    const calls = ["a", "a", "b", "b"].map(async (tenantId) => {
      const result = await wait(tenantId);
      codes.push(codeOf(result));
      return result;
    });
    await expect.poll(() => codes).toEqual(["OVERLOADED"]);
    open();
    const overloaded = (await Promise.all(calls)).filter((result) => codeOf(result) === "OVERLOADED");
    expect(overloaded.map((result) => errorOf(result).message)).toEqual([
      expect.stringMatching(
        /^The queue is full: at most 1 calls in all may wait \(workers\.maxQueued\); try again in \d+ ms$/,
      ),
    ]);
    expect(codes).toEqual(["OVERLOADED", "ok", "ok", "ok"]);
  });
});

describe("queueMs", () => {
  test("ends a wait with OVERLOADED before the call's own deadline", async () => {
    const { wait, running, open } = await gatedGlovebox({ limits: { maxConcurrentCalls: 1, queueMs: 100 } });
    const first = wait();
    await running(1);
    const error = errorOf(await wait());
    expect([error.code, error.details?.queueMs]).toEqual(["OVERLOADED", 100]);
    expect(error.details?.retryAfterMs).toBeGreaterThan(0);
    open();
    expect(codeOf(await first)).toBe("ok");
  });
});

describe("maxConcurrentCalls", () => {
  test("maxConcurrentCalls of a tool holds that tool back and no other", async () => {
    const { glovebox, wait, running, open } = await gatedGlovebox({}, { maxConcurrentCalls: 1 });
    await glovebox.addTool({ name: "free", source: ECHO }, { scope: "global" });
    const calls = [wait(), wait()];
    await running(1);
    const free = { id: "c", toolName: "free", arguments: { ms: 1 } };
    expect(outputOf(await glovebox.execute(free, { tenantId: "acme" }))).toBe(1);
    await running(1);
    open();
    expect((await Promise.all(calls)).map(codeOf)).toEqual(["ok", "ok"]);
  });
});

describe("tenants", () => {
  test("have limits of their own; the lowest of all that are stated wins", async () => {
    const tenants = { small: { limits: { timeoutMs: 300 } }, large: { limits: { timeoutMs: 60_000 } } };
    const glovebox = await gloveboxOf({ limits: { timeoutMs: 3_000 }, tenants });
    await glovebox.addTool(
      { name: "never", source: "export default () => new Promise(() => {})" },
      { scope: "global" },
    );
    const detailsOf = async (tenantId: string, timeoutMs?: number): Promise<unknown> =>
      errorOf(await glovebox.execute({ id: "c", toolName: "never" }, { tenantId, timeoutMs })).details?.timeoutMs;
    expect(await Promise.all([detailsOf("small"), detailsOf("large"), detailsOf("none", 500)])).toEqual([
      300, 3_000, 500,
    ]);
  });

  test("can be a function that runs for each call", async () => {
    const asked: string[] = [];
    const tenants = (tenantId: string) => {
      asked.push(tenantId);
      return tenantId === "small" ? { limits: { outputBytes: 4 } } : {};
    };
    const glovebox = await gloveboxOf({ tenants });
    await glovebox.addTool({ name: "text", source: 'export default () => "long enough"' }, { scope: "global" });
    const codes = ["small", "large"].map(async (tenantId) =>
      codeOf(await glovebox.execute({ id: "c", toolName: "text" }, { tenantId })),
    );
    expect(await Promise.all(codes)).toEqual(["OUTPUT_TOO_LARGE", "ok"]);
    expect(asked).toContain("large");
  });

  test("tenants that cannot be used are named at the start, or cost the call INTERNAL", async () => {
    const error = await failureOf(makeGlovebox({ tenancy: "multi", tenants: { acme: { weight: 0 } } }));
    expect([error.code, error.message]).toEqual(["PARAM_INVALID", expect.stringContaining("options.tenants")]);
    const received: unknown[] = [];
    const tenants = () => {
      throw new Error("the tenants' database is down");
    };
    const glovebox = await gloveboxOf({ tenants, onError: (thrown) => received.push(thrown) });
    await glovebox.addTool({ name: "echo", source: ECHO }, { scope: "global" });
    expect(codeOf(await glovebox.execute({ id: "c", toolName: "echo" }, { tenantId: "acme" }))).toBe("INTERNAL");
    expect(received).toHaveLength(1);
  });
});

describe("a tenant with more busy loops than may run", () => {
  test("does not keep another's calls from being served while the loops run and wait", async () => {
    const glovebox = await gloveboxOf({
      limits: { timeoutMs: 300_000, cpuMs: 300_000, maxConcurrentCalls: 8, queueMs: 300_000 },
    });
    await glovebox.addTool({ name: "echo", source: ECHO }, { scope: "global" });
    await glovebox.addTool(
      { name: "loop", source: LOOP.replace("{ for", '{ console.log("runs"); for') },
      { scope: "global" },
    );
    const hostile = new AbortController();
    let running = 0;
    let ended = 0;
    const loops = Array.from({ length: 24 }, async () => {
      const onLog = (): void => {
        running += 1;
      };
      const context = { tenantId: "bad", signal: hostile.signal, onLog };
      const code = codeOf(await glovebox.execute({ id: "c", toolName: "loop" }, context));
      ended += 1;
      return code;
    });
    await expect.poll(() => running).toBeGreaterThan(0);
    for (let ms = 0; ms < 10; ms += 1) {
      const call = { id: "c", toolName: "echo", arguments: { ms } };
      expect(outputOf(await glovebox.execute(call, { tenantId: "good" }))).toBe(ms);
    }
    expect(ended).toBe(0);
    hostile.abort();
    expect(new Set(await Promise.all(loops))).toEqual(new Set(["CANCELLED"]));
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
    await using glovebox = await makeGlovebox({ limits: { memoryMiB: 32 } });
    await glovebox.addTool({ name: "hog", source: `export default () => { ${body}; }` });
    const { code, message, details } = errorOf(await glovebox.execute({ id: "c", toolName: "hog" }));
    expect([code, message, details?.limitMiB]).toEqual([
      "MEMORY_LIMIT",
      "hog used more than 32 MiB of memory (limits.memoryMiB) and was stopped",
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
    [
      "the host, of the bundle",
      { limits: { bundleBytes: 1_000 } },
      undefined,
      "the limit bundleBytes (bundler.limits.outputBytes) is 1000 bytes",
    ],
  ] as const)("stated by %s reject what is larger", async ([, options, limits, expected]) => {
    const glovebox = await makeGlovebox({ tenancy: "multi", ...options });
    onTestFinished(() => glovebox.close());
    const tool = { name: "big", source, overrides: limits === undefined ? {} : { limits } };
    const error = await failureOf(glovebox.addTool(tool, { tenantId: "acme" }));
    expect([error.code, error.message]).toEqual(["BUNDLE_FAILED", expect.stringContaining(expected)]);
  });
});
