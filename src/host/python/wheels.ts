// Reads the wheels that Python tools may import from a folder of the host, when the first Python tool is added.
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { pyodideFolder } from "../../bundler/python/python-runtime.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { pack, unpack } from "../../sandbox/protocol/length-prefixed.ts";
import type { PythonOptions } from "../config/glovebox-options.ts";
import type { PythonWheel } from "../workers/spawn/python-setup.ts";

/** NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM.whl (PEP 427, "File name convention"). */
const FILE_NAME =
  /^([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-\d[A-Za-z0-9_.]*)?-([a-z0-9_.]+)-([a-z0-9_.]+)-([a-z0-9_.]+)\.whl$/;
const MiB = 1024 * 1024;
/** Limits on wheels, because each Python process has all of them in memory. */
const MAX_TOTAL_BYTES = 64 * MiB;
const MAX_WHEEL_BYTES = 48 * MiB;

/** Normalizes a package name (PEP 503): `Foo.bar_baz` and `foo-bar-baz` are the same package. */
const normalized = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, "-");

interface FoundWheel {
  readonly name: string;
  readonly fileName: string;
  /** Reason why it cannot be loaded; undefined if it can. */
  readonly fault: string | undefined;
}

/**
 * Checks that a wheel is pure Python or built for this interpreter.
 * @param built tag of the interpreter, such as `cp314-cp314-pyemscripten_2026_0_wasm32`
 */
function incompatibilityOf(python: string, abi: string, platform: string, built: string): string | undefined {
  const pythons = python.split(".");
  if (abi === "none" && platform === "any" && pythons.some((tag) => /^(?:py3|cp3)/.test(tag))) return undefined;
  const [builtPython, builtAbi, builtPlatform = ""] = built.split("-");
  const fits = pythons.includes(builtPython ?? "") && [builtAbi, "abi3"].includes(abi);
  if (fits && platform.split(".").includes(builtPlatform)) return undefined;
  return `it is built for ${python}-${abi}-${platform}; expected py3-none-any or ${built}`;
}

function parse(fileName: string, built: string): FoundWheel | undefined {
  const [, name, , python, abi, platform] = FILE_NAME.exec(fileName) ?? [];
  if (name === undefined || python === undefined || abi === undefined || platform === undefined) return undefined;
  return { name: normalized(name), fileName, fault: incompatibilityOf(python, abi, platform, built) };
}

/** Returns the interpreter's tag as in Pyodide's own wheels: `cp314-cp314-pyemscripten_2026_0_wasm32`. */
async function readBuiltTag(): Promise<string> {
  const { info } = JSON.parse(await readFile(join(pyodideFolder(), "pyodide-lock.json"), "utf8")) as {
    readonly info: { readonly abi_version: string; readonly arch: string; readonly python: string };
  };
  const python = `cp${info.python.split(".").slice(0, 2).join("")}`;
  return `${python}-${python}-pyemscripten_${info.abi_version}_${info.arch}`;
}

const invalidPackages = (message: string): ToolError =>
  new ToolError("PARAM_INVALID", `options.python.packages: ${message}`);

function choose(found: readonly FoundWheel[], name: string): string {
  const named = found.filter((wheel) => wheel.name === normalized(name));
  const fitting = named.filter(({ fault }) => fault === undefined);
  const [first, second] = fitting;
  if (first !== undefined && second === undefined) return first.fileName;
  if (first !== undefined) {
    throw invalidPackages(`expected one wheel of ${name}, got ${fitting.map(({ fileName }) => fileName).join(", ")}`);
  }
  const [other] = named;
  throw invalidPackages(
    other === undefined ? `the folder has no wheel of ${name}` : `${other.fileName}: ${other.fault}`,
  );
}

/**
 * Reads the allowed wheels, sorted by file name. Dependencies of a wheel must be allowed, too.
 * @throws {ToolError} PARAM_INVALID for a wheel that is missing, ambiguous, built for another interpreter, or too large
 */
export async function readWheels(packages: PythonOptions["packages"]): Promise<readonly PythonWheel[]> {
  if (packages === undefined || packages.allow.length === 0) return [];
  const built = await readBuiltTag();
  const { dir: store, allow } = packages;
  const names = await readdir(store).catch(() => {
    throw invalidPackages("the store is not a readable folder");
  });
  const found = names.flatMap((fileName) => parse(fileName, built) ?? []);
  const fileNames = [...new Set(allow.map((name) => choose(found, name)))].sort();
  const wheels: PythonWheel[] = [];
  let left = MAX_TOTAL_BYTES;
  for (const fileName of fileNames) {
    const path = join(store, fileName);
    const { size } = await stat(path);
    if (size > MAX_WHEEL_BYTES || size > left) {
      throw invalidPackages(
        `expected wheels of at most ${MAX_TOTAL_BYTES / MiB} MiB together, ${MAX_WHEEL_BYTES / MiB} MiB each`,
      );
    }
    left -= size;
    wheels.push({ fileName, bytes: await readFile(path) });
  }
  return wheels;
}

/** Joins wheels into one object, which executors read by its hash. Returns undefined if there are none. */
export const packWheels = (wheels: readonly PythonWheel[]): Uint8Array | undefined =>
  wheels.length === 0 ? undefined : pack(wheels.flatMap(({ fileName, bytes }) => [Buffer.from(fileName), bytes]));

/**
 * Returns the wheels of such an object, as views into it.
 * @throws {Error} if it does not hold wheels
 */
export function unpackWheels(packed: Uint8Array | undefined): readonly PythonWheel[] {
  const parts = packed === undefined ? [] : unpack(packed);
  const wheels: PythonWheel[] = [];
  for (let index = 0; index < parts.length; index += 2) {
    const fileName = Buffer.from(parts[index] ?? []).toString();
    const bytes = parts[index + 1];
    if (bytes === undefined || !FILE_NAME.test(fileName)) throw new Error("Expected wheels, got other bytes");
    wheels.push({ fileName, bytes });
  }
  if (packed !== undefined && wheels.length === 0) throw new Error("Expected wheels, got other bytes");
  return wheels;
}
