// JSON turns some values into {} without an error. The tool's log has a warning about them.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { makeGlovebox, outputOf } from "../support/host-zone.ts";

const SOURCE = `export const capabilities = { kv: true, tools: true };
const HOW = {
  promise: () => ({ list: [1, Promise.resolve(2)] }),
  map: () => ({ "a/b": new Map([[1, 2]]) }),
  set: () => [new Set([1])],
  error: () => ({ error: new TypeError("lost") }),
  input: async (ctx) => { await ctx.kv.set("key", { all: new Set([1]) }); return await ctx.kv.get("key"); },
  call: async (ctx) => (await ctx.tools.echo({ more: new Map([[1, 2]]) })),
  chunks: async function* () { for (let n = 0; n < 3; n += 1) yield { n, set: new Set([n]) }; },
  plain: () => ({ empty: {}, list: [{}], text: "{}", date: new Date(0) }),
  own: () => ({ own: { map: new Map([[1, 2]]), toJSON: () => ({}) } }),
  converted: () => Object.assign(new Map([[1, 2]]), { toJSON: () => ({}) }),
  fields: () => Object.assign(new Error("kept"), { field: {} }),
  accessor: () => { let reads = 0; return { get set() { reads += 1; return reads === 1 ? {} : new Set([reads]); } }; },
  proxy: () => {
    let isRead = false;
    return { proxy: new Proxy({}, { ownKeys: () => { if (isRead) throw new Error("second"); isRead = true; return []; } }) };
  },
};
export default ({ how }, ctx) => HOW[how](ctx);`;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ kv: "memory" });
  await glovebox.addTool({ name: "echo", source: "export default (input) => input;" });
  await glovebox.addTool({ name: "loses", source: SOURCE }, { grant: ["kv", "tools"] });
});
afterAll(() => glovebox.close());

test.for([
  ["promise", "The output has a promise at /list/1, which JSON turns into {}: await it"],
  ["map", "The output has a Map at /a~1b, which JSON turns into {}: use Object.fromEntries(map)"],
  ["set", "The output has a Set at /0, which JSON turns into {}: use [...set]"],
  ["error", "The output has an Error at /error, which JSON turns into {}: use its message"],
  ["input", "The value of kv.set has a Set at /all, which JSON turns into {}: use [...set]"],
  ["call", "The input of ctx.tools has a Map at /input/more, which JSON turns into {}: use Object.fromEntries(map)"],
  ["chunks", "The chunk has a Set at /set, which JSON turns into {}: use [...set]"],
] as const)("%s: the log has one warning", async ([how, message]) => {
  const result = await glovebox.execute({ id: "c", toolName: "loses", arguments: { how } });
  expect(JSON.stringify(outputOf(result))).toContain("{}");
  expect(result.logs.map((entry) => [entry.level, entry.message])).toEqual([["warn", message]]);
});

test.for(["plain", "own", "converted", "fields", "accessor", "proxy"])("%s: there is no warning", async (how) => {
  const result = await glovebox.execute({ id: "c", toolName: "loses", arguments: { how } });
  expect(JSON.stringify(outputOf(result))).toContain("{}");
  expect(result.logs).toEqual([]);
});

test.for([
  ["bytes", "new Uint8Array(8 * 1024 * 1024 - 1024)", 128],
  ["an array", "Array(1_200_000).fill(0)", 40],
] as const)("the search for lost values does not use up the memory with %s", async ([, value, memoryMiB]) => {
  const source = `export default () => ({ headers: {}, body: ${value} });`;
  await using large = await makeGlovebox({ limits: { memoryMiB } });
  await large.addTool({ name: "large", source });
  const result = await large.execute({ id: "c", toolName: "large", arguments: {} });
  expect(outputOf(result)).toHaveProperty("headers", {});
  expect(result.logs).toEqual([]);
});
