// Gives default imports of CommonJS in a tool's own files the meaning that they have in Node: the value of `module.exports`. esbuild does so for
// .mjs and .mts only. In other files, which have no package.json of their own here, it takes `exports.default` of code that was compiled
// from a module.
import { NAMESPACES } from "../../policy/import-resolver.ts";
import { insertText, type MappedScript } from "./text-edits.ts";

const MODULE_COMMENT = /^\/\/ (.+)$/gm;
/** Matches the call with which esbuild imports a CommonJS module. A second argument makes it follow Node. */
const IMPORTED = /\b__toESM\(require_[\w$]+\(\)(?=\))/g;
/** A file that TypeScript compiles to CommonJS: there, its default imports are `exports.default`. */
const COMPILED_TO_COMMONJS = ".cts";

/** Changes a linked bundle, and its source map accordingly. */
export function importDefaultsAsNode(linked: MappedScript): MappedScript {
  const { code } = linked;
  if (!code.includes("__toESM(require_")) return linked;
  const starts = [...code.matchAll(MODULE_COMMENT)].map(({ index, 1: module = "" }) => ({ index, module }));
  const insertions = starts.flatMap(({ index: start, module }, at) => {
    if (!module.startsWith(`${NAMESPACES.tool}:`) || module.endsWith(COMPILED_TO_COMMONJS)) return [];
    const calls = code.slice(start, starts[at + 1]?.index).matchAll(IMPORTED);
    return [...calls].map(({ index, 0: call }) => ({ at: start + index + call.length, text: ", 1", rank: 0 }));
  });
  return insertions.length === 0 ? linked : insertText(linked, insertions);
}
