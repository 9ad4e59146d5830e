// glovebox init: a folder with a tool that works, and an input to try it with.
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/definition.ts";
import { type Io, onePositional, readArguments, UsageError } from "./usage.ts";

const toolSource = (name: string): string => `import { defineTool } from "glovebox/tool";

export default defineTool({
  name: ${JSON.stringify(name)},
  description: "Counts how often each word occurs in a text",
  inputSchema: {
    type: "object",
    properties: {
      text: { type: "string", description: "The text to count in" },
      top: { type: "integer", minimum: 1, maximum: 100, description: "How many words to return; 10 unless given" },
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

const EXAMPLE = { text: "the quick brown fox jumps over the lazy dog, and the dog sleeps", top: 3 };

export async function initCommand(args: readonly string[], io: Io): Promise<number> {
  const folder = onePositional(readArguments(args, {}).positionals, "NAME for the tool");
  const name = basename(folder);
  if (!TOOL_NAME_PATTERN.test(name) || name.startsWith(".")) {
    throw new UsageError(`Expected a name of ${TOOL_NAME_RULE}, got "${name}"`);
  }
  try {
    await mkdir(folder, { recursive: true });
    // "wx": what is there already is never written over.
    await writeFile(join(folder, "tool.ts"), toolSource(name), { flag: "wx" });
    await writeFile(join(folder, "example.json"), `${JSON.stringify(EXAMPLE, null, 2)}\n`, { flag: "wx" });
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "EEXIST") throw new UsageError(`${folder} has a tool already; nothing was written`);
    throw new UsageError(`${folder} cannot be written: ${String(code)}`);
  }
  io.stdout.write(`Wrote ${join(folder, "tool.ts")} and ${join(folder, "example.json")}. Try it:\n\n`);
  io.stdout.write(`  glovebox run ${folder} --input-file ${join(folder, "example.json")}\n`);
  return 0;
}
