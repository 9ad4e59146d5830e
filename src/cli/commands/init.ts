// glovebox init: creates a folder with a tool that works, its test, and an example input.
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { makeFolder } from "../../bundler/locate/make-folder.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, toWriteError, UsageError } from "../usage.ts";

const toolSource = (name: string): string => `import { defineTool } from "glovebox/tool";

export default defineTool({
  name: ${JSON.stringify(name)},
  description: "Counts how often each word occurs in a text",
  inputSchema: {
    type: "object",
    properties: {
      text: { type: "string", description: "The text to count in" },
      top: { type: "integer", minimum: 1, maximum: 100, description: "Number of words to return (default: 10)" },
    },
    required: ["text"],
    additionalProperties: false,
  },
  async execute({ text, top = 10 }, ctx) {
    const counts = new Map<string, number>();
    for (const [word] of text.toLowerCase().matchAll(/[\\p{L}\\p{N}]+/gu)) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    ctx.log("Counted", { distinct: counts.size });
    const words = [...counts].sort((a, b) => b[1] - a[1]).slice(0, top);
    return { words: words.map(([word, count]) => ({ word, count })) };
  },
});
`;

const TEST_SOURCE = `import { openTool } from "glovebox/testing";
import { expect, test } from "vitest";
import example from "./example.json" with { type: "json" };

test("counts the words of the example", { timeout: 120_000 }, async () => {
  await using tool = await openTool(import.meta.dirname);
  expect(await tool.output(example)).toEqual({
    words: [
      { word: "the", count: 3 },
      { word: "dog", count: 2 },
      { word: "quick", count: 1 },
    ],
  });
});

test("takes a text, and nothing else", { timeout: 120_000 }, async () => {
  await using tool = await openTool(import.meta.dirname);
  expect(await tool.failure({ text: 1 })).toMatch(/^PARAM_INVALID/);
});
`;

const EXAMPLE = { text: "the quick brown fox jumps over the lazy dog, and the dog sleeps", top: 3 };

/** Quotes a word for a POSIX shell if necessary, so that printed commands can be copied. */
const toShellWord = (text: string): string =>
  /^[\w./@%+=:,][\w./@%+=:,-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

export async function initCommand({ positionals: [folder = ""] }: Arguments, io: Io): Promise<number> {
  const name = basename(folder);
  if (!TOOL_NAME_PATTERN.test(name) || /^[.-]/.test(name)) {
    throw new UsageError(`Expected a name of ${TOOL_NAME_RULE}, got "${name}"`);
  }
  try {
    await makeFolder(folder, 0o777);
    // "wx" never overwrites an existing file.
    await writeFile(join(folder, "tool.ts"), toolSource(name), { flag: "wx" });
    await writeFile(join(folder, "tool.test.ts"), TEST_SOURCE, { flag: "wx" });
    await writeFile(join(folder, "example.json"), `${JSON.stringify(EXAMPLE, null, 2)}\n`, { flag: "wx" });
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "EEXIST") throw new UsageError(`${folder} already contains a tool; nothing was written`);
    throw toWriteError(folder, thrown);
  }
  const [tool, test, example] = ["tool.ts", "tool.test.ts", "example.json"].map((file) => join(folder, file));
  const [folderWord, exampleWord] = [folder, example ?? ""].map(toShellWord);
  io.stdout.print(`Wrote ${tool}, ${test} and ${example}. Try it:\n\n`);
  io.stdout.print(`  glovebox run ${folderWord} --input-file ${exampleWord}\n`);
  io.stdout.print(`  glovebox dev ${folderWord} --input-file ${exampleWord}\n`);
  io.stdout.print(`  glovebox test ${folderWord}\n`);
  return 0;
}
