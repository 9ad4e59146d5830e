// Tests tools that are scripts in sloppy mode.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createStackMapper } from "../../src/bundler/compile/source-map.ts";
import type { Glovebox } from "../../src/host/index.ts";
import { openCode } from "../support/guest.ts";
import { makeGlovebox } from "../support/host-zone.ts";
import { build, buildHere, failureOf, makeFolder, packageFiles } from "./workbench.ts";

const script = (source: string) => ({ source, mode: "script" }) as const;

async function outcomeOf(source: string, input: unknown = {}, root?: string): Promise<unknown> {
  const bundle = await buildHere(script(source), root === undefined ? {} : { root });
  await using tool = await openCode(bundle.code);
  const loaded = await tool.load();
  if (loaded.outcome !== "ready") throw new Error(loaded.text);
  const end = await tool.call(input);
  return end.value;
}

describe.concurrent('a source with mode: "script"', () => {
  test.for<[string, string, unknown]>([
    ["with", "with ({ a: 1, b: 2 }) { return a + b }", 3],
    ["implicit globals", "total = 0; for (i = 0; i < 4; i++) total += i; return [total, globalThis.i]", [6, 4]],
    ["octal literals", 'return [010, "\\101"]', [8, "A"]],
    ["return at the top level", "if (input.n > 1) return 'large'; return 'small'", "large"],
    ["the last expression as its value", "var x = 20; x * 2 // doubled", 40],
    ["the last expression of a with statement", "with (Math) { max(1, 2) }", 2],
    ["the last expression of a branch", "if (input.n > 1) { 'large' } else 'small'", "large"],
    [
      "the last expression of the other branch",
      "if (input.n > 2) { 'large' } else if (true) 'medium'; else {}",
      "medium",
    ],
    ["the last expression of a catch clause", "try { boom() } catch (error) { error.name }", "ReferenceError"],
    ["the last expression of a try block, after its finally", "var x = 1; try { x } finally { x = 2 }", 1],
    [
      "the last expression before functions that it calls",
      "f(2);; function f(n) { return g(n) } function g(n) { return n + 1 }",
      3,
    ],
    ["a declaration after an expression", "40; var x = (globalThis.seen = 1)", null],
    ["the last expression of a labelled block", "done: { if (input.n === 2) break done; 6 }", null],
    ["await", "const n = await Promise.resolve(input.n); n + 1", 3],
    ["the global object as this", "return this === globalThis", true],
    ["arguments.callee", "return (function () { return typeof arguments.callee })()", "function"],
    ["names that strict mode reserves", "var let = 1, static = 2, yield = 3; return let + static + yield", 6],
    ["delete of a name", "x = 1; return delete x", true],
    ["parameters of the same name", "return (function (a, a) { return a })(1, 2)", 2],
    ["a function that is called before it is declared", "return f(); function f() { return 42 }", 42],
    ["a hashbang", "#!/usr/bin/env node\nreturn 42", 42],
    ["a comment at its end", "return 42 // the end", 42],
    ["strict mode with a directive", '"use strict"; return this === undefined', true],
    ["built-ins by require", 'var path = require("path"); path.join("a", "..", "b")', "b"],
    ["nothing", "", null],
    ["modern syntax", "const { n = 0 } = input ?? {}; return [n, 1_000, /(?<y>a)/v.test('a')]", [2, 1_000, true]],
  ])("runs %s", async ([, source, value]) => {
    expect(await outcomeOf(source, { n: 2 })).toEqual(value);
  });

  test("bundles packages that it requires", async () => {
    const root = makeFolder(packageFiles("p", { "index.js": "exports.x = 42" }));
    expect(await outcomeOf('var p = require("p"); return p.x', {}, root)).toBe(42);
  });

  test("maps an error to its line", async () => {
    const bundle = await build(script("var a = 1;\nvar b = 2;\n  return boom(a, b);"));
    await using tool = await openCode(bundle.code);
    await tool.load();
    const { stack } = (await tool.call()).value as { readonly stack: string };
    expect(createStackMapper(bundle.sourceMap).mapText(stack)).toMatch(/tool\.js:3:\d+/);
  });

  test.for([
    ["an extra brace", "}; globalThis.escaped = 1; {", 1],
    ["a closed function", "return 1\n}\nasync function other() {", 1],
    ["an import", 'var a = 1\nimport x from "y"', 2],
    ["an export", "var a = 1\n\nexport default 1", 3],
    ["a syntax error", "var a = 1;\nvar = 2", 2],
    ["TypeScript", "const x: number = 1", 1],
  ] as const)("rejects %s", async ([, source, line]) => {
    const error = await failureOf(buildHere(script(source)));
    expect(error).toMatchObject({ code: "BUNDLE_FAILED", details: { file: "tool.js", line } });
  });
});

describe.concurrent("a source that is a script and not a module", () => {
  test.for([
    "with ({ a: 1 }) { console.log(a) }",
    "var x = 010; console.log(x)",
    "return 42",
    "var n = 1; if (n > 0) { return n }",
    "total = 1; total + 1",
    "this.x = 5; x",
    "this === globalThis",
    "eval('1+1')",
    "exports.foo = 1; return 3",
  ])("fails with a hint that names the option: %s", async (source) => {
    const error = await failureOf(buildHere({ source }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toContain('addTool({ source, mode: "script" })');
  });

  test.for(["export default (", "export default 1; return 2", "import x from 'nowhere'; with (x) {}", "const x: = 1"])(
    "fails without the hint if it is not a script either: %s",
    async (source) => {
      expect((await failureOf(buildHere({ source }))).message).not.toContain("script");
    },
  );

  test("fails with a hint to give its text, as a file", async () => {
    const error = await failureOf(buildHere({ files: { "tool.js": "with ({ a: 1 }) { console.log(a) }" } }));
    expect(error.message).toContain("give its text as source");
  });

  test.for([
    ['import path from "path"', "no import"],
    ["export default 5", "no import"],
    ["import.meta.url", "no import"],
    ["module.exports = () => 1", "no module.exports"],
    ["exports.a = 1; 2", "no module.exports"],
  ] as const)("a module is not a script: %s", async ([source, message]) => {
    const error = await failureOf(buildHere(script(source)));
    expect(error.message).toContain(message);
    expect(error.message).toContain('leave mode: "script" out');
  });

  test("fails without the hint where there is no such option: as a file", async () => {
    const error = await failureOf(buildHere({ files: { "tool.js": "total = 1; total + 1" } }));
    expect(error.message).toContain("tool.js has no default export");
    expect(error.message).not.toContain("script");
  });

  test("a CommonJS module that returns is not taken for a script", async () => {
    const bundle = await buildHere({ source: "module.exports = () => 42; return" });
    await using tool = await openCode(bundle.code);
    await tool.load();
    expect((await tool.call()).value).toBe(42);
  });
});

describe("addTool() of a script", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox({ cache: false });
  });
  afterAll(() => glovebox.close());

  test("runs it", async () => {
    await glovebox.addTool({ name: "sum", ...script("total = 0; with (input) { total = a + b } return total") });
    expect(await glovebox.execute({ id: "1", toolName: "sum", arguments: { a: 1, b: 2 } })).toMatchObject({
      success: true,
      output: 3,
    });
  });

  test("names the option that takes a mode", async () => {
    const failing = glovebox.addTool({ path: "x.js", mode: "script" } as never);
    await expect(failing).rejects.toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringMatching(/^tool\.mode: Expected it next to source only/),
    });
  });

  test.for([
    ['"hello"', "hello"],
    ["`hello`", "hello"],
    ['"a"; "b"', "b"],
    ["'use strict'; 5", 5],
    ["switch (2) { case 1: 'one'; break; case 2: 'two'; break; default: 'other' }", "two"],
    ["switch (3) { case 1: { 'one'; break } default: 'other' }", "other"],
    ["switch (1) { case 1: 'one'; case 2: 'two' }", "two"],
    ['const p = await import("path"); p.join("a", "b")', "a/b"],
    ['import("node:path").then(function (p) { return p.default.join("a", "b") })', "a/b"],
    ['var n = "pa" + "th"; import(n).catch(function (e) { return e.code })', "MODULE_NOT_FOUND"],
    ["if (typeof module !== 'undefined') module.exports = 1; 7", 7],
  ])("has the value of its last statement: %s", async ([source, output], { task }) => {
    const name = `value${task.id.replace(/\W/g, "_")}`;
    await glovebox.addTool({ name, ...script(source as string) });
    expect(await glovebox.execute({ id: "1", toolName: name, arguments: {} })).toMatchObject({ success: true, output });
  });

  test("rejects a mode that does not exist, a script of files, and one in another language", async () => {
    const inputs = [
      { source: "1", mode: "sloppy" },
      { files: { "tool.js": "1" }, mode: "script" },
      { source: "1", mode: "script", language: "typescript" },
      { source: "1", mode: "script", language: "python" },
    ];
    for (const input of inputs) {
      await expect(glovebox.addTool(input as never)).rejects.toMatchObject({ code: "PARAM_INVALID" });
    }
  });
});
