// Detects file changes by polling, which works alike for editors that replace files, mounted folders and containers.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** The files and folder to watch. */
export interface WatchedPaths {
  /** Paths of files, which need not exist. */
  readonly files: readonly string[];
  /** Watches all files below this folder, for when the relevant files are not known. */
  readonly folder?: string | undefined;
}

/** The state of each path. */
type Snapshot = ReadonlyMap<string, string>;

const POLL_MS = 100;
/** Largest share of the time that polling may take. */
const MAX_POLL_SHARE = 1 / 10;
const MAX_FILES_BELOW = 2_000;

function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? "none" : `${stats.ino} ${stats.size} ${stats.mtimeMs}`;
}

function* findFiles(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* findFiles(path);
    else yield path;
  }
}

/** Reads the states of all watched paths. A path that cannot be read counts as missing. */
function takeSnapshot({ files, folder }: WatchedPaths): Snapshot {
  const snapshot = new Map<string, string>();
  const add = (path: string): void => {
    try {
      snapshot.set(path, stateOf(path));
    } catch {
      snapshot.set(path, "none");
    }
  };
  for (const path of files) add(path);
  if (folder === undefined) return snapshot;
  let count = 0;
  try {
    for (const path of findFiles(folder)) {
      add(path);
      count += 1;
      if (count > MAX_FILES_BELOW) break;
    }
  } catch {
    // A folder was removed meanwhile; the next poll reads what remains.
  }
  return snapshot;
}

function differs(a: Snapshot, b: Snapshot): boolean {
  if (a.size !== b.size) return true;
  for (const [path, state] of a) if (b.get(path) !== state) return true;
  return false;
}

export class Watcher implements Disposable {
  readonly #onChange: () => void;
  #watched: WatchedPaths = { files: [] };
  #known: Snapshot = new Map();
  #latest: Snapshot = new Map();
  #timer: NodeJS.Timeout | undefined;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /**
   * Replaces the watched paths.
   * @param before result of `snapshot()` before the files were read: changes since then are reported
   */
  watch(watched: WatchedPaths, before: Snapshot): void {
    this.#watched = watched;
    const now = takeSnapshot(watched);
    this.#known = new Map([...now].map(([path, state]) => [path, before.get(path) ?? state]));
    this.#latest = now;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), POLL_MS);
  }

  /** Returns the current states of the watched paths. */
  snapshot(): Snapshot {
    return takeSnapshot(this.#watched);
  }

  /** Polls. A change is reported once the files have stopped changing between two polls, because several files are often saved together. */
  #poll(): void {
    const began = performance.now();
    const now = takeSnapshot(this.#watched);
    const isSettled = !differs(now, this.#latest);
    this.#latest = now;
    const hasChanged = isSettled && differs(now, this.#known);
    if (hasChanged) this.#known = now;
    this.#timer = setTimeout(() => this.#poll(), Math.max(POLL_MS, (performance.now() - began) / MAX_POLL_SHARE));
    if (hasChanged) this.#onChange();
  }

  /** Stops watching. Calling it twice is a no-op. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
