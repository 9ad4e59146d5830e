// Chains of calls that need processes of their own: callers keep theirs while they wait, so chains at the same time could wait for each other. One
// of them fails then, and the others go on. The time in the queue is longer than any test.
import { expect, test } from "vitest";
import type { Glovebox, ToolResult } from "../../../src/host/index.ts";
import { makeGlovebox, PYTHON_CACHE } from "../../support/host-zone.ts";

/** Opens a Glovebox with the tools `python0`, which calls no tool, `python1`, which calls that one, and so on, and `javascript`, which calls the last. */
async function openGlovebox(max: number, longestChain: number): Promise<Glovebox> {
  const limits = { queueMs: 300_000, timeoutMs: 300_000 };
  const glovebox = await makeGlovebox({ cache: PYTHON_CACHE, workers: { max }, limits });
  for (let n = 0; n <= longestChain; n += 1) {
    const calls = `capabilities = {"tools": ["python${n - 1}"]}\nasync def main(input, ctx):\n    return 1 + await tools.python${n - 1}()`;
    const source = n === 0 ? "def main(input, ctx):\n    return 0" : calls;
    await glovebox.addTool({ name: `python${n}`, source, language: "python" }, { grant: n === 0 ? [] : ["tools"] });
  }
  const last = `python${longestChain}`;
  const source = `export const capabilities = { tools: ["${last}"] }; export default (_, ctx) => ctx.tools.${last}()`;
  await glovebox.addTool({ name: "javascript", source }, { grant: ["tools"] });
  return glovebox;
}

const REJECTED = /Each of the \d worker processes \(workers\.max\) has calls that wait for another call/;
const errorOf = (result: ToolResult): string => (result.success ? "" : JSON.stringify(result.error));

test("at least one of several chains always goes on, and those that cannot fail with the reason", async () => {
  await using glovebox = await openGlovebox(4, 2);
  const names = ["javascript", "javascript", "python2", "python2"];
  const results = await Promise.all(names.map((toolName, n) => glovebox.execute({ id: `c${n}`, toolName })));
  const succeeded = results.filter(({ success }) => success);
  expect(succeeded.length).toBeGreaterThan(0);
  for (const result of succeeded) expect(result).toMatchObject({ output: 2 });
  for (const result of results) if (!result.success) expect(errorOf(result)).toMatch(REJECTED);
  // Each of them succeeds where it is alone.
  for (const toolName of ["javascript", "python2"])
    expect(await glovebox.execute({ id: "again", toolName })).toMatchObject({ success: true, output: 2 });
});

test("a chain that needs more processes than there are fails at once", async () => {
  await using glovebox = await openGlovebox(2, 2);
  const result = await glovebox.execute({ id: "c", toolName: "python2" });
  expect(errorOf(result)).toMatch(REJECTED);
  expect(await glovebox.execute({ id: "c", toolName: "python1" })).toMatchObject({ success: true, output: 1 });
});

test("a chain that waits for something else than a process goes on", async () => {
  await using glovebox = await openGlovebox(2, 1);
  const { promise, resolve } = Promise.withResolvers<void>();
  glovebox.router.register("outside", {}, async () => {
    await promise;
    return 5;
  });
  const source = 'capabilities = {"tools": ["outside"]}\nasync def main(input, ctx):\n    return await tools.outside()';
  await glovebox.addTool({ name: "waits", source, language: "python" }, { grant: ["tools"] });
  const waits = glovebox.execute({ id: "w", toolName: "waits" });
  const chain = glovebox.execute({ id: "c", toolName: "python1" });
  // Longer than calls may wait for each other.
  await new Promise((done) => setTimeout(done, 4_000));
  resolve();
  expect(await waits).toMatchObject({ success: true });
  expect(await chain).toMatchObject({ success: true, output: 1 });
});
