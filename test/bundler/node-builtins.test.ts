// Tests Node's built-ins in a bundle: which imports resolve to them, and that they work in a real guest.
import { describe, expect, test } from "vitest";
import { openCode } from "../support/guest.ts";
import { buildHere, failureOf, makeFolder, packageFiles, resultOf } from "./workbench.ts";

const builtin = (name: string, chunk: string): object => ({ builtin: name, chunk });
const FS = builtin("fs", "node-fs");

describe("an import of a built-in", () => {
  test.for<[source: string, value: unknown]>([
    ['import fs from "node:fs"; export default fs', FS],
    ['import fs from "fs"; export default fs', FS],
    ['import fs from "fs/"; export default fs', FS],
    ['import { builtin } from "node:fs/promises"; export default builtin', "fs/promises"],
    ['import * as fs from "fs"; export default [fs.builtin, fs.default]', ["fs", FS]],
    ['const { builtin } = require("util"); export default builtin', "util"],
    ['export default async () => (await import("node:stream/web")).builtin', "stream/web"],
    ['import test from "node:test"; export default test', builtin("test", "node-unsupported")],
    ['export { builtin as default } from "path"', "path"],
    ['import type { Stats } from "node:fs"; export default 1', 1],
    ['import fs from "fs"; export default 1', 1],
  ])("%s", async ([source, value]) => {
    expect(await resultOf({ source })).toEqual(value);
  });

  test("an import of a built-in that is not used adds no code", async () => {
    const { code } = await buildHere({ source: 'import fs from "fs"; import "node:net"; export default 1' });
    expect(code).not.toMatch(/node-fs|node-unsupported/);
  });

  test("keeps a bundle strict", async () => {
    const { code } = await buildHere({ source: 'import fs from "fs"; export default fs' });
    expect(code).toContain('{"use strict";');
  });

  test.for([
    ["node:unknown", "Node has no built-in module of this name"],
    ["NODE:fs", "Node has no built-in module of this name"],
    ["node:", "Node has no built-in module of this name"],
    ["node:__proto__", "Node has no built-in module of this name"],
    ["node:constructor", "Node has no built-in module of this name"],
    ["node:fs/../net", "Node has no built-in module of this name"],
    ["node:node:fs", "Node has no built-in module of this name"],
    ["node:./fs", "Node has no built-in module of this name"],
    ["node:fs\\nnode:net", "Node has no built-in module of this name"],
    ["test", "the store has no package test"],
    ["sqlite", "the store has no package sqlite"],
    ["fs/unknown", "the store has no package fs"],
  ])("%s fails with a reason", async ([name, reason]) => {
    const root = makeFolder({ "node_modules/x/package.json": "{}" });
    const error = await failureOf(buildHere({ source: `import x from "${name}"; export default x` }, { root }));
    expect(error.message).toContain(
      reason?.startsWith("Node") && name?.includes("\\n") ? "control characters" : reason,
    );
  });

  test("rejects import attributes", async () => {
    const source = 'import fs from "fs" with { type: "json" }; export default fs';
    expect((await failureOf(buildHere({ source }))).message).toContain("a built-in takes no import attributes");
  });

  test("does not need to be on the allow list", async () => {
    const source = 'import fs from "fs"; export default fs';
    expect(await resultOf({ source }, { allowPackages: [] })).toEqual(FS);
  });
});

describe("in a package", () => {
  const store = {
    ...packageFiles("uses", {
      "index.js": 'module.exports = [require("fs"), require("node:path"), require("events/")]',
    }),
    ...packageFiles("events", { "index.js": 'module.exports = "npm events"' }),
    ...packageFiles("unknown", { "index.js": 'export { default } from "node:nothing"' }, { type: "module" }),
    ...packageFiles("guarded", {
      "index.js": 'try { module.exports = require("node:nothing") } catch { module.exports = "without" }',
    }),
    ...packageFiles(
      "mapped",
      {
        "index.js":
          'module.exports = [require("fs"), require("node:crypto"), require("util"), require("events"), require("path")]; require("net")',
        "util.js": 'module.exports = "its own util"',
      },
      { browser: { fs: false, crypto: false, net: false, util: "./util.js", events: "events/" } },
    ),
  };

  test.for<[name: string, value: unknown]>([
    ["uses", [FS, builtin("path", "node-path"), "npm events"]],
    // A package that emulates a built-in for browsers is not used.
    ["mapped", [{}, {}, "its own util", builtin("events", "node-events"), builtin("path", "node-path")]],
    ["guarded", "without"],
  ])(
    "%s: the built-in, unless the browser field selects a file or nothing, or a slash a package",
    async ([name, value]) => {
      const root = makeFolder(store);
      expect(await resultOf({ source: `import x from "${name}"; export default x` }, { root })).toEqual(value);
    },
  );

  test("an unknown one that is imported fails with its name", async () => {
    const root = makeFolder(store);
    const error = await failureOf(buildHere({ source: 'import x from "unknown"; export default x' }, { root }));
    expect(error.message).toContain('Cannot import "node:nothing": Node has no built-in module of this name');
  });
});

describe("a bundle in a guest", () => {
  test("fails where a package requires a path that is computed and leads nowhere", async () => {
    const root = makeFolder(
      packageFiles("native", {
        "index.js": `exports.one = (name) => require("./build/" + name + "/addon");
          exports.two = (name) => [require("./ä/" + name + "/a"), require("./b/" + name + "/b")];
          exports.data = (name) => require("./data/" + name + ".json");`,
        "data/known.json": '"bundled"',
      }),
    );
    const source = `import native from "native";
      const fails = (run) => { try { return run(); } catch (error) { return error.code; } };
      export default () => ["one", "two", "data"].map((name) => fails(() => native[name](name === "data" ? "known" : "x")));`;
    await using tool = await openCode((await buildHere({ source }, { root })).code);
    await tool.load();
    expect((await tool.call()).value).toEqual(["MODULE_NOT_FOUND", "MODULE_NOT_FOUND", "bundled"]);
  });

  test("gives packages a require with the members of Node's", async () => {
    const root = makeFolder(
      packageFiles("hooks", {
        "index.js": `require.extensions[".view"] = (module) => module;
          exports.known = [Object.keys(require.extensions), typeof require.cache, typeof require.resolve, require.main === undefined];`,
      }),
    );
    const source = 'import { known } from "hooks"; export default () => known;';
    await using tool = await openCode((await buildHere({ source }, { root })).code);
    await tool.load();
    expect((await tool.call()).value).toEqual([[".view"], "object", "function", true]);
  });

  test("loads built-ins through an indirect require", async () => {
    const root = makeFolder(
      packageFiles("old", {
        "index.js": `var load = typeof unknown !== "undefined" ? unknown : require;
          var name = "pa" + "th";
          exports.joined = load(name).join("a", "b");
          exports.same = load("node:util") === require("util");
          try { load("./other.js"); } catch (error) { exports.code = error.code; }`,
      }),
    );
    const source = 'import { joined, same, code } from "old"; export default () => [joined, same, code];';
    const bundle = await buildHere({ source }, { root });
    await using tool = await openCode(bundle.code);
    await tool.load();
    expect((await tool.call()).value).toEqual(["a/b", true, "MODULE_NOT_FOUND"]);
  });

  test("has built-ins, globals and locations", async () => {
    const root = makeFolder({
      ...packageFiles("old", {
        "index.js": `var util = require("util"); var EventEmitter = require("events").EventEmitter; var Stream = require("stream");
          function Old() { EventEmitter.call(this); }
          util.inherits(Old, EventEmitter);
          module.exports = { Old: Old, place: [__dirname, __filename], global: global === globalThis, isStream: new Stream.PassThrough() instanceof Stream };`,
      }),
      "tool.ts": `import assert from "node:assert/strict";
        import { Buffer as Named } from "node:buffer";
        import { EventEmitter, once } from "events";
        import fs, { readFileSync } from "fs";
        import * as path from "path";
        import { createRequire } from "node:module";
        import old from "old";
        export default async () => {
          fs.writeFileSync("/x", Named.from("hi"));
          const made = new old.Old();
          queueMicrotask(() => made.emit("x", 42));
          assert.deepEqual(path.join("a", "b"), "a/b");
          return {
            read: readFileSync("/x", "utf8"),
            same: Named === Buffer && made instanceof EventEmitter,
            event: await once(made, "x"),
            place: [...old.place, import.meta.url],
            rest: [old.global, old.isStream, process.env.NODE_ENV, typeof setImmediate, createRequire(import.meta.url)("os").EOL],
          };
        };`,
    });
    const bundle = await buildHere({ path: root }, { root });
    await using tool = await openCode(bundle.code);
    expect((await tool.load()).outcome).toBe("ready");
    expect((await tool.call()).value).toEqual({
      read: "hi",
      same: true,
      event: [42],
      place: ["/tool/node_modules/old", "/tool/node_modules/old/index.js", "file:///tool/tool.ts"],
      rest: [true, true, "production", "function", "\n"],
    });
  });
});
