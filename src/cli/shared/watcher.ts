// Sees when files change, by looking at them: an editor that writes beside and renames, a mounted folder and a container look alike so.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** What is looked at. */
export interface Watched {
  /** Paths, of files that may not be there too. */
  readonly files: readonly string[];
  /** All files below it, where it is not known which matter. */
  readonly folder?: string | undefined;
}

/** Each path with what tells one state of it from another. */
type Picture = ReadonlyMap<string, string>;

const LOOK_MS = 100;
/** Looking takes at most this part of the time. */
const SHARE = 1 / 10;
const MAX_FILES_BELOW = 2_000;

function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? "none" : `${stats.ino} ${stats.size} ${stats.mtimeMs}`;
}

function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else yield path;
  }
}

/** What cannot be looked at is not there. */
function look({ files, folder }: Watched): Picture {
  const picture = new Map<string, string>();
  const add = (path: string): void => {
    try {
      picture.set(path, stateOf(path));
    } catch {
      picture.set(path, "none");
    }
  };
  for (const path of files) add(path);
  if (folder === undefined) return picture;
  let count = 0;
  try {
    for (const path of filesBelow(folder)) {
      add(path);
      count += 1;
      if (count > MAX_FILES_BELOW) break;
    }
  } catch {
    // A folder was removed meanwhile: the next look sees what is left.
  }
  return picture;
}

function differs(a: Picture, b: Picture): boolean {
  if (a.size !== b.size) return true;
  for (const [path, state] of a) if (b.get(path) !== state) return true;
  return false;
}

export class Watcher implements Disposable {
  readonly #onChange: () => void;
  #watched: Watched = { files: [] };
  #known: Picture = new Map();
  #latest: Picture = new Map();
  #timer: NodeJS.Timeout | undefined;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /**
   * Looks at these from now on.
   * @param before what `picture()` gave before they were read: a change since then counts
   */
  watch(watched: Watched, before: Picture): void {
    this.#watched = watched;
    const now = look(watched);
    this.#known = new Map([...now].map(([path, state]) => [path, before.get(path) ?? state]));
    this.#latest = now;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), LOOK_MS);
  }

  /** What is there now, of what is watched. */
  picture(): Picture {
    return look(this.#watched);
  }

  /** A change is told when nothing more has changed since the look before: many files are saved at a time. */
  #look(): void {
    const began = performance.now();
    const now = look(this.#watched);
    const isSettled = !differs(now, this.#latest);
    this.#latest = now;
    const hasChanged = isSettled && differs(now, this.#known);
    if (hasChanged) this.#known = now;
    this.#timer = setTimeout(() => this.#look(), Math.max(LOOK_MS, (performance.now() - began) / SHARE));
    if (hasChanged) this.#onChange();
  }

  /** Twice is a no-op. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
