// Makes a folder and those above it. Not by `mkdir(path, { recursive: true })`: under a folder in which nothing can be made, such as /proc,
// that call of Node never ends, and keeps one of the process's few threads for ever.
import { mkdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

const MODE = 0o700;

const codeOf = (thrown: unknown): unknown => (thrown as { readonly code?: unknown } | null)?.code;

/** A folder that does not exist and has none above it either: the one above is made first, and then it is tried once more. */
const needsParent = (thrown: unknown, path: string): boolean => codeOf(thrown) === "ENOENT" && dirname(path) !== path;

/** Makes a folder that only this user may read. Rejects as `mkdir` does; one that exists, as a file too, is left as it is. */
export async function makeFolder(path: string, mode: number = MODE): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (thrown) {
    if (codeOf(thrown) === "EEXIST") return;
    if (!needsParent(thrown, path)) throw thrown;
    await makeFolder(dirname(path), mode);
    await mkdir(path, { mode }).catch((again: unknown) => {
      if (codeOf(again) !== "EEXIST") throw again;
    });
  }
}

/** Does the same at once. Throws as `mkdirSync` does. */
export function makeFolderSync(path: string, mode: number = MODE): void {
  try {
    mkdirSync(path, { mode });
  } catch (thrown) {
    if (codeOf(thrown) === "EEXIST") return;
    if (!needsParent(thrown, path)) throw thrown;
    makeFolderSync(dirname(path), mode);
    try {
      mkdirSync(path, { mode });
    } catch (again) {
      if (codeOf(again) !== "EEXIST") throw again;
    }
  }
}
