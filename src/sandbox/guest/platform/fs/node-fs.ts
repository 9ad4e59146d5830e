// node:fs and node:fs/promises over the volume of the call: synchronous, callback and promise forms of the same functions, and streams.
import { PACKAGE_FILES_EXPORT } from "../../../contract/node-builtins.ts";
import { queueTask } from "../../timers.ts";
import { Buffer } from "../buffer/node-buffer.ts";
import { EventEmitter } from "../events/node-events.ts";
import { fsConstants } from "../process/os-constants.ts";
import { adoptable, callable, constructible } from "../shared/callable-classes.ts";
import { nameClasses } from "../shared/class-names.ts";
import { checkFunction, unsupported } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { Readable, Writable } from "../streams/node-stream.ts";
import { readline } from "../streams/readline.ts";
import { addPackageFiles, type PathLike, toPath } from "./fs-call-volume.ts";
import { core, Dirent, toBytes } from "./fs-core.ts";
import { Dir } from "./fs-folder.ts";
import { Stats } from "./fs-stats.ts";
import { copyAll } from "./fs-trees.ts";

type Callback = (error: unknown, ...values: unknown[]) => void;
type AnyFunction = (...args: never[]) => unknown;
declare function queueMicrotask(run: () => void): void;

const call = (run: AnyFunction, args: readonly unknown[]): unknown => Reflect.apply(run, undefined, args);

/** Names of the results of functions whose callback also receives what they read or wrote. */
const TRANSFERS: { readonly [name: string]: readonly [count: string, data: string] } = {
  read: ["bytesRead", "buffer"],
  write: ["bytesWritten", "buffer"],
  readv: ["bytesRead", "buffers"],
  writev: ["bytesWritten", "buffers"],
};

function withCallback(name: string, run: AnyFunction): (...args: unknown[]) => void {
  return (...args) => {
    const callback = args.pop();
    checkFunction(callback, "cb");
    const done = callback as unknown as Callback;
    let outcome: readonly unknown[];
    try {
      const given = name === "read" ? readArguments(args) : args;
      const value = call(run, given);
      outcome = name in TRANSFERS ? [null, value, given[1]] : [null, value];
    } catch (error) {
      outcome = [error];
    }
    queueMicrotask(() => done(...(outcome as [unknown])));
  };
}

/** Adds the buffer to arguments of `read` that have it in an object with options, or not at all. */
function readArguments([descriptor, given = {}, ...rest]: readonly unknown[]): readonly unknown[] {
  if (typeof given !== "object" || given === null || ArrayBuffer.isView(given)) return [descriptor, given, ...rest];
  const { buffer = Buffer.alloc(16_384) } = given as { readonly buffer?: unknown };
  return [descriptor, buffer, given];
}

/** Returns the promise form of a function that transfers bytes: it gives an object with both results. */
const transferring =
  (run: AnyFunction, [count, data]: readonly [string, string]) =>
  async (...args: unknown[]): Promise<object> => {
    const given = count === "bytesRead" && data === "buffer" ? readArguments(args) : args;
    return { [count]: call(run, given), [data]: given[1] };
  };

type WriteOptions = Parameters<typeof core.writeFile>[2];

/** Collects the chunks of an iterable or a stream, which the promise forms of writeFile and appendFile accept. Other data stays as it is. */
async function collect(data: unknown, options: unknown): Promise<unknown> {
  if (typeof data !== "object" || data === null || ArrayBuffer.isView(data)) return data;
  if (!(Symbol.asyncIterator in data || Symbol.iterator in data)) return data;
  const { encoding } = streamOptions(options);
  const chunks: Uint8Array[] = [];
  for await (const chunk of data as AsyncIterable<unknown>) chunks.push(toBytes(chunk, encoding));
  return Buffer.concat(chunks);
}

/** Copies with a filter that may return a promise. */
async function copyWithPromise(
  from: PathLike,
  to: PathLike,
  options: Parameters<typeof copyAll>[2] = {},
): Promise<void> {
  const steps = copyAll(toPath(from, "src"), toPath(to, "dest"), options);
  for (let step = steps.next(); step.done !== true; ) step = steps.next(await step.value);
}

const withPromise =
  (run: AnyFunction) =>
  async (...args: unknown[]): Promise<unknown> =>
    call(run, args);

interface StreamOptions {
  readonly start?: number;
  readonly end?: number;
  readonly flags?: string;
  readonly fd?: number;
  readonly encoding?: string;
  readonly highWaterMark?: number;
  readonly autoClose?: boolean;
}
type Done = (error?: Error | null) => void;

const streamOptions = (given: unknown): StreamOptions =>
  typeof given === "string" ? { encoding: given } : ((given ?? {}) as StreamOptions);

class FileReader extends adoptable(Readable) {
  readonly path: unknown;
  fd: number | null;
  bytesRead = 0;
  #position: number;
  readonly #end: number;
  readonly #flags: string;
  constructor(path: unknown, given?: unknown) {
    const options = streamOptions(given);
    super({ highWaterMark: 65_536, ...options } as object);
    this.path = path;
    this.fd = options.fd ?? null;
    this.#position = options.start ?? 0;
    this.#end = options.end ?? Number.POSITIVE_INFINITY;
    this.#flags = options.flags ?? "r";
  }
  override _construct(done: Done): void {
    openLater(done, this, () => core.open(toPath(this.path), this.#flags));
  }
  override _read(size: number): void {
    const length = Math.min(size, this.#end - this.#position + 1);
    const buffer = Buffer.alloc(Math.max(0, length));
    try {
      const count = length <= 0 ? 0 : core.read(this.fd as number, buffer, 0, length, this.#position);
      this.#position += count;
      this.bytesRead += count;
      this.push(count === 0 ? null : buffer.subarray(0, count));
    } catch (error) {
      this.destroy(error as Error);
    }
  }
  override _destroy(error: Error | null, done: Done): void {
    closeQuietly(this.fd);
    done(error);
  }
  close(done?: Done): void {
    if (done !== undefined) this.once("close", done);
    this.destroy();
  }
}

class FileWriter extends adoptable(Writable) {
  readonly path: unknown;
  fd: number | null;
  bytesWritten = 0;
  #position: number | undefined;
  readonly #flags: string;
  constructor(path: unknown, given?: unknown) {
    const options = streamOptions(given);
    super({ ...options, decodeStrings: true } as object);
    this.path = path;
    this.fd = options.fd ?? null;
    this.#position = options.start;
    this.#flags = options.flags ?? (options.start === undefined ? "w" : "r+");
  }
  override _construct(done: Done): void {
    openLater(done, this, () => core.open(toPath(this.path), this.#flags));
  }
  override _write(chunk: Uint8Array, _encoding: string, done: Done): void {
    attempt(done, () => {
      core.write(this.fd as number, chunk, 0, chunk.length, this.#position);
      this.bytesWritten += chunk.length;
      if (this.#position !== undefined) this.#position += chunk.length;
    });
  }
  override _destroy(error: Error | null, done: Done): void {
    closeQuietly(this.fd);
    done(error);
  }
  close(done?: Done): void {
    if (done !== undefined) this.once("close", done);
    this.end();
  }
}

/** Opens the file of a stream in a later task, as in Node: listeners that are added after an `await` get the events. */
function openLater(done: Done, stream: FileReader | FileWriter, open: () => number): void {
  if (stream.fd !== null) {
    done();
    return;
  }
  const run = (): void =>
    attempt(done, () => {
      stream.fd = open();
      stream.emit("open", stream.fd);
      stream.emit("ready");
    });
  // While a tool loads, there are no tasks.
  if (!queueTask(run)) run();
}

const ReadStream = callable(FileReader);
const WriteStream = callable(FileWriter);
nameClasses({ ReadStream, WriteStream });

function attempt(done: Done, run: () => void): void {
  try {
    run();
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}

function closeQuietly(fd: number | null): void {
  try {
    if (fd !== null) core.close(fd);
  } catch {
    // The call that opened the file has ended.
  }
}

class FileHandle extends EventEmitter {
  readonly fd: number;
  constructor(fd: number) {
    super();
    this.fd = fd;
  }
  async read(...given: unknown[]): Promise<unknown> {
    return await transferring(core.read, ["bytesRead", "buffer"])(this.fd, ...given);
  }
  async write(data: unknown, ...rest: unknown[]): Promise<unknown> {
    return { bytesWritten: core.write(this.fd, data, ...rest), buffer: data };
  }
  async readv(list: readonly Uint8Array[], position?: number | null): Promise<unknown> {
    return { bytesRead: vectors.readv(this.fd, list, position), buffers: list };
  }
  async writev(list: readonly Uint8Array[], position?: number | null): Promise<unknown> {
    return { bytesWritten: vectors.writev(this.fd, list, position), buffers: list };
  }
  /** Returns the lines of the file. */
  readLines(options?: object): unknown {
    return readline.createInterface({ input: this.createReadStream(options) as never });
  }
  async readFile(options?: string): Promise<unknown> {
    return core.readFile(this.fd, options);
  }
  async writeFile(data: unknown, options?: string): Promise<void> {
    core.writeFile(this.fd, await collect(data, options), options);
  }
  async appendFile(data: unknown, options?: string): Promise<void> {
    await this.writeFile(data, options);
  }
  async stat(): Promise<unknown> {
    return core.fstat(this.fd);
  }
  async truncate(length?: number): Promise<void> {
    core.ftruncate(this.fd, length);
  }
  async sync(): Promise<void> {}
  async datasync(): Promise<void> {}
  async close(): Promise<void> {
    core.close(this.fd);
    this.emit("close");
  }
  createReadStream(options?: object): FileReader {
    return new ReadStream(undefined, { ...options, fd: this.fd });
  }
  createWriteStream(options?: object): FileWriter {
    return new WriteStream(undefined, { ...options, fd: this.fd });
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

const unsupportedFunction = (name: string, instead: string) => (): never => {
  throw unsupported(`fs.${name}()`, instead);
};

const WATCH = "only the tool itself changes its files";
const shared = {
  constants: fsConstants,
  watch: unsupportedFunction("watch", WATCH),
  glob: unsupportedFunction("glob", "list folders with readdir"),
  statfs: unsupportedFunction("statfs", "files are in memory"),
};

/** Functions that have more than one name. */
const ALIASES = { fchown: core.fdatasync, lchown: core.chown, lutimes: core.utimes, lchmod: core.chmod } as const;

/** Reads or writes several buffers in turn. @param position of the first one; default: the current one */
const inTurn =
  (run: (fd: number, bytes: Uint8Array, offset: number, length: number, position?: number) => number) =>
  (fd: number, list: readonly Uint8Array[], position?: number | null): number => {
    let done = 0;
    for (const bytes of list) {
      const at = typeof position === "number" ? [position + done] : [];
      const count = run(fd, bytes, 0, bytes.byteLength, ...at);
      done += count;
      if (count < bytes.byteLength) break;
    }
    return done;
  };
const vectors = { readv: inTurn(core.read as never), writev: inTurn(core.write as never) };
const opendir = (path: unknown, options?: object): Dir => new Dir(toPath(path), options);
const functions = { ...core, ...ALIASES, ...vectors, opendir } as unknown as { readonly [name: string]: AnyFunction };

interface WithBlob {
  readonly Blob: new (parts: readonly unknown[], options?: { readonly type?: string }) => object;
}
/** The blob holds the contents that the file has now. */
function openAsBlobSync(path: unknown, { type = "" }: { readonly type?: string } = {}): object {
  return new (globalThis as unknown as WithBlob).Blob([core.readFile(toPath(path))], { type });
}
const openAsBlob = async (path: unknown, options?: { readonly type?: string }): Promise<object> =>
  openAsBlobSync(path, options);

const promises: { [name: string]: unknown } = { ...shared };
for (const [name, run] of Object.entries(functions)) promises[name] = withPromise(run);
for (const name of [
  "close",
  "exists",
  "fchmod",
  "fchown",
  "fdatasync",
  "fstat",
  "fsync",
  "ftruncate",
  "futimes",
  "read",
  "readv",
  "write",
  "writev",
]) {
  delete promises[name];
}
for (const write of [core.writeFile, core.appendFile]) {
  promises[write.name] = async (file: PathLike | FileHandle, data: unknown, options?: WriteOptions): Promise<void> =>
    write(file instanceof FileHandle ? file.fd : file, await collect(data, options), options);
}
promises.cp = copyWithPromise;
promises.open = async (...args: Parameters<typeof core.open>) => new FileHandle(core.open(...args));

const fs: { [name: string]: unknown } = {
  ...shared,
  ...fsConstants,
  promises,
  Dir,
  Dirent,
  openAsBlob,
  openAsBlobSync,
  Stats,
  ReadStream,
  WriteStream,
  FileReadStream: ReadStream,
  FileWriteStream: WriteStream,
  createReadStream: constructible(
    "createReadStream",
    (path: unknown, options?: unknown) => new ReadStream(path, options),
  ),
  createWriteStream: constructible(
    "createWriteStream",
    (path: unknown, options?: unknown) => new WriteStream(path, options),
  ),
  watchFile: unsupportedFunction("watchFile", WATCH),
  unwatchFile: (): void => {},
};
for (const [name, run] of Object.entries(functions)) {
  fs[name] = withCallback(name, run);
  fs[`${name}Sync`] = run;
}
const custom = Symbol.for("nodejs.util.promisify.custom");
for (const [name, names] of Object.entries(TRANSFERS)) {
  Object.defineProperty(fs[name], custom, { value: transferring(functions[name] as AnyFunction, names) });
}
fs.cp = (...args: unknown[]): void => {
  const callback = args.pop();
  checkFunction(callback, "cb");
  const done = callback as unknown as Callback;
  copyWithPromise(...(args as Parameters<typeof copyWithPromise>)).then(() => done(null), done);
};
/** The only callback in Node's fs without an error argument. */
const exists = (path: unknown, callback: (exists: boolean) => void): void => {
  const found = core.exists(path as string);
  queueMicrotask(() => callback(found));
};
Object.defineProperty(exists, custom, { value: async (path: string) => core.exists(path) });
fs.exists = exists;
for (const name of ["realpath", "realpathSync"]) Object.assign(fs[name] as object, { native: fs[name] });
for (const name of ["glob", "statfs"]) fs[`${name}Sync`] = fs[name];

const NO_SUCH_FILES = "not supported for the in-memory files of a tool";
addUnsupported(fs, "fs", NO_SUCH_FILES, "Utf8Stream mkdtempDisposableSync");
addUnsupported(promises, "fs.promises", NO_SUCH_FILES, "mkdtempDisposable");

export const builtins = { [PACKAGE_FILES_EXPORT]: addPackageFiles, fs, "fs/promises": promises };
