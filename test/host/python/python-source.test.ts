// Which sources are Python tools, and which of their files are included.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { createStackMapper } from "../../../src/bundler/compile/source-map.ts";
import { importedFiles } from "../../../src/host/python/python-imports.ts";
import { createToolRuns, toSnippetRun } from "../../../src/host/python/python-run.ts";
import { locatePythonTool, toPythonBundle } from "../../../src/host/python/python-source.ts";
import { createPythonStackMapper } from "../../../src/host/python/python-stack.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { expectLinearTime } from "../../support/processes.ts";

const MiB = 1024 * 1024;

function folderOf(files: { readonly [path: string]: string }): string {
  const folder = mkdtempSync(join(tmpdir(), "python-source-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

describe("importedFiles()", () => {
  test.for([
    ["import helpers", "tool.py", ["helpers.py", "helpers/__init__.py"]],
    [
      "  import a.b as c, d # x",
      "tool.py",
      ["a.py", "a/__init__.py", "a/b.py", "a/b/__init__.py", "d.py", "d/__init__.py"],
    ],
    ["from a import b", "tool.py", ["a.py", "a/__init__.py", "a/b.py", "a/b/__init__.py"]],
    ["from . import b", "a/tool.py", ["a/b.py", "a/b/__init__.py"]],
    ["from ..c import d", "a/b/tool.py", ["a/c.py", "a/c/__init__.py", "a/c/d.py", "a/c/d/__init__.py"]],
    ["from ... import d", "a/tool.py", []],
    [
      "from a import (\n  b,\n  c as d,\n)",
      "tool.py",
      ["a.py", "a/__init__.py", "a/b.py", "a/b/__init__.py", "a/c.py", "a/c/__init__.py"],
    ],
    ["important = 1\nfromage = 2", "tool.py", []],
    ["import größe", "tool.py", ["größe.py", "größe/__init__.py"]],
    ["from a import *", "tool.py", ["a.py", "a/__init__.py"]],
  ] as const)("the imported files of %j in %s are %j", ([code, importer, files]) => {
    expect([...importedFiles(importer, code)]).toEqual(files);
  });

  test("never names a file outside the folder, for any text", () => {
    const word = fc.constantFrom(
      "import ",
      "from ",
      ".",
      "..",
      "a",
      "/",
      "\\",
      " ",
      "\n",
      ",",
      "(",
      ")",
      "as",
      "../x",
      "\0",
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 40 }), (words) => {
        for (const file of importedFiles("a/tool.py", words.join("")))
          expect(file).toMatch(/^(?:[\p{ID_Continue}]+\/)*[\p{ID_Continue}]+\.py$/u);
      }),
    );
  });

  test("takes linear time for a long text", () => {
    for (const piece of ["from a import (", "from a import (\n", "a."])
      expectLinearTime((size) => importedFiles("tool.py", `import ${piece.repeat(size)}`), 6_000);
    for (const piece of [".", "\t", "a", "a.", ".\t"])
      expectLinearTime((size) => importedFiles("tool.py", `from ${piece.repeat(size)}!`), 6_000);
  });
});

describe("locatePythonTool()", () => {
  test("reads a file by its extension, with only what it imports of its folder", () => {
    const folder = folderOf({
      "count.py": "import words\nfrom lib.text import split",
      "words.py": "from lib import other",
      "lib/__init__.py": "",
      "lib/text.py": "",
      "unused.py": "",
      ".hidden.py": "",
    });
    const found = locatePythonTool({ path: join(folder, "count.py") }, undefined, MiB);
    expect(found?.entry).toBe("count.py");
    expect(Object.keys(found?.files ?? {}).sort()).toEqual(["lib/__init__.py", "lib/text.py", "words.py"]);
    expect(found?.paths).toContain(join(folder, "lib/text.py"));
    expect(found?.paths).toContain(join(folder, "words/__init__.py"));
  });

  test.for([
    [{ "tool.py": "1" }, "tool.py"],
    [{ "main.py": "1" }, "main.py"],
    [{ "main.py": "1", "tool.py": "1" }, "tool.py"],
    [{ "tool.ts": "1", "tool.py": "1" }, undefined],
    [{ "other.py": "1" }, undefined],
  ] as const)("the Python tool %j has the entry %s, as a folder and as files", ([files, entry]) => {
    expect(locatePythonTool({ path: folderOf(files) }, undefined, MiB)?.entry).toBe(entry);
    expect(locatePythonTool({ files }, undefined, MiB)?.entry).toBe(entry);
  });

  test("ignores other languages", () => {
    expect(locatePythonTool({ source: "print(1)" }, undefined, MiB)).toBeUndefined();
    expect(locatePythonTool({ path: "/no/such/tool.py" }, undefined, MiB)).toBeUndefined();
    expect(locatePythonTool({ files: { "a.ts": "" }, entry: "a.ts" }, undefined, MiB)).toBeUndefined();
    expect(locatePythonTool({ files: { "a.py": "" }, entry: "a.py" }, "typescript", MiB)).toBeUndefined();
  });

  test.for([
    [{ path: "/no/such/tool.py" }, /"tool\.py" is not a Python tool/],
    [{ files: {} }, /no entry in Python/],
    [{ files: { "a.ts": "" }, entry: "a.ts" }, /"a\.ts" is not a Python file/],
    [{ files: { "main.py": "" }, entry: "b.py" }, /"b\.py" is not a file/],
    [{ files: { "main.py": "", "../x.py": "" } }, /it leaves the tool's folder/],
    [{ files: { "main.py": "\uD800" } }, /not Unicode text/],
    [{ source: "#".repeat(MiB + 1) }, /sourceBytes is 1048576 bytes/],
  ] as const)("rejects %#", ([source, message]) => {
    const locate = (): unknown => locatePythonTool(source, "python", MiB);
    expect(locate).toThrow(message);
    expect(locate).toThrow(expect.objectContaining({ code: "BUNDLE_FAILED" }));
  });

  test("follows no link out of the folder, and reads no more than the limit", () => {
    const outside = folderOf({ "secret.py": "SECRET = 1" });
    const folder = folderOf({ "tool.py": "import secret, big", "big.py": "#".repeat(2_000) });
    symlinkSync(join(outside, "secret.py"), join(folder, "secret.py"));
    expect(locatePythonTool({ path: folder }, undefined, MiB)?.files).not.toHaveProperty(["secret.py"]);
    expect(() => locatePythonTool({ path: folder }, undefined, 1_000)).toThrow(/sourceBytes is 1000/);
  });

  test("hashes all its files", () => {
    const hashes = [
      { source: "1" },
      { source: "2" },
      { files: { "tool.py": "1", "a.py": "" } },
      { files: { "tool.py": "1", "a.py": "1" } },
      { files: { "tool.py": "1", "b.py": "1" } },
    ].map((source) => locatePythonTool(source, "python", MiB)?.sha256);
    expect(new Set(hashes).size).toBe(5);
  });
});

describe("the input of a call", () => {
  test("is one JSON text for any code and arguments", () => {
    fc.assert(
      fc.property(fc.string(), fc.json(), fc.boolean(), (code, json, isLarge) => {
        const source = locatePythonTool({ source: code.toWellFormed() }, "python", MiB);
        if (source === undefined) throw new Error("no source");
        const args = isLarge ? Buffer.from(json) : json;
        const run = JSON.parse(createToolRuns(source).toRun(args, DEFAULT_LIMITS, false).toString());
        expect(run).toEqual({
          mode: "tool",
          code: code.toWellFormed(),
          fileName: "tool.py",
          files: {},
          memoryMiB: 128,
          input: JSON.parse(json),
        });
        const snippet = JSON.stringify({ code, input: JSON.parse(json) });
        const given = isLarge ? Buffer.from(snippet) : snippet;
        expect(JSON.parse(toSnippetRun(given, DEFAULT_LIMITS, true).toString())).toMatchObject({ mode: "session" });
        expect(JSON.parse(toSnippetRun(given, DEFAULT_LIMITS, false).toString())).toEqual({
          mode: "exec",
          fileName: "snippet.py",
          memoryMiB: 128,
          ...JSON.parse(snippet),
        });
      }),
    );
  });
});

describe("createPythonStackMapper()", () => {
  const files = new Map([["tool.py", "def main(input):\n    return 1 / 0"]]);
  const mapper = createPythonStackMapper(files);
  const stack =
    "ZeroDivisionError: division by zero\n    at main (tool.py:2:12)\n    at x (/usr/lib/python/json.py:1:1)";

  test("keeps frames of the author's own files only", () => {
    const mapped = mapper.mapStack(stack);
    expect(mapped.frames).toEqual([{ file: "tool.py", line: 2, column: 12, functionName: "main", isOwn: true }]);
    expect(mapped.stack).toBe("ZeroDivisionError: division by zero\n    at main (tool.py:2:12)");
  });

  test("shows the line, as the bundle's own source map does", () => {
    const [frame] = mapper.mapStack(stack).frames;
    const shown = "  1 | def main(input):\n> 2 |     return 1 / 0\n    |            ^";
    expect(frame && mapper.codeFrameOf(frame)).toBe(shown);
    const source = locatePythonTool({ files: Object.fromEntries(files) }, "python", MiB);
    expect(frame && source && createStackMapper(toPythonBundle(source).sourceMap).codeFrameOf(frame)).toBe(shown);
  });

  test("limits the size of a guest's stack", () => {
    const flood = `E\n${"    at f (tool.py:1:1)\n".repeat(10_000)}`;
    expect(mapper.mapStack(flood).frames).toHaveLength(50);
    expect(mapper.mapStack("x".repeat(1_000_000)).stack.length).toBeLessThan(5_000);
  });
});
