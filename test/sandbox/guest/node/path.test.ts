// Compares node:path in a guest with Node's own.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GuestTool, openGuest } from "../../../support/guest.ts";

type Call = readonly [flavour: "posix" | "win32", name: string, ...args: unknown[]];

function run(calls: readonly Call[]): unknown {
  const path = process.getBuiltinModule("node:path") as unknown as {
    readonly [flavour: string]: { readonly [name: string]: (...args: unknown[]) => unknown };
  };
  return calls.map(([flavour, name, ...args]) => {
    try {
      return path[flavour]?.[name]?.(...args) ?? null;
    } catch (error) {
      return (error as { code?: string }).code ?? "thrown";
    }
  });
}

const ONE_PATH = ["normalize", "dirname", "basename", "extname", "parse", "isAbsolute"];

describe("node:path", () => {
  let guest: GuestTool;
  beforeAll(async () => {
    guest = await openGuest(run);
  });
  afterAll(() => guest[Symbol.asyncDispose]());

  const expectLikeNode = async (calls: readonly Call[]): Promise<void> => {
    const { value } = await guest.call<unknown[]>(calls);
    const here = run(calls) as unknown[];
    expect(calls.map((call, index) => [call, value[index]])).toEqual(calls.map((call, index) => [call, here[index]]));
  };

  test.for(["posix", "win32"] as const)("%s returns the same as Node for a table of paths", async (flavour) => {
    const paths = [
      "",
      ".",
      "..",
      "/",
      "//",
      "a",
      "a/",
      "a/b",
      "/a",
      "/a/",
      "/a/b/../c",
      "../a",
      "a/../..",
      "a//b",
      "./a",
    ];
    const names = [...paths, "a.b", ".a", ".a.b", "a.", "a.b.", "..a", "...", "/a.b/c", "a.b/", "/a/b.c/"];
    await expectLikeNode(names.flatMap((path) => ONE_PATH.map((name) => [flavour, name, path] as const)));
    await expectLikeNode([
      [flavour, "basename", "/a/b.html", ".html"],
      [flavour, "basename", ".html", ".html"],
      [flavour, "basename", "/a/.html", ".html"],
      [flavour, "basename", "/a/b.html", ".htm"],
      [flavour, "format", { root: "/", base: "x" }],
      [flavour, "format", { dir: "/a", name: "b", ext: "c" }],
      [flavour, "format", { name: "b", ext: ".c" }],
      [flavour, "join"],
      [flavour, "join", "", ""],
      [flavour, "join", "a", "..", "..", "b/"],
      [flavour, "join", 1],
      [flavour, "normalize", null],
      [flavour, "dirname", {}],
      [flavour, "matchesGlob", "/a/b.js", "/a/*.js"],
      [flavour, "matchesGlob", "/a/b/c.js", "/a/**/*.js"],
      [flavour, "matchesGlob", "/a/b.ts", "/a/*.{js,ts}"],
      [flavour, "matchesGlob", "/a/b.ts", "/a/?.js"],
    ]);
  });

  test("win32 supports drives, shares and both separators", async () => {
    const paths = [
      "C:\\",
      "C:\\a",
      "C:/a/b/..",
      "c:a",
      "\\\\server\\share\\x",
      "\\a\\b",
      "a\\b\\..\\c",
      "C:\\a\\b.txt",
    ];
    await expectLikeNode([
      ...paths.flatMap((path) => ONE_PATH.map((name) => ["win32", name, path] as const)),
      ["win32", "join", "C:\\a", "..", "b"],
      ["win32", "resolve", "C:\\a", "b", "..\\c"],
      ["win32", "resolve", "C:\\a", "D:\\b"],
      ["win32", "relative", "C:\\a\\b", "C:\\a\\C\\d"],
      ["win32", "relative", "C:\\a", "D:\\b"],
    ]);
  });

  test("posix returns the same as Node for any path", async () => {
    const path = fc.string({ unit: fc.constantFrom("a", "b", ".", "/"), maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(path, path, async (a, b) => {
        // Node reports "." as the extension of "/..".
        fc.pre(!/\/\.\.\/*$/.test(a));
        await expectLikeNode([
          ...ONE_PATH.map((name) => ["posix", name, a] as const),
          ["posix", "join", a, b],
          ["posix", "resolve", "/", a, b],
          ["posix", "relative", `/${a}`, `/${b}`],
        ]);
      }),
      { numRuns: 300 },
    );
  });
});
