// Creates the files of embedded databases, which only their owner may read.
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { makeFolderSync } from "../../bundler/locate/make-folder.ts";

/** Returns whether SQLite opens a file at this path: `:memory:` is a database in memory, and from `file:` it reads options. */
export const namesFile = (path: string): boolean => !/^(:memory:$|file:)/.test(path);

/**
 * Creates a file and its folder if they do not exist.
 * @throws {Error} if it cannot be written, or the path is not a regular file
 */
export function makePrivateFileSync(path: string): void {
  makeFolderSync(dirname(path));
  // Opening a named pipe would block until another process opens its other end, and a thread that waits in the kernel cannot be ended.
  const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;
  const descriptor = openSync(path, O_APPEND | O_CREAT | O_WRONLY | (O_NONBLOCK ?? 0), 0o600);
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error("The path of the store is not a regular file");
  } finally {
    closeSync(descriptor);
  }
}
