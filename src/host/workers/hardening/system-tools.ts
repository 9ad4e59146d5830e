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

/** Asks the dynamic linker directly: `ldd` is a shell script that starts a dozen processes, which takes 20 to 50 ms. */
async function askLinker(files: readonly string[]): Promise<readonly string[] | undefined> {
  try {
    const linker = await findLinker(process.execPath);
    if (linker === undefined) return undefined;
    const listed = files.map((file) => execFileAsync(linker, ["--list", file], LIST_OPTIONS));
    return (await Promise.all(listed)).map(({ stdout }) => stdout);
  } catch {
    return undefined;
  }
}

async function askLdd(files: readonly string[]): Promise<readonly string[]> {
  const ldd = findTool("ldd");
  return ldd === undefined ? [] : [(await execFileAsync(ldd, [...files], LIST_OPTIONS)).stdout];
}

/** Returns the shared libraries that the files load, as found by the dynamic linker; empty if it cannot be asked. */
export async function librariesOf(files: readonly string[]): Promise<readonly string[]> {
  try {
    const lines = ((await askLinker(files)) ?? (await askLdd(files))).flatMap((text) => text.split("\n"));
    const paths = lines.flatMap((line) => /(?:=>|^)\s*(\/\S+) \(0x/.exec(line)?.[1] ?? []);
    return [...new Set(paths)];
  } catch {
    return [];
  }
}

/** Returns the path of GNU env. Other implementations do not support the option and fail. */
export async function findGnuEnv(): Promise<string | undefined> {
  const env = findTool("env");
  if (env === undefined) return undefined;
  try {
    await execFileAsync(env, ["--ignore-signal=TERM", env], { env: {}, timeout: 5_000 });
    return env;
  } catch {
    return undefined;
  }
}
