// Tests of the warm pool with real isolates: for which tools isolates are created, which calls get them, and when they are disposed.
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { ToolMessage, ToolProfile } from "../../src/sandbox/protocol/host-messages.ts";
import { toToolProfile } from "../../src/sandbox/worker/assignment.ts";
import type { LoadableBundle } from "../../src/sandbox/worker/isolate/engine.ts";
import { IGNORE_MESSAGES } from "../../src/sandbox/worker/isolate/guest-call.ts";
import { ToolIsolate } from "../../src/sandbox/worker/isolate/tool-isolate.ts";
import { MAX_WARM_ISOLATES, type WarmIsolateKeeper, WarmIsolates } from "../../src/sandbox/worker/warm-isolates.ts";
import { bundleCode, HEADER, sharedEngine, toBundle } from "../support/guest.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { TOOL_PROFILE } from "../support/tool-profile.ts";

const COUNTER = bundleCode("{ default: () => (count += 1) }", "let count = 0;");

const toolOf = (toolId: number, changes: Partial<ToolMessage> = {}): ToolProfile =>
  toToolProfile({ type: "tool", toolId, ...TOOL_PROFILE, ...changes });

interface Bench {
  readonly pool: WarmIsolates;
  readonly created: ToolIsolate[];
  isCalm: boolean;
}

interface BenchOptions {
  /** Time in ms that the creation of an isolate takes by a fake clock. */
  readonly createMs?: number;
  /** Default: a time that a busy machine does not exceed. */
  readonly loadMs?: number | undefined;
}

/** Creates a pool in which all tools have this code. */
async function benchOf(
  code: string,
  { createMs, loadMs = PATIENT_LIMITS.timeoutMs }: BenchOptions = {},
): Promise<Bench> {
  const engine = await sharedEngine();
  const bundle: LoadableBundle = toBundle(code);
  const created: ToolIsolate[] = [];
  const keeper: WarmIsolateKeeper = {
    create: ({ limits: { memoryMiB }, features, coarseTime }) => {
      const isolate = new ToolIsolate(engine, { memoryMiB, features, coarseTime });
      created.push(isolate);
      if (createMs !== undefined) vi.advanceTimersByTime(createMs);
      return isolate;
    },
    bundle: () => bundle,
    isCalm: () => bench.isCalm,
    onStuck: () => {},
  };
  const pool = new WarmIsolates(keeper, loadMs);
  const bench = { pool, created, isCalm: true };
  onTestFinished(async () => {
    await Promise.all(created.map((isolate) => isolate.dispose()));
  });
  return bench;
}

/** Calls the tool twice with an interval, so that the pool creates one isolate for it: by the fake clock, the creation takes no time. */
function callTwice(pool: WarmIsolates, toolId: number): void {
  expect(pool.take(toolOf(toolId))).toBeUndefined();
  vi.advanceTimersByTime(1_000);
  expect(pool.take(toolOf(toolId))).toBeUndefined();
}
function fakeClock(): void {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
}

const invoke = async (isolate: ToolIsolate | undefined): Promise<unknown> =>
  (await isolate?.call({ header: JSON.stringify(HEADER), input: "{}", callId: "c", tenantId: "acme" }, IGNORE_MESSAGES))
    ?.text;

describe("a warm isolate", () => {
  test("is created for a tool that was called more than once, and serves one call", async () => {
    fakeClock();
    const { pool, created } = await benchOf(COUNTER);
    const tool = toolOf(1);
    for (let call = 0; call < 2; call += 1) {
      await pool.refill();
      expect([pool.take(tool), created.length]).toEqual([undefined, 0]);
    }
    await pool.refill();
    const first = pool.take(tool);
    await pool.refill();
    const second = pool.take(tool);
    expect([await invoke(first), await invoke(second)]).toEqual(["1", "1"]);
    expect(first).not.toBe(second);
  });

  test("is not given to another tool", async () => {
    fakeClock();
    const { pool } = await benchOf(COUNTER);
    callTwice(pool, 1);
    await pool.refill();
    expect(pool.take(toolOf(2))).toBeUndefined();
    expect(pool.take(toolOf(1))).toBeInstanceOf(ToolIsolate);
  });

  test("is one of several if calls are faster than its creation, up to the limit of the pool", async () => {
    fakeClock();
    const { pool, created } = await benchOf(COUNTER, { createMs: 10 });
    for (let call = 0; call < 50; call += 1) for (const toolId of [1, 2, 3]) pool.take(toolOf(toolId));
    await pool.refill();
    expect(created.filter(({ isDisposed }) => !isDisposed)).toHaveLength(MAX_WARM_ISOLATES);
    const ready = [1, 2, 3].map((toolId) => {
      let count = 0;
      while (pool.take(toolOf(toolId)) !== undefined) count += 1;
      return count;
    });
    expect(Math.min(...ready)).toBeGreaterThanOrEqual(2);
  });

  test("is not created while a call would have to wait", async () => {
    // The number of isolates depends on how long the creation of one takes. With the fake clock it takes no time.
    fakeClock();
    const bench = await benchOf(COUNTER);
    bench.pool.take(toolOf(1));
    vi.advanceTimersByTime(1_000);
    bench.pool.take(toolOf(1));
    bench.isCalm = false;
    await bench.pool.refill();
    expect(bench.created).toHaveLength(0);
    bench.isCalm = true;
    await bench.pool.refill();
    expect(bench.created).toHaveLength(1);
  });

  test("is disposed when its tool was not called for three seconds", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const { pool, created } = await benchOf(COUNTER);
    pool.take(toolOf(1));
    vi.advanceTimersByTime(1_000);
    pool.take(toolOf(1));
    await pool.refill();
    vi.advanceTimersByTime(2_000);
    await nextTurn();
    expect(created.map(({ isDisposed }) => isDisposed)).toEqual([false]);
    vi.advanceTimersByTime(2_000);
    expect(created.map(({ isDisposed }) => isDisposed)).toEqual([true]);
    await pool.refill();
    expect(created).toHaveLength(1);
  });

  test("is disposed when its tool becomes cold during the creation", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const { pool, created } = await benchOf(COUNTER);
    for (let call = 0; call < 2; call += 1) pool.take(toolOf(1));
    const refilled = pool.refill();
    await vi.waitFor(() => expect(created).toHaveLength(1), { interval: 0 });
    vi.advanceTimersByTime(10_000);
    await refilled;
    expect(created.map(({ isDisposed }) => isDisposed)).toEqual([true]);
  });

  test("is not used after it was disposed", async () => {
    fakeClock();
    const { pool, created } = await benchOf(COUNTER);
    callTwice(pool, 1);
    await pool.refill();
    await Promise.all(created.map((isolate) => isolate.dispose()));
    expect(pool.take(toolOf(1))).toBeUndefined();
  });
});

describe("a top level", () => {
  test("does not run in advance with prewarm: false", async () => {
    const { pool, created } = await benchOf(COUNTER);
    for (let call = 0; call < 2; call += 1) pool.take(toolOf(1, { prewarm: false }));
    await pool.refill();
    expect(created).toHaveLength(0);
  });

  // Only those that do not end need the time limit.
  test.for<readonly [why: string, topLevel: string, loadMs?: number]>([
    ["logs", 'console.log("hello");'],
    ["throws", 'throw new Error("no");'],
    ["never ends", "await new Promise(() => {});", 250],
    ["never yields", "for (;;);", 250],
    ["leaves a timer", "setTimeout(() => {}, 60_000);"],
    ["leaves endless microtasks", "(async () => { for (;;) await null; })();", 250],
    [
      "keeps too much memory",
      "const kept = Array.from({ length: 2e6 }, (_, index) => index + 0.5); globalThis.kept = kept;",
    ],
  ])("does not run in advance again if it %s", async ([, topLevel, loadMs]) => {
    fakeClock();
    const { pool, created } = await benchOf(bundleCode("{ default: () => 1 }", topLevel), { loadMs });
    for (let call = 0; call < 3; call += 1) {
      expect(pool.take(toolOf(1))).toBeUndefined();
      await pool.refill();
    }
    expect(created.map(({ isDisposed }) => isDisposed)).toEqual([true]);
  });
});
