// Tools in Python run alone in their processes. One that calls another one keeps its process until the call has ended, so the call gets a further
// process, however many the owner has.
import { availableParallelism } from "node:os";
import { expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/index.ts";
import { makeGlovebox, PYTHON_CACHE } from "../../support/host-zone.ts";

/** Most processes of an owner, without calls that other calls wait for. */
const PER_OWNER = Math.min(availableParallelism(), 4);
const PLAIN = { name: "plain", source: "export default () => 'plain'" };

/** Opens a Glovebox with the tools `python0`, which calls no tool, `python1`, which calls that one, and so on. */
async function openGlovebox(max: number, longestChain: number): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ cache: PYTHON_CACHE, workers: { max } });
  await glovebox.addTool(PLAIN);
  for (let n = 0; n <= longestChain; n += 1) {
    const calls = `capabilities = {"tools": ["python${n - 1}"]}\nasync def main(input, ctx):\n    return 1 + await tools.python${n - 1}()`;
    const source = n === 0 ? "def main(input, ctx):\n    return 0" : calls;
    await glovebox.addTool({ name: `python${n}`, source, language: "python" }, { grant: n === 0 ? [] : ["tools"] });
  }
  return glovebox;
}

const call = async (glovebox: Glovebox, toolName: string): Promise<unknown> => {
  const result = await glovebox.execute({ id: "c", toolName });
  return result.success ? result.output : result.error;
};

test("they are as many as the calls need: in a chain, and at once", async () => {
  await using glovebox = await openGlovebox(2 * PER_OWNER + 2, PER_OWNER);
  expect(await call(glovebox, `python${PER_OWNER}`)).toBe(PER_OWNER);
  const calls = Array.from({ length: PER_OWNER }, () => call(glovebox, "python1"));
  expect(await Promise.all(calls)).toEqual(calls.map(() => 1));
});

test("calls of tools that share a process get no more of them than an owner may have", async () => {
  await using glovebox = await openGlovebox(2 * PER_OWNER + 4, 0);
  const source = "export const capabilities = { tools: ['python0'] }; export default (_, ctx) => ctx.tools.python0()";
  await glovebox.addTool({ name: "nests", source }, { grant: ["tools"] });
  let most = 0;
  const watching = setInterval(() => {
    most = Math.max(most, glovebox.workers.filter(({ language }) => language === "python").length);
  }, 5);
  const calls = Array.from({ length: 2 * PER_OWNER }, () => call(glovebox, "nests"));
  expect(await Promise.all(calls)).toEqual(calls.map(() => 0));
  clearInterval(watching);
  // One more while another one ends.
  expect(most).toBeLessThanOrEqual(PER_OWNER + 1);
});

test("an idle process makes room for the call", async () => {
  await using glovebox = await openGlovebox(2, 1);
  expect(await call(glovebox, "plain")).toBe("plain");
  expect(await call(glovebox, "python1")).toBe(1);
});
