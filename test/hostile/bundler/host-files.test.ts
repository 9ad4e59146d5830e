// A tool that tries to read host files during its build. Expected: no code, map or error contains the canary or a host path.
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ToolBundle } from "../../../src/bundler/tool-bundle.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { build, buildHere, makeFolder, packageFiles, writeFiles } from "../../bundler/workbench.ts";

const CANARY = "canary-5f1d0c7e";

/** `outside/` has the canaries; `root/tool` belongs to the attacker, `root/node_modules` is the host's package store. */
interface Scene {
  readonly outside: string;
  readonly root: string;
  readonly tool: string;
}

function makeScene(): Scene {
  const base = makeFolder({
    "outside/secret.txt": CANARY,
    "outside/secret.json": `{"secret":"${CANARY}"}`,
    "outside/secret.js": `export default "${CANARY}"`,
    "outside/secret.ts": `export default "${CANARY}"`,
    "outside/secret.map": JSON.stringify({ version: 3, sources: ["x"], sourcesContent: [CANARY], mappings: "AAAA" }),
    "outside/index.js": `export default "${CANARY}"`,
    "outside/package.json": `{"name":"outside","main":"secret.js","secret":"${CANARY}"}`,
    "outside/broken/package.json": `${CANARY} is no JSON`,
    "outside/tsconfig.json": `{"compilerOptions":{"jsxFactory":"${CANARY}"}}`,
    "root/.env.json": `{"secret":"${CANARY}"}`,
    "root/private.json": `{"secret":"${CANARY}"}`,
    ...Object.fromEntries(
      Object.entries(packageFiles("good", { "index.js": "export default 1" })).map(([path, text]) => [
        `root/${path}`,
        text,
      ]),
    ),
  });
  return { outside: join(base, "outside"), root: join(base, "root"), tool: join(base, "root/tool") };
}

interface Outcome {
  readonly code: string;
  /** All text that leaves the bundler. */
  readonly text: string;
}

async function attempt(building: Promise<ToolBundle>): Promise<Outcome> {
  try {
    return { code: "built", text: JSON.stringify(await building) };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { code: error.code, text: JSON.stringify([error.message, error.details, error.toData("x")]) };
  }
}

/** `%OUT%` is replaced by the folder with the canaries, `%X%` by a template's placeholder. */
function fill(text: string, { outside }: Scene): string {
  return text.replaceAll("%OUT%", outside).replaceAll("%X%", () => "$" + "{x}");
}

function expectNothingOf(outcome: Outcome, scene: Scene, own: string): void {
  expect(outcome.text).not.toContain(CANARY);
  expect(outcome.text).not.toContain("root:x:0:0");
  // Paths that the author wrote may be quoted back.
  const quoted = outcome.text.replaceAll(JSON.stringify(own).slice(1, -1), "");
  if (!own.includes(scene.outside)) expect(quoted).not.toContain(scene.outside);
  expect(quoted).not.toContain(scene.root);
}

describe.concurrent("the bundler rejects", () => {
  test.for([
    ["an absolute import", 'import x from "%OUT%/secret.js"; export default x'],
    ["an absolute import as text", 'import x from "%OUT%/secret.txt" with { type: "text" }; export default x'],
    ["an absolute import as JSON", 'import x from "%OUT%/secret.json" with { type: "json" }; export default x'],
    ["a relative import that leaves", 'import x from "../../outside/secret.js"; export default x'],
    ["a relative import that leaves and returns", 'import x from "../tool/../../outside/secret.js"; export default x'],
    ["a relative import of the root's own file", 'import x from "../private.json"; export default x'],
    [
      "a relative import that leaves after some steps",
      'import x from "./a/b/../../../../outside/secret.js"; export default x',
    ],
    ["export from outside", 'export { default } from "../../outside/secret.js"'],
    ["a dynamic import that leaves", 'export default () => import("../../outside/secret.js")'],
    ["require that leaves", 'export default require("../../outside/secret.json")'],
    ["import = require that leaves", 'import x = require("../../outside/secret.json"); export default x'],
    [
      "import.meta.resolve and import of it",
      "export default () => import(import.meta.resolve('../../outside/secret.js'))",
    ],
    ["a glob import", "export default (x) => import(`../../outside/%X%.js`)"],
    ["a glob import in its own folder", "export default (x) => import(`./%X%`)"],
    ["a glob import of the whole disk", "export default (x) => import('../../../../../../../../../' + x)"],
    ["a glob require", "export default (x) => require('../../outside/' + x)"],
    [
      "a glob import spelled by an enum",
      'enum E { A = "../../../../", B = A + A + A + A } export default (x) => import(E.B + x)',
    ],
    ["a glob import that climbs out of any folder", `export default (x) => import("${"../".repeat(3_000)}tmp/" + x)`],
    ["a glob import in escapes", `export default (x) => import("${"\\x2e\\u002e/".repeat(50)}tmp/" + x)`],
    ["a glob import as text", "export default (x) => import(`../../outside/%X%.txt`, { with: { type: 'text' } })"],
    ["a file: URL", 'import x from "file://%OUT%/secret.js"; export default x'],
    ["a FILE: URL", 'import x from "FILE://%OUT%/secret.js"; export default x'],
    ["a data: URL", 'import x from "data:text/javascript,export default 1"; export default x'],
    ["an http: URL", 'import x from "http://127.0.0.1/x.js"; export default x'],
    ["a URL without a scheme", 'import x from "//127.0.0.1/x.js"; export default x'],
    ["a home folder", 'import x from "~/secret.js"; export default x'],
    ["backslashes", 'import x from "..\\\\..\\\\outside\\\\secret.js"; export default x'],
    ["a Windows drive", 'import x from "C:/outside/secret.js"; export default x'],
    ["percent encoding", 'import x from "./..%2f..%2foutside/secret.js"; export default x'],
    ["a null byte", 'import x from "./secret.js\\0.txt"; export default x'],
    ["a line break", 'import x from "./\\n/../../../outside/secret.js"; export default x'],
    ["a path through a missing folder", 'import x from "./nowhere/../../../outside/secret.js"; export default x'],
    ["a very long path", `import x from "./${"a/../".repeat(5_000)}../../outside/secret.js"; export default x`],
    ["characters that look like dots", 'import x from "./.../../../outside/secret.js"; export default x'],
    ["a trailing slash", 'import x from "../../outside/"; export default x'],
    ["its own folder's parent", 'import x from ".."; export default x'],
    ["a query", 'import x from "../../outside/secret.js?x"; export default x'],
    ["a package path that climbs", 'import x from "good/../../../outside/secret.js"; export default x'],
    ["a package by its place", 'import x from "../node_modules/good/index.js"; export default x'],
    ["a scope that climbs", 'import x from "@../../outside/secret.js"; export default x'],
    ["a package that is dots", 'import x from "..."; export default x'],
    ["an import attribute of type file", 'import x from "good/package.json" with { type: "file" }; export default x'],
    ["an unknown import attribute", 'import x from "good" with { loader: "text" }; export default x'],
    ["a jsxImportSource that is absolute", "/** @jsxRuntime automatic @jsxImportSource %OUT% */\nexport default <a />"],
    [
      "a jsxImportSource that climbs",
      "/** @jsxRuntime automatic @jsxImportSource ../../outside */\nexport default <a />",
    ],
    ["the tool's own #imports", 'import x from "#secret"; export default x'],
    ["the tool's own name", 'import x from "self/secret"; export default x'],
    ["a path alias of its tsconfig", 'import x from "alias/secret"; export default x'],
    ["a base URL of its tsconfig", 'import x from "outside/secret"; export default x'],
    ["a hidden file", 'import x from "./.env.json"; export default x'],
    ["a folder whose package.json points outside", 'import x from "./pointer"; export default x'],
    ["a package of its own that points outside", 'import x from "mapped"; export default x'],
  ] as const)("%s", async ([, template]) => {
    const scene = makeScene();
    const entry = fill(template, scene);
    writeFiles(scene.tool, {
      "tool.tsx": entry,
      ".env.json": `{"secret":"${CANARY}"}`,
      "pointer/package.json": '{"main":"../../../outside/secret.js","exports":"../../../outside/secret.js"}',
      "package.json": JSON.stringify({
        name: "self",
        imports: { "#secret": "../../outside/secret.js" },
        exports: { "./secret": "../../outside/secret.js" },
        browser: { mapped: "../../outside/secret.js", good: "../../outside/secret.js" },
      }),
      "tsconfig.json": JSON.stringify({
        extends: "../../outside/tsconfig.json",
        compilerOptions: { baseUrl: "../..", paths: { "alias/*": ["./outside/*"] } },
      }),
    });
    const onDisk = await attempt(buildHere({ path: scene.tool }, { root: scene.root }));
    expect(onDisk.code).toBe("BUNDLE_FAILED");
    expectNothingOf(onDisk, scene, entry);
    const inMemory = await attempt(buildHere({ files: { "tool.tsx": entry } }, { root: scene.root }));
    expect(inMemory.code).toBe("BUNDLE_FAILED");
    expectNothingOf(inMemory, scene, entry);
  });

  test.for<[string, string, (scene: Scene) => void]>([
    [
      "a link to a file",
      'import x from "./x.js"; export default x',
      ({ tool, outside }) => symlinkSync(join(outside, "secret.js"), join(tool, "x.js")),
    ],
    [
      "a link to a JSON file",
      'import x from "./x.json"; export default x',
      ({ tool, outside }) => symlinkSync(join(outside, "secret.json"), join(tool, "x.json")),
    ],
    [
      "a relative link",
      'import x from "./x.js"; export default x',
      ({ tool }) => symlinkSync("../../outside/secret.js", join(tool, "x.js")),
    ],
    [
      "a link to a folder",
      'import x from "./d/secret.js"; export default x',
      ({ tool, outside }) => symlinkSync(outside, join(tool, "d")),
    ],
    [
      "a link to a folder's index",
      'import x from "./d"; export default x',
      ({ tool, outside }) => symlinkSync(outside, join(tool, "d")),
    ],
    [
      "a link through a link",
      'import x from "./b/secret.js"; export default x',
      ({ tool, outside }) => {
        symlinkSync(outside, join(tool, "a"));
        symlinkSync("a", join(tool, "b"));
      },
    ],
    [
      "a link to a hidden file within",
      'import x from "./x.json"; export default x',
      ({ tool }) => {
        writeFileSync(join(tool, ".hidden.json"), `"${CANARY}"`);
        symlinkSync(".hidden.json", join(tool, "x.json"));
      },
    ],
    [
      "a link to itself",
      'import x from "./x.js"; export default x',
      ({ tool }) => symlinkSync("x.js", join(tool, "x.js")),
    ],
    [
      "a link to the proc file system",
      'import x from "./x.json"; export default x',
      ({ tool }) => symlinkSync("/proc/self/environ", join(tool, "x.json")),
    ],
    [
      "a device",
      'import x from "./x.json"; export default x',
      ({ tool }) => symlinkSync("/dev/zero", join(tool, "x.json")),
    ],
    [
      "a node_modules that is a link",
      'import x from "secret.js"; export default x',
      ({ tool, outside }) => symlinkSync(outside, join(tool, "node_modules")),
    ],
    [
      "a node_modules that links to a real one",
      'import x from "p"; export default x',
      ({ tool, outside }) => {
        writeFiles(outside, packageFiles("p", { "index.js": `export default "${CANARY}"` }));
        symlinkSync(join(outside, "node_modules"), join(tool, "node_modules"));
      },
    ],
    [
      "a package that is a link",
      'import x from "p"; export default x',
      ({ tool, outside }) => {
        mkdirSync(join(tool, "node_modules"));
        symlinkSync(outside, join(tool, "node_modules/p"));
      },
    ],
    [
      "a package's file that is a link",
      'import x from "p"; export default x',
      ({ tool, outside }) => {
        writeFiles(tool, packageFiles("p", {}, { main: "x.js" }));
        symlinkSync(join(outside, "secret.js"), join(tool, "node_modules/p/x.js"));
      },
    ],
    [
      "a package.json that is a link",
      'import x from "p"; export default x',
      ({ tool, outside }) => {
        mkdirSync(join(tool, "node_modules/p"), { recursive: true });
        symlinkSync(join(outside, "package.json"), join(tool, "node_modules/p/package.json"));
      },
    ],
    [
      "a package.json that is a link to no JSON",
      'import x from "p"; export default x',
      ({ tool, outside }) => {
        mkdirSync(join(tool, "node_modules/p"), { recursive: true });
        symlinkSync(join(outside, "broken/package.json"), join(tool, "node_modules/p/package.json"));
      },
    ],
    [
      "a package.json of no JSON",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(tool, { "node_modules/p/package.json": `{ "main": ${CANARY.slice(0, 3)}` });
      },
    ],
    [
      "a package whose main leaves",
      'import x from "p"; export default x',
      ({ tool }) => writeFiles(tool, packageFiles("p", {}, { main: "../../../../outside/secret.js" })),
    ],
    [
      "a package whose main is /etc/passwd",
      'import x from "p"; export default x',
      ({ tool }) => writeFiles(tool, packageFiles("p", {}, { main: "../../../../../../../etc/passwd" })),
    ],
    [
      "a package whose main is absolute",
      'import x from "p"; export default x',
      ({ tool, outside }) => writeFiles(tool, packageFiles("p", {}, { main: join(outside, "secret.js") })),
    ],
    [
      "a package whose exports leave",
      'import x from "p"; export default x',
      ({ tool }) => writeFiles(tool, packageFiles("p", {}, { exports: "./../../../../outside/secret.js" })),
    ],
    [
      "a package whose exports pattern leaves",
      'import x from "p/secret.js"; export default x',
      ({ tool }) => writeFiles(tool, packageFiles("p", {}, { exports: { "./*": "./../../../../outside/*" } })),
    ],
    [
      "a package whose browser field leaves",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(
          tool,
          packageFiles(
            "p",
            // Sockets: so the build for browsers is taken.
            { "index.js": 'import "net"; export default 1' },
            { browser: { "./index.js": "../../../../outside/secret.js" } },
          ),
        );
      },
    ],
    [
      "a package whose #imports leave",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(
          tool,
          packageFiles(
            "p",
            { "index.js": 'export { default } from "#x"' },
            { imports: { "#x": "../../../../outside/secret.js" } },
          ),
        );
      },
    ],
    [
      "a package that imports what lies outside",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(tool, packageFiles("p", { "index.js": 'export { default } from "../../../../outside/secret.js"' }));
      },
    ],
    [
      "a package that imports an absolute path",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(tool, packageFiles("p", { "index.js": 'export { default } from "/etc/passwd"' }));
      },
    ],
    [
      "a package that imports the tool's neighbour",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(tool, packageFiles("p", { "index.js": 'module.exports = require("../../../private.json")' }));
      },
    ],
    [
      "a package that globs",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(tool, packageFiles("p", { "index.js": "export default (x) => import('../../../../outside/' + x)" }));
      },
    ],
    [
      "a package that imports text",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(
          tool,
          packageFiles("p", { "index.js": 'import t from "./t.txt"; export default t', "t.txt": "text" }),
        );
      },
    ],
    [
      "a package with a native addon",
      'import x from "p"; export default x',
      ({ tool }) => writeFiles(tool, packageFiles("p", { "x.node": "\x7fELF" }, { main: "x.node" })),
    ],
    [
      "a package in Yarn's Plug'n'Play",
      'import x from "p"; export default x',
      ({ tool }) => {
        writeFiles(tool, { ...packageFiles("p", {}, { main: "no.js" }), ".pnp.data.json": pnpManifest() });
      },
    ],
  ])("%s", async ([, entry, prepare]) => {
    const scene = makeScene();
    writeFiles(scene.tool, { "tool.ts": entry });
    prepare(scene);
    const outcome = await attempt(buildHere({ path: scene.tool }, { root: scene.root }));
    expect(outcome.code).toBe("BUNDLE_FAILED");
    expectNothingOf(outcome, scene, entry);
  });

  test("a linked tool file, even when it is the entry", async () => {
    const scene = makeScene();
    mkdirSync(scene.tool);
    symlinkSync(join(scene.outside, "secret.ts"), join(scene.tool, "tool.ts"));
    const outcome = await attempt(buildHere({ path: scene.tool }, { root: scene.root }));
    expect(outcome.code).toBe("BUNDLE_FAILED");
    expectNothingOf(outcome, scene, "");
  });

  test("the error does not say whether a file outside exists", async () => {
    const scene = makeScene();
    writeFiles(scene.tool, {
      "a.ts": 'export { default } from "./d/secret.js"',
      "b.ts": 'export { default } from "./d/nowhere.js"',
    });
    symlinkSync(scene.outside, join(scene.tool, "d"));
    const [there, missing] = await Promise.all(
      ["a.ts", "b.ts"].map((file) => attempt(buildHere({ path: join(scene.tool, file) }, { root: scene.root }))),
    );
    const words = (outcome: Outcome | undefined): string | undefined =>
      outcome?.text
        .replaceAll("nowhere", "secret")
        .replaceAll("b.ts", "a.ts")
        .replaceAll(/"column":\d+|\d+:\d+/g, "");
    expect(words(missing)).toBe(words(there));
  });
});

function pnpManifest(): string {
  return JSON.stringify({
    dependencyTreeRoots: [{ name: "p", reference: "1" }],
    packageRegistryData: [
      [null, [[null, { packageLocation: "./", packageDependencies: [["p", "1"]], linkType: "SOFT" }]]],
      ["p", [["1", { packageLocation: "../../outside/", packageDependencies: [], linkType: "HARD" }]]],
    ],
  });
}

describe.concurrent("the bundler builds and ignores", () => {
  const dataMap = `data:application/json,{"version":3,"sources":["file://%OUT%/secret.txt"],"mappings":"AAAA"}`;
  test.for([
    ["a reference path", '/// <reference path="%OUT%/secret.ts" />\nexport default 1'],
    ["a source map comment with a file: URL", "export default 1\n//# sourceMappingURL=file://%OUT%/secret.map"],
    ["a source map comment with a path", "export default 1\n//# sourceMappingURL=%OUT%/secret.map"],
    ["a source map comment that climbs", "export default 1\n//# sourceMappingURL=../../outside/secret.map"],
    ["a source map whose sources are host files", `export default 1\n//# sourceMappingURL=${dataMap}`],
    ["the same on the last line of the code", `export default 1 //# sourceMappingURL=${dataMap}`],
    ["the same as an old comment", `export default 1\n/*@ sourceMappingURL=${dataMap} */`],
    ["new URL of a file", 'export default new URL("../../outside/secret.js", import.meta.url)'],
    ["a string that is an import", "export default \"import x from '../../outside/secret.js'\""],
    ["require.resolve", 'export default () => require.resolve("../../outside/secret.json")'],
    ["its package.json and tsconfig.json", "export default 1"],
  ] as const)("%s", async ([, template]) => {
    const scene = makeScene();
    const entry = fill(template, scene);
    writeFiles(scene.tool, {
      "tool.ts": entry,
      "package.json": JSON.stringify({
        type: "commonjs",
        main: "../../outside/secret.js",
        browser: "../../outside/secret.js",
      }),
      "tsconfig.json": '{"extends":"../../outside/tsconfig.json"}',
    });
    for (const source of [{ path: scene.tool }, { source: entry }]) {
      const outcome = await attempt(buildHere(source, { root: scene.root }));
      expect(outcome.code).toBe("built");
      expectNothingOf(outcome, scene, entry);
    }
  });

  test("ignores a source map comment in a package", async () => {
    const scene = makeScene();
    const text = `export default 1\n//# sourceMappingURL=${fill(dataMap, scene)}`;
    writeFiles(scene.root, packageFiles("p", { "index.js": text }));
    const outcome = await attempt(buildHere({ source: 'export { default } from "p"' }, { root: scene.root }));
    expect(outcome.code).toBe("built");
    expectNothingOf(outcome, scene, "");
  });

  test("a link within the tool's own folder, or a hard link: it is the tool's own file", async () => {
    const scene = makeScene();
    writeFiles(scene.tool, {
      "tool.ts": 'import a from "./a.ts"; import b from "./b.ts"; export default [a, b]',
      "x.ts": "export default 1",
    });
    symlinkSync("x.ts", join(scene.tool, "a.ts"));
    linkSync(join(scene.tool, "x.ts"), join(scene.tool, "b.ts"));
    expect((await attempt(buildHere({ path: scene.tool }, { root: scene.root }))).code).toBe("built");
  });
});

describe("in its child process the bundler rejects", () => {
  test.for([
    ["an absolute import as text", 'import x from "%OUT%/secret.txt" with { type: "text" }; export default x'],
    ["a relative import that leaves", 'import x from "../../outside/secret.js"; export default x'],
    ["a glob", "export default (x) => import('../../outside/' + x)"],
    ["a link", 'import x from "./link/secret.js"; export default x'],
    ["a package that is a link", 'import x from "linked"; export default x'],
    [
      "a jsxImportSource that climbs",
      "/** @jsxRuntime automatic @jsxImportSource ../../outside */\nexport default <a />",
    ],
  ] as const)("%s", async ([, template]) => {
    const scene = makeScene();
    const entry = fill(template, scene);
    writeFiles(scene.tool, { "tool.tsx": entry });
    symlinkSync(scene.outside, join(scene.tool, "link"));
    symlinkSync(scene.outside, join(scene.root, "node_modules/linked"));
    const outcome = await attempt(build({ path: scene.tool }, { root: scene.root }));
    expect(outcome.code).toBe("BUNDLE_FAILED");
    expectNothingOf(outcome, scene, entry);
  });
});
