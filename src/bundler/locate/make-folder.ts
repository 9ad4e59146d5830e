// Creates a folder and its parents. `mkdir(path, { recursive: true })` is not used: under a folder in which nothing can be created, such as
// /proc, that call never ends and blocks one of the few threads of Node's thread pool.
import { mkdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

const MODE = 0o700;

const codeOf = (thrown: unknown): unknown => (thrown as { readonly code?: unknown } | null)?.code;

/** True if the parent folder is missing too, so that it must be created first. */
const needsParent = (thrown: unknown, path: string): boolean => codeOf(thrown) === "ENOENT" && dirname(path) !== path;

/** Creates a folder that only this user can read. Rejects like `mkdir`. An existing folder or file is left unchanged. */
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

/** Synchronous version of `makeFolder`. Throws like `mkdirSync`. */
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
