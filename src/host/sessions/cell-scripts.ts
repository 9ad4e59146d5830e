// Source maps of the cells that a session has run, for stack frames in functions of earlier cells.
import { createScriptsMapper, ScriptMap, type StackMapper } from "../../bundler/compile/source-map.ts";

/**
 * Maximum number of UTF-16 code units of one session's source maps. The oldest are dropped, and their frames are no longer mapped.
 */
const MAX_LENGTH = 4 * 1024 * 1024;

export class CellScripts {
  readonly #maps = new Map<string, ScriptMap>();
  readonly mapper: StackMapper = createScriptsMapper(this.#maps);
  #length = 0;

  add(fileName: string, sourceMapJson: string): void {
    const added = new ScriptMap(sourceMapJson);
    this.#maps.set(fileName, added);
    this.#length += added.length;
    for (const [oldest, { length: units }] of this.#maps) {
      if (this.#length <= MAX_LENGTH || oldest === fileName) return;
      this.#maps.delete(oldest);
      this.#length -= units;
    }
  }
}
