// Tests data files that a package reads relative to its own code: they are found in the code, bundled, and readable in the guest.
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { bundleOwnRequire } from "../../src/bundler/compile/located-files/data-files.ts";
import { findDataReferences } from "../../src/bundler/compile/located-files/data-references.ts";
import { requireLocatedFiles } from "../../src/bundler/compile/located-files/located-requires.ts";
import { declareLocations } from "../../src/bundler/compile/located-files/module-location.ts";
import { openCode } from "../support/guest.ts";
import { buildHere, failureOf, makeFolder, packageFiles } from "./workbench.ts";

/** Finds references of a module at /p/lib/index.js, without those that only differ in `isExact`. */
function referencesOf(text: string): readonly { readonly path: string; readonly isPrefix: boolean }[] {
  return findDataReferences(text, "/p/lib/index.js").map(({ path, isPrefix }) => ({ path, isPrefix }));
}

describe("findDataReferences()", () => {
  test.for<[string, string, boolean?]>([
    ['readFileSync(__dirname + "/data/x.afm")', "/p/lib/data/x.afm"],
    ["readFileSync(__dirname + '/data/' + name)", "/p/lib/data/", true],
    ["readFileSync(`\u0024{__dirname}/data/x.afm`)", "/p/lib/data/x.afm"],
    ["readFileSync(`\u0024{__dirname}/data/\u0024{name}.afm`)", "/p/lib/data/", true],
    ['read(path.join(__dirname, "..", "data", "x.txt"))', "/p/data/x.txt"],
    ['read(path.join(__dirname, "../data", name))', "/p/data/", true],
    ['read(path.resolve(\n  __dirname,\n  process.env.DATA || "../data/"\n))', "/p/data/"],
    ['read(new URL("./x.wasm", import.meta.url))', "/p/lib/x.wasm"],
    [
      "read(new URL('x.wasm', (typeof document === 'undefined' ? require('u' + 'rl').pathToFileURL(__filename).href : '')))",
      "/p/lib/x.wasm",
    ],
    ['var wasmBinaryFile;wasmBinaryFile="x.wasm";wasmBinaryFile=locateFile(wasmBinaryFile)', "/p/lib/x.wasm"],
    ['function findWasmBinary() { return locateFile("x.wasm") }', "/p/lib/x.wasm"],
    ['read(join(import.meta.dirname, "x.txt"))', "/p/lib/x.txt"],
    ['const here = path.dirname(fileURLToPath(import.meta.url)); read(join(here, "x.txt"))', "/p/lib/x.txt"],
    ["const $d = dirname(fileURLToPath(import.meta.url)); read($d + '/it\\'s')", "/p/lib/it's"],
    ['createRequire(import.meta.url)("../x.json")', "/p/x.json"],
    ['const base = __dirname; read(join(base, "x.txt"))', "/p/lib/x.txt"],
    ["const root = resolve(__dirname, '..'); read(join(root, 'data/x.txt'))", "/p/data/x.txt"],
    ["const f = fileURLToPath(import.meta.url); const d = dirname(f); read(join(d, 'x.txt'))", "/p/lib/x.txt"],
    ["read(path.resolve(path.dirname(url.fileURLToPath(import.meta.url)), '..', 'package.json'))", "/p/package.json"],
    ["const u = import.meta.url; read(new URL('x.txt', u))", "/p/lib/x.txt"],
    ["const here = new URL('.', import.meta.url); read(new URL('x.txt', here))", "/p/lib/x.txt"],
    ["const up = new URL('..', import.meta.url); read(new URL('a%20b.txt?q#h', up).pathname)", "/p/a b.txt"],
    ["read(new URL('./data/' + 'x' + '.txt', import.meta.url))", "/p/lib/data/x.txt"],
    ["names.map((n) => read(new URL(n, import.meta.url)))", "/p/lib", true],
    ["read(dirname(__filename) + '/x.txt')", "/p/lib/x.txt"],
    ["const load = (f) => read(join(__dirname, f))", "/p/lib/", true],
    ["read(__dirname.concat('/x.txt'))", "/p/lib/x.txt"],
    ["read(path.format({ dir: __dirname, base: 'x.txt' }))", "/p/lib/x.txt"],
    ["read(path.format({ dir: __dirname, name: 'x', ext: '.txt' }))", "/p/lib/x.txt"],
    ["read(join(resolve(__dirname), 'data', 'x.txt'))", "/p/lib/data/x.txt"],
    ["read([__dirname, 'data', 'x.txt'].join(path.sep))", "/p/lib/data/x.txt"],
    ["class L { constructor() { this.dir = __dirname } get(n) { read(join(this.dir, 'w', n)) } }", "/p/lib/w/", true],
    ["const { join: j } = require('path'); read(j(__dirname, 'x.txt'))", "/p/lib/x.txt"],
    ["import { join as j } from 'path'; read(j(__dirname, 'x.txt'))", "/p/lib/x.txt"],
    ["read((0, path_1.join)(__dirname, 'x.txt'))", "/p/lib/x.txt"],
    ["read(import.meta.resolve('./x.txt'))", "/p/lib/x.txt"],
    ["read(path.parse(__filename).dir + '/x.txt')", "/p/lib/x.txt"],
    ["read(__dirname.replace('/lib', '') + '/x.txt')", "/p/lib/", true],
    ["exports.data = path.join(__dirname, '../data')", "/p/data"],
    ["export const data = new URL('../data/', import.meta.url)", "/p/data/"],
    ["readFileSync(__filename)", "/p/lib/index.js"],
    ["with (fs) readFileSync(__dirname + '/x.txt')", "/p/lib/x.txt"],
    ["if (a) return read(__dirname + '/x.txt')", "/p/lib/x.txt"],
  ])("%j", ([text, path, isPrefix = false]) => {
    expect(referencesOf(text)).toContainEqual({ path, isPrefix });
  });

  test("what require.resolve() names, also where it is code, if the module reads files", () => {
    const text = 'readFileSync(require.resolve("../lib/utils.js")); require.resolve("other")';
    expect(findDataReferences(text, "/p/tools/index.js")).toEqual([
      { path: "/p/lib/utils.js", isPrefix: false, isExact: true },
    ]);
    const list = 'exports.FILES = [require.resolve("../lib/utils.js")]; exports.read = () => readFileSync(FILES[0])';
    expect(findDataReferences(list, "/p/tools/index.js")).toEqual([
      { path: "/p/lib/utils.js", isPrefix: false, isExact: true },
    ]);
    expect(referencesOf('new Worker(require.resolve("./worker.js"))')).toEqual([]);
    expect(referencesOf('exports.preset = require.resolve("./preset.js")')).toEqual([]);
  });

  test.for([
    "const __dirname = 1",
    'x__dirname + "a"',
    "import.meta.env",
    'load("../x.json")',
    'locateFile("../x.wasm")',
    'locateFile("data.bin")',
    "const require = createRequire(import.meta.url)",
    "const __filename = fileURLToPath(import.meta.url); const __dirname = dirname(__filename);",
    "if (process.argv[1] === fileURLToPath(import.meta.url)) main()",
    "new Worker(new URL('./worker.js', import.meta.url))",
    "console.log(__dirname)",
    "throw new Error(`\u0024{__dirname} is wrong`)",
    "require(path.join(__dirname, name))",
    "import(new URL(name, import.meta.url))",
    "exports.file = () => __filename",
    "function f(dir) { g(dir) } { const dir = __dirname }",
    "typeof __dirname === 'undefined'",
    "__dirname +",
    `${"[".repeat(200_000)}__dirname${"]".repeat(200_000)}`,
  ])("finds nothing in %#", (text) => {
    expect(referencesOf(text)).toEqual([]);
  });
});

test.for([
  ["a()", "!a()"],
  ['"use strict"; a()', '"use strict";;! a()'],
  ["/* x */ // y\n'use strict'\na()", "/* x */ // y\n'use strict';!\na()"],
  ["#!/usr/bin/env node\na()", "#!/usr/bin/env node\n!a()"],
  ["#!/usr/bin/env node\r\n\na()", "#!/usr/bin/env node\r\n!\na()"],
  ["#!/usr/bin/env node", "#!/usr/bin/env node\n!"],
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

describe("requireLocatedFiles()", () => {
  const files = ["/p/lib/a.js", "/p/package.json", "/p/lib/b.json", "/p/lib/c.node"];
  const rewrite = (text: string): string =>
    requireLocatedFiles(text, "/p/lib/index.js", (path) => files.includes(path));

  test.for<readonly [text: string, expected: string]>([
    ["require(__dirname + '/a.js')", 'require("./a.js")'],
    ["require(path.join(__dirname, 'a'))", 'require("./a.js")'],
    ["require(path.resolve(__dirname, '..', 'package.json'))", 'require("../package.json")'],
    ["const up = __dirname; f(require(\n  up +\n '/b'\n))", 'const up = __dirname; f(require(\n  "./b.json"\n\n))'],
    ["require(__dirname + '/a.js') + require(`\u0024{__dirname}/b.json`)", 'require("./a.js") + require("./b.json")'],
    [
      'require((typeof __dirname === "undefined" ? "." : __dirname) + "/a.js"); "__dirname"',
      'require("./a.js"); "__dirname"',
    ],
  ])("names the file of %j", ([text, expected]) => {
    expect(rewrite(text)).toBe(expected);
  });

  test.for([
    "require(__dirname + '/absent.js')",
    "require(__dirname + '/c.node')",
    "require(__dirname + '/' + name)",
    "require(x ? __dirname + '/a.js' : __dirname + '/b.json')",
    "require(__dirname + '/../../q.js')",
    "(function (require) { require(__dirname + '/a.js') })(load)",
    "var require = load; require(__dirname + '/a.js')",
    "require = load; require(__dirname + '/a.js')",
    "other.require(__dirname + '/a.js')",
    "require(__dirname + '/a.js', 1)",
    "// require(__dirname + '/a.js')",
    "require(__dirname +",
  ])("leaves %j as it is", (text) => {
    expect(rewrite(text)).toBe(text);
  });
});

test("bundles code that a package requires by a path that it builds", async () => {
  const files = {
    "lib/index.js": `
      const path = require("path");
      exports.words = require(__dirname + "/words.js");
      exports.version = require(path.resolve(__dirname, "..", "package.json")).version;
      try { require(path.join(__dirname, "../../outside.js")); } catch (error) { exports.code = error.code; }
    `,
    "lib/words.js": 'module.exports = ["a", require("./more.js")];',
    "lib/more.js": 'module.exports = "b";',
    "package.json": '{"name":"data","version":"1.2.3","main":"lib/index.js"}',
  };
  expect(await outcomeOf(files, "return [data.words, data.version, data.code];")).toEqual([
    ["a", "b"],
    "1.2.3",
    "MODULE_NOT_FOUND",
  ]);
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
  const ROOT = (code: string, more: { readonly [path: string]: string } = {}) => ({
    "index.js": `const fs = require("fs"); const path = require("path"); exports.read = (name) => { ${code} };`,
    "x.txt": "x",
    "data/y.txt": "y",
    "template.js": "a template",
    "README.md": "a document",
    ".env": "hidden",
    "test/z.txt": "of a test",
    ...more,
  });
  const COMPUTED = 'return fs.readFileSync(path.join(__dirname, name), "utf8");';
  const TRY = (names: readonly string[]) =>
    `return ${JSON.stringify(names)}.map((name) => { try { return data.read(name); } catch (error) { return error.code; } });`;

  test("include the whole package, without code and hidden files, if the code computes the path", async () => {
    expect(
      await outcomeOf(ROOT(COMPUTED), TRY(["x.txt", "data/y.txt", "template.js", "README.md", ".env", "test/z.txt"])),
    ).toEqual(["x", "y", "ENOENT", "ENOENT", "ENOENT", "ENOENT"]);
  });

  test("do not include the whole package if it is large", async () => {
    const large = { "large.bin": "x".repeat(1024 * 1024) };
    expect(await outcomeOf(ROOT(COMPUTED, large), TRY(["x.txt"]))).toEqual(["ENOENT"]);
    const named = `${COMPUTED} fs.readFileSync(__dirname + "/x.txt")`;
    expect(await outcomeOf(ROOT(named, large), TRY(["x.txt"]))).toEqual(["x"]);
  });

  test("include code and documentation that the code names", async () => {
    const direct = `return [fs.readFileSync(__dirname + "/template.js", "utf8"), fs.readFileSync(path.join(__dirname, "README.md"), "utf8"), fs.readFileSync(__filename, "utf8").length > 10];`;
    expect(await outcomeOf(ROOT(direct), "return data.read();")).toEqual(["a template", "a document", true]);
  });

  test("are none where a path is longer than the system allows", async () => {
    // Emscripten puts the folder before the name of a file, which may be the file itself.
    const code = `const file = "data:application/octet-stream;base64,${"A".repeat(9_000)}"; const found = file.startsWith("data:") ? file : __dirname + "/" + file; return [fs.existsSync(found), found.length];`;
    expect(await outcomeOf(ROOT(code), "return data.read();")).toEqual([false, 9_037]);
  });

  test("are found by import.meta.resolve()", async () => {
    const files = {
      "index.js": `
        import fs from "node:fs";
        export const text = () => fs.readFileSync(new URL(import.meta.resolve("./a.txt")), "utf8");
        export const urls = () => ["node:fs", "../b", "/c"].map((id) => import.meta.resolve(id));
        export const bare = () => import.meta.resolve("other");
      `,
      "package.json": '{"name":"data","version":"1.0.0","type":"module","main":"index.js"}',
      "a.txt": "a",
    };
    const execute =
      "let code; try { data.bare(); } catch (error) { code = error.code; } return [data.text(), data.urls(), code];";
    expect(await outcomeOf(files, execute)).toEqual([
      "a",
      ["node:fs", "file:///tool/node_modules/b", "file:///c"],
      "ERR_MODULE_NOT_FOUND",
    ]);
  });

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

  test("a package's data files are read as in Node", async () => {
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

  test("a package's data files are read by an ES module through import.meta", async () => {
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

describe("the data files of a tool's folder", () => {
  const FILES = {
    "tool.ts": `
      import fs from "node:fs";
      import { part } from "./lib/part.ts";
      const text = (path: string): string => { try { return fs.readFileSync(new URL(path, import.meta.url), "utf8"); } catch (error) { return (error as { code: string }).code; } };
      export default () => [text("./assets/a.txt"), part(), text(".env"), text("assets/.key"), text("../secret.txt"), text("assets/link.txt"), text("assets/inside.txt")];
    `,
    "lib/part.ts": `
      import fs from "node:fs";
      enum Name { B = "b.txt" }
      export const part = () => [fs.readFileSync(import.meta.dirname + "/" + Name.B, "utf8"), import.meta.url];
    `,
    "lib/b.txt": "b",
    "assets/a.txt": "a",
    ".env": "SECRET",
    "assets/.key": "SECRET",
  };

  test.for(["folder", "memory"] as const)("the data files of a tool's folder are bundled: %s", async (kind) => {
    const root = makeFolder({
      "secret.txt": "SECRET",
      ...Object.fromEntries(Object.entries(FILES).map(([path, text]) => [`tool/${path}`, text])),
    });
    symlinkSync(join(root, "secret.txt"), join(root, "tool", "assets", "link.txt"));
    symlinkSync(join(root, "tool", ".env"), join(root, "tool", "assets", "inside.txt"));
    const { ".env": _env, "assets/.key": _key, ...visible } = FILES;
    const { code } = await buildHere(kind === "folder" ? { path: join(root, "tool") } : { files: visible }, { root });
    expect(code).not.toContain("SECRET");
    await using tool = await openCode(code);
    await tool.load();
    const absent = Array.from({ length: 5 }, () => "ENOENT");
    expect((await tool.call()).value).toEqual(["a", ["b", "file:///tool/lib/part.ts"], ...absent]);
  });

  test("a tool that is one file gets no data files of its folder, which it shares with others", async () => {
    const root = makeFolder({
      "one.js": FILES["tool.ts"]
        .replace(/import \{ part.*/, "const part = () => 1;")
        .replaceAll(/: string| as \{ code: string \}/g, ""),
      "assets/a.txt": "a",
    });
    const { code } = await buildHere({ path: join(root, "one.js") }, { root });
    await using tool = await openCode(code);
    await tool.load();
    expect((await tool.call<readonly string[]>()).value[0]).toBe("ENOENT");
  });
});
