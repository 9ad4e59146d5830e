// The command line with tools in Python: run, inspect, and the messages for invalid tools.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CliProcess } from "../support/cli-process.ts";
import { PYTHON_HOME } from "../support/host-zone.ts";

const SOURCES: { readonly [file: string]: string } = {
  "count.py": `"""Counts words"""
import words

input_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

def main(input):
    print("counting")
    return words.count(input["text"])
`,
  "words.py": `def count(text):
    if not text:
        raise ValueError("no text")
    return len(text.split())
`,
  "broken.py": "def main(input):\n    return [1, 2\n",
};

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "cli-python-"));
  for (const [file, source] of Object.entries(SOURCES)) await writeFile(join(folder, file), source);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function glovebox(...args: readonly string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  await using cli = new CliProcess(args, folder, PYTHON_HOME);
  const code = await cli.exit;
  return { code, stdout: cli.stdout, stderr: cli.stderr };
}

test("glovebox run calls a tool in Python, with its own modules, and prints its log", async () => {
  const { code, stdout, stderr } = await glovebox(
    "run",
    "count.py",
    "--timeout-ms",
    "240000",
    "--input",
    '{"text":"to be or not"}',
  );
  expect([code, stdout]).toEqual([0, "4\n"]);
  expect(stderr).toContain("counting");
});

test("the command line shows what a tool in Python is, and the author's line of what is wrong with one", async () => {
  const failed = await glovebox("run", "count.py", "--timeout-ms", "240000", "--input", '{"text":""}');
  const good = await glovebox("inspect", "count.py", "--json");
  const bad = await glovebox("inspect", "broken.py");
  expect(failed.code).toBe(1);
  expect(failed.stderr).toContain("TOOL_FAILED: no text");
  expect(failed.stderr).toContain('> 3 |         raise ValueError("no text")');
  expect(failed.stderr).toContain("at main (count.py:8:");
  expect(JSON.parse(good.stdout)).toMatchObject({
    definition: { name: "count", description: "Counts words", inputSchema: { required: ["text"] } },
    bundle: { entry: "count.py", inputs: expect.arrayContaining([expect.objectContaining({ path: "words.py" })]) },
  });
  expect(bad.code).toBe(2);
  expect(bad.stderr).toMatch(/^BUNDLE_FAILED: broken\.py:2:\d+: SyntaxError: /);
  expect(bad.stderr).toContain("> 2 |     return [1, 2");
});
