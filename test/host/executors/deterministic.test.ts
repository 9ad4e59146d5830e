// Deterministic calls: the same seed, input and host answers give the same output, byte for byte.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallContext } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

type Deterministic = CallContext["deterministic"];

/** Reads everything that could differ, including at its top level. */
const SOURCE = `
  const atTop = [Math.random(), Date.now(), performance.now(), crypto.randomUUID()];
  let calls = 0;
  const after = (ms, name) => new Promise((resolve) => setTimeout(() => resolve([name, Date.now(), performance.now()]), ms));
  const every = (ms, times) => new Promise((resolve) => {
    const seen = [];
    const id = setInterval(() => { seen.push(performance.now()); if (seen.length === times) { clearInterval(id); resolve(seen); } }, ms);
  });
  const steps = {
    numbers: () => [Math.random(), Math.random(), Array.from({ length: 1000 }, () => Math.random()).join()],
    bytes: () => [[...crypto.getRandomValues(new Uint8Array(40))], crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(5000))].join()],
    clocks: () => [Date.now(), new Date().toISOString(), Date(), performance.now(), performance.timeOrigin,
      new Intl.DateTimeFormat("en", { dateStyle: "full", timeStyle: "full" }).format(), new Event("x").timeStamp],
    timers: () => Promise.all([after(30, "a"), after(10, "b"), after(0, "c"), after(10, "d"), every(7, 4)]),
    cleared: async () => {
      const seen = [];
      const ids = [5, 1, 3, 9, 2].map((ms) => setTimeout(() => { seen.push([ms, performance.now()]); if (ms === 1) clearTimeout(ids[2]); }, ms));
      clearTimeout(ids[4]);
      await after(20);
      return [seen, performance.now()];
    },
    timeout: async () => { const signal = AbortSignal.timeout(15); await new Promise((r) => signal.addEventListener("abort", r)); return performance.now(); },
    sorted: () => Array.from({ length: 50 }, (_, n) => n).sort(() => Math.random() - 0.5),
    inner: async (ctx) => [await ctx.tools.other({ step: "numbers" }), await ctx.tools.other({ step: "numbers" })],
    state: () => (calls += 1),
  };
  export const capabilities = { tools: true };
  export default async ({ step }, ctx) => [atTop, await steps[step](ctx)];`;
const STEPS = ["numbers", "bytes", "clocks", "timers", "cleared", "timeout", "sorted", "inner", "state"];

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ limits: { timeoutMs: 120_000 } });
  for (const name of ["fresh", "other"]) await glovebox.addTool({ name, source: SOURCE }, { grant: ["tools"] });
  await glovebox.addTool({ name: "warm", source: SOURCE }, { grant: ["tools"], isolateLifetime: "tool" });
});
afterAll(() => glovebox.close());

let calls = 0;
async function run(step: string, deterministic: Deterministic, toolName = "fresh"): Promise<string> {
  calls += 1;
  const call = { id: `call ${calls}`, toolName, arguments: { step } };
  return JSON.stringify(outputOf(await glovebox.execute(call, { deterministic })));
}

describe("context.deterministic", () => {
  test.for(STEPS)("gives the same output for the same seed: %s", async (step) => {
    const first = await run(step, { seed: "one" });
    expect(await run(step, { seed: "one" })).toBe(first);
    expect(await run(step, { seed: "two" })).not.toBe(first);
  });

  test("applies to tools with warm isolates and with a kept isolate", async () => {
    for (let times = 0; times < 6; times += 1) await run("state", undefined);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const first = await run("numbers", { seed: "one" });
    for (let times = 0; times < 3; times += 1) expect(await run("numbers", { seed: "one" })).toBe(first);
    // On a busy machine a call may begin before the isolate of the last one is ready again, and then gets another.
    const kept = async (): Promise<number> => JSON.parse(await run("state", undefined, "warm"))[1];
    await expect.poll(kept).toBe(2);
    expect(JSON.parse(await run("state", { seed: "one" }, "warm"))[1]).toBe(1);
    await expect.poll(kept).toBeGreaterThan(2);
  });

  test("starts its clock at the given time, and only timers advance it", async () => {
    const now = Date.UTC(2031, 4, 6, 7, 8, 9);
    const [atTop, clocks] = JSON.parse(await run("clocks", { seed: "one", now }));
    expect([atTop[1], atTop[2], ...clocks.slice(0, 4)]).toEqual([
      now,
      0,
      now,
      "2031-05-06T07:08:09.000Z",
      "Tue May 06 2031 07:08:09 GMT+0000 (Coordinated Universal Time)",
      0,
    ]);
    expect(JSON.parse(await run("clocks", { seed: "one" }))[1][1]).toBe("2025-01-01T00:00:00.000Z");
    const [, timers] = JSON.parse(await run("timers", { seed: "one", now }));
    expect(timers).toEqual([
      ["a", now + 30, 30],
      ["b", now + 10, 10],
      ["c", now + 1, 1],
      ["d", now + 10, 10],
      [7, 14, 21, 28],
    ]);
  });

  test("runs timers in order of their due times, without cleared ones", async () => {
    const [, [seen, end]] = JSON.parse(await run("cleared", { seed: "one" }));
    expect([seen, end]).toEqual([
      [
        [1, 1],
        [5, 5],
        [9, 9],
      ],
      20,
    ]);
  });

  test("waits for timers as long as requested", async () => {
    const started = performance.now();
    await run("timeout", { seed: "one" });
    expect(performance.now() - started).toBeGreaterThan(14);
  });

  test("gives numbers that look random: uniform, distinct, within their range", async () => {
    const [, [, , text]] = JSON.parse(await run("numbers", { seed: "even" }));
    const numbers: readonly number[] = text.split(",").map(Number);
    const mean = numbers.reduce((sum, n) => sum + n, 0) / numbers.length;
    expect([new Set(numbers).size, numbers.every((n) => n >= 0 && n < 1), mean > 0.45 && mean < 0.55]).toEqual([
      1_000,
      true,
      true,
    ]);
  });

  test("applies to nested calls, each with numbers of its own", async () => {
    const [, [first, second]] = JSON.parse(await run("inner", { seed: "one" }));
    expect(first).not.toEqual(second);
    expect(first[0][1]).toBe(Date.UTC(2025, 0, 1));
  });

  test("does not affect other calls", async () => {
    const seen = await Promise.all([
      run("numbers", undefined),
      run("numbers", undefined),
      run("numbers", { seed: "one" }),
    ]);
    expect(new Set(seen).size).toBe(3);
    const [, [now]] = JSON.parse(await run("clocks", undefined));
    expect(Math.abs(now - Date.now())).toBeLessThan(20_000);
  });

  test.for<[string, unknown]>([
    ["", null],
    ["", "seed"],
    [".seed", {}],
    [".seed", { seed: 5 }],
    [".seed", { seed: "" }],
    [".seed", { seed: "x".repeat(257) }],
    [".now", { seed: "a", now: -1 }],
    [".now", { seed: "a", now: 1.5 }],
    [".now", { seed: "a", now: 1e15 }],
    [".now", { seed: "a", now: new Date() }],
  ])("is rejected at %s: %j", async ([where, deterministic]) => {
    const context = { deterministic } as unknown as CallContext;
    const error = errorOf(
      await glovebox.execute({ id: "c", toolName: "fresh", arguments: { step: "state" } }, context),
    );
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toMatch(new RegExp(`^context\\.deterministic${where.replace(".", "\\.")}: expected`));
  });
});
