// What servers and executors with an empty folder need not make again: the snapshot of the Python interpreter, which takes 7 s of CPU time, and
// the tools that a server of the same test file has built, each of which takes a process of its own.
import { copyFileSync, linkSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

/** The cache of a command line that has run Python before. */
export const PYTHON_HOME = join(tmpdir(), "glovebox-python-home");
/** Folder of the Python interpreter's snapshot. Creating one takes 7 s of CPU time. */
export const PYTHON_CACHE = { directory: join(PYTHON_HOME, ".cache", "glovebox") } as const;

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

/** Bundles, code caches and definitions, and lists of platform modules. */
const BUILD = /\.(?:bundle|v8|chunks)$/;

/** Links what a cache has of tools into another one. Both are of servers with the same sources. */
export function linkBuilds(from: string, to: string): void {
  const known = new Set(namesIn(to));
  for (const name of namesIn(from)) {
    if (!BUILD.test(name) || known.has(name)) continue;
    mkdirSync(to, { recursive: true, mode: 0o700 });
    copyEntry(join(from, name), join(to, name));
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
