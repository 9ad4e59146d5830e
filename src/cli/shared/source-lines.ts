// Finds the source line of an error: in the bundle's source map, or in the tool's files if there is no bundle.
import { readFileSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { codeFrame, createStackMapper } from "../../bundler/compile/source-map.ts";
import type { ShowCode } from "./print.ts";

/** Files of tools are smaller than this. */
const MAX_BYTES = 2 * 1024 * 1024;

function readToolFile(path: string, file: string): string | undefined {
  // The name comes from a source map, so it must not lead out of the tool's folder.
  if (isAbsolute(file) || file.split(/[\\/]/).includes("..")) return undefined;
  try {
    const root = statSync(path).isDirectory() ? path : dirname(resolve(path));
    const stats = statSync(join(root, file));
    return stats.isFile() && stats.size <= MAX_BYTES ? readFileSync(join(root, file), "utf8") : undefined;
  } catch {
    return undefined;
  }
}

/** @param sourceMap source map of the bundle; without one, the files at `path` are read */
export function createShowCode(path: string, sourceMap: string | undefined): ShowCode {
  if (sourceMap === undefined) {
    return ({ file, line, column }) => {
      const text = readToolFile(path, file);
      return text === undefined ? undefined : codeFrame({ line, column, text });
    };
  }
  const mapper = createStackMapper(sourceMap);
  return (frame) => mapper.codeFrameOf(frame);
}
