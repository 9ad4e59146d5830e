// Dir of node:fs: the entries of a folder of the memory file system, one after the other.

import { checkFunction, nodeError } from "../shared/node-error.ts";
import { core, type Dirent } from "./fs-core.ts";

type Entry = InstanceType<typeof Dirent>;
type Callback = (error: Error | null, entry?: Entry | null) => void;

/** Reads the names at once, so that an entry that is added or removed later changes nothing. */
export class Dir {
  readonly path: string;
  readonly #entries: Entry[];
  #isClosed = false;

  constructor(path: string, options?: object) {
    this.path = path;
    try {
      this.#entries = core.readdir(path, { ...options, withFileTypes: true }) as Entry[];
    } catch (error) {
      throw asOpendir(error);
    }
  }
  readSync(): Entry | null {
    this.#checkOpen();
    return this.#entries.shift() ?? null;
  }
  read(callback?: unknown): Promise<Entry | null> | undefined {
    return later(callback, () => this.readSync());
  }
  closeSync(): void {
    this.#checkOpen();
    this.#isClosed = true;
  }
  close(callback?: unknown): Promise<void> | undefined {
    return later(callback, () => this.closeSync());
  }
  /** Closes the folder at the end, as in Node. */
  async *entries(): AsyncGenerator<Entry> {
    try {
      for (let entry = this.readSync(); entry !== null; entry = this.readSync()) yield entry;
    } finally {
      this.closeSync();
    }
  }
  [Symbol.asyncIterator](): AsyncGenerator<Entry> {
    return this.entries();
  }
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isClosed) this.closeSync();
  }
  [Symbol.dispose](): void {
    if (!this.#isClosed) this.closeSync();
  }
  #checkOpen(): void {
    if (this.#isClosed) throw nodeError(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
  }
}

/** Returns a promise, or calls the callback that was given. */
function later<Value>(callback: unknown, run: () => Value): Promise<Value> | undefined {
  const promise = (async () => run())();
  if (callback === undefined) return promise;
  checkFunction(callback, "callback");
  promise.then(
    (value) => (callback as unknown as Callback)(null, value as Entry | null),
    (error: Error) => (callback as unknown as Callback)(error),
  );
  return undefined;
}

/** Names the function that has failed. */
function asOpendir(error: unknown): unknown {
  if (error instanceof Error && "syscall" in error) {
    const { syscall } = error;
    error.message = error.message.replace(String(syscall), "opendir");
    error.syscall = "opendir";
  }
  return error;
}
