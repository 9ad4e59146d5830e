// Reads glovebox.config.ts: the options of a server, as the default export of a module that runs in this process, or as JSON.
import { readFileSync, statSync } from "node:fs";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { UsageError } from "../usage.ts";

const BASE_NAME = "glovebox.config";
/** Extensions of the config file in the working directory, by preference. */
const EXTENSIONS = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs", ".json"] as const;
/** Exit code of a command whose config file has ended the process. */
const ENDED_CODE = 2;

interface ConfigFile {
  readonly path: string;
  /** Name of the file for messages. */
  readonly name: string;
}

interface Surroundings {
  /** Prints a line to stderr. */
  readonly warn: (line: string) => void;
  /** Returns whether the command was stopped by a signal. */
  readonly isStopped: () => boolean;
}

/** Returns the config file; undefined if there is none. @throws {UsageError} if it is no file */
function findConfigFile(named: string | undefined, warn: (line: string) => void): ConfigFile | undefined {
  if (named !== undefined) {
    const stats = statSync(resolve(named), { throwIfNoEntry: false });
    if (stats === undefined) throw new UsageError(`--config: ${named} does not exist`);
    if (stats.isDirectory()) throw new UsageError(`--config: expected a file, got the folder ${named}`);
    return { path: resolve(named), name: named };
  }
  const files = EXTENSIONS.map((extension) => ({ name: BASE_NAME + extension, path: resolve(BASE_NAME + extension) }));
  const [found, ...others] = files.filter(({ path }) => statSync(path, { throwIfNoEntry: false })?.isFile() === true);
  if (found !== undefined && others.length > 0)
    warn(`Reading ${found.name}, and not ${others.map(({ name }) => name).join(", ")}`);
  return found;
}

/** Imports a module. If it ends the process, that is an error of the command: no options were read. */
async function importModule(
  { path, name }: ConfigFile,
  { warn, isStopped }: Surroundings,
): Promise<{ readonly default?: unknown }> {
  const onExit = (): void => {
    if (isStopped()) return;
    warn(`${name} has ended the process before it has exported its options`);
    process.exitCode = ENDED_CODE;
  };
  process.once("exit", onExit);
  try {
    return (await import(pathToFileURL(path).href)) as { readonly default?: unknown };
  } finally {
    process.off("exit", onExit);
  }
}

async function load(file: ConfigFile, surroundings: Surroundings): Promise<unknown> {
  if (extname(file.path) === ".json") return JSON.parse(readFileSync(file.path, "utf8"));
  return (await importModule(file, surroundings)).default;
}

const messageOf = (thrown: unknown): string => (Error.isError(thrown) ? thrown.message : String(thrown));

/** Returns what a config file states. Its getters run here, and no others run later. */
function copyOptions(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOptions);
  if (typeof value !== "object" || value === null) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Anything but a plain object is an error of the schema.
  if (prototype !== Object.prototype && prototype !== null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, copyOptions(inner)]));
}

/**
 * Returns the options of the config file; no options if there is no file.
 * @param named path of the file. Default: `glovebox.config.ts` in the working directory, or one with another extension
 * @throws {UsageError} for a file that cannot be read, and for one without options
 */
export async function readConfigFile(named: string | undefined, surroundings: Surroundings): Promise<object> {
  const file = findConfigFile(named, surroundings.warn);
  if (file === undefined) return {};
  let options: unknown;
  try {
    options = copyOptions(await load(file, surroundings));
  } catch (thrown) {
    throw new UsageError(`The config file ${file.name} cannot be loaded: ${messageOf(thrown)}`);
  }
  if (typeof options === "object" && options !== null) return options;
  const example = extname(file.path) === ".json" ? '{ "port": 7070 }' : "export default { port: 7070 }";
  throw new UsageError(
    `The config file ${file.name} must ${example.startsWith("{") ? "contain" : "export"} its options: ${example}`,
  );
}
