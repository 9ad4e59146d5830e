// Source locations as a tool's author sees them: stacks of real tools from files and packages, and locations of console lines.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { packageFiles, writeFiles } from "../../bundler/workbench.ts";
import { errorOf, expectPublishable, makeGlovebox } from "../../support/host-zone.ts";

const TENANT = "acme";
let glovebox: Glovebox;
let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "glovebox-places-"));
  glovebox = await makeGlovebox({ tenancy: "multi", bundler: { root } });
});
afterAll(async () => {
  await glovebox.close();
  await rm(root, { recursive: true, force: true });
});

let count = 0;
/** One call of a tool that is made of these files. */
async function run(
  files: { readonly [path: string]: string },
  context: { readonly logSourceLocations?: boolean } = {},
) {
  count += 1;
  const name = `tool-${count}`;
  const path = join(root, name);
  writeFiles(path, files);
  await glovebox.addTool({ path, name }, { tenantId: TENANT });
  return await glovebox.execute({ id: `c${count}`, toolName: name }, { tenantId: TENANT, ...context });
}

const THROWING_PACKAGE = packageFiles(
  "tiny-fail",
  { "dist/index.min.js": 'function a(n){if(n)throw new RangeError("deep")}export function check(n){return a(n)}' },
  { type: "module", main: "dist/index.min.js" },
);

describe("a stack is in the author's own files, lines and columns", () => {
  test.for<[string, { readonly [path: string]: string }, readonly string[]]>([
    [
      "behind awaits",
      {
        "tool.ts": [
          'import { outer } from "./lib/steps.ts";',
          "",
          "export default async (): Promise<unknown> => {",
          "  const steps = [async () => await outer(1)];",
          "  return await (steps[0] as () => Promise<never>)();",
          "};",
        ].join("\n"),
        "lib/steps.ts": [
          "type Count = number;",
          "async function inner(n: Count): Promise<never> {",
          "  await null;",
          "  throw new TypeError('no ' + n);",
          "}",
          "",
          "export async function outer(n: Count): Promise<never> {",
          "  return await inner(n);",
          "}",
        ].join("\n"),
      },
      [
        "at inner (lib/steps.ts:4:9)",
        "at async outer (lib/steps.ts:8:10)",
        "at async Array.steps (tool.ts:4:30)",
        "at async default (tool.ts:5:10)",
      ],
    ],
    [
      "in constructors, methods, aliases and accessors",
      {
        "tool.ts": [
          "class Foo {",
          "  readonly value: number;",
          "  constructor() {",
          "    this.value = this.first;",
          "  }",
          "  get first(): number {",
          "    return Foo.second();",
          "  }",
          "  static second(): number {",
          "    return maker.alias();",
          "  }",
          "}",
          "const third = (): never => {",
          "  throw new Error('in the end');",
          "};",
          "const maker = { original() { return third(); }, alias: () => 0 };",
          "maker.alias = maker.original;",
          "export default function () {",
          "  return new Foo().value;",
          "}",
        ].join("\n"),
      },
      [
        "at third (tool.ts:14:9)",
        "at Object.original (tool.ts:16:37)",
        "at Foo.second (tool.ts:10:18)",
        "at get first (tool.ts:7:16)",
        "at new Foo (tool.ts:4:23)",
        "at default (tool.ts:19:10)",
      ],
    ],
    [
      "in TSX",
      {
        "tool.tsx": [
          "const React = { createElement: (tag: string | (() => string)) => (typeof tag === 'string' ? tag : tag()) };",
          "function Broken(): string {",
          "  const values: { [key: string]: { n: number } } = {};",
          "  return String(values.missing.n);",
          "}",
          "export default () => (",
          "  <div>",
          "    <Broken />",
          "  </div>",
          ");",
        ].join("\n"),
      },
      ["at Broken (tool.tsx:4:32)", "at Object.createElement (tool.tsx:1:99)", "at default (tool.tsx:8:5)"],
    ],
    [
      "through a package, which has its own name and no place on the host",
      {
        ...THROWING_PACKAGE,
        "tool.ts": 'import { check } from "tiny-fail";\n\nexport default () => {\n  check(1);\n};',
      },
      [
        "at a (tiny-fail/dist/index.min.js:1:26)",
        "at check (tiny-fail/dist/index.min.js:1:81)",
        "at default (tool.ts:4:3)",
      ],
    ],
  ])("%s", async ([, files, frames]) => {
    const error = errorOf(await run(files));
    const [, ...lines] = (error.stack ?? "").split("\n").map((line) => line.trim());
    expect(lines).toEqual(frames);
    const own = /([\w./-]+):(\d+):(\d+)\)?$/.exec(frames.find((frame) => /tool\.|lib\//.test(frame)) ?? "");
    expect(error.details).toMatchObject({ file: own?.[1], line: Number(own?.[2]), column: Number(own?.[3]) });
    expectPublishable(error);
  });

  test("the error of code that cannot be built names the author's own file, line and column", async () => {
    const building = run({ "tool.ts": "export default () => {\n  const = 1;\n};" });
    await expect(building).rejects.toMatchObject({
      code: "BUNDLE_FAILED",
      details: { file: "tool.ts", line: 2, column: 9 },
    });
  });
});

describe("lines of console carry their place when asked", () => {
  const files = {
    "tool.ts": [
      'import { helper } from "./helper.ts";',
      "export default async () => {",
      "  console.log('first');",
      "  helper();",
      "  await null;",
      "  [1].forEach((n) => console.warn(n));",
      "};",
    ].join("\n"),
    "helper.ts": "export function helper() {\n    console.error('second');\n}",
  };

  test("log lines have their file, line and column when the caller requests them", async () => {
    const { logs } = await run(files, { logSourceLocations: true });
    expect(logs.map(({ message, place }) => [message, place])).toEqual([
      ["first", "tool.ts:3:11"],
      ["second", "helper.ts:2:13"],
      ["1", "tool.ts:6:30"],
    ]);
  });

  test("log lines have no source location by default", async () => {
    const { logs } = await run(files);
    expect(logs.map(({ place }) => place)).toEqual([undefined, undefined, undefined]);
  });

  test.for([
    ["a stack of its own making", "Error.prepareStackTrace = () => 'glovebox:///tool.js:9999999999:1';"],
    ["a stack that throws", "Error.prepareStackTrace = () => { throw new Error('x'); };"],
    ["a stack of no frames", "Error.stackTraceLimit = 0;"],
    ["a stack that is not a string", "Error.prepareStackTrace = () => ({});"],
    ["a place past the end", "Error.prepareStackTrace = () => 'glovebox:///tool.js:99999:1';"],
  ])("%s leaves the line without one", async ([, tampering]) => {
    const source = `export default () => { ${tampering} console.log('said'); };`;
    const result = await run({ "tool.ts": source }, { logSourceLocations: true });
    expect(result.logs).toMatchObject([{ message: "said" }]);
    expect(result.logs[0]).not.toHaveProperty("place");
  });
});
