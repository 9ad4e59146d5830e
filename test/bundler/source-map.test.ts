// Tests createStackMapper() and codeFrame() with real stacks of an isolate and with forged stacks.
import { join } from "node:path";
import ivm from "isolated-vm";
import { describe, expect, test } from "vitest";
import { codeFrame, createStackMapper } from "../../src/bundler/compile/source-map.ts";
import type { ToolBundle } from "../../src/bundler/tool-bundle.ts";
import { TOOL_SCRIPT_NAME } from "../../src/sandbox/protocol/guest-messages.ts";
import { expectLinearTime } from "../support/processes.ts";
import { build, buildHere, makeFolder, packageFiles } from "./workbench.ts";

const FILES = {
  "tool.ts":
    'import { z } from "zod";\nimport { fail } from "./lib/fail.ts";\n\nexport default async (): Promise<never> => {\n\tz.string();\n\treturn await fail(1);\n};\n',
  "lib/fail.ts":
    "// ä 😀\ninterface Unused { a: number }\nexport async function fail(n: number): Promise<never> {\n  await null;\n  throw new TypeError('no ' + n);\n}\n",
};

async function stackOf(bundle: ToolBundle): Promise<string> {
  const isolate = new ivm.Isolate({ memoryLimit: 64 });
  try {
    const context = await isolate.createContext();
    const script = await isolate.compileScript(bundle.code, { filename: TOOL_SCRIPT_NAME });
    const load = await script.run(context, { reference: true });
    await context.global.set("load", load.derefInto());
    const run =
      "(async () => { let n; await load((x) => { n = x }); try { await n.default() } catch (e) { return e.stack } })()";
    return await context.eval(run, { promise: true, copy: true });
  } finally {
    isolate.dispose();
  }
}

const bundle = await build({ files: FILES });
const at = (line: number, column: number, name?: string): string => {
  const place = `${TOOL_SCRIPT_NAME}:${line}:${column}`;
  return name === undefined ? `    at ${place}` : `    at ${name} (${place})`;
};
/** Finds a location in the output that maps to the author's source. */
const [line = 0, column = 0] =
  /:(\d+):(\d+)\)/
    .exec(await stackOf(bundle))
    ?.slice(1)
    .map(Number) ?? [];

describe("createStackMapper() maps", () => {
  test("an isolate's stack onto the author's files", async () => {
    const mapper = createStackMapper(bundle.sourceMap);
    const { stack, frames } = mapper.mapStack(await stackOf(bundle));
    expect(stack).toBe(
      ["TypeError: no 1", "    at fail (lib/fail.ts:5:9)", "    at async default (tool.ts:6:9)"]
        .join("\n")
        .replace("async default", frames[1]?.functionName ?? ""),
    );
    expect(frames.map(({ file, line: at }) => [file, at])).toEqual([
      ["lib/fail.ts", 5],
      ["tool.ts", 6],
    ]);
  });

  test("maps a frame to its line of code", async () => {
    const mapper = createStackMapper(bundle.sourceMap);
    const [frame, caller] = mapper.mapStack(await stackOf(bundle)).frames;
    expect(frame && mapper.codeFrameOf(frame)).toBe(
      "  4 |   await null;\n> 5 |   throw new TypeError('no ' + n);\n    |         ^",
    );
    expect(caller && mapper.codeFrameOf(caller)).toBe(
      "  5 | \tz.string();\n> 6 | \treturn await fail(1);\n    | \t       ^",
    );
    expect(mapper.codeFrameOf({ file: "/etc/passwd", line: 1, column: 1 })).toBeUndefined();
  });

  test("frames without a name, of a constructor, a method, or after an await", () => {
    const mapper = createStackMapper(bundle.sourceMap);
    const stack = [
      "Error",
      at(line, column),
      at(line, column, "new A"),
      at(line, column, "A.b [as c]"),
      `    at async ${TOOL_SCRIPT_NAME}:${line}:${column}`,
    ];
    const { frames } = mapper.mapStack(stack.join("\n"));
    expect(frames.map((frame) => frame.functionName)).toEqual([undefined, "new A", "A.b [as c]", undefined]);
  });
});

describe("createStackMapper() drops", () => {
  test.for([
    ["the host's files", "    at x (file:///etc/passwd:1:1)"],
    ["absolute paths", "    at x (/root/.ssh/id_rsa:1:1)"],
    ["Node's own", "    at x (node:internal/process:1:1)"],
    ["isolated-vm's", "    at (<isolated-vm boundary>)"],
    ["the prelude", "    at x (glovebox:///prelude.js:1:1)"],
    ["eval", `    at eval (eval at x (${TOOL_SCRIPT_NAME}:1:1), <anonymous>:1:1)`],
    ["a script whose name only starts with Glovebox's", `    at x (${TOOL_SCRIPT_NAME}.evil:1:1)`],
    ["locations that do not exist", at(999_999, 1)],
    ["locations that are not numbers", `    at x (${TOOL_SCRIPT_NAME}:1:NaN)`],
    ["negative and zero locations", `${at(0, 0)}\n${at(1, 0)}\n    at x (${TOOL_SCRIPT_NAME}:-1:-1)`],
    ["numbers of any length", `    at x (${TOOL_SCRIPT_NAME}:${"9".repeat(500)}:1)`],
    ["the entry stub and esbuild's helpers", Array.from({ length: 5 }, (_, n) => at(n + 1, 1)).join("\n")],
    ["lines that are not frames", "    at\nat nothing\n    because"],
  ] as const)("%s", ([, frames]) => {
    const mapped = createStackMapper(bundle.sourceMap).mapStack(`Error: x\n${at(line, column, "mine")}\n${frames}`);
    expect(mapped.frames).toHaveLength(1);
    expect(mapped.stack).toMatch(/^Error: x\n {4}at mine \(lib\/fail\.ts:5:\d+\)$/);
  });
});

describe("createStackMapper() withstands", () => {
  test.for([
    ["ten megabytes in one line", 10_000_000, (size: number) => "x".repeat(size)],
    ["a million lines", 1_000_000, (size: number) => "Error\n".repeat(size)],
    // Not more: the memory of a million takes longer than the work.
    ["hundreds of thousands of frames", 320_000, (size: number) => `Error\n${`${at(line, column)}\n`.repeat(size)}`],
    ["millions of spaces", 5_000_000, (size: number) => `Error\n${" ".repeat(size)}at x`],
    [
      "millions of parentheses",
      5_000_000,
      (size: number) => `Error\n    at ${"(".repeat(size)} (${TOOL_SCRIPT_NAME}:1:1)`,
    ],
    ["a very long name", 60_000, (size: number) => `Error\n${at(line, column, "n".repeat(size))}`],
  ] as const)("%s", ([, size, make]) => {
    const mapper = createStackMapper(bundle.sourceMap);
    expectLinearTime((part) => mapper.mapStack(make(part)), size / 16);
    const mapped = mapper.mapStack(make(size));
    expect(mapped.stack.length).toBeLessThan(20_000);
    expect(mapped.frames.length).toBeLessThanOrEqual(50);
  });

  test("a name with escape sequences", () => {
    const { frames } = createStackMapper(bundle.sourceMap).mapStack(`Error\n${at(line, column, "a\u001b[31m\u2028b")}`);
    expect(frames[0]?.functionName).toBe("a [31m b");
  });

  test.for([
    "",
    "null",
    "{}",
    "[]",
    '{"version":3}',
    '{"version":3,"sources":[null],"names":[],"mappings":"AAAA"}',
    "{".repeat(1_000),
  ])("an invalid source map: %s", (json) => {
    const mapper = createStackMapper(json);
    expect(mapper.mapStack(`Error: x\n${at(1, 1)}`)).toEqual({ stack: "Error: x", frames: [] });
    expect(mapper.codeFrameOf({ file: "a", line: 1, column: 1 })).toBeUndefined();
  });
});

describe("codeFrame()", () => {
  test.for([
    ["the first line", { line: 1, column: 2, text: "ab\ncd" }, "> 1 | ab\n    |  ^"],
    ["the end of a line", { line: 2, column: 3, text: "ab\ncd" }, "  1 | ab\n> 2 | cd\n    |   ^"],
    ["tabs", { line: 1, column: 4, text: "\ta\tb" }, "> 1 | \ta\tb\n    | \t \t^"],
    [
      "line numbers of different widths",
      { line: 10, column: 1, text: `${"\n".repeat(8)}i\nj` },
      "   9 | i\n> 10 | j\n     | ^",
    ],
    ["Windows line ends", { line: 2, column: 1, text: "a\r\nb\r\n" }, "  1 | a\n> 2 | b\n    | ^"],
    ["a column past the end", { line: 1, column: 99, text: "ab" }, "> 1 | ab\n    |   ^"],
    ["a line that does not exist", { line: 3, column: 1, text: "a" }, undefined],
    ["line zero", { line: 0, column: 1, text: "a" }, undefined],
  ] as const)("%s", ([, place, expected]) => {
    expect(codeFrame(place)).toBe(expected);
  });

  test("shows the part of a long line that contains the column", () => {
    const text = `${"a".repeat(5_000)}X${"b".repeat(5_000)}`;
    const [shown = "", mark = ""] = codeFrame({ line: 1, column: 5_001, text })?.split("\n") ?? [];
    expect(shown.length).toBeLessThan(140);
    expect(shown[mark.indexOf("^")]).toBe("X");
  });
});

describe("the source map of a bundle", () => {
  // esbuild writes them into its map as URLs.
  const NAMES = ["[Content_Types].xml", "a b", "100%", "a#b", "ä", "x?y"];
  const USES_ODD = 'import { x } from "odd"; export default () => x';

  test.for([...NAMES, "50%25"])("names a package file whose path is not a plain URL: %s", async (name) => {
    const files = { "index.js": `export * from "./${name}.js"`, [`${name}.js`]: "export const x = 1" };
    const { sourceMap } = await buildHere({ source: USES_ODD }, { root: makeFolder(packageFiles("odd", files)) });
    expect(JSON.parse(sourceMap).sources).toContain(`node_modules/odd/${name}.js`);
  });

  test.for(NAMES)("names a file of the tool whose path is not a plain URL: %s", async (name) => {
    const entry = `import { x } from "./${name}.ts"; export default () => x`;
    const { sourceMap } = await buildHere({ files: { "tool.ts": entry, [`${name}.ts`]: "export const x = 1" } }, {});
    expect(JSON.parse(sourceMap).sources).toContain(`${name}.ts`);
  });

  test("names the packages of a project whose folder is not a plain URL", async () => {
    const files = packageFiles("odd", { "index.js": "export const x = 1" });
    const folder = "J\u00f6rg's [project] 100% #1";
    const root = makeFolder(
      Object.fromEntries(Object.entries(files).map(([path, text]) => [`${folder}/${path}`, text])),
    );
    const { sourceMap } = await buildHere({ source: USES_ODD }, { root: join(root, folder) });
    expect(JSON.parse(sourceMap).sources).toContain("node_modules/odd/index.js");
  });
});
