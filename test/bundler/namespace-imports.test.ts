// Tests that imports of a package's namespaces are rewritten without changing what a tool does.
import { describe, expect, test } from "vitest";
import { findLeadingImports, rewriteNamespaceImports } from "../../src/bundler/compile/transforms/namespace-imports.ts";
import { buildHere, evaluate, makeFolder, packageFiles, REPOSITORY, resultOf } from "./workbench.ts";

const PACKAGE = packageFiles(
  "shapes",
  {
    "index.js": 'import * as z from "./all.js";\nexport * from "./all.js";\nexport { z };\nexport default z;\n',
    "all.js":
      'export const used = () => "used";\nexport const unused = () => "never called";\nexport { deep } from "./deep.js";',
    "deep.js": 'export * as deep from "./deeper.js";',
    "deeper.js": 'export const value = 7;\nexport const other = "not needed";',
    "twice.js": 'export * from "./all.js";\nexport * from "./deep.js";',
    "own.js":
      'import * as z from "./all.js";\nconst mine = { used: () => "mine" };\nexport { mine as z };\nexport const all = z;',
  },
  { type: "module", sideEffects: false, exports: { ".": "./index.js", "./*": "./*.js" } },
);

const settings = () => ({ packagesDir: makeFolder(PACKAGE) });

describe("findLeadingImports()", () => {
  test.for([
    ['import { z } from "zod";', [["z", "z"]]],
    [
      "import{z as y,ZodError}from'zod'",
      [
        ["z", "y"],
        ["ZodError", "ZodError"],
      ],
    ],
    [
      '/* a */ // b\n"use strict";\nimport "x";\nimport d, {\n  e,\n} from "zod";\n',
      [
        ["default", "d"],
        ["e", "e"],
      ],
    ],
    ['import from from "zod";', [["default", "from"]]],
    ['import z from "zod"\r\n', [["default", "z"]]],
  ] as const)("finds the names of %j", ([text, names]) => {
    const [found] = findLeadingImports(text).filter(({ specifier }) => specifier === "zod");
    expect(found?.names.map(({ imported, local }) => [imported, local])).toEqual(names);
  });

  test.for([
    'import type { z } from "zod";',
    'import { type z } from "zod";',
    'import type from "zod" with { type: "json" };',
    'import * as z from "zod";',
    'import { z } from "zod"; z.object({});',
    'import { "a b" as z } from "zod";',
    'import { z /* a */ } from "zod";',
    'import("zod");',
    'import d { z } from "zod";',
    'import , { z } from "zod";',
    'const text = `\nimport { z } from "zod";\n`;',
    '/* import { z } from "zod";',
    '#!/bin/node\nimport { z } from "zod";',
    "",
  ])("finds nothing in %j", (text) => {
    expect(findLeadingImports(text)).toEqual([]);
  });

  test("takes linear time", () => {
    for (const part of [" ", "import {", "from ", "/*", "//", "import from ", "a,"]) {
      expect(findLeadingImports(`import ${part.repeat(200_000)}`)).toEqual([]);
      expect(findLeadingImports(part.repeat(200_000))).toEqual([]);
    }
  });
});

describe("rewriteNamespaceImports()", () => {
  test("leaves a module with side effects in place", async () => {
    const reader = {
      resolve: async () => ({ path: "/index.js", sideEffects: true }),
      read: () => 'export * as z from "./z.js"',
    };
    const text = 'import { z } from "zod";';
    expect(await rewriteNamespaceImports(text, reader, () => "never")).toBe(text);
  });

  test("keeps the lines of the file", async () => {
    const reader = {
      resolve: async () => ({ path: "/index.js", sideEffects: false }),
      read: () => 'export * as z from "./z.js"',
    };
    const text = 'import {\n  z,\n  other\n} from "zod";\nexport default 1';
    const rewritten = await rewriteNamespaceImports(text, reader, () => "here");
    expect(rewritten).toBe('import * as z from "here"; import { other } from "zod";\n\n\n\nexport default 1');
  });
});

describe("a build", () => {
  test.for([
    ['import { z } from "shapes";', "z.used()", "used"],
    ['import z from "shapes";', "z.used()", "used"],
    ['import { z as shape, used } from "shapes";', "shape.used() + used()", "usedused"],
    ['import { deep } from "shapes";', "deep.value", 7],
    ['import { z } from "shapes/own";', "z.used()", "mine"],
    ['import { all } from "shapes/own";', "all.used()", "used"],
    ['import { z } from "shapes";\nimport * as all from "shapes";', "z === all.z", true],
    ['import { z } from "shapes";', "Object.keys(z).join()", "deep,unused,used"],
  ] as const)("%s: %s", async ([imports, expression, value]) => {
    expect(await resultOf({ source: `${imports}\nexport default () => ${expression}` }, settings())).toBe(value);
  });

  test("leaves out what a tool does not use of a namespace", async () => {
    const source = 'import { z } from "shapes";\nexport default () => z.used()';
    expect((await buildHere({ source }, settings())).code).not.toContain("never called");
    const nested = 'import { deep } from "shapes/twice";\nexport default () => deep.value';
    expect((await evaluate(await buildHere({ source: nested }, settings()))).value).toBe(7);
  });

  test("bundles zod's locales only for a tool that uses them", async () => {
    const source =
      'import { z } from "zod";\nexport default () => z.object({ a: z.string() }).safeParse({ a: "x" }).success';
    const small = await buildHere({ source }, { packagesDir: REPOSITORY });
    const whole = await buildHere({ source: `${source} && z` }, { packagesDir: REPOSITORY });
    expect((await evaluate(small)).value).toBe(true);
    expect(small.code.length).toBeLessThan(whole.code.length / 2);
    expect(small.packages).toEqual(whole.packages);
  });

  test("still rejects a package that is not allowed", async () => {
    const source = 'import { z } from "shapes";\nexport default () => z.used()';
    const denied = buildHere({ source }, { ...settings(), allowPackages: ["other"] });
    await expect(denied).rejects.toThrow("the package shapes is not on the allow list");
    const own = 'import * as z from "glovebox-namespace:0";\nimport { z as y } from "shapes";\nexport default [z, y]';
    await expect(buildHere({ source: own }, settings())).rejects.toThrow("modules cannot be loaded from a URL");
  });
});
