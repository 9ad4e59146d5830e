// Tests session cells: values, names that later cells see, and the locations of errors.
import { createContext, Script } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createStackMapper } from "../../src/bundler/compile/source-map.ts";
import type { CellLanguage } from "../../src/bundler/tool-bundle.ts";
import { TOOL_SCRIPT_NAME } from "../../src/sandbox/protocol/guest-messages.ts";
import { buildHere, failureOf, makeFolder, packageFiles } from "./workbench.ts";

type Load = (register: (namespace: { readonly default: Main }) => void, builtin: unknown) => Promise<void>;
type Main = (input: unknown, ctx: unknown) => Promise<unknown>;

/** Runs cells of one language in one global object, like the isolate of a session. */
class Notebook {
  readonly #language: CellLanguage;
  readonly #extension: string;
  readonly #root: string | undefined;
  readonly #context = createContext({});
  #count = 0;

  constructor(language: CellLanguage = "javascript", root?: string) {
    this.#language = language;
    this.#extension = language === "typescript" ? "ts" : "js";
    this.#root = root;
  }

  build(code: string) {
    this.#count += 1;
    const entry = `cell-${this.#count}.${this.#extension}`;
    const settings = { cell: this.#language, ...(this.#root === undefined ? {} : { root: this.#root }) };
    return buildHere({ files: { [entry]: code }, entry }, settings);
  }

  async run(code: string, input?: unknown): Promise<unknown> {
    const { code: script } = await this.build(code);
    const load = new Script(script, { filename: TOOL_SCRIPT_NAME }).runInContext(this.#context) as Load;
    let main: Main | undefined;
    await load((namespace) => (main = namespace.default), undefined);
    const value = await main?.(input === undefined ? {} : { input }, {});
    return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
  }

  /** Returns the frames of an error that the cell throws, as `file:line:column`. */
  async thrownAt(code: string): Promise<readonly string[]> {
    const built = await new Notebook(this.#language).build(code);
    const { stack } = (await this.run(code).catch((error: unknown) => error)) as Error;
    const { frames } = createStackMapper(built.sourceMap).mapStack(stack ?? "");
    return frames.map(({ file, line, column }) => `${file.replace(/^cell-\d+/, "cell")}:${line}:${column}`);
  }
}

test.for<readonly [string, unknown]>([
  ["1 + 1", 2],
  ["1 + 1;", 2],
  ["await Promise.resolve(3)", 3],
  ["({ a: 1 })", { a: 1 }],
  ["({ a: 1 });", { a: 1 }],
  ["{ a: 1 }", { a: 1 }],
  ["{ a: 1, b: [2] }", { a: 1, b: [2] }],
  ["\n{ a: {} } // c", { a: {} }],
  ["{}", {}],
  ["{ 1 }\n2", 2],
  ["{ let x = 1; x }", undefined],
  ["(1, 2)", 2],
  ["1, 2", 2],
  ["(await 3)", 3],
  ["(() => 4)()", 4],
  ["(() => 4)", "[Function: anonymous]"],
  ["function f() {}\nf", "[Function: f]"],
  ["10n ** 20n", "100000000000000000000"],
  ["Symbol('a')", "Symbol(a)"],
  ["const x = 1", undefined],
  ["1 // the value", 1],
  ["1 /* a; */", 1],
  ["x = 1\nlet x", undefined],
  ["`a\nb`", "a\nb"],
  ["[1]\n;(2)", 2],
  ["const a = 1; a\n;(a + 1)", 2],
  ["#!/usr/bin/env node\n5", 5],
  ["export default 42", 42],
  ["export default ({ a: 1 })", { a: 1 }],
  ["export default function () { return 1 }\n2", 2],
  ["export const z = 3\nz", 3],
  ["export function g() { return 4 }\ng()", 4],
  ["export default class { static n = 5 }\n6", 6],
  ["", undefined],
  ["// nothing", undefined],
  ["'use strict'", "use strict"],
  ["input.a", 7],
  ["1;;", 1],
  ["1;\n; // c", 1],
  ["new TypeError('no')", "TypeError: no"],
  ["/a/g", "/a/g"],
  ["new Map([['a', 1]])", [["a", 1]]],
  ["new Set([1])", [1]],
  ["function value() { return 1 }\nfunction name() {}\nfunction main() {}\n2", 2],
  ["function name() { return 1 }\nfunction f() {}\nf.name + name()", "f1"],
  ["const x = 1\nreturn x", 1],
  ["if (1 > 0) { for (const a of [1, 2]) { if (a === 2) return new Map([[a, a]]) } }\n5", [[2, 2]]],
  ["return (1, 2)", 2],
  ["return Promise.resolve(3) // later", 3],
  ["return\n4", undefined],
  ["function f() { return 5 }\nreturn f", "[Function: f]"],
])("returns the value of the last expression: %j", async ([code, value]) => {
  expect(await new Notebook().run(code, { a: 7 })).toStrictEqual(value);
});

test.for<readonly [string, readonly string[], unknown]>([
  ["const", ["const a = 1", "a"], 1],
  ["let and what is assigned later", ["let a", "a = 2; a++", "a"], 3],
  ["let without a value begins anew", ["let a = 1", "let a", "typeof a"], "undefined"],
  ["var", ["var a = 1", "var a", "a"], 1],
  ["const again", ["const a = 1", "const a = 2", "a"], 2],
  ["a class that replaces a function", ["function A() {}", "class A { x = 3 }", "new A().x"], 3],
  ["a function that is called before its line", ["f(2)\nfunction f(n) { return n * 2 }", "f(3)"], 6],
  ["a function that calls itself", ["function f(n) { return n < 2 ? 1 : n * f(n - 1) }", "f(5)"], 120],
  ["a function's name", ["async function f() {}", "f.name"], "f"],
  ["a generator", ["function* g() { yield 1; yield 2 }", "[...g()]"], [1, 2]],
  ["a class's name and subclass", ["class A { a() { return 1 } }\nclass B extends A {}", "B.name + new B().a()"], "B1"],
  ["an arrow's name", ["const f = () => 1", "f.name"], "f"],
  [
    "patterns",
    ["const { a, b: [c, ...d], ...e } = { a: 1, b: [2, 3, 4], x: 5 }", "[a, c, d, e]"],
    [1, 2, [3, 4], { x: 5 }],
  ],
  ["patterns with defaults", ["const { a = 1, b: { c = a } = {} } = {}", "[a, c]"], [1, 1]],
  ["a pattern behind a line without a semicolon", ["let y = 2\nconst [z] = [3]\nvar {w} = {w: 4}", "y + z + w"], 9],
  ["patterns without a space", ["const{a}={a:1};let[b]=[2]", "a + b"], 3],
  ["several in one", ["let a = 1, [b] = [2], c, { d } = { d: 4 }", "[a, b, c === undefined, d]"], [1, 2, true, 4]],
  [
    "var in blocks and loops",
    ["for (var i = 0; i < 3; i++) { var last = i }\nif (true) var x = 9", "[i, last, x]"],
    [3, 2, 9],
  ],
  ["var in for of and for in", ["for (var [k] of [[1]]);\nfor (var n in { q: 1 });", "[k, n]"], [1, "q"]],
  ["let in blocks is the block's", ["let a = 1; { let a = 2; } for (let a = 3; a < 4; a++);", "a"], 1],
  [
    "parameters and locals are the function's",
    ["const a = 1; function f(a) { var b = a; { const a = 5 } return b }", "f(2) + a"],
    3,
  ],
  ["a later cell's value in an earlier one's function", ["let a = 1; const f = () => a", "a = 5", "f()"], 5],
  [
    "top-level await",
    ["const a = await Promise.resolve(1)", "for await (const b of [Promise.resolve(2)]) a + b", "a"],
    1,
  ],
  [
    "names that are only assigned",
    ["x = 1", "[y, { z }] = [2, { z: 3 }]; a = b = 4", "[x, y, z, a, b]"],
    [1, 2, 3, 4, 4],
  ],
  ["names that are assigned in blocks and loop heads", ["for (i of [1]) { if (i) last = i }", "[i, last]"], [1, 1]],
  [
    "a setter of the platform, without an own property",
    ["onerror = 1", "typeof onerror + Object.hasOwn(globalThis, 'onerror')"],
    "numbertrue",
  ],
  ["an own variable input", ["const input = [2, 1]; const ctx = 3", "input.sort()", "[input, ctx]"], [[1, 2], 3]],
  [
    "a static name",
    ["class A { static name = 'own' }\nclass B { static name() { return 2 } }", "[A.name, B.name()]"],
    ["own", 2],
  ],
  [
    "a global of the platform, as an own variable",
    ["const URL = 1", "const name = 2; const status = 3", "[URL, name, status]"],
    [1, 2, 3],
  ],
  [
    "a declaration before a throw",
    ["const a = 1; try { null.x } catch (e) { var seen = true }", "[a, seen]"],
    [1, true],
  ],
])("keeps declarations for later cells: %s", async ([, cells, value]) => {
  const notebook = new Notebook();
  let last: unknown;
  for (const cell of cells) last = await notebook.run(cell);
  expect(last).toStrictEqual(value);
});

test("keeps the declarations of a failed cell, those after the error as undefined", async () => {
  const notebook = new Notebook();
  await expect(notebook.run("const a = 1\nconst b = null.x\nconst c = 3")).rejects.toMatchObject({ name: "TypeError" });
  expect(await notebook.run("[a, typeof b, typeof c]")).toStrictEqual([1, "undefined", "undefined"]);
});

test("keeps the input until a new one is given", async () => {
  const notebook = new Notebook();
  expect(await notebook.run("input")).toBe(null);
  expect(await notebook.run("input.a", { a: 1 })).toBe(1);
  expect(await notebook.run("let mine = input; input.a")).toBe(1);
  await notebook.run("var input = 'own'");
  expect(await notebook.run("input")).toBe("own");
  expect(await notebook.run("input", 3)).toBe(3);
});

test("keeps the name of a class, in a cell with imports too", async () => {
  const notebook = new Notebook();
  const code = "import { isAbsolute } from 'node:path'\nclass K { m() { return K.name } }\n[K.name, new K().m()]";
  const { code: script } = await notebook.build(code);
  expect(script).toContain('"K"');
  expect(script).not.toContain("K2.name, ");
});

test("keeps imports, also with comments, several lines, and after a line without a semicolon", async () => {
  const root = makeFolder(packageFiles("pair", { "index.js": "export const a = 1, b = 2;\nexport default 3;\n" }));
  const notebook = new Notebook("javascript", root);
  expect(
    await notebook.run('import {\n  a, // the first\n  b as second /* the second */,\n} from "pair"\na + second'),
  ).toBe(3);
  expect(await notebook.run("[a, second]")).toStrictEqual([1, 2]);
  const calls = 'const f = () => "kept"\nf\nimport d, * as all from "pair"\n(d + all.a)';
  expect(await notebook.run(calls)).toBe(4);
  expect(await notebook.run('const a = 5; import { a as other } from "pair"; [a, other]')).toStrictEqual([5, 1]);
  expect(await notebook.run("a")).toBe(5);
});

test.for<readonly [string, unknown]>([
  ["interface A { x: number }\nconst a: A = { x: 1 }\na.x", 1],
  ["const a = <T,>(x: T): T => x\na<number>(2)", 2],
  ["let a!: number | string; a = 3 as number; a satisfies number", 3],
  ["type A = 1\ndeclare const b: A\nfunction f(this: void, x?: A): A { return x! }\nf(1)", 1],
  ["class A<T> { private x: number = 4; get(): number { return this.x } }\nnew A<string>().get()", 4],
  ["import type { A } from 'nowhere'\nconst a: A = 5 as never\na", 5],
  ["const a: number = 6\nif (a > 5) return a as number\nreturn 0", 6],
])("runs TypeScript: %j", async ([code, value]) => {
  expect(await new Notebook("typescript").run(code)).toStrictEqual(value);
});

test.for<readonly [CellLanguage, string, string]>([
  ["javascript", "throw new Error('x')", "cell.js:1:7"],
  ["javascript", "missing()", "cell.js:1:1"],
  ["javascript", "  (missing)", "cell.js:1:4"],
  ["javascript", "const a = 1\n\n  null.x", "cell.js:3:8"],
  ["javascript", "export default null.x", "cell.js:1:21"],
  ["javascript", "function f() { null.x }\nf()", "cell.js:1:21"],
  ["javascript", "class A { constructor() { null.x } }\nnew A()", "cell.js:1:32"],
  ["javascript", "let a, b, c = null.x", "cell.js:1:20"],
  ["javascript", "const { a } = null.x", "cell.js:1:20"],
  ["typescript", "const a: { x: number } = null!\na.x as number", "cell.ts:2:3"],
  [
    "typescript",
    "enum A {\n  X,\n}\n\nfunction f(a: A): void {\n  throw new Error(String(a));\n}\nf(A.X)",
    "cell.ts:6:9",
  ],
])("maps exceptions to the cell's lines: %s %j", async ([language, code, place]) => {
  expect((await new Notebook(language).thrownAt(code))[0]).toBe(place);
});

test.for<readonly [CellLanguage, string, string]>([
  ["javascript", "const a = 1\nconst = 2", "cell-1.js:2:7"],
  ["javascript", "let a; let a", "cell-1.js:1:12"],
  ["javascript", "1\nreturn 2 3", "cell-1.js:2:10"],
  ["javascript", "const a = 1;\nexport { a }", "cell-1.js:2:1"],
  ["javascript", "1\n\nimport x from 'nowhere'", "cell-1.js:3:15"],
  ["javascript", "1 +", "cell-1.js:1:4"],
  ["typescript", "const a: number = 1\nlet b: = 2", "cell-1.ts:2:8"],
  ["typescript", "1\nimport x from 'nowhere'\nx", "cell-1.ts:2:15"],
  ["typescript", "enum A { X }\nlet b: = 2", "cell-1.ts:2:8"],
  ["typescript", "enum A { X }\nimport x from 'nowhere'\nx", "cell-1.ts:2:15"],
  ["javascript", "@d class A {}\nconst = 1", "cell-1.js:2:7"],
])("maps build errors to the cell's lines: %s %j", async ([language, code, place]) => {
  const { details } = await failureOf(new Notebook(language).build(code));
  expect(details?.problems).toHaveLength(1);
  const [file, line, column] = place.split(":");
  expect(details?.problems).toMatchObject([{ file, line: Number(line), column: Number(column) }]);
});

test.for<readonly [CellLanguage, readonly string[], unknown]>([
  ["typescript", ["enum A { X, Y = 5 }\nA.Y", "[A.X, A[5]]"], [0, "Y"]],
  ["typescript", ["const enum A { X = 'x' }", "A.X"], "x"],
  ["typescript", ["namespace N { export const a = 1; export type T = 1 }\nN.a", "N"], { a: 1 }],
  ["typescript", ["class A { constructor(private x: number, readonly y = 2) {} }", "new A(1)"], { x: 1, y: 2 }],
  ["typescript", ["const a = <number>(1 as any)\na", "a"], 1],
  [
    "typescript",
    ["enum A { X }\nfunction f(this: void): A { return A.X }\nlet a, b = 2", "[f(), f.name, b]"],
    [0, "f", 2],
  ],
  [
    "typescript",
    ["let seen\nconst d = (v: unknown, c: { name: string }) => { seen = c.name }\n@d class A {}", "[seen, A.name]"],
    ["A", "A"],
  ],
  [
    "javascript",
    ["let seen\nconst d = (v, c) => { seen = c.name }\nclass A { @d m() { return 1 } }", "[seen, new A().m()]"],
    ["m", 1],
  ],
])("lowers TypeScript syntax other than types: %s %j", async ([language, cells, value]) => {
  const notebook = new Notebook(language);
  let last: unknown;
  for (const cell of cells) last = await notebook.run(cell);
  expect(last).toStrictEqual(value);
});

test.for(["} throw 1; {", "1 /*", "`${", "1)); throw ((", "export default 1; export default 2", "// \u2028 } ) ("])(
  "rejects a cell that would close its wrapper: %j",
  async (code) => {
    expect((await failureOf(new Notebook().build(code))).message).toMatch(/^cell-1\.js:\d/);
  },
);

const name = fc.constantFrom("a", "b", "c", "get", "of", "async");
const number = fc.integer({ min: -9, max: 9 }).map((value) => `(${value})`);
const kind = fc.constantFrom("const", "let", "var");
/** Statements that assign a number to each of three names, and use nothing that needs the bundler. */
const statement = fc.oneof(
  fc.tuple(kind, name, number).map(([word, to, value]) => `${word} ${to} = ${value}`),
  fc.tuple(kind, name, name, number).map(([word, to, , value]) => `${word} [${to}] = [${value}]`),
  fc.tuple(kind, name, number).map(([word, to, value]) => `${word} { x: ${to} = ${value} } = {}`),
  fc.tuple(name, number).map(([to, value]) => `for (var ${to} of [${value}]) ;`),
  fc.tuple(name, number).map(([to, value]) => `{ let ${to} = ${value}; ${to} }`),
);

/** Equivalent ordinary code, with all names declared by `var`. */
function expected(statements: readonly string[]): string {
  const script = statements.map((one) => one.replace(/^(const|let) /, "var ")).join("\n;");
  const ends = "JSON.stringify(['a','b','c','get','of','async'].map((one) => globalThis[one] ?? null))";
  return new Script(`${script}\n;${ends}`).runInContext(createContext({})) as string;
}

test("behave like their statements in sequence, also without semicolons", async () => {
  const cells = fc.array(fc.array(statement, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(cells, async (all) => {
      const own = all.map((statements) => {
        const taken = new Set<string>();
        // Within one cell a name is declared once, as in one program.
        return statements.filter((one) => {
          if (one.startsWith("{")) return true;
          const to = /(?:const|let|var) (?:\{ x: |\[)?(\w+)/.exec(one)?.[1] ?? "";
          return !taken.has(to) && taken.add(to);
        });
      });
      const notebook = new Notebook();
      for (const statements of own)
        if (!/for \(var async/.test(statements.join(""))) await notebook.run(statements.join("\n"));
      const ran = own.filter((statements) => !/for \(var async/.test(statements.join("")));
      const ends = "JSON.stringify(['a','b','c','get','of','async'].map((one) => globalThis[one] ?? null))";
      expect(await notebook.run(ends)).toBe(expected(ran.flat()));
    }),
    { numRuns: 40 },
  );
});

test("maps locations in a cell regardless of the text before them", async () => {
  const before = fc.array(
    fc.constantFrom("class A {}", "function f() {}", "let x", "let y, z", "const q = 1", "export const e = 2"),
    {
      maxLength: 3,
    },
  );
  const joint = fc.constantFrom("; ", "\n", ";\n  ");
  await fc.assert(
    fc.asyncProperty(before, joint, async (parts, between) => {
      const head = [...new Set(parts)].map((part) => part + between).join("");
      const lines = `${head}missing.x`.split("\n");
      const place = `cell.js:${lines.length}:${(lines.at(-1) ?? "").indexOf("missing") + 1}`;
      expect((await new Notebook().thrownAt(`${head}missing.x`))[0]).toBe(place);
    }),
    { numRuns: 30 },
  );
});
