// Turns esbuild's output into the `code` and `sourceMap` of a bundle: one classic script, and no path that discloses the host.
import { resolve } from "node:path";
import { CELL_MAIN } from "../cells/cell.ts";

/** Folder of the output, which is never written. The paths in esbuild's source map are relative to it. */
const OUTPUT_FOLDER = "/glovebox";
export const OUTPUT_FILE = `${OUTPUT_FOLDER}/tool.js`;

const MODULE_COMMENT = /^\/\/ (.+)$/;
const COMMONJS_KEY = /^( {2})"(.+)"(\((?:exports|module|exports, module)?\) \{)$/;

export interface OutputNames {
  /** Display name of each path that esbuild prints (relative to its working directory). */
  readonly ofPrinted: ReadonlyMap<string, string>;
  /** Returns the name of a source in esbuild's map: `tool:x.ts`, or a path relative to {@link OUTPUT_FOLDER}. `undefined` if unknown. */
  ofSource(source: string): string | undefined;
  /** Returns the text of a source of the tool itself. */
  textOf(name: string): string | undefined;
}

/** Renames modules where esbuild names them: in a comment, and for CommonJS modules also in a key. Neither line carries a mapping. */
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
 * Wraps the code in an async arrow function, so that top-level await works and `arguments` is unbound, as in a module. The line breaks keep
 * a comment at the end of the code from commenting out the end of the wrapper.
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

/** Wraps a cell that imports nothing, and registers its only export. */
export function wrapCell(module: string, suffix: string): string {
  const register = `__glovebox_register_${suffix}`;
  const code = module.replace(
    " export default async function ",
    ` ${register}({ default: ${CELL_MAIN} }); async function `,
  );
  return `(async (${register}) => {"use strict";\n${code}\n})`;
}

/**
 * Declares a replacement for `SharedArrayBuffer.prototype`. Some packages read its getters while they load, to recognize shared memory
 * later. Where guests have no shared memory, the getters throw, as they do for any other object.
 */
export const sharedPrototypeText = (name: string): string =>
  `const ${name} = globalThis.SharedArrayBuffer?.prototype ?? { get byteLength() { throw new TypeError("There is no shared memory"); }, get growable() { throw new TypeError("There is no shared memory"); } };`;

interface EsbuildSourceMap {
  readonly sources: readonly string[];
  readonly mappings: string;
  readonly names: readonly string[];
}

/** @throws {Error} when the map names a file that the build did not load, because that could disclose a path of the host */
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
    // The semicolon skips the first line of the wrapper.
    mappings: `;${map.mappings}`,
    names: map.names,
  });
}

/** Returns the path of a source in esbuild's map, which writes paths as URLs: `[id].js` is `%5Bid%5D.js`. */
export function sourcePathOf(source: string): string {
  return resolve(OUTPUT_FOLDER, decodeUrl(source));
}

function decodeUrl(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
