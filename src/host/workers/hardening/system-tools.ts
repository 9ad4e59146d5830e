// Finds the programs of the operating system that wrap a worker process, and the shared libraries that it needs in a lean root.
import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const execFileAsync = promisify(execFile);

/** Fixed folders, because PATH is controlled by the environment of the host. */
const TOOL_FOLDERS = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/run/current-system/sw/bin"];

export function findTool(name: string): string | undefined {
  for (const folder of TOOL_FOLDERS) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // The program is not in this folder.
    }
  }
  return undefined;
}

const LIST_OPTIONS = { env: {}, timeout: 10_000 };
/** An option of GNU env alone. */
const GNU_OPTION = ["--ignore-signal=TERM"] as const;

/** Bytes of an executable in which linkers put the program headers and the name of the dynamic linker. */
const HEADER_BYTES = 4096;
const PT_INTERP = 3;

/** Returns the dynamic linker that an executable names (elf(5)), or undefined if it is no 64-bit little-endian ELF file. */
async function findLinker(executable: string): Promise<string | undefined> {
  await using file = await open(executable);
  const { buffer } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
  if (buffer.readUInt32BE(0) !== 0x7f_45_4c_46 || buffer.readUInt16BE(4) !== 0x02_01) return undefined;
  const [start, size, count] = [Number(buffer.readBigUInt64LE(32)), buffer.readUInt16LE(54), buffer.readUInt16LE(56)];
  for (let at = start; at < start + count * size; at += size) {
    if (buffer.readUInt32LE(at) !== PT_INTERP) continue;
    const [offset, bytes] = [Number(buffer.readBigUInt64LE(at + 8)), Number(buffer.readBigUInt64LE(at + 32))];
    // The text ends with a null character.
    return buffer.toString("utf8", offset, offset + bytes - 1);
  }
  return undefined;
}

/** Returns the paths of libraries in the linker's lists. */
const pathsIn = (lists: string): readonly string[] => [
  ...new Set(lists.split("\n").flatMap((line) => /(?:=>|^)\s*(\/\S+) \(0x/.exec(line)?.[1] ?? [])),
];

const LIST_EACH = 'for file; do "$0" --list "$file" || exit; done';

/**
 * Runs the dynamic linker for all files in one shell, which GNU env starts. A host copies its page tables for each process that it starts,
 * which takes 5 to 10 ms: with a process for each file and one for env, that is a fifth of the time of the first result.
 */
async function surveyAtOnce(files: readonly string[]): Promise<ProgramSurvey | undefined> {
  const [env, sh] = [findTool("env"), findTool("sh")];
  if (env === undefined || sh === undefined) return undefined;
  try {
    const linker = await findLinker(process.execPath);
    if (linker === undefined) return undefined;
    const command = [...GNU_OPTION, sh, "-c", LIST_EACH, linker, ...files];
    const { stdout } = await execFileAsync(env, command, LIST_OPTIONS);
    return { env, libraries: pathsIn(stdout) };
  } catch {
    return undefined;
  }
}

/** Returns the shared libraries that `ldd` finds; empty if it is missing or fails. */
async function librariesByLdd(files: readonly string[]): Promise<readonly string[]> {
  const ldd = findTool("ldd");
  if (ldd === undefined || files.length === 0) return [];
  try {
    return pathsIn((await execFileAsync(ldd, [...files], LIST_OPTIONS)).stdout);
  } catch {
    return [];
  }
}

/** Returns the path of GNU env. Other implementations do not support the option and fail. */
async function findGnuEnv(): Promise<string | undefined> {
  const env = findTool("env");
  if (env === undefined) return undefined;
  try {
    await execFileAsync(env, [...GNU_OPTION, env], LIST_OPTIONS);
    return env;
  } catch {
    return undefined;
  }
}

/** Properties of a machine's programs. */
export interface ProgramSurvey {
  /** Path of GNU env, if the machine has it. */
  readonly env: string | undefined;
  /** Shared libraries that the files load, as the dynamic linker finds them; empty if they cannot be determined. */
  readonly libraries: readonly string[];
}

/** Finds GNU env, and the shared libraries that executables and addons load. */
export async function surveyPrograms(files: readonly string[]): Promise<ProgramSurvey> {
  const survey = files.length === 0 ? undefined : await surveyAtOnce(files);
  if (survey !== undefined) return survey;
  const [env, libraries] = await Promise.all([findGnuEnv(), librariesByLdd(files)]);
  return { env, libraries };
}
