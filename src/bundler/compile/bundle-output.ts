// esbuild's output as a bundle's `code` and `sourceMap`: one classic script, and paths that say nothing of the host.
import { resolve } from "node:path";
import { CELL_MAIN } from "../cells/cell.ts";

/** Where esbuild pretends to write: its source map's paths are relative to this folder. */
const OUTPUT_FOLDER = "/glovebox";
export const OUTPUT_FILE = `${OUTPUT_FOLDER}/tool.js`;

const MODULE_COMMENT = /^\/\/ (.+)$/;
const COMMONJS_KEY = /^( {2})"(.+)"(\((?:exports|module|exports, module)?\) \{)$/;

export interface OutputNames {
  /** The name for a path that esbuild prints (relative to its working directory). */
  readonly ofPrinted: ReadonlyMap<string, string>;
  /** The name for a source of esbuild's map: `tool:x.ts`, or a path relative to {@link OUTPUT_FOLDER}; `undefined` for a stranger. */
  ofSource(source: string): string | undefined;
  /** The text of a source of the tool itself. */
  textOf(name: string): string | undefined;
}

/** esbuild names each module in a comment, and CommonJS ones in a key too; neither line carries a mapping. */
function renameModules(code: string, names: ReadonlyMap<string, string>): string {
  if ([...names].every(([printed, name]) => printed === name)) return code;
  const lines = code.split("\n").map((line) => {
    const comment = MODULE_COMMENT.exec(line)?.[1];
    if (comment !== undefined) return `// ${names.get(comment) ?? comment}`;
    const [, indent, key = "", rest] = COMMONJS_KEY.exec(line) ?? [];
    const name = names.get(key);
    return name === undefined ? line : `${indent}${JSON.stringify(name)}${rest}`;
  });
  return lines.join("\n");
}

/**
 * An async arrow around the module's code, so that top-level await works, and so that `arguments` is as unbound as in a
 * module. The line breaks keep a comment at the end of the code from swallowing the end of the wrapper.
 */
export function wrapCode(
  code: string,
  parameters: readonly string[],
  names: OutputNames,
  { isStrict, preamble }: { readonly isStrict: boolean; readonly preamble: string },
): string {
  const directive = isStrict ? '"use strict";' : "";
  return `(async (${parameters.join(", ")}) => {${directive}${preamble}\n${renameModules(code, names.ofPrinted)}\n})`;
}

/** The same around a cell that imports nothing: its only export is what is registered. */
export function wrapCell(module: string, suffix: string): string {
  const register = `__glovebox_register_${suffix}`;
  const code = module.replace(
    " export default async function ",
    ` ${register}({ default: ${CELL_MAIN} }); async function `,
  );
  return `(async (${register}) => {"use strict";\n${code}\n})`;
}

/**
 * Some packages read getters of `SharedArrayBuffer.prototype` while they load, to tell later what is shared memory. Where guests have
 * none, nothing is: the getters throw, as for any other object.
 */
export const sharedPrototypeText = (name: string): string =>
  `const ${name} = globalThis.SharedArrayBuffer?.prototype ?? { get byteLength() { throw new TypeError("There is no shared memory"); }, get growable() { throw new TypeError("There is no shared memory"); } };`;

interface EsbuildSourceMap {
  readonly sources: readonly string[];
  readonly mappings: string;
  readonly names: readonly string[];
}

/** @throws {Error} when the map names a file that the build did not load: nothing of the host may come along */
export function finishSourceMap(text: string, names: OutputNames): string {
  const map = JSON.parse(text) as EsbuildSourceMap;
  const sources = map.sources.map((source) => {
    const name = names.ofSource(source);
    if (name === undefined) throw new Error("Expected only loaded files in the source map");
    return name;
  });
  return JSON.stringify({
    version: 3,
    sources,
    sourcesContent: sources.map((name) => names.textOf(name) ?? null),
    // The wrapper's first line.
    mappings: `;${map.mappings}`,
    names: map.names,
  });
}

export function sourcePathOf(source: string): string {
  return resolve(OUTPUT_FOLDER, source);
}
