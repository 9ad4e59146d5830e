// glovebox inspect: what a tool is, before anyone runs it.
import { ToolError } from "../../sandbox/errors.ts";
import { createGlovebox, type ToolInspection } from "../runtime.ts";
import { printable, printError } from "./print.ts";
import { createShowCode } from "./source-lines.ts";
import { type Io, onePositional, readArguments } from "./usage.ts";

const SHOWN_INPUTS = 10;

const kib = (bytes: number): string => `${(bytes / 1024).toFixed(1)} KiB`;

function section(title: string, value: unknown): string {
  return `${title}\n${JSON.stringify(value, null, 2).replace(/^/gm, "  ")}\n`;
}

function describeTool({ definition, bundle, codeCacheBytes }: ToolInspection): string {
  const { name, description, inputSchema, outputSchema, annotations, capabilities, limits } = definition;
  const rest = bundle.inputs.length - SHOWN_INPUTS;
  const inputs = bundle.inputs.slice(0, SHOWN_INPUTS).map(({ path, bytes }) => `  ${kib(bytes).padStart(10)}  ${path}`);
  return [
    `${name}${description === "" ? "" : `: ${description}`}\n`,
    section("Input schema", inputSchema),
    ...(outputSchema === undefined ? [] : [section("Output schema", outputSchema)]),
    ...(annotations === undefined ? [] : [section("Annotations", annotations)]),
    ...(capabilities === undefined ? [] : [section("Capabilities asked for", capabilities)]),
    ...(limits === undefined ? [] : [section("Limits of its own", limits)]),
    `Packages\n  ${bundle.packages.length === 0 ? "none" : bundle.packages.join(", ")}\n`,
    `Files in the bundle\n${inputs.join("\n")}${rest > 0 ? `\n  and ${rest} more` : ""}\n`,
    `Sizes\n  code ${kib(bundle.code.length)}, source map ${kib(bundle.sourceMap.length)}, code cache ${kib(codeCacheBytes)}`,
    `Bundle\n  sha256 ${bundle.sha256}`,
  ].join("\n");
}

function toJson({ definition, bundle, codeCacheBytes }: ToolInspection): object {
  const { sha256, entry, exports, inputs, packages, code, sourceMap } = bundle;
  const sizes = { code: code.length, sourceMap: sourceMap.length, codeCache: codeCacheBytes };
  return { definition, bundle: { sha256, entry, exports, packages, inputs, sizes } };
}

export async function inspectCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = readArguments(args, { json: { type: "boolean" } });
  const path = onePositional(positionals, "PATH of a tool");
  await using box = await createGlovebox();
  try {
    const tool = await box.inspectTool({ path });
    io.stdout.write(`${values.json === true ? JSON.stringify(toJson(tool)) : printable(describeTool(tool))}\n`);
    return 0;
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    if (values.json === true) io.stdout.write(`${JSON.stringify({ error: thrown.toData(path) })}\n`);
    else printError(thrown.toData(path), io.stderr, createShowCode(path, undefined));
    return thrown.code === "BUNDLE_FAILED" || thrown.code === "PARAM_INVALID" ? 2 : 1;
  }
}
