// Hostile inputs of durable runs and of code: what the host reads before its broker checks it, and values that code has stored.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CodeMode, createCodeMode } from "../../src/host/code-mode/index.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../src/host/runs/runs.ts";
import { makeGlovebox, outputOf } from "../support/host-zone.ts";
import { LagMeter, promptly } from "./assertions.ts";

const PATIENCE_MS = 400_000;
/** An object with many keys takes V8 longest to parse: 8 MiB took 2 s. */
const KEYS = 'Object.fromEntries(Array.from({ length: 600_000 }, (_, at) => ["k" + at, 1]))';
const ARRAYS = "Array.from({ length: 1_000_000 }, () => [])";
const DEEP = "(() => { let deep = []; for (let level = 0; level < 500; level += 1) deep = [deep]; return deep; })()";

let glovebox: Glovebox;
const paid: unknown[] = [];
beforeAll(async () => {
  glovebox = await makeGlovebox();
  glovebox.router.register("pay", {}, (input) => paid.push(input));
});
afterAll(() => glovebox.close());

async function whilePrompt(work: () => Promise<void>): Promise<void> {
  await promptly(async () => {
    using lag = new LagMeter();
    await work();
    await lag.expectPrompt();
  });
}

test("inputs of a run's waits and calls hold the event loop only briefly", { timeout: PATIENCE_MS }, async () => {
  await using runs = createRuns(glovebox, {
    store: new MemoryRunStore(),
    pollMs: 0,
    prepare: async () => ({ approvalOf: async () => ({}) }),
  });
  const source = `export const capabilities = { tools: true, waitFor: true, elicit: true };
    const attempt = async (call) => { try { return await call(); } catch (error) { return error.message; } };
    export default async ({ kind }, ctx) => {
      const value = { keys: () => ${KEYS}, arrays: () => ${ARRAYS}, deep: () => ${DEEP} }[kind]();
      return [
        await attempt(() => ctx.tools.call("pay", { value })),
        await attempt(() => ctx.waitFor({ event: value })),
        await attempt(() => ctx.elicit({ message: "?", requestedSchema: value })),
      ];
    };`;
  await glovebox.addTool({ name: "attack", source }, { grant: ["tools", "waitFor", "elicit"] });
  const rejectedCall = {
    keys: /at most \d+ keys in one object/,
    arrays: /at most \d+ JSON values/,
    deep: /nested at most 128 deep/,
  };
  for (const [kind, message] of Object.entries(rejectedCall)) {
    await whilePrompt(async () => {
      const { result } = await runs.start({ toolName: "attack", arguments: { kind } });
      const tooLong = expect.stringMatching(/^The input of capability \w+(?: has more than 131072 characters|:)/);
      expect(result?.success === true && result.output).toEqual([expect.stringMatching(message), tooLong, tooLong]);
    });
  }
  // A call that no rule could read is not made, whatever the rules are.
  expect(paid).toEqual([]);
});

test("lists and loads of large stored values hold the event loop only briefly", { timeout: PATIENCE_MS }, async () => {
  await using codeMode: CodeMode = createCodeMode(glovebox, { storedValues: { maxBytes: 32_000_000 } });
  const run = async (code: string): Promise<unknown> => {
    const call = { id: "code", toolName: "run_code", arguments: { code, language: "javascript" } };
    return outputOf(await codeMode.execute(call));
  };
  const saved = await run(`const value = Array.from({ length: 20_000 }, (_, at) => ({ ["k" + at]: at }));
    for (let at = 0; at < 20; at += 1) await result.save("v" + at, value);
    await result.save("small", [1, 2]);`);
  expect(saved).toMatchObject({ status: "ok" });
  await whilePrompt(async () => {
    const output = await run(`const lists = await Promise.all(Array.from({ length: 20 }, () => result.list()));
      const missing = await result.load("none").catch((error) => error.message);
      const loaded = await result.load("v0");
      return [lists[19].at(0), lists[19].length, missing.slice(0, 40), loaded.length, loaded[7].k7];`);
    const large = { name: "v0", type: "array", bytes: expect.any(Number) };
    const value = [expect.anything(), 21, 'There is no saved value named "none". It', 20_000, 7];
    expect(output).toMatchObject({ status: "ok", value });
    expect(
      await run("return (await result.list()).filter(({ name }) => name === 'v0' || name === 'small')"),
    ).toMatchObject({ value: expect.arrayContaining([large, { name: "small", type: "array of 2", bytes: 5 }]) });
  });
});

test("calls of durable code hold the event loop only briefly", { timeout: PATIENCE_MS }, async () => {
  await using codeMode: CodeMode = createCodeMode(glovebox, {
    runs: { store: new MemoryRunStore() },
    needsApproval: () => false,
    tools: ["pay"],
  });
  const code = `return await tools.pay({ value: ${KEYS} }).catch((error) => error.message);`;
  const call = { id: "code", toolName: "run_code", arguments: { code, language: "javascript" } };
  await whilePrompt(async () => {
    const output = outputOf(await codeMode.execute(call));
    expect(output).toMatchObject({ value: expect.stringMatching(/at most \d+ keys in one object/) });
  });
});
