// The source line that an error is in: from the bundle's own map, or from the tool's folder where there is no bundle to ask.
import { readFileSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { codeFrame, createStackMapper } from "../../bundler/compile/source-map.ts";
import type { ShowCode } from "./print.ts";

/** A file of a tool is no larger, or it is none of a tool's. */
const MAX_BYTES = 2 * 1024 * 1024;

function readToolFile(path: string, file: string): string | undefined {
  // A name from a source map: it stays in the tool's folder.
  if (isAbsolute(file) || file.split(/[\\/]/).includes("..")) return undefined;
  try {
    const root = statSync(path).isDirectory() ? path : dirname(resolve(path));
    const stats = statSync(join(root, file));
    return stats.isFile() && stats.size <= MAX_BYTES ? readFileSync(join(root, file), "utf8") : undefined;
  } catch {
    return undefined;
  }
}

/** @param sourceMap of the bundle that failed; without one the files at `path` are read */
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
