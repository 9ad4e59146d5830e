// The snapshot of the Python interpreter, which a machine makes once, with 7 s of CPU time. Tests give it to each server and executor that starts
// with an empty folder, and keep it when one of them has made it.
import { copyFileSync, linkSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { PYTHON_CACHE } from "./host-zone.ts";

/** Snapshots of other versions of the sources stay in the folder. The newest ones are those in use. */
const MAX_SNAPSHOTS = 4;

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Copies the newest snapshots that the second folder does not have, each with its runtime's code cache, whose name ends with the same key. */
function copySnapshots(from: string, to: string): void {
  const [names, known] = [namesIn(from), new Set(namesIn(to))];
  const snapshots = names
    .filter((name) => name.endsWith(".snapshot"))
    .map((name) => ({ key: basename(name, ".snapshot"), usedMs: statSync(join(from, name)).mtimeMs }))
    .sort((a, b) => b.usedMs - a.usedMs)
    .slice(0, MAX_SNAPSHOTS);
  for (const { key } of snapshots) {
    for (const name of names) {
      if (known.has(name) || !(name === `${key}.snapshot` || name.endsWith(`-${key}.v8`))) continue;
      mkdirSync(to, { recursive: true, mode: 0o700 });
      copyEntry(join(from, name), join(to, name));
    }
  }
}

/** An entry of a cache is never changed, so that a second link to it is enough. */
function copyEntry(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    // Another test file may have added or evicted it just now.
    if (code === "EXDEV") copyFileSync(from, to);
    else if (code !== "EEXIST" && code !== "ENOENT") throw thrown;
  }
}

/** @param cache folder of the cache of a server or an executor, before it starts */
export const useKnownInterpreter = (cache: string): void => copySnapshots(PYTHON_CACHE.directory, cache);

/** @param cache the same folder, after the server or the executor has ended */
export const keepInterpreter = (cache: string): void => copySnapshots(cache, PYTHON_CACHE.directory);
