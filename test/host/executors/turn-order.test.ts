// The order in which timers, jobs of the worker and answers of the host reach a deterministic call: it must not depend on real time, because
// then the output would differ, and the guest would have a clock.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { makeGlovebox, outputOf } from "../../support/host-zone.ts";

const RACE = `
  import { promisify } from "node:util";
  import { brotliCompressSync, brotliDecompress, gzip } from "node:zlib";
  const tick = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const packed = brotliCompressSync("x".repeat(200_000));
  export const capabilities = { kv: true, slow: true };
  const steps = {
    digest: () => crypto.subtle.digest("SHA-256", new Uint8Array(300_000)),
    brotli: () => promisify(brotliDecompress)(packed),
    gzip: () => promisify(gzip)("y".repeat(300_000)),
    kv: (ctx) => ctx.kv.get("a"),
    slow: (ctx) => ctx.slow(5),
    quick: (ctx) => ctx.slow(0),
    derive: () => crypto.subtle.importKey("raw", new Uint8Array(8), "PBKDF2", false, ["deriveBits"])
      .then((key) => crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: new Uint8Array(8), iterations: 9_000 }, key, 128)),
  };
  export default async ({ names }, ctx) => {
    const order = [];
    const note = (name, promise) => promise.then(() => order.push(name + " " + Date.now() % 100_000));
    const all = names.flatMap((name) => [note("before", tick(1)), note(name, steps[name](ctx)), note("after", tick(1)), note("later", tick(3))]);
    const immediate = new Promise((resolve) => setImmediate(resolve));
    await Promise.all([...all, note("immediate", immediate)]);
    return order;
  };`;

let glovebox: Glovebox;
beforeAll(async () => {
  const slow = defineCapability({
    name: "slow",
    description: "Answers after some time",
    inputSchema: z.number(),
    outputSchema: z.unknown(),
    handler: async (ms) => await sleep(ms + Math.random() * 4),
  });
  glovebox = await makeGlovebox({ capabilities: [slow] });
  await glovebox.addTool({ name: "race", source: RACE }, { grant: ["kv", "slow"] });
});
afterAll(() => glovebox.close());

const run = async (names: readonly string[], seed = "s"): Promise<readonly string[]> => {
  const call = { id: "c", toolName: "race", arguments: { names } };
  return outputOf(await glovebox.execute(call, { deterministic: { seed } })) as unknown as readonly string[];
};

describe("the order of completions in a deterministic call", () => {
  test.for([["digest"], ["brotli"], ["gzip"], ["kv"], ["slow"], ["derive"], ["quick", "slow", "digest", "kv", "gzip"]])(
    "is the same in each run: %j",
    async (names) => {
      const first = await run(names);
      expect(first).toHaveLength(names.length * 4 + 1);
      for (let times = 0; times < 9; times += 1) expect(await run(names)).toEqual(first);
    },
  );

  test("puts answers and jobs in the order of their start, before timers that are due later", async () => {
    const order = (await run(["slow", "digest", "quick"])).map((entry) => entry.split(" ")[0]);
    expect(order.slice(0, 4)).toEqual(["slow", "digest", "quick", "immediate"]);
  });

  test("does not let a guest count timers while it waits for the host", async () => {
    const source = `
      export const capabilities = { slow: true };
      export default async ({ ms }, ctx) => {
        let ticks = 0;
        const id = setInterval(() => { ticks += 1; }, 1);
        const started = [Date.now(), performance.now()];
        await ctx.slow(ms);
        const ended = [Date.now(), performance.now()];
        clearInterval(id);
        return [ticks, started, ended];
      };`;
    await glovebox.addTool({ name: "clock", source }, { grant: ["slow"] });
    const measure = async (ms: number): Promise<unknown> =>
      outputOf(
        await glovebox.execute(
          { id: "c", toolName: "clock", arguments: { ms } },
          { deterministic: { seed: "s", now: 1e12 } },
        ),
      );
    expect(await measure(60)).toEqual([0, [1e12, 0], [1e12, 0]]);
    expect(await measure(1)).toEqual([0, [1e12, 0], [1e12, 0]]);
  });

  test("hides when the garbage collector runs", async () => {
    const source = `
      export default async () => {
        const references = [];
        const registry = new FinalizationRegistry(() => references.push("collected"));
        for (let index = 0; index < 200; index += 1) {
          const target = { bytes: new Uint8Array(100_000) };
          references.push(new WeakRef(target));
          registry.register(target, index);
          if (index % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        }
        return [references.length, references.every((one) => one.deref() !== undefined), new WeakRef({}) instanceof WeakRef];
      };`;
    await glovebox.addTool({ name: "collect", source });
    const call = { id: "c", toolName: "collect" };
    expect(outputOf(await glovebox.execute(call, { deterministic: { seed: "s" } }))).toEqual([200, true, true]);
  });

  test("streams more chunks than the reader's window, with timers between them", async () => {
    const source = `
      export default async function* () {
        let ticks = 0;
        const id = setInterval(() => { ticks += 1; }, 1);
        for (let index = 0; index < 700; index += 1) {
          if (index % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
          yield [index, ticks];
        }
        clearInterval(id);
      }`;
    await glovebox.addTool({ name: "rows", source });
    const read = async (pauseMs: number): Promise<string> => {
      const chunks: unknown[] = [];
      for await (const item of glovebox.stream({ id: "c", toolName: "rows" }, { deterministic: { seed: "s" } })) {
        if (item.type === "chunk") chunks.push(item.value);
        if (pauseMs > 0 && chunks.length % 150 === 0) await sleep(pauseMs);
      }
      return JSON.stringify(chunks);
    };
    const first = await read(0);
    expect(JSON.parse(first)).toHaveLength(700);
    expect(await read(7)).toBe(first);
  });
});
