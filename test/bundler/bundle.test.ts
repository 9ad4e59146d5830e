// Tests bundleTool(): its inputs, its output and its error messages, with real esbuild in real child processes.
import { createHash } from "node:crypto";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ToolSource } from "../../src/bundler/tool-bundle.ts";
import { build, buildHere, evaluate, failureOf, makeFolder, packageFiles, REPOSITORY, resultOf } from "./workbench.ts";

const ANSWER = "export default () => 42;";

describe.concurrent("bundleTool() accepts", () => {
  test("bundles one file of source", async () => {
    expect(await resultOf({ source: "const n: number = 42; export default (): number => n" })).toBe(42);
  });

  test("files in memory, with an entry named or found", async () => {
    const files = { "main.ts": 'export { x as default } from "./lib/x.js";', "lib/x.ts": "export const x = () => 42" };
    expect(await resultOf({ files, entry: "main.ts" })).toBe(42);
    expect(await resultOf({ files: { ...files, "index.ts": ANSWER } })).toBe(42);
  });

  test("a folder, and the first of its entries", async () => {
    const root = makeFolder({
      "add/index.js": "export default 1",
      "add/tool.ts": 'export { default } from "./answer.ts"',
    });
    const folder = makeFolder({ "tool.mts": 'import a from "./lib"; export default a', "lib/index.ts": ANSWER });
    expect((await failureOf(build({ path: join(root, "add") }, { root }))).message).toContain("./answer.ts");
    expect(await resultOf({ path: folder }, { root: folder })).toBe(42);
  });

  test("a file on disk, which may import what lies next to it", async () => {
    const root = makeFolder({
      "a/run.mjs": 'import data from "./data.json"; export default data.n',
      "a/data.json": '{"n":42}',
    });
    const bundle = await build({ path: join(root, "a/run.mjs") }, { root });
    expect(bundle.entry).toBe("run.mjs");
    expect(bundle.inputs.map((input) => input.path).sort()).toEqual(["data.json", "run.mjs"]);
    expect((await evaluate(bundle)).value).toBe(42);
  });

  test("a path that is a symbolic link, by its real path", async () => {
    const root = makeFolder({ "real/tool.ts": 'export { default } from "./x.ts"', "real/x.ts": ANSWER });
    symlinkSync(join(root, "real"), join(root, "link"));
    expect(await resultOf({ path: join(root, "link") }, { root })).toBe(42);
  });

  test.for([
    [
      "TypeScript syntax",
      "enum E { A = 42 } namespace N { export const x = E.A } export default () => N.x satisfies number",
      42,
    ],
    ["top-level await", "const n = await Promise.resolve(42); export default () => n", 42],
    ["a dynamic import of a constant", 'export default async () => (await import("./n.ts")).n', 7],
    ["require of a constant", 'export default () => require("./c.cjs").n', 8],
    ["JSON with an import attribute", 'import d from "./d.json" with { type: "json" }; export default d.n', 9],
    [
      "JSX with its classic factory",
      'const React = { createElement: (n: string) => n }; export { default } from "./view.tsx"',
      "b",
    ],
    [
      "import.meta, made harmless",
      'export default () => import.meta.url === "file:///tool/tool.ts" && import.meta.dirname === "/tool" && 42',
      42,
    ],
    ["global and NODE_ENV", "export default () => [global === globalThis, process.env.NODE_ENV]", [true, "production"]],
    ["a hashbang and a closing comment", "#!/usr/bin/env node\nexport default 42 // the end", 42],
    [
      "decorators",
      "const d = (v: any, c: any) => function () { return 42 }; class A { @d m() { return 1 } } export default () => new A().m()",
      42,
    ],
    ["using", "let n = 0; export default () => { { using x = { [Symbol.dispose]() { n = 42 } } } return n }", 42],
    [
      "type-only imports of nothing",
      'import type { T } from "nowhere"; import { U } from "./types.ts"; export default (x?: T | U) => 42',
      42,
    ],
    [
      "names that our own code has",
      "const __glovebox_register = 1, register = 2, tool = 40; export default () => tool + register",
      42,
    ],
  ] as const)("%s", async ([, source, value]) => {
    const files = {
      "tool.ts": source,
      "n.ts": "export const n = 7",
      "c.cjs": "module.exports = { n: 8 }",
      "d.json": '{ "n": 9 }',
      "view.tsx": "const React = { createElement: (n: string) => n }; export default <b />",
      "types.ts": "export interface U {}",
    };
    expect(await resultOf({ files })).toEqual(value);
  });

  test("a tool that is defined with glovebox/tool", async () => {
    const source =
      'import { defineTool } from "glovebox/tool"; export default defineTool({ description: "d", execute: () => 42 })';
    const bundle = await build({ source });
    expect(bundle.packages).toEqual([]);
    expect(bundle.inputs.map((input) => input.path)).toEqual(["tool.ts", "glovebox/tool"]);
    expect((await evaluate(bundle)).value).toBe(42);
  });
});

describe.concurrent("bundleTool() knows the entry's exports", () => {
  test.for<[string, { [path: string]: string }, readonly string[]]>([
    ["named ones", { "tool.ts": "export const a = 1; export default 2; export type T = 1" }, ["a", "default"]],
    [
      "export * from its own files",
      { "tool.ts": 'export * from "./b.ts"; export default 1', "b.ts": "export const b = 1" },
      ["b", "default"],
    ],
    ["a renamed default", { "tool.ts": "const x = 1; export { x as default, x as y }" }, ["default", "y"]],
    ["module.exports", { "tool.cjs": "module.exports = () => 42" }, ["default"]],
    ["export =", { "tool.cts": "export = () => 42" }, ["default"]],
  ])("%s", async ([, files, names]) => {
    const bundle = await build({ files });
    expect([...bundle.exports].sort()).toEqual(names);
    expect((await evaluate(bundle)).names).toEqual(names);
  });

  test.for([
    ["none at all", { "tool.ts": "export const a = 1" }],
    ["export * does not carry a default", { "tool.ts": 'export * from "./b.ts"', "b.ts": "export default 1" }],
    ["an empty file", { "tool.ts": "" }],
  ] as const)("rejects a tool without a default export: %s", async ([, files]) => {
    const error = await failureOf(build({ files }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toBe(
      "tool.ts:1:1: tool.ts has no default export; write export default defineTool({ … }), or export default a function",
    );
  });
});

describe.concurrent("bundleTool() with packages", () => {
  test("builds a zod tool that runs", async () => {
    const source = 'import { z } from "zod"; export default () => z.object({ n: z.number() }).parse({ n: 42 })';
    const bundle = await build({ source });
    expect(bundle.packages).toEqual([expect.stringMatching(/^zod@4\./)]);
    expect((await evaluate(bundle)).value).toEqual({ n: 42 });
    expect(bundle.code).not.toContain(REPOSITORY);
    expect(bundle.sourceMap).not.toContain(REPOSITORY);
  });

  const store = {
    ...packageFiles("old", { "index.js": "leaked = 'sloppy'; exports.value = () => leaked + typeof this" }),
    ...packageFiles(
      "conditions",
      { "worker.js": 'export default "worker"', "node.js": 'export default "node"' },
      { exports: { ".": { node: "./node.js", worker: "./worker.js" } } },
    ),
    ...packageFiles("babel", { "index.js": 'exports.__esModule = true; exports.default = "inner"' }),
    ...packageFiles(
      "esm",
      { "index.js": 'import babel from "babel"; export default babel.default' },
      { type: "module" },
    ),
    ...packageFiles(
      "inside",
      { "index.js": 'export { default } from "#x"', "x.js": "export default 42" },
      {
        type: "module",
        imports: { "#x": "./x.js" },
      },
    ),
    ...packageFiles("optional", {
      "index.js": 'try { module.exports = require("not-there") } catch { module.exports = "without" }',
    }),
    ...packageFiles("events", { "index.js": 'module.exports = "an npm package"' }),
    ...packageFiles("@scope/name", { "deep/x.js": "export default 42" }),
    ...packageFiles("outer", { "index.js": 'export { default } from "inner"' }),
    ...packageFiles("inner", { "index.js": "export default 1" }),
    "node_modules/outer/node_modules/inner/package.json": '{"name":"inner","version":"2.0.0"}',
    "node_modules/outer/node_modules/inner/index.js": "export default 2",
  };

  test.for([
    ["sloppy CommonJS", 'import { value } from "old"; export default value', "sloppyobject"],
    ["conditions of Node", 'import c from "conditions"; export default c', "node"],
    ["a package's own type", 'import e from "esm"; export default e', "inner"],
    ["a package's own #imports", 'import i from "inside"; export default i', 42],
    ["an optional dependency that is missing", 'import o from "optional"; export default o', "without"],
    [
      "an npm package by a built-in's name, told by its slash",
      'import e from "events"; import f from "events/"; export default [e, f]',
      [{ builtin: "events", chunk: "node-events" }, "an npm package"],
    ],
    ["a scope and a path", 'import x from "@scope/name/deep/x.js"; export default x', 42],
    ["nested versions", 'import o from "outer"; import i from "inner"; export default [o, i]', [2, 1]],
  ] as const)("%s", async ([, source, value]) => {
    const root = makeFolder(store);
    const bundle = await buildHere({ source }, { root });
    expect((await evaluate(bundle)).value).toEqual(value);
    expect(bundle.code + bundle.sourceMap).not.toContain(root.slice(1));
  });

  test.for([
    ["required", 'module.exports = require("./data.json");'],
    ["imported", 'import data from "./data.json"; export default data;'],
    ["imported by name", 'import { list, last } from "./data.json"; export default { list, last };'],
    ["re-exported", 'export { default } from "./data.json";'],
    ["with an import attribute", 'import data from "./data.json" with { type: "json" }; export default data;'],
  ] as const)("megabytes of JSON, %s", async ([title, code]) => {
    const list = Array.from({ length: 60_000 }, (_, index) => ({ index, text: `“${index}” \u2028` }));
    const data = { list, last: [1.5, null, { deep: true }] };
    const [type, file] = title === "required" ? ["commonjs", "index.js"] : ["module", "index.js"];
    const root = makeFolder(packageFiles("data", { [file]: code, "data.json": JSON.stringify(data) }, { type }));
    const source = 'import data from "data"; export default [data.list.length, data.list[59_999], data.last];';
    const bundle = await buildHere({ source }, { root });
    expect((await evaluate(bundle)).value).toEqual([60_000, list[59_999], data.last]);
    // Without an entry for each value.
    if (title !== "with an import attribute") expect(bundle.sourceMap.length).toBeLessThan(20_000);
  });

  test("names the line of a mistake in a large JSON file", async () => {
    const broken = `{\n"list": [${"1, ".repeat(50_000)}],\n}`;
    const root = makeFolder(
      packageFiles("data", { "index.js": 'module.exports = require("./data.json");', "data.json": broken }),
    );
    const built = buildHere({ source: 'import data from "data"; export default data' }, { root });
    await expect(built).rejects.toMatchObject({
      code: "BUNDLE_FAILED",
      message: expect.stringMatching(/data\.json:2:/),
    });
  });

  test("finds them next to the tool and above it, up to the root", async () => {
    const above = makeFolder({
      ...packageFiles("out-of-reach", { "index.js": "export default 0" }),
      "root/node_modules/far/package.json": '{"name":"far","version":"1.0.0"}',
      "root/node_modules/far/index.js": "export default 'far'",
      "root/tools/a/node_modules/near/package.json": '{"name":"near"}',
      "root/tools/a/node_modules/near/index.js": "module.exports = 'near'",
      "root/tools/a/tool.ts": 'import far from "far"; import near from "near"; export default [far, near]',
      "root/tools/b/tool.ts": 'import x from "out-of-reach"; export default x',
    });
    const root = join(above, "root");
    const bundle = await buildHere({ path: join(root, "tools/a") }, { root });
    expect((await evaluate(bundle)).value).toEqual(["far", "near"]);
    expect(bundle.packages).toEqual(["far@1.0.0", "near"]);
    expect(bundle.code).toContain('"node_modules/near/index.js"');
    expect(bundle.code).not.toContain("tools/a");
    expect(JSON.parse(bundle.sourceMap).sources).toContain("node_modules/near/index.js");
    const error = await failureOf(buildHere({ path: join(root, "tools/b") }, { root }));
    expect(error.message).toContain("the store has no package out-of-reach");
  });

  test("finds them through pnpm's links inside the store", async () => {
    const root = makeFolder({
      "node_modules/.pnpm/a@1/node_modules/a/package.json": '{"name":"a","version":"1.0.0"}',
      "node_modules/.pnpm/a@1/node_modules/a/index.js": 'export { default } from "b"',
      "node_modules/.pnpm/b@2/node_modules/b/package.json": '{"name":"b","version":"2.0.0"}',
      "node_modules/.pnpm/b@2/node_modules/b/index.js": "export default 42",
    });
    symlinkSync(".pnpm/a@1/node_modules/a", join(root, "node_modules/a"));
    symlinkSync("../../b@2/node_modules/b", join(root, "node_modules/.pnpm/a@1/node_modules/b"));
    const bundle = await buildHere({ source: 'export { default } from "a"' }, { root });
    expect(bundle.packages).toEqual(["a@1.0.0", "b@2.0.0"]);
    expect((await evaluate(bundle)).value).toBe(42);
  });

  test("uses only the store that the host names", async () => {
    const root = makeFolder({
      "tool.ts": 'import x from "x"; export default x',
      ...packageFiles("x", { "index.js": "export default 1" }),
    });
    const store = makeFolder(packageFiles("x", { "index.js": "export default 2" }));
    for (const named of [store, join(store, "node_modules")]) {
      expect(await resultOf({ path: root }, { root, packagesDir: named })).toBe(2);
    }
    expect((await failureOf(buildHere({ path: root }, { root, packagesDir: join(store, "nowhere") }))).message).toMatch(
      /there is no package store; .*bundler\.packagesDir or bundler\.root/,
    );
  });

  test("applies the allow list to the tool, not to its packages", async () => {
    const root = makeFolder({
      ...packageFiles("a", { "index.js": 'export { default } from "b"' }),
      ...packageFiles("b", { "index.js": "export default 42" }),
    });
    expect(await resultOf({ source: 'export { default } from "a"' }, { root, allowPackages: ["a"] })).toBe(42);
    const error = await failureOf(buildHere({ source: 'export { default } from "b"' }, { root, allowPackages: ["a"] }));
    expect(error.message).toBe(
      'tool.ts:1:25: Cannot import "b": the package b is not on the allow list; allowed packages are a',
    );
  });
});

describe.concurrent("bundleTool() builds a bundle that", () => {
  test("is content-addressed, independent of its folder, and immutable", async () => {
    const files = {
      "tool.ts": 'import x from "x"; import { y } from "./y.ts"; export default [x, y]',
      "y.ts": "export const y = 1",
    };
    const store = packageFiles("x", { "index.js": "module.exports = 1" });
    const [one, two] = await Promise.all(
      [makeFolder({ ...files, ...store }), makeFolder({ ...files, ...store })].map((path) =>
        build({ path }, { root: path }),
      ),
    );
    expect(one).toEqual(two);
    expect(one?.sha256).toBe(
      createHash("sha256")
        .update(one?.code ?? "")
        .digest("hex"),
    );
    expect(Object.isFrozen(one) && Object.isFrozen(one?.exports) && Object.isFrozen(one?.inputs[0])).toBe(true);
  });

  test("has a source map of the author's paths, with the text of the tool's own files only", async () => {
    const root = makeFolder(packageFiles("x y", { "index.js": "export default 1" }, { main: "index.js" }));
    const store = makeFolder(packageFiles("x", { "a b.js": "export default () => 1" }, { main: "a b.js" }));
    const files = {
      "tool.ts": 'import x from "x"; import y from "./lib/my lib.ts"; export default [x, y]',
      "lib/my lib.ts": "export default 2",
    };
    const bundle = await build({ files }, { root, packagesDir: store });
    const map = JSON.parse(bundle.sourceMap);
    const texts = Object.fromEntries(map.sources.map((source: string, at: number) => [source, map.sourcesContent[at]]));
    expect(texts).toEqual({
      "tool.ts": files["tool.ts"],
      "lib/my lib.ts": files["lib/my lib.ts"],
      "node_modules/x/a b.js": null,
      "glovebox/entry": null,
    });
  });

  test("evaluates no code until its function is called", async () => {
    const bundle = await build({ source: "globalThis.ran = true; export default 1" });
    expect(bundle.code.startsWith("(async (")).toBe(true);
    expect((await evaluate(bundle)).value).toBe(1);
  });
});

describe.concurrent("bundleTool() reports", () => {
  test("problems with file, line, column, the line, and a hint", async () => {
    const files = {
      "tool.ts": 'import "./lib/a.ts";\nexport default 1',
      "lib/a.ts": '// ä\n\tlet x = "😀"; import fs from "node:fz"; fs.x();',
    };
    const error = await failureOf(build({ files }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toBe(
      'lib/a.ts:2:31: Cannot import "node:fz": Node has no built-in module of this name; ' +
        "a tool may import relative files, JSON files, Node's built-ins, and npm packages from its store",
    );
    expect(error.details).toEqual({
      file: "lib/a.ts",
      line: 2,
      column: 31,
      problems: [
        {
          file: "lib/a.ts",
          line: 2,
          column: 31,
          lineText: '\tlet x = "😀"; import fs from "node:fz"; fs.x();',
          message: 'Cannot import "node:fz": Node has no built-in module of this name',
          hint: "a tool may import relative files, JSON files, Node's built-ins, and npm packages from its store",
        },
      ],
    });
  });

  test.for([
    ["its first statement", 'import x from "./none.js"; export default import.meta.url', "1:15"],
    ["a directive", '"use strict"; const x = "ä"; import y from "./none.js"; export default __dirname + x + y', "1:44"],
    ["a hashbang", '#!/usr/bin/env node\nimport x from "./none.js"; export default import.meta.url', "2:15"],
  ] as const)("the column in a package's file that uses its location, after %s", async ([, text, place]) => {
    const root = makeFolder(packageFiles("p", { "index.mjs": text }, { main: "index.mjs" }));
    const error = await failureOf(build({ source: 'import x from "p"; export default x' }, { root }));
    expect(error.message).toMatch(new RegExp(`^node_modules/p/index\\.mjs:${place}: `));
  });

  test.for([
    ["a syntax error", "export default {\n  a: 1\n  b: 2 }", 'tool.ts:3:3: Expected "}" but found "b"'],
    ["an unfinished file", "export default (", "tool.ts:1:17: Unexpected end of file"],
    [
      "an import of a missing file",
      'import "./x"; export default 1',
      'tool.ts:1:8: Cannot import "./x": there is no such file in the tool',
    ],
    [
      "an import of a missing export",
      'import { z } from "./a.ts"; export default z',
      'tool.ts:1:10: No matching export in "a.ts" for import "z"',
    ],
    [
      "an unknown package",
      'import x from "no-such-package"; export default x',
      "the store has no package no-such-package",
    ],
    [
      "an entry that a package lacks",
      'import x from "zod/nope"; export default x',
      'tool.ts:1:15: Cannot import "zod/nope": the package zod has no such entry',
    ],
    [
      "a path that is computed at run time",
      "export default (x) => import(x)",
      "tool.ts:1:23: Cannot import a path that is computed at run time",
    ],
    [
      "a require that is computed at run time",
      "export default (x) => require(x)",
      "tool.ts:1:23: Cannot import a path that is computed at run time",
    ],
    [
      "the host's side of Glovebox",
      'import g from "glovebox"; export default g',
      'tools import "glovebox/tool" instead',
    ],
  ] as const)("%s", async ([, source, message]) => {
    const error = await failureOf(build({ files: { "tool.ts": source, "a.ts": "export const a = 1" } }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toContain(message);
  });

  test("all problems, the first three in the message", async () => {
    const source = `${[1, 2, 3, 4, 5].map((n) => `import a${n} from "node:n${n}"; a${n}();`).join("\n")}\nexport default 1`;
    const error = await failureOf(build({ source }));
    expect(error.message.split("\n").at(-1)).toBe("and 2 more");
    expect(error.details?.problems).toHaveLength(5);
  });

  test.for<[string, (root: string) => ToolSource, string]>([
    ["a path that does not exist", (root) => ({ path: join(root, "nowhere") }), 'There is no file or folder "nowhere"'],
    ["a path with a null byte", () => ({ path: "a\0b" }), 'There is no file or folder "a\\u0000b"'],
    ["a folder without an entry", (root) => ({ path: root }), "has no entry; expected one of tool.ts"],
    ["a folder without an entry, in any language", (root) => ({ path: root }), ", or, for Python, tool.py or main.py"],
    [
      "a file of another type",
      (root) => ({ path: join(root, "x.py") }),
      'The entry "x.py" is not a TypeScript or JavaScript file',
    ],
    [
      "a JSON entry",
      () => ({ files: { "tool.json": "1" }, entry: "tool.json" }),
      "is not a TypeScript or JavaScript file; expected a file that ends in one of .ts .tsx .mts .cts .js .jsx .mjs .cjs, or in .py for Python",
    ],
    ["no files", () => ({ files: {} }), "The tool has no files"],
    ["no entry among the files", () => ({ files: { "a.ts": "" } }), "The tool's files have no entry"],
    [
      "an entry that is not among the files",
      () => ({ files: { "a.ts": "" }, entry: "b.ts" }),
      'The entry "b.ts" is not a file',
    ],
    [
      "an entry that every object has",
      () => ({ files: { "a.ts": "" }, entry: "constructor" }),
      'The entry "constructor" is not a file',
    ],
    ["a file name that leaves", () => ({ files: { "tool.ts": "", "../x.ts": "" } }), "it leaves the tool's folder"],
    ["an absolute file name", () => ({ files: { "/etc/tool.ts": "" }, entry: "/etc/tool.ts" }), "a path is relative"],
    ["a hidden file name", () => ({ files: { "tool.ts": "", ".env.json": "1" } }), "hidden files cannot be imported"],
  ])("reports issues of the source itself: %s", async ([, source, message]) => {
    const root = makeFolder({ "x.py": "" });
    const error = await failureOf(build(source(root), { root }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toContain(message);
    expect(JSON.stringify([error.message, error.details])).not.toContain(root);
  });

  test("reports a tool outside the root folder", async () => {
    const [root, elsewhere] = [makeFolder(), makeFolder({ "tool.ts": ANSWER })];
    expect((await failureOf(build({ path: elsewhere }, { root }))).message).toBe(
      "The tool lies outside the root folder for tools",
    );
  });
});

describe.concurrent("bundleTool() enforces limits", () => {
  const big = `export default "${"x".repeat(2_000)}"`;
  const many = Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`f${n}.ts`, `export const f${n} = 1`]));
  const importMany = `${Object.keys(many)
    .map((path) => `import "./${path}"`)
    .join(";")}; export default 1`;

  test.for<[string, { [path: string]: string }, object, string]>([
    [
      "sourceBytes",
      { "tool.ts": big },
      { sourceBytes: 1_000 },
      "The tool's own files have 2017 bytes together; the limit sourceBytes is 1000 bytes",
    ],
    [
      "outputBytes",
      { "tool.ts": big },
      { outputBytes: 1_000 },
      "the limit bundleBytes (bundler.limits.outputBytes) is 1000 bytes",
    ],
    ["files", { "tool.ts": importMany, ...many }, { files: 3 }, "The tool loads more than 3 files, the limit files"],
    [
      "packageBytes",
      { "tool.ts": 'export { z as default } from "zod"' },
      { packageBytes: 20_000 },
      "the limit packageBytes is 20000 bytes",
    ],
    [
      "files of packages",
      { "tool.ts": 'export { z as default } from "zod"' },
      { files: 10 },
      "The tool loads more than 10 files",
    ],
  ])("%s", async ([, files, limits, message]) => {
    const error = await failureOf(build({ files }, { limits }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toContain(message);
  });

  test("sourceBytes of a folder, whose files are read as they are imported", async () => {
    const root = makeFolder({ "tool.ts": 'export { default } from "./big.ts"', "big.ts": big });
    const error = await failureOf(build({ path: root }, { root, limits: { sourceBytes: 1_000 } }));
    expect(error.message).toContain("the limit sourceBytes is 1000 bytes");
  });
});

describe("what packages look for that is not there", () => {
  test("the getter of shared memory matches no object where there is no shared memory", async () => {
    const source = `const read = Object.getOwnPropertyDescriptor(SharedArrayBuffer.prototype, "byteLength").get;
      const isShared = (value) => { try { read.call(value); return true; } catch { return false; } };
      export default () => [typeof SharedArrayBuffer, isShared(new ArrayBuffer(1)), isShared(globalThis.SharedArrayBuffer?.prototype)];`;
    const bundle = await buildHere({ source });
    // This bare isolate has shared memory, and then it is the real getter.
    expect((await evaluate(bundle)).value).toEqual(["function", false, false]);
    const without = { ...bundle, code: bundle.code.replace("=> {", "=> { delete globalThis.SharedArrayBuffer;") };
    expect((await evaluate(without)).value).toEqual(["undefined", false, false]);
  });

  test("a missing package that another one can do without fails where it is reached, as in Node", async () => {
    const files = packageFiles(
      "orm",
      {
        "index.js": `exports.open = (name) => name === "a" ? require("driver-a/sub") : require("driver-b");
          exports.lazily = () => import("driver-c");`,
      },
      {
        peerDependenciesMeta: { "driver-a": { optional: true }, "driver-c": { optional: true } },
        optionalDependencies: { "driver-b": "1" },
      },
    );
    const root = makeFolder({
      ...files,
      "tool.js": `import orm from "orm";
        const fails = async (run) => { try { await run(); return "fine"; } catch (error) { return [error.code, error.message]; } };
        export default async () => [await fails(() => orm.open("a")), await fails(() => orm.open("b")), await fails(orm.lazily)];`,
    });
    expect(await resultOf({ path: join(root, "tool.js") }, { root })).toEqual([
      ["MODULE_NOT_FOUND", "Cannot find module 'driver-a/sub'"],
      ["MODULE_NOT_FOUND", "Cannot find module 'driver-b'"],
      ["MODULE_NOT_FOUND", "Cannot find module 'driver-c'"],
    ]);
  });

  test("a missing package, file or built-in that another package requires fails where it is reached, as in Node", async () => {
    const root = makeFolder({
      ...packageFiles("careless", {
        "index.js": `exports.absent = () => require("driver-x");
          exports.native = () => require("../build/Release/addon.node");
          exports.builtin = () => require("node:nothing");
          exports.later = () => import("driver-y");`,
      }),
      "tool.js": `import careless from "careless";
        const fails = async (run) => { try { await run(); return "fine"; } catch (error) { return error.code; } };
        export default () => Promise.all(["absent", "native", "builtin", "later"].map((name) => fails(() => careless[name]())));`,
    });
    const codes = await resultOf({ path: join(root, "tool.js") }, { root });
    expect(codes).toEqual(Array(4).fill("MODULE_NOT_FOUND"));
  });

  test("a missing file whose name esbuild quotes in its own way fails the build", async () => {
    const root = makeFolder({
      ...packageFiles("odd", { "index.js": 'exports.run = () => require("./driver\\u{10ffff}");' }),
      "tool.js": 'import odd from "odd"; export default () => odd.run();',
    });
    const { message } = await failureOf(build({ path: join(root, "tool.js") }, { root }));
    expect(message).toContain("node_modules/odd/index.js:1:29: Cannot import");
  });

  test("a missing package that another one imports, or that the tool requires, fails the build", async () => {
    const root = makeFolder({
      ...packageFiles("stated", { "index.js": 'import "driver-x"; export default 1;' }, { type: "module" }),
      "imports.js": 'import "stated"; export default 1;',
      "requires.js": 'exports.default = () => require("driver-x");',
    });
    for (const name of ["imports", "requires"]) {
      const failure = await failureOf(build({ path: join(root, `${name}.js`) }, { root }));
      expect(failure.message).toContain("driver-x");
    }
  });
});
