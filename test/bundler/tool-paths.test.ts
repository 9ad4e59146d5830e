// Tests the rules for a tool's own paths, which are pure functions, with arbitrary input.
import { posix } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { packageNameOf } from "../../src/bundler/locate/package-store.ts";
import { candidatesOf, loaderOf, resolveRelative, toolPathIssue } from "../../src/bundler/locate/tool-paths.ts";

const segment = fc.oneof(
  fc.constantFrom(
    "..",
    ".",
    "",
    "a",
    "b.ts",
    "node_modules",
    ".env",
    "...",
    "..a",
    "a..",
    "%2e%2e",
    "~",
    "\\",
    "\0",
    "C:",
  ),
  fc.string({ maxLength: 6 }),
  fc.string({ unit: "binary", maxLength: 4 }),
);
const path = fc.array(segment, { maxLength: 8 }).map((segments) => segments.join("/"));
const specifier = fc.oneof(
  path,
  path.map((tail) => `./${tail}`),
  path.map((tail) => `../${tail}`),
  path.map((tail) => `/${tail}`),
);
const importer = fc.constantFrom("tool.ts", "lib/a.ts", "lib/deep/er/b.ts");

function staysInside(candidate: string): boolean {
  const at = posix.resolve("/root/tool", candidate);
  return (
    at.startsWith("/root/tool/") && !candidate.startsWith("/") && !candidate.includes("\\") && !candidate.includes("\0")
  );
}

describe("resolveRelative()", () => {
  test("never leaves the tool's folder for any input", () => {
    fc.assert(
      fc.property(importer, specifier, (from, to) => {
        const resolution = resolveRelative(from, to);
        if (!resolution.ok || resolution.path === ".") return;
        expect(staysInside(resolution.path)).toBe(true);
        expect(resolution.path.split("/").some((part) => part.startsWith(".") || part === "node_modules")).toBe(false);
        expect(posix.normalize(resolution.path)).toBe(resolution.path);
      }),
      { numRuns: 5_000 },
    );
  });

  test("resolves like Node where it resolves", () => {
    fc.assert(
      fc.property(
        importer,
        path.map((tail) => `./${tail}`),
        (from, to) => {
          const resolution = resolveRelative(from, to);
          if (!resolution.ok) return;
          const expected = posix.resolve("/root/tool", posix.dirname(from), to);
          expect(posix.resolve("/root/tool", resolution.path)).toBe(expected);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test.for([
    ["tool.ts", "./a", "a"],
    ["lib/x.ts", "../a.ts", "a.ts"],
    ["lib/x.ts", ".", "lib"],
    ["lib/x.ts", "..", "."],
    ["tool.ts", "./", "."],
    ["tool.ts", "./lib/", "lib"],
    ["tool.ts", "./..a/b", undefined],
    ["tool.ts", "..", undefined],
    ["tool.ts", "../tool/a", undefined],
    ["lib/x.ts", "../../a", undefined],
  ] as const)("%s imports %s", ([from, to, expected]) => {
    const resolution = resolveRelative(from, to);
    expect(resolution.ok ? resolution.path : undefined).toBe(expected);
  });
});

describe("candidatesOf()", () => {
  test("returns only files of known types inside the tool", () => {
    fc.assert(
      fc.property(importer, specifier, (from, to) => {
        const resolution = resolveRelative(from, to);
        if (!resolution.ok) return;
        for (const candidate of candidatesOf(resolution.path)) {
          expect(loaderOf(candidate)).toBeDefined();
          expect(staysInside(candidate)).toBe(true);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("prefers the file itself, then its TypeScript source, then added extensions", () => {
    expect(candidatesOf("a.js").slice(0, 4)).toEqual(["a.js", "a.ts", "a.tsx", "a.js.ts"]);
    expect(candidatesOf("a").slice(0, 2)).toEqual(["a.ts", "a.tsx"]);
    expect(candidatesOf("a").at(-1)).toBe("a/index.json");
    expect(candidatesOf(".")[0]).toBe("index.ts");
  });
});

describe("toolPathIssue()", () => {
  test("accepts only plain relative paths", () => {
    fc.assert(
      fc.property(path, (candidate) => {
        if (toolPathIssue(candidate) !== undefined) return;
        expect(staysInside(candidate)).toBe(true);
        expect(posix.normalize(candidate)).toBe(candidate);
      }),
      { numRuns: 5_000 },
    );
  });
});

describe("packageNameOf()", () => {
  test("never returns a name or a path that leads upwards", () => {
    fc.assert(
      fc.property(path, (candidate) => {
        const name = packageNameOf(candidate);
        if (name === undefined) return;
        expect(posix.resolve("/store", name).startsWith("/store/")).toBe(true);
        expect(posix.resolve("/store", candidate).startsWith(`/store/${name}`)).toBe(true);
        expect(name.split("/").length).toBe(name.startsWith("@") ? 2 : 1);
      }),
      { numRuns: 5_000 },
    );
  });

  test.for([
    ["zod", "zod"],
    ["zod/v4/core", "zod"],
    ["@a/b", "@a/b"],
    ["@a/b/c.js", "@a/b"],
    ["punycode/", "punycode"],
    ["JSONStream", "JSONStream"],
    ["@a", undefined],
    ["@a/", undefined],
    ["@/b", undefined],
    ["@../b", undefined],
    ["zod//x", undefined],
    ["zod/../x", undefined],
    [".hidden", undefined],
    ["node_modules", undefined],
    ["a b", undefined],
    ["", undefined],
  ] as const)("%s belongs to %s", ([candidate, name]) => {
    expect(packageNameOf(candidate)).toBe(name);
  });
});
