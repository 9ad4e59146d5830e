// glovebox types: the inputs and outputs of a set of tools as a declaration file, for who calls them in TypeScript.
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ENTRY_NAMES, PYTHON_ENTRY_NAMES } from "../../bundler/locate/tool-paths.ts";
import { createGlovebox } from "../../host/glovebox/glovebox.ts";
import { methodKey, SchemaTypes, TypeNames, toComment, toTypeName } from "../../host/json-schema/schema-types.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { openBox } from "../shared/open-glovebox.ts";
import { printError } from "../shared/print.ts";
import { createShowCode } from "../shared/source-lines.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, toWriteError, UsageError } from "../usage.ts";

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
const hasEntry = (folder: string): boolean =>
  [...ENTRY_NAMES, ...PYTHON_ENTRY_NAMES].some((name) => isFile(join(folder, name)));

/** A tool, or a folder of folders that are tools. @throws {UsageError} for what is neither */
function toolsAt(path: string): readonly string[] {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw new UsageError(`There is no file or folder "${path}"`);
  if (!stats.isDirectory() || hasEntry(path)) return [path];
  const folders = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const tools = folders.map(({ name }) => join(path, name)).filter(hasEntry);
  if (tools.length > 0) return tools.sort();
  throw new UsageError(
    `${path} has no tools; expected a tool, or a folder of folders with one of ${[...ENTRY_NAMES, ...PYTHON_ENTRY_NAMES].join(", ")}`,
  );
}

/** One declaration file for these tools. */
export function toDeclarations(definitions: readonly ToolDefinition[]): string {
  const names = new TypeNames();
  const blocks: string[] = [];
  const methods: string[] = [];
  for (const { name, description, inputSchema, outputSchema } of definitions) {
    const prefix = names.take(toTypeName(name));
    const input = names.take(`${prefix}Input`);
    const output = names.take(`${prefix}Output`);
    for (const [type, schema, what] of [
      [input, inputSchema, "takes"],
      [output, outputSchema ?? {}, "returns"],
    ] as const) {
      const types = new SchemaTypes(schema, names, type);
      blocks.push(types.declare(type, `What ${name} ${what}`), ...types.declarations);
    }
    blocks.push(`export interface ${prefix} {\n  readonly input: ${input};\n  readonly output: ${output};\n}`);
    methods.push(`${toComment(description, "  ")}  ${methodKey(name)}(input: ${input}): Promise<${output}>;`);
  }
  const tools = `export interface Tools {\n${methods.join("\n")}\n}`;
  return `${["// Written by glovebox types: a change here is lost when it is written again.", ...blocks, tools].join("\n\n")}\n`;
}

async function definitionsOf(paths: readonly string[], io: Io): Promise<readonly ToolDefinition[] | number> {
  await using box = await openBox(io, () => createGlovebox({ shutdown: false }));
  const definitions = new Map<string, ToolDefinition>();
  for (const path of paths) {
    try {
      const { definition } = await box.inspectTool({ path });
      if (definitions.has(definition.name))
        throw new UsageError(`${path}: there is another tool named "${definition.name}"`);
      definitions.set(definition.name, definition);
    } catch (thrown) {
      io.stop.throwIfAborted();
      if (!(thrown instanceof ToolError)) throw thrown;
      printError(thrown.toData(path), io.stderr, createShowCode(path, undefined));
      return thrown.code === "BUNDLE_FAILED" || thrown.code === "PARAM_INVALID" ? 2 : 1;
    }
  }
  return [...definitions.values()];
}

/** Writes to `--out`, or to stdout. */
export async function typesCommand({ values, positionals }: Arguments, io: Io): Promise<number> {
  const paths = (positionals.length === 0 ? ["."] : positionals).flatMap(toolsAt);
  const definitions = await definitionsOf(paths, io);
  if (typeof definitions === "number") return definitions;
  const text = toDeclarations(definitions);
  if (values.out === undefined) {
    io.stdout.print(text);
    return 0;
  }
  try {
    writeFileSync(String(values.out), text);
  } catch (thrown) {
    throw toWriteError(`--out ${String(values.out)}`, thrown);
  }
  io.stderr.print(`Wrote the types of ${definitions.length} tools to ${String(values.out)}\n`);
  return 0;
}
