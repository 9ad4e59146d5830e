// Tests which build of a package is bundled if it has one for Node and one for browsers.
import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import { describe, expect, test } from "vitest";
import { remember } from "../../src/bundler/locate/package-resolver.ts";
import { openCode } from "../support/guest.ts";
import { buildHere, evaluate, failureOf, makeFolder, packageFiles } from "./workbench.ts";

const BOTH = { exports: { ".": { worker: "./web.js", browser: "./web.js", node: "./node.js", default: "./node.js" } } };

/** A package whose build for Node has this text, and whose build for browsers identifies itself. */
const withBoth = (name: string, node: string, web = `export default "${name} for browsers"`) =>
  packageFiles(name, { "node.js": node, "web.js": web }, { type: "module", ...BOTH });

const STORE = {
  ...withBoth("plain", 'import os from "node:os"; export default "plain for Node"; export const eol = os.EOL'),
  ...withBoth("sockets", 'import net from "net"; export default net.connect'),
  ...withBoth(
    "client",
    'import sockets from "sockets"; export default [sockets]',
    'import sockets from "sockets"; import plain from "plain"; export default ["client for browsers", sockets, plain]',
  ),
  ...withBoth(
    "shared-key",
    'import sockets from "sockets"; export class SharedKey {} export default ["shared-key for Node", sockets]',
    'import sockets from "sockets"; export default ["shared-key for browsers", sockets]',
  ),
  ...withBoth(
    "over-http",
    'import http from "http"; export default [http.get, "over-http for Node"][1]; export const load = () => import("node:https")',
    'export default "over-http for browsers"; export const load = () => fetch("/")',
  ),
  ...withBoth(
    "xhr",
    'import http from "http"; import "child_process"; export default [http.get, "xhr for Node"][1]',
    'import api from "./api.json"; export default [typeof XMLHttpRequest, api]',
  ),
  "node_modules/xhr/api.json": '["EventSource"]',
  ...withBoth(
    "delegating",
    'import "child_process"; export default ["delegating for Node"]',
    'import small from "fetching"; export default ["delegating for browsers", typeof XMLHttpRequest, small]',
  ),
  ...packageFiles("node-gyp-build", { "index.js": "module.exports = () => { throw new Error('no native code') }" }),
  ...packageFiles("native-database", { "index.js": "module.exports = require('node-gyp-build')(__dirname)" }),
  ...withBoth("on-native", 'import database from "native-database"; export default typeof database'),
  ...packageFiles("fetching", { "index.js": "module.exports = () => fetch('/')" }),
  ...withBoth("depd", 'export default eval("1 + 1")'),
  ...withBoth("cross-fetch", 'import http from "http"; export default [typeof http, "cross-fetch for Node"][1]'),
  ...withBoth("@azure/data-tables", 'import "sockets"; export default "@azure/data-tables for Node"'),
  ...withBoth("node-fetch", 'import http from "http"; export default [typeof http, "node-fetch for Node"][1]'),
  ...withBoth("superagent", 'import http from "http"; export default [typeof http, "superagent for Node"][1]'),
  ...withBoth("unused", 'import "./unused.js"; export default "unused for Node"'),
  "node_modules/unused/unused.js": 'import http from "http"; export const x = () => http.request()',
  ...withBoth("native", 'import addon from "./addon.node"; export default addon'),
  ...packageFiles("only-node", { "index.js": 'export default typeof require("http").request' }),
  ...packageFiles(
    "mapped",
    {
      "index.js":
        'module.exports = [require("./io.js"), require("fs"), require("./os"), require("inner"), require("net")]',
      "io.js": "module.exports = 1",
      "web.js": 'module.exports = "web"',
      "os.js": 'module.exports = "os"',
      "inner.js": 'module.exports = "inner for browsers"',
    },
    { browser: { "./io.js": "./web.js", fs: false, "./os.js": false, inner: "./inner.js", net: false } },
  ),
  ...packageFiles(
    "emulated",
    {
      "index.js": 'module.exports = [require("stream").builtin, require("http"), require("net"), require("util")]',
      "util.js": 'module.exports = "own util"',
    },
    { browser: { stream: "emulation", http: "emulation", net: "emulation", util: "./util.js" } },
  ),
  ...packageFiles("emulation", { "index.js": 'module.exports = "emulated"' }),
  ...packageFiles(
    "turn",
    { "node.cjs": 'module.exports = "for Node"', "web.cjs": "module.exports = document.title" },
    { main: "node.cjs", browser: { "./node.cjs": "./web.cjs" } },
  ),
  ...packageFiles("inner", { "index.js": 'module.exports = "inner"' }),
  ...packageFiles("babel", { "index.js": 'exports.__esModule = true; exports.default = "inner default"' }),
  ...packageFiles(
    "dual",
    { "main.cjs": 'module.exports = () => "for CommonJS"', "module.mjs": 'export default () => "for ESM"' },
    { main: "main.cjs", module: "module.mjs" },
  ),
  ...packageFiles(
    "broken-main",
    { "module.mjs": 'export default "for ESM"' },
    { main: "missing.js", module: "module.mjs" },
  ),
  ...packageFiles(
    "lacking-main",
    { "main.mjs": "export default 1", "module.mjs": 'export const extra = "for ESM"; export default 2' },
    { main: "main.mjs", module: "module.mjs" },
  ),
  ...packageFiles(
    "named-only",
    { "main.cjs": 'exports.one = "for CommonJS"', "module.mjs": 'export const one = "for ESM"' },
    { main: "main.cjs", module: "module.mjs" },
  ),
  ...packageFiles("request", { "index.js": 'module.exports = typeof require("net").connect' }),
  ...packageFiles("plain-http", { "index.js": 'module.exports = typeof require("http").request' }),
  ...withBoth("on-request", 'import r from "request"; export default ["on-request for Node", r]'),
  ...withBoth("on-http", 'import r from "plain-http"; export default ["on-http for Node", r]'),
  ...packageFiles("on-net", { "index.js": 'module.exports = require("net")' }),
  ...packageFiles("on-on-net", { "index.js": 'module.exports = require("on-net")' }),
  ...withBoth("far-from-net", 'import r from "on-on-net"; export default typeof r'),
  ...packageFiles("nested", {
    "index.js": 'module.exports = [require("./sub"), require("./sub/node.js")]',
    "sub/package.json": JSON.stringify({ name: "nested-sub", main: "./node.js", browser: { "./node.js": "./web.js" } }),
    "sub/node.js": 'require("net"); module.exports = "sub for Node"',
    "sub/web.js": 'module.exports = "sub for browsers"',
  }),
  ...packageFiles("requirer", { "index.js": 'module.exports = require("dual")' }),
  ...packageFiles("broken-requirer", { "index.js": 'module.exports = require("broken-main").default' }),
  ...packageFiles("lacking-requirer", { "index.js": 'module.exports = require("lacking-main").default' }),
  ...withBoth("interop", 'import babel from "babel"; export default babel.default ?? "a module\'s own default"'),
};

async function defaultOf(source: string): Promise<unknown> {
  const bundle = await buildHere({ source }, { root: makeFolder(STORE) });
  return (await evaluate(bundle)).value;
}

describe.concurrent("the build of a package that goes into a bundle", () => {
  test.for<[string, string, unknown]>([
    ["is the one for Node", 'export { default } from "plain"', "plain for Node"],
    ["is the one for Node if only the field browser names another", 'export { default } from "turn"', "for Node"],
    ["is the one for browsers if the other needs sockets", 'export { default } from "sockets"', "sockets for browsers"],
    [
      "is the one for browsers if its dependency uses that",
      'export { default } from "client"',
      ["client for browsers", "sockets for browsers", "plain for Node"],
    ],
    [
      "is the one for Node if that loads http, for which the one for browsers uses fetch",
      'export { default } from "over-http"',
      "over-http for Node",
    ],
    [
      "is the one for Node if the one for browsers lacks a member of its namespace that is used",
      'import * as all from "shared-key"; export default [typeof all.SharedKey, ...all.default]',
      ["function", "shared-key for Node", "sockets for browsers"],
    ],
    [
      "is the one for browsers if no build has a member of its namespace that is used",
      'import * as all from "shared-key"; export default [typeof all.Missing, ...all.default]',
      ["undefined", "shared-key for browsers", "sockets for browsers"],
    ],
    [
      "is the one for browsers if the other loads native code",
      'export { default } from "on-native"',
      "on-native for browsers",
    ],
    ["is the one for browsers if only the other evaluates code", 'export { default } from "depd"', "depd for browsers"],
    ["is the one for Node if that for browsers needs a page", 'export { default } from "xhr"', "xhr for Node"],
    [
      "is the one for browsers if that leaves its requests to another package",
      'import value from "delegating"; export default value[0]',
      "delegating for browsers",
    ],
    [
      "is the one for Node of an HTTP client whose other build does not work",
      'import a from "cross-fetch"; import b from "node-fetch"; import c from "superagent"; export default [a, b, c]',
      ["cross-fetch for Node", "node-fetch for Node", "superagent for Node"],
    ],
    [
      "is the one for Node if the one for browsers lacks an export that is imported",
      'import value, { SharedKey } from "shared-key"; export default [typeof SharedKey, ...value]',
      ["function", "shared-key for Node", "sockets for browsers"],
    ],
    ["is the one for Node if http is removed from the bundle", 'export { default } from "unused"', "unused for Node"],
    [
      "is the one for browsers if the other cannot be bundled",
      'export { default } from "native"',
      "native for browsers",
    ],
    [
      "is the one for browsers with the streams of the sandbox, not those of a package that emulates them",
      'export { default } from "emulated"',
      ["stream", "emulated", "emulated", "own util"],
    ],
    [
      "is the one for Node of an SDK whose other build rejects keys",
      'export { default } from "@azure/data-tables"',
      "@azure/data-tables for Node",
    ],
    ["is the one of `module` if it is only imported", 'import dual from "dual"; export default dual()', "for ESM"],
    [
      "is the one of `main` if CommonJS code requires it, for all that import it",
      'import dual from "dual"; import requirer from "requirer"; export default [requirer(), requirer === dual]',
      ["for CommonJS", true],
    ],
    [
      "is the one of `main` if a tool requires it",
      'const dual = require("dual"); module.exports = dual()',
      "for CommonJS",
    ],
    ["is the one of `module` if `main` is missing", 'export { default } from "broken-requirer"', "for ESM"],
    [
      "is the one of `module` if `main` lacks an export that is imported",
      'import { extra } from "lacking-main"; import other from "lacking-requirer"; export default [extra, other]',
      ["for ESM", 2],
    ],
    [
      "is the one of `main` if that of `module` lacks a default export that is imported",
      'import named from "named-only"; export default named.one',
      "for CommonJS",
    ],
    [
      "is the one for Node if its dependency works here without a build for browsers",
      'import a from "on-request"; import b from "on-http"; export default [a[0], b[0]]',
      ["on-request for Node", "on-http for Node"],
    ],
    [
      "is the one for browsers if a dependency of its dependency cannot work",
      'export { default } from "far-from-net"',
      "far-from-net for browsers",
    ],
    [
      "is the one for browsers of a package in a subfolder that is imported by its path",
      'export { default } from "nested"',
      ["sub for browsers", "sub for browsers"],
    ],
    ["knows the package's type", 'export { default } from "interop"', "inner default"],
    [
      "follows the field browser",
      'import mapped from "mapped"; export default mapped.slice(0, 4)',
      ["web", {}, {}, "inner for browsers"],
    ],
    [
      "is chosen for each package",
      'import a from "plain"; import b from "sockets"; export default [a, b]',
      ["plain for Node", "sockets for browsers"],
    ],
  ])("%s", async ([, source, value]) => {
    expect(await defaultOf(source)).toEqual(value);
  });

  test("is the only one of the package", async () => {
    const source = 'import value from "only-node"; export default value';
    const bundle = await buildHere({ source }, { root: makeFolder(STORE) });
    expect(bundle.code).toContain('"http"');
  });
});

test("an import is resolved once for all files of a folder", async () => {
  const requests: string[] = [];
  const resolve = remember(async ({ path, resolveDir, kind }) => {
    requests.push(`${kind} ${resolveDir} ${path}`);
    return { path: `${resolveDir}/${path}.js`, sideEffects: true };
  });
  const request = { path: "x", importer: "/a/1.js", resolveDir: "/a", kind: "require-call" } as const;
  const found = await Promise.all([resolve(request), resolve({ ...request, importer: "/a/2.js" })]);
  expect(found.map((file) => file?.path)).toEqual(["/a/x.js", "/a/x.js"]);
  await resolve({ ...request, resolveDir: "/b" });
  await resolve({ ...request, kind: "import-statement" });
  expect(requests).toEqual(["require-call /a x", "require-call /b x", "import-statement /a x"]);
});

describe.concurrent("a default import of CommonJS that was compiled from a module", () => {
  const packages = packageFiles("babel", {
    "index.js": 'exports.__esModule = true; exports.named = 1; exports.default = "inner default"',
  });
  const text =
    'import x, { named } from "babel"; import y from "./other"; export { default as z } from "babel"; export default async () => [x, y, named, (await import("babel")).default, (await import("babel")).named].map((each) => each.default ?? each)';
  // What Node gives for the same text.
  const value = ["inner default", "inner default", 1, "inner default", 1];

  test.for(["ts", "js", "mjs", "mts", "tsx", "jsx"])("is module.exports in tool.%s, as in Node", async (extension) => {
    const other = 'import x from "babel"; export default x';
    const root = makeFolder({ ...packages, [`tool.${extension}`]: text, [`other.${extension}`]: other });
    expect((await evaluate(await buildHere({ path: root }, { root }))).value).toEqual(value);
  });

  test("is module.exports in a source", async () => {
    const source = 'import x from "babel"; export default async () => [x, (await import("babel")).default]';
    const exported = { named: 1, default: "inner default" };
    const bundle = await buildHere({ source }, { root: makeFolder(packages) });
    expect((await evaluate(bundle)).value).toEqual([exported, exported].map((each) => ({ __esModule: true, ...each })));
  });

  test("is module.exports for import() in CommonJS", async () => {
    const source = 'module.exports = async () => (await import("babel")).default.default';
    const bundle = await buildHere({ source }, { root: makeFolder(packages) });
    expect((await evaluate(bundle)).value).toBe("inner default");
  });

  test("is its own default in tool.cts, which TypeScript compiles to CommonJS", async () => {
    const root = makeFolder({ ...packages, "tool.cts": 'import x from "babel"; export default () => x' });
    expect((await evaluate(await buildHere({ path: root }, { root }))).value).toBe("inner default");
  });

  test("keeps positions after it in the source map", async () => {
    const source = 'export default async () => [await import("babel"), missing.property]';
    const { code, sourceMap } = await buildHere({ source }, { root: makeFolder(packages) });
    const lines = code.split("\n");
    const line = lines.findIndex((each) => each.includes("missing.property"));
    const found = originalPositionFor(new TraceMap(sourceMap), {
      line: line + 1,
      column: lines[line]?.indexOf("missing.property") ?? 0,
    });
    expect(found).toMatchObject({ line: 1, column: source.indexOf("missing.property") });
  });
});

test("import() of a name that is known at run time has the built-ins, and fails for all else", async () => {
  const text = `export default async () => {
  const [builtin, missing] = ["node:path", "not-there"];
  const found = await import(builtin);
  const code = await import(missing).catch((error) => error.code);
  return [found.default === found, typeof found.join, code];
};`;
  const root = makeFolder(packageFiles("probing", { "index.js": text }, { type: "module" }));
  const { code } = await buildHere({ source: 'export { default } from "probing"' }, { root });
  await using tool = await openCode(code);
  expect((await tool.load()).outcome).toBe("ready");
  const { value } = await tool.call();
  expect(value).toEqual([false, "function", "MODULE_NOT_FOUND"]);
});

describe.concurrent("the limits of packages", () => {
  const large = `export const large = "${"x".repeat(50_000)}"`;
  const files = packageFiles(
    "big",
    {
      "index.js": 'export { small } from "./small.js"; export { large } from "./large.js"',
      "small.js": "export const small = 1",
      "large.js": large,
    },
    { type: "module", sideEffects: false },
  );

  test("count what is bundled", async () => {
    const root = makeFolder(files);
    const limits = { packageBytes: 20_000 };
    const bundle = await buildHere({ source: 'export { small as default } from "big"' }, { root, limits });
    expect((await evaluate(bundle)).value).toBe(1);
    const error = await failureOf(buildHere({ source: 'export { large as default } from "big"' }, { root, limits }));
    expect(error.message).toMatch(
      /^The bundled package files have 50\d+ bytes together; the limit packageBytes is 20000 bytes; a host sets/,
    );
    expect(error.message).toContain("bundler.limits.packageBytes");
  });

  test("bound what a build reads", async () => {
    const root = makeFolder(files);
    const limits = { packageBytes: 10_000 };
    const error = await failureOf(buildHere({ source: 'export { small as default } from "big"' }, { root, limits }));
    expect(error.message).toContain("the limit packageBytes is 10000 bytes, and a build reads 4 times as much at most");
  });
});
