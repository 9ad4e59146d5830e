// Tests data files that a package reads relative to its own code: they are found in the code, bundled, and readable in the guest.
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { bundleOwnRequire, findDataReferences } from "../../src/bundler/compile/data-files.ts";
import { declareLocations } from "../../src/bundler/compile/module-location.ts";
import { openCode } from "../support/guest.ts";
import { buildHere, failureOf, makeFolder, packageFiles } from "./workbench.ts";

describe("findDataReferences()", () => {
  test.for<[string, string, boolean?]>([
    ['readFileSync(__dirname + "/data/x.afm")', "/data/x.afm"],
    ["readFileSync(__dirname + '/data/' + name)", "/data/", true],
    ["readFileSync(`\u0024{__dirname}/data/x.afm`)", "/data/x.afm"],
    ["readFileSync(`\u0024{__dirname}/data/\u0024{name}.afm`)", "/data/", true],
    ['path.join(__dirname, "..", "data", "x.txt")', "../data/x.txt"],
    ['path.join(__dirname, "../data", name)', "../data", true],
    ['path.resolve(\n  __dirname,\n  process.env.DATA || "../data/"\n)', "../data/"],
    ['new URL("./x.wasm", import.meta.url)', "./x.wasm"],
    [
      "new URL('x.wasm', (typeof document === 'undefined' ? require('u' + 'rl').pathToFileURL(__filename).href : ''))",
      "x.wasm",
    ],
    ['var wasmBinaryFile;wasmBinaryFile="x.wasm";wasmBinaryFile=locateFile(wasmBinaryFile)', "x.wasm"],
    ['function findWasmBinary() { return locateFile("x.wasm") }', "x.wasm"],
    ['join(import.meta.dirname, "x.txt")', "x.txt"],
    ['const here = path.dirname(fileURLToPath(import.meta.url)); join(here, "x.txt")', "x.txt"],
    ["const $d = dirname(fileURLToPath(import.meta.url)); read($d + '/it\\'s')", "/it's"],
    ['const load = createRequire(import.meta.url); load("../x.json")', "../x.json"],
  ])("%j", ([text, path, isPrefix = false]) => {
    expect(findDataReferences(text)).toContainEqual({ path, isPrefix });
  });

  test("what require.resolve() names, also where it is code, if the module reads files", () => {
    const text = 'readFileSync(require.resolve("../lib/utils.js")); require.resolve("other")';
    expect(findDataReferences(text)).toEqual([{ path: "../lib/utils.js", isPrefix: false, isExact: true }]);
    expect(findDataReferences('new Worker(require.resolve("./worker.js"))')).toEqual([]);
  });

  test.for([
    "const __dirname = 1",
    'x.__dirname + "a"',
    "import.meta.env",
    'load("../x.json")',
    "new URL(x, import.meta.url)",
    'locateFile("../x.wasm")',
    'locateFile("data.bin")',
  ])("finds nothing in %j", (text) => {
    expect(findDataReferences(text.replace("x.__dirname", "x__dirname"))).toEqual([]);
  });
});

test.for([
  ["a()", "!a()"],
  ['"use strict"; a()', '"use strict";;! a()'],
  ["/* x */ // y\n'use strict'\na()", "/* x */ // y\n'use strict';!\na()"],
  ["#!/usr/bin/env node\na()", "#!/usr/bin/env node\n!\na()"],
  ["#!/usr/bin/env node\n'use strict'; a()", "#!/usr/bin/env node\n'use strict';;! a()"],
  ["/* never closed 'use strict'", "!/* never closed 'use strict'"],
  ["/**/".repeat(50_000), `!${"/**/".repeat(50_000)}`],
] as const)("declareLocations() leaves a hashbang and a directive first", ([text, expected]) => {
  expect(declareLocations(text, "!")).toBe(expected);
});

test("bundleOwnRequire() leaves calls of a literal to the bundler", () => {
  const text =
    'const require = createRequire(import.meta.url); require("a"); require(name); require.resolve("b"); x.require("c")';
  expect(bundleOwnRequire(text)).toBe(
    'const __glovebox_own_require = createRequire(import.meta.url); require("a"); __glovebox_own_require(name); __glovebox_own_require.resolve("b"); x.require("c")',
  );
  expect(bundleOwnRequire('const load = module.createRequire(import.meta.url); load("./a.json")')).toContain(
    'require("./a.json")',
  );
  expect(bundleOwnRequire('require("a")')).toBe('require("a")');
});

async function outcomeOf(files: { readonly [path: string]: string }, execute: string): Promise<unknown> {
  const root = makeFolder(packageFiles("data", files));
  const source = `import * as data from "data"; import fs from "node:fs"; export default async () => { ${execute} }`;
  const { code } = await buildHere({ source }, { root });
  expect(code).not.toContain(root);
  await using tool = await openCode(code);
  await tool.load();
  return (await tool.call()).value;
}

describe("a package's data files", () => {
  test("include its own code that it reads and evaluates", async () => {
    const files = {
      "tools/index.js": `exports.run = new Function("return " + require("fs").readFileSync(require.resolve("../lib/add.js"), "utf8"))();`,
      "lib/add.js": "(a, b) => a + b",
    };
    const root = makeFolder(packageFiles("data", files, { main: "tools/index.js" }));
    const { code } = await buildHere(
      { source: 'import { run } from "data"; export default () => run(1, 2)' },
      { root },
    );
    await using tool = await openCode(code, { features: ["stringToCode"] });
    await tool.load();
    expect((await tool.call()).value).toBe(3);
  });

  const READER = {
    "lib/index.js": `
      const fs = require("fs");
      const path = require("path");
      exports.font = () => fs.readFileSync(__dirname + "/fonts/a.afm", "utf8");
      exports.bytes = () => [...fs.readFileSync(path.join(__dirname, "..", "bytes.bin"))];
      exports.any = (name) => fs.readFileSync(path.join(__dirname, "words", name), "utf8");
      exports.list = () => fs.readdirSync(path.join(__dirname, "words"));
      exports.place = [__dirname, __filename, require.resolve("./fonts/a.afm")];
    `,
    "package.json": '{"name":"data","version":"1.0.0","main":"lib/index.js"}',
    "lib/fonts/a.afm": "größe \u2028",
    "lib/words/one.txt": "1",
    "lib/words/two.txt": "2",
    "lib/words/code.js": "throw 1",
    "lib/other.txt": "not named by the code",
    "bytes.bin": "\xff\x00",
  };

  test("are read as in Node", async () => {
    expect(
      await outcomeOf(READER, 'return [data.font(), data.bytes(), data.any("two.txt"), data.list(), data.place];'),
    ).toEqual([
      READER["lib/fonts/a.afm"],
      [195, 191, 0],
      "2",
      ["one.txt", "two.txt"],
      [
        "/tool/node_modules/data/lib",
        "/tool/node_modules/data/lib/index.js",
        "/tool/node_modules/data/lib/./fonts/a.afm",
      ],
    ]);
  });

  test("are read by an ES module through import.meta", async () => {
    const files = {
      "index.js": `
        import fs from "fs";
        import { createRequire } from "module";
        import { dirname, join } from "path";
        import { fileURLToPath } from "url";
        const here = dirname(fileURLToPath(import.meta.url));
        const require = createRequire(import.meta.url);
        export const text = () => fs.readFileSync(new URL("./a.txt", import.meta.url), "utf8");
        export const other = () => fs.readFileSync(join(here, "sub", "b.txt"), "utf8");
        export const json = require("./c.json");
        export const missing = () => require("not-installed");
        export const url = import.meta.url;
      `,
      "package.json": '{"name":"data","version":"1.0.0","type":"module","main":"index.js"}',
      "a.txt": "a",
      "sub/b.txt": "b",
      "c.json": '{"c":1}',
    };
    const execute = `
      let missing = "";
      try { data.missing(); } catch (error) { missing = error.code; }
      return [data.text(), data.other(), data.json, data.url, missing];
    `;
    expect(await outcomeOf(files, execute)).toEqual([
      "a",
      "b",
      { c: 1 },
      "file:///tool/node_modules/data/index.js",
      "MODULE_NOT_FOUND",
    ]);
  });

  test("cannot be changed, and are the same in the next call", async () => {
    const execute = `
      const place = data.place[0];
      const codes = [];
      const attempt = (run) => { try { run(); codes.push("done"); } catch (error) { codes.push(error.code); } };
      attempt(() => fs.writeFileSync(place + "/fonts/a.afm", "x"));
      attempt(() => fs.appendFileSync(place + "/fonts/a.afm", "x"));
      attempt(() => fs.truncateSync(place + "/fonts/a.afm"));
      attempt(() => fs.unlinkSync(place + "/fonts/a.afm"));
      attempt(() => fs.renameSync(place + "/fonts", "/tmp/fonts"));
      attempt(() => fs.rmSync(place, { recursive: true }));
      attempt(() => fs.writeFileSync(place + "/new.txt", "x"));
      attempt(() => fs.mkdirSync(place + "/new"));
      attempt(() => fs.symlinkSync("/tmp", place + "/link"));
      attempt(() => fs.writeFileSync("/tmp/own.txt", "x"));
      fs.readFileSync(place + "/fonts/a.afm").fill(0);
      return [codes, data.font()];
    `;
    expect(await outcomeOf(READER, execute)).toEqual([
      [...Array.from({ length: 9 }, () => "EROFS"), "done"],
      READER["lib/fonts/a.afm"],
    ]);
  });

  test("count against packageBytes", async () => {
    const root = makeFolder(packageFiles("data", { ...READER, "lib/fonts/a.afm": "x".repeat(5_000) }));
    const building = buildHere(
      { source: 'export { font as default } from "data"' },
      { root, limits: { packageBytes: 3_000 } },
    );
    expect((await failureOf(building)).message).toContain("the limit packageBytes is 3000 bytes");
  });
});

test("does not bundle a data file outside its package or behind a link", async () => {
  const secret = "TOP-SECRET-OF-THE-HOST";
  const root = makeFolder({
    ...packageFiles("data", {
      "index.js": `
        const fs = require("fs");
        const path = require("path");
        exports.reads = [
          () => fs.readFileSync(__dirname + "/../../secret.txt"),
          () => fs.readFileSync(path.join(__dirname, "..", "other", "own.txt")),
          () => fs.readFileSync(__dirname + "/link.txt"),
          () => fs.readFileSync(__dirname + "/folder/secret.txt"),
          () => fs.readdirSync(path.join(__dirname, "folder")),
          () => fs.readFileSync(path.join(__dirname, "mixed", "link.txt")),
          () => fs.readFileSync(path.join(__dirname, "mixed", name)),
          () => fs.readFileSync("/etc/passwd"),
          () => fs.readFileSync(new URL("../../secret.txt", "file://" + __dirname)),
          () => fs.readFileSync(__dirname + "/pipe"),
        ];
      `,
      "mixed/own.txt": "its own",
    }),
    ...packageFiles("other", { "index.js": "", "own.txt": secret }),
    "secret.txt": secret,
  });
  const folder = join(root, "node_modules", "data");
  mkdirSync(join(root, "secrets"));
  writeFileSync(join(root, "secrets", "secret.txt"), secret);
  symlinkSync(join(root, "secret.txt"), join(folder, "link.txt"));
  symlinkSync(join(root, "secrets"), join(folder, "folder"));
  symlinkSync(join(root, "secret.txt"), join(folder, "mixed", "link.txt"));
  const source = `import { reads } from "data"; export default () => reads.map((read) => { try { return String(read()); } catch (error) { return error.code ?? error.name; } })`;
  const { code, sourceMap } = await buildHere({ source }, { root });
  expect(code + sourceMap).not.toContain(secret);
  expect(code).not.toContain("root:x:0");
  expect(code).toContain("its own");
  await using tool = await openCode(code);
  await tool.load();
  const outcomes = (await tool.call<readonly string[]>()).value;
  expect(outcomes).toEqual([
    ...Array.from({ length: 6 }, () => "ENOENT"),
    "ReferenceError",
    "ENOENT",
    "ENOENT",
    "ENOENT",
  ]);
});
