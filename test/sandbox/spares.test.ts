// Loaded spares with real isolates: for whom they are made, who gets one, and when they go.
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { ToolMessage, ToolProfile } from "../../src/sandbox/protocol/messages.ts";
import { toToolProfile } from "../../src/sandbox/worker/active-call.ts";
import { type LoadableBundle, SILENT, ToolIsolate } from "../../src/sandbox/worker/tool-isolate.ts";
import { MAX_SPARES, WarmIsolates } from "../../src/sandbox/worker/warm-isolates.ts";
import { bundleCode, HEADER, sharedEngine, toBundle } from "../support/guest.ts";
import { TOOL_PROFILE } from "../support/tool-profile.ts";

const COUNTER = bundleCode("{ default: () => (count += 1) }", "let count = 0;");

const toolOf = (toolId: number, changes: Partial<ToolMessage> = {}): ToolProfile =>
  toToolProfile({ type: "tool", toolId, ...TOOL_PROFILE, ...changes });

interface Bench {
  readonly spares: WarmIsolates;
  readonly made: ToolIsolate[];
  isCalm: boolean;
}

/** Spares of tools that all have this code. */
async function benchOf(code: string): Promise<Bench> {
  const engine = await sharedEngine();
  const bundle: LoadableBundle = toBundle(code);
  const made: ToolIsolate[] = [];
  const spares = new WarmIsolates({
    create: ({ limits: { memoryMiB }, features, coarseTime }) => {
      const isolate = new ToolIsolate(engine, { memoryMiB, features, coarseTime });
      made.push(isolate);
      return isolate;
    },
    bundle: () => bundle,
    isCalm: () => bench.isCalm,
    onStuck: () => {},
  });
  const bench = { spares, made, isCalm: true };
  onTestFinished(async () => {
    await Promise.all(made.map((isolate) => isolate.dispose()));
  });
  return bench;
}

/** From then on it is known to be called again and again, if not often. */
async function callTwice(spares: WarmIsolates, toolId: number): Promise<void> {
  expect(spares.take(toolOf(toolId))).toBeUndefined();
  // The interval is what is learned from the two.
  await pause(100);
  expect(spares.take(toolOf(toolId))).toBeUndefined();
}

const invoke = async (isolate: ToolIsolate | undefined): Promise<unknown> =>
  (await isolate?.call({ header: JSON.stringify(HEADER), input: "{}", callId: "c", tenantId: "acme" }, SILENT))?.text;

describe("a loaded spare", () => {
  test("is made for a tool that has been called more than once, and serves one call", async () => {
    const { spares, made } = await benchOf(COUNTER);
    const tool = toolOf(1);
    for (let call = 0; call < 2; call += 1) {
      await spares.refill();
      expect([spares.take(tool), made.length]).toEqual([undefined, 0]);
    }
    await spares.refill();
    const first = spares.take(tool);
    await spares.refill();
    const second = spares.take(tool);
    expect([await invoke(first), await invoke(second)]).toEqual(["1", "1"]);
    expect(first).not.toBe(second);
  });

  test("is another tool's never", async () => {
    const { spares } = await benchOf(COUNTER);
    await callTwice(spares, 1);
    await spares.refill();
    expect(spares.take(toolOf(2))).toBeUndefined();
    expect(spares.take(toolOf(1))).toBeInstanceOf(ToolIsolate);
  });

  test("is made in numbers where calls come faster than it is made, up to a few for all tools", async () => {
    const { spares, made } = await benchOf(COUNTER);
    for (let call = 0; call < 50; call += 1) for (const toolId of [1, 2, 3]) spares.take(toolOf(toolId));
    await spares.refill();
    expect(made.filter(({ isDisposed }) => !isDisposed)).toHaveLength(MAX_SPARES);
    const ready = [1, 2, 3].map((toolId) => {
      let count = 0;
      while (spares.take(toolOf(toolId)) !== undefined) count += 1;
      return count;
    });
    expect(Math.min(...ready)).toBeGreaterThanOrEqual(2);
  });

  test("is not made while a call would have to wait for it", async () => {
    // How many are made follows how long one takes, which is the machine's affair: by this clock, no time at all.
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const bench = await benchOf(COUNTER);
    bench.spares.take(toolOf(1));
    vi.advanceTimersByTime(1_000);
    bench.spares.take(toolOf(1));
    bench.isCalm = false;
    await bench.spares.refill();
    expect(bench.made).toHaveLength(0);
    bench.isCalm = true;
    await bench.spares.refill();
    expect(bench.made).toHaveLength(1);
  });

  test("is disposed when its tool has not been called for three seconds", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const { spares, made } = await benchOf(COUNTER);
    spares.take(toolOf(1));
    vi.advanceTimersByTime(1_000);
    spares.take(toolOf(1));
    await spares.refill();
    vi.advanceTimersByTime(2_000);
    await nextTurn();
    expect(made.map(({ isDisposed }) => isDisposed)).toEqual([false]);
    vi.advanceTimersByTime(2_000);
    expect(made.map(({ isDisposed }) => isDisposed)).toEqual([true]);
    await spares.refill();
    expect(made).toHaveLength(1);
  });

  test("is disposed when its tool has gone cold while it was made", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const { spares, made } = await benchOf(COUNTER);
    for (let call = 0; call < 2; call += 1) spares.take(toolOf(1));
    const refilled = spares.refill();
    await vi.waitFor(() => expect(made).toHaveLength(1), { interval: 0 });
    vi.advanceTimersByTime(10_000);
    await refilled;
    expect(made.map(({ isDisposed }) => isDisposed)).toEqual([true]);
  });

  test("that V8 has ended meanwhile is not handed out", async () => {
    const { spares, made } = await benchOf(COUNTER);
    await callTwice(spares, 1);
    await spares.refill();
    await made[0]?.dispose();
    expect(spares.take(toolOf(1))).toBeUndefined();
  });
});

describe("a top level is not run ahead", () => {
  test("where its author or the host says so", async () => {
    const { spares, made } = await benchOf(COUNTER);
    for (let call = 0; call < 2; call += 1) spares.take(toolOf(1, { prewarm: false }));
    await spares.refill();
    expect(made).toHaveLength(0);
  });

  test.each([
    ["logs", 'console.log("hello");'],
    ["throws", 'throw new Error("no");'],
    ["never ends", "await new Promise(() => {});"],
    ["never yields", "for (;;);"],
    ["leaves a timer", "setTimeout(() => {}, 60_000);"],
    ["leaves a microtask storm", "(async () => { for (;;) await null; })();"],
    [
      "keeps much memory",
      "const kept = Array.from({ length: 2e6 }, (_, index) => index + 0.5); globalThis.kept = kept;",
    ],
  ])("more than once where it %s", async (_, topLevel) => {
    const { spares, made } = await benchOf(bundleCode("{ default: () => 1 }", topLevel));
    for (let call = 0; call < 3; call += 1) {
      expect(spares.take(toolOf(1))).toBeUndefined();
      await spares.refill();
    }
    expect(made.map(({ isDisposed }) => isDisposed)).toEqual([true]);
  });
});
