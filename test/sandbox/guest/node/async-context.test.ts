// Tests AsyncLocalStorage in a guest: each case sees the same stores as in Node, and the bundler's rewriting has no other effects.
import { AsyncLocalStorage } from "node:async_hooks";
import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createStackMapper } from "../../../../src/bundler/compile/source-map.ts";
import { buildHere } from "../../../bundler/workbench.ts";
import { type GuestTool, openCode } from "../../../support/guest.ts";
import { cases } from "./async-context-cases.ts";
import { arbitraryProgram, programText } from "./async-programs.ts";

const CASES_FILE = new URL("./async-context-cases.ts", import.meta.url);
const ENTRY = 'import { cases } from "./cases.ts"; export default ({ name }) => cases[name]();';

describe("AsyncLocalStorage", () => {
  let tool: GuestTool;
  beforeAll(async () => {
    const files = { "tool.ts": ENTRY, "cases.ts": readFileSync(CASES_FILE, "utf8") };
    tool = await openCode((await buildHere({ files })).code);
    const loaded = await tool.load();
    expect(loaded.text).not.toContain("Error");
    expect(loaded.outcome).toBe("ready");
  });
  afterAll(async () => await tool?.[Symbol.asyncDispose]());

  test.for(Object.keys(cases))("sees the same stores as in Node: %s", async (name) => {
    const expected = JSON.parse(JSON.stringify(await cases[name]?.()));
    const end = await tool.call({ name });
    expect([end.outcome, end.value]).toEqual(["output", expected]);
  });
});

describe("random programs", () => {
  test("see the same stores as in Node, in the same order", async () => {
    const programs = fc.sample(arbitraryProgram, 30);
    const texts = programs.map(programText);
    const source = `import { AsyncLocalStorage } from "node:async_hooks";
      const programs = [${texts.join(",\n")}];
      export default ({ index }) => programs[index]();`;
    await using tool = await openCode((await buildHere({ source })).code);
    expect((await tool.load()).outcome).toBe("ready");
    for (const [index, text] of texts.entries()) {
      const inNode = (await new Function("AsyncLocalStorage", `return (${text})();`)(AsyncLocalStorage)) as unknown;
      const end = await tool.call({ index });
      expect([programs[index], end.value]).toEqual([programs[index], inNode]);
    }
  });
});

/** The same tool, once with what makes the bundler follow its awaits. */
async function withAndWithout<Value>(
  source: string,
  look: (value: string, sourceMap: string) => Value,
): Promise<Value[]> {
  const seen: Value[] = [];
  for (const builtin of ["async_hooks", "path"]) {
    const files = { "tool.ts": source.replace("BUILTIN", builtin) };
    const bundle = await buildHere({ files });
    await using tool = await openCode(bundle.code);
    const loaded = await tool.load();
    expect([loaded.outcome, loaded.text]).toEqual(["ready", expect.any(String)]);
    seen.push(look((await tool.call<string>()).value, bundle.sourceMap));
  }
  return seen;
}

describe("a bundle that follows its awaits", () => {
  test("maps errors to the author's lines, including async frames", async () => {
    const source = `import * as builtin from "node:BUILTIN";
      const inner = async (x: number) => { await null; if (x > 0) throw new TypeError("no " + typeof builtin); };
      async function* rows() { yield await inner(0); yield await inner(1); }
      class Outer {
        async run() {
          try { for await (const _ of rows()); } finally { await null; }
        }
      }
      async function top(): Promise<void> { [await null, await new Outer().run()]; }
      export default async () => { try { await top(); } catch (error) { return error.stack; } };`;
    const [followed, plain] = await withAndWithout(
      source,
      (stack, map) => createStackMapper(map).mapStack(stack).stack,
    );
    expect(followed).toBe(plain);
    expect(followed).toMatch(/^TypeError: no object\n {4}at inner \(tool\.ts:2:\d+\)\n {4}at async rows/);
    expect(followed).toMatch(
      /at async Outer\.run \(tool\.ts:6:\d+\)\n {4}at async top \(tool\.ts:9:\d+\)\n {4}at async default \(tool\.ts:10:\d+\)/,
    );
  });

  test("supports every kind of top-level await, and keeps its strictness", async () => {
    const source = `import * as builtin from "node:BUILTIN";
      import old from "./old.cjs";
      const { AsyncLocalStorage } = builtin as any;
      const als = AsyncLocalStorage && new AsyncLocalStorage();
      const at = await (als?.run("top", async () => { await null; return als.getStore(); }) ?? "top");
      const seen = [];
      for await (const x of [at, Promise.resolve("x")]) seen.push(x);
      try { await Promise.reject(new Error("y")); } catch (error) { seen.push(error.message); }
      const later = await import("./later.ts");
      export default () => [...seen, old, later.value].join();`;
    const files = {
      "old.cjs": "undeclared = 5; module.exports = undeclared",
      "later.ts": "export const value = await 6",
    };
    for (const builtin of ["async_hooks", "path"]) {
      const bundle = await buildHere({ files: { "tool.ts": source.replace("BUILTIN", builtin), ...files } });
      await using tool = await openCode(bundle.code);
      expect((await tool.load()).outcome).toBe("ready");
      expect((await tool.call()).value).toBe("top,x,y,5,6");
    }
  });

  test("accepts syntax without white space", async () => {
    const source = `import * as builtin from "node:BUILTIN";
      const id = <T,>(x: T): T => x;
      async function* bare(): any { const a = yield; const b = yield yield a; return yield* [await (yield), b]; }
      const tight = async()=>({a:await id(1),[await id("b")]:-await id(2),...await id({c:3})});
      const comma = async (x = async () => await 5) => (await null, await x());
      const chain = async (o: any) => (await o?.f?.(await id(1))) ** 2 + +await 1;
      const loops = async () => {
        let n = 0;
        a: for (;;) { b: for await (const x of [1, 2, 3]) { if (x === 2) continue b; n += x; if (n > 8) break a; } }
        do n += await 1; while ((await n) < 12);
        for (const x of await id([1, 2])) if (await x) n += x; else n -= 1;
        for await (const [x = await 4] of [[], [7]] as any) n += x;
        switch (await n) { case await id(26): n = 0; }
        return \`\${await n}\${await (async () => { try { return await 1 } finally { n += 1 } })()}\${n}\`;
      };
      export default async () => {
        const g = bare();
        const seen: unknown[] = [];
        for (const x of [0, 1, 2, 3, 4, 5, 6]) seen.push((await g.next(x)).value ?? null);
        return JSON.stringify([seen, await tight(), await comma(), await chain({ f: async (x: number) => x + 2 }), await loops(), typeof builtin]);
      };`;
    const [followed, plain] = await withAndWithout(source, (value) => value);
    expect(followed).toBe(plain);
    expect(followed).toContain('{"a":1,"b":-2,"c":3},5,10,');
  });

  test("is unchanged if it does not name async_hooks", async () => {
    const { code } = await buildHere({ source: "export default async () => { await null; }" });
    expect(code).not.toContain("Activation");
  });
});
