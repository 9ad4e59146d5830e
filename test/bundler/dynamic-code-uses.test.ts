// Tests detection of dynamic code: which packages and files call eval or Function, and which only look like it.
import { describe, expect, test } from "vitest";
import { TextFacts } from "../../src/bundler/compile/child/text-facts.ts";
import { findDynamicCode } from "../../src/bundler/policy/dynamic-code-uses.ts";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";
import { buildHere, makeFolder, packageFiles } from "./workbench.ts";

const usesIn = (text: string): boolean => findDynamicCode([{ label: "x", text }], new TextFacts()).length > 0;

describe("findDynamicCode()", () => {
  test.for([
    "eval('1')",
    "(0, eval)(text)",
    "globalThis.eval(text)",
    "self['eval'](text)",
    "eval?.(text)",
    "const run = eval",
    "let run; run = (0, eval)",
    "Function('a', body)",
    "new Function(body)",
    "new Function('return this', 'b')",
    "new window.Function(body)",
    "Function.apply(null, names.concat(body))",
    "Function.prototype.constructor(body)",
    "Reflect.construct(Function, [body])",
    "const Make = Function; Make(body)",
    "class Callable extends Function { constructor() { super('return 1') } }",
    "const AsyncFunction = Object.getPrototypeOf(async function () {}).constructor",
    "const AsyncFunction = (async () => {}).constructor",
    "const made = [].constructor.constructor(body)",
    "const Function2 = context.Function; Function2(keys, body)",
    "with (scope) { eval(text) }",
    "return new Function(body)",
    "await import('x'); new Function(body)",
  ])("finds %s", (text) => {
    expect(usesIn(text)).toBe(true);
  });

  test.for([
    "Function('return this')()",
    'var root = freeGlobal || freeSelf || Function("return this")()',
    "new Function('return this;')()",
    "x instanceof Function",
    "typeof x === 'function' && x.constructor === Function",
    "Function.prototype.toString.call(x)",
    "Function.prototype.call.bind(x)",
    "mathjs.eval('1')",
    "parser.Function('1')",
    "const text = 'eval(1); new Function(2)'",
    "const pattern = /eval\\(/",
    "// eval(1)",
    "const { eval: run } = api; run(1)",
    "eval",
    "eval()",
    "isFunction(x)",
    "const types = [String, Number, Function]",
    "this.constructor('a')",
    "new this.constructor(1)",
    "const name = x.constructor.name",
  ])("does not find %s", (text) => {
    expect(usesIn(text)).toBe(false);
  });

  test("searches text that it cannot parse", () => {
    expect(usesIn(`${"(".repeat(20_000)} eval(text)`)).toBe(true);
    expect(usesIn("let let = ;; isFunction(1)")).toBe(false);
    expect(usesIn(`const padding = "${"x".repeat(3 * 1024 * 1024)}"; new Function(body)`)).toBe(true);
  });

  test("terminates on any nesting", () => {
    for (const part of ["(", "[", "a=>", "{", "!", "a."]) usesIn(`Function; ${part.repeat(100_000)}`);
  });
});

describe("a bundle's dynamicCode", () => {
  const files = {
    ...packageFiles("templates", { "index.js": "exports.compile = (text) => new Function('data', text);" }),
    ...packageFiles(
      "modules",
      { "index.mjs": "export const run = (text) => (0, eval)(text); export const other = 1;" },
      { exports: "./index.mjs" },
    ),
    ...packageFiles("clean", { "index.js": "exports.root = Function('return this')();" }),
    ...packageFiles("@scope/deep", { "index.js": "exports.make = require('templates').compile;" }),
  };

  test("names the packages that use it, with their versions, and the tool's own files", async () => {
    const folder = makeFolder({
      ...files,
      "tool/tool.ts": `
        import { make } from "@scope/deep"; import { run } from "modules"; import { root } from "clean"; import { local } from "./local.ts";
        export default () => [make("return 1")(), run("2"), typeof root, local()];`,
      "tool/local.ts": "export const local = (): unknown => eval('3');",
    });
    const bundle = await buildHere({ path: `${folder}/tool` }, { root: folder });
    expect(bundle.dynamicCode).toEqual(["local.ts", "modules@1.0.0", "templates@1.0.0"]);
    expect(Object.isFrozen(bundle.dynamicCode)).toBe(true);
  });

  test("leaves out what tree shaking has dropped", async () => {
    const folder = makeFolder({
      ...files,
      "tool/tool.ts": 'import { other } from "modules"; export default () => other;',
    });
    expect((await buildHere({ path: `${folder}/tool` }, { root: folder })).dynamicCode).toEqual([]);
  });

  test("is empty for a tool without it, and for Glovebox's own module", async () => {
    const source = 'import { defineTool } from "glovebox/tool"; export default defineTool({ execute: () => 1 });';
    expect((await buildHere({ source })).dynamicCode).toEqual([]);
  });

  test("names a script", async () => {
    expect((await buildHere({ source: "with (input) { return eval('a') }", mode: "script" })).dynamicCode).toEqual([
      "tool.js",
    ]);
  });

  test("is part of inspectTool, also from the cache", async () => {
    const cache = { directory: `${makeFolder()}/cache` };
    const source = "export default ({ text }) => Function(text)();";
    for (let round = 0; round < 2; round += 1) {
      await using glovebox = await createGlovebox({
        cache,
        limits: { timeoutMs: 60_000 },
        kv: "memory",
        workers: { warmProcesses: 0 },
        engine: { dynamicCode: false },
      });
      const { bundle, cached } = await glovebox.inspectTool({ source });
      expect([bundle.dynamicCode, cached]).toEqual([["tool.ts"], round === 1]);
    }
  });
});
