// glovebox inspect: shows the definition, imports and sizes of a tool without calling it.

import type { ToolInspection } from "../../host/config/tool-options.ts";
import { createGlovebox } from "../../host/glovebox/create-glovebox.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { openGlovebox } from "../shared/open-glovebox.ts";
import { printError, printJson, printWarnings } from "../shared/print.ts";
import { findPackages } from "../shared/project-root.ts";
import { createShowCode } from "../shared/source-lines.ts";
import type { Io } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

const SHOWN_INPUTS = 10;

const kib = (bytes: number): string => `${(bytes / 1024).toFixed(1)} KiB`;

function section(title: string, value: unknown): string {
  return `${title}\n${JSON.stringify(value, null, 2).replace(/^/gm, "  ")}\n`;
}

/** Describes dynamic code, if any: it needs a grant where dynamic code is turned off. */
const describeDynamicCode = (uses: readonly string[]): readonly string[] =>
  uses.length === 0
    ? []
    : [`Uses dynamic code (eval, Function; grant stringToCode if it is off)\n  ${uses.join(", ")}\n`];

function describeTool({ definition, bundle, codeCacheBytes }: ToolInspection): string {
  const { name, description, inputSchema, outputSchema, annotations, capabilities, limits } = definition;
  const rest = bundle.inputs.length - SHOWN_INPUTS;
  const inputs = bundle.inputs.slice(0, SHOWN_INPUTS).map(({ path, bytes }) => `  ${kib(bytes).padStart(10)}  ${path}`);
  return [
    `${name}${description === "" ? "" : `: ${description}`}\n`,
    section("Input schema", inputSchema),
    ...(outputSchema === undefined ? [] : [section("Output schema", outputSchema)]),
    ...(annotations === undefined ? [] : [section("Annotations", annotations)]),
    ...(capabilities === undefined ? [] : [section("Requested capabilities", capabilities)]),
    ...(limits === undefined ? [] : [section("Limits", limits)]),
    `Packages\n  ${bundle.packages.length === 0 ? "none" : bundle.packages.join(", ")}\n`,
    ...describeDynamicCode(bundle.dynamicCode),
    `Files in the bundle\n${inputs.join("\n")}${rest > 0 ? `\n  and ${rest} more` : ""}\n`,
    `Sizes\n  code ${kib(bundle.code.length)}, source map ${kib(bundle.sourceMap.length)}, code cache ${kib(codeCacheBytes)}`,
    `Bundle\n  sha256 ${bundle.sha256}`,
  ].join("\n");
}

function toJson({ definition, bundle, codeCacheBytes, warnings }: ToolInspection): object {
  const { sha256, entry, exports, inputs, packages, dynamicCode, code, sourceMap } = bundle;
  const sizes = { code: code.length, sourceMap: sourceMap.length, codeCache: codeCacheBytes };
  return { definition, warnings, bundle: { sha256, entry, exports, packages, dynamicCode, inputs, sizes } };
}

export async function inspectCommand(given: Arguments, io: Io): Promise<number> {
  const {
    values,
    positionals: [path = ""],
  } = given;
  await using glovebox = await openGlovebox(io, () =>
    createGlovebox({ ...findPackages([path], given), shutdown: false }),
  );
  try {
    const tool = await glovebox.inspectTool({ path });
    printWarnings(tool.warnings, io.stderr);
    if (values.json === true) printJson(toJson(tool), io.stdout);
    else io.stdout.print(`${describeTool(tool)}\n`);
    return 0;
  } catch (thrown) {
    io.stop.throwIfAborted();
    if (!(thrown instanceof ToolError)) throw thrown;
    if (values.json === true) printJson({ error: thrown.toData(path) }, io.stdout);
    else printError(thrown.toData(path), io.stderr, createShowCode(path, undefined));
    return thrown.code === "BUNDLE_FAILED" || thrown.code === "PARAM_INVALID" ? 2 : 1;
  }
}
