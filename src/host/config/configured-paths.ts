// Checks the files and folders in the options when createGlovebox() runs, so that a wrong path fails there and not in a tenant's call.
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { access, open, stat, unlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { makeFolder } from "../../bundler/locate/make-folder.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { KV_FILE_FORMAT } from "../capabilities/kv/kv-store.ts";
import { namesFile } from "../util/make-private-file.ts";

const FORMAT = Buffer.from("SQLite format 3\0");
/** SQLite's error codes while another process writes (SQLITE_BUSY, SQLITE_LOCKED): the file is a valid database. */
const SQLITE_BUSY = new Set([5, 6]);
/** Tables of a key-value store, as kv-database.ts creates them. */
const STORE_TABLES = ["entries", "spaces"];

export interface ConfiguredPaths {
  readonly bundler: {
    readonly packagesDir?: string | undefined;
    readonly root?: string | undefined;
    readonly linkedPackages?: readonly string[] | undefined;
  };
  readonly python: { readonly packages?: { readonly dir: string } | undefined };
  /** Undefined if the host did not configure a path: the default file is opened when a tool first uses it. */
  readonly storePath: string | undefined;
}

const invalid = (option: string, problem: string, cause?: unknown): ToolError =>
  new ToolError("PARAM_INVALID", `options.${option}: ${problem}`, {
    details: { problems: [{ path: option, message: problem }] },
    ...(cause === undefined ? {} : { cause }),
  });

const codeOf = (thrown: unknown): string => {
  const { code } = (thrown ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : "unknown error";
};

/**
 * Checks each configured path.
 * @throws {ToolError} PARAM_INVALID, as a rejection, naming the option
 */
export async function checkConfiguredPaths({ bundler, python, storePath }: ConfiguredPaths): Promise<void> {
  const folders: readonly (readonly [option: string, path: string | undefined])[] = [
    ["bundler.packagesDir", bundler.packagesDir],
    ["bundler.root", bundler.root],
    ...(bundler.linkedPackages ?? []).map((path, index) => [`bundler.linkedPackages.${index}`, path] as const),
    ["python.packages.dir", python.packages?.dir],
  ];
  for (const [option, path] of folders) if (path !== undefined) await checkFolder(option, path);
  if (storePath !== undefined) await checkStorePath(storePath);
}

async function checkFolder(option: string, path: string): Promise<void> {
  const shown = JSON.stringify(path.slice(0, 500));
  let isFolder: boolean;
  try {
    isFolder = (await stat(path)).isDirectory();
    if (isFolder) await access(path, constants.R_OK | constants.X_OK);
  } catch (cause) {
    const code = codeOf(cause);
    const problem = code === "ENOENT" ? "does not exist" : `cannot be read (${code})`;
    throw invalid(option, `Expected a folder, but ${shown} ${problem}`, cause);
  }
  if (!isFolder) throw invalid(option, `Expected a folder, but ${shown} is a file`);
}

/** Checks the file of the key-value store. Creates its folder if needed, but not the file. */
async function checkStorePath(given: string): Promise<void> {
  const path = resolve(given);
  const shown = JSON.stringify(given.slice(0, 500));
  const fail = (problem: string, cause?: unknown): ToolError =>
    invalid("kv.path", `The key-value store ${shown} cannot be opened: ${problem}`, cause);
  if (!namesFile(given)) throw fail('expected the path of a file. For a store in memory use "memory"');
  if (given.includes("\0")) throw fail("its path has a NUL character");
  const found = await stat(path).catch((cause: unknown) => {
    if (codeOf(cause) === "ENOENT") return undefined;
    throw fail(codeOf(cause) === "ENOTDIR" ? "a part of its path is a file" : codeOf(cause), cause);
  });
  if (found === undefined) await checkFolderOf(path, fail);
  else if (found.isDirectory()) throw fail("it is a folder");
  else if (!found.isFile()) throw fail("it is not a regular file");
  else {
    await checkStoreFile(path, found.size, fail);
    // SQLite keeps its log in a file next to the database.
    await checkFolderOf(path, fail);
  }
}

type Fail = (problem: string, cause?: unknown) => ToolError;

/**
 * Creates a file in the folder and removes it. Checking permissions is not enough: root passes every check, even on a read-only file
 * system.
 */
async function checkFolderOf(path: string, fail: Fail): Promise<void> {
  const folder = dirname(path);
  const probe = join(folder, `.glovebox-${randomUUID()}.tmp`);
  try {
    await makeFolder(folder);
    await (await open(probe, "wx", 0o600)).close();
    await unlink(probe);
  } catch (cause) {
    const code = codeOf(cause);
    const problem = code === "EEXIST" || code === "ENOTDIR" ? "a part of its path is a file" : code;
    throw fail(`cannot create a file in its folder (${problem})`, cause);
  }
}

async function checkStoreFile(path: string, size: number, fail: Fail): Promise<void> {
  try {
    await using file = await open(path, "r+");
    // SQLite turns an empty file into a database.
    if (size === 0) return;
    const head = Buffer.alloc(FORMAT.length);
    await file.read(head, 0, head.length, 0);
    if (!head.equals(FORMAT)) throw fail("it is not a SQLite database");
  } catch (cause) {
    if (Error.isError(cause) && cause instanceof ToolError) throw cause;
    throw fail(`it cannot be written (${codeOf(cause)})`, cause);
  }
  // biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
  const { DatabaseSync } = await import("node:sqlite").catch((cause: unknown) => {
    throw fail("this Node.js has no SQLite", cause);
  });
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const rows = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
      const names = new Set(rows.map(({ name }) => name));
      const isOurs = names.size === 0 || STORE_TABLES.every((name) => names.has(name));
      if (!isOurs) throw fail("it is a SQLite database of another program");
      const { user_version: format = 0 } = database.prepare("PRAGMA user_version").get() ?? {};
      if (Number(format) > KV_FILE_FORMAT)
        throw fail(`it has format ${format}, but this version of Glovebox supports up to ${KV_FILE_FORMAT}`);
    } finally {
      database.close();
    }
  } catch (cause) {
    if (Error.isError(cause) && cause instanceof ToolError) throw cause;
    const { errcode } = cause as { readonly errcode?: unknown };
    if (typeof errcode === "number" && SQLITE_BUSY.has(errcode & 0xff)) return;
    throw fail("it is damaged, or not a SQLite database", cause);
  }
}
