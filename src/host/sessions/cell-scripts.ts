// The cells that a session has run, for stacks in which functions of earlier ones stand.
import { createScriptsMapper, ScriptMap, type StackMapper } from "../../bundler/compile/source-map.ts";

/** Of the maps of one session together; the oldest goes first, and its frames are nobody's then. */
const MAX_UNITS = 4 * 1024 * 1024;

export class CellScripts {
  readonly #maps = new Map<string, ScriptMap>();
  readonly mapper: StackMapper = createScriptsMapper(this.#maps);
  #units = 0;

  add(fileName: string, sourceMapJson: string): void {
    const added = new ScriptMap(sourceMapJson);
    this.#maps.set(fileName, added);
    this.#units += added.units;
    for (const [oldest, { units }] of this.#maps) {
      if (this.#units <= MAX_UNITS || oldest === fileName) return;
      this.#maps.delete(oldest);
      this.#units -= units;
    }
  }
}
