// Wheels that Python tools may import: read from a folder of the host's, by name, when the first Python tool comes.
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { pyodideFolder } from "../../bundler/python/python-runtime.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PythonOptions } from "../config/options.ts";
import type { PythonWheel } from "../workers/python-setup.ts";

/** NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM.whl (PEP 427, "File name convention"). */
const FILE_NAME =
  /^([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-\d[A-Za-z0-9_.]*)?-([a-z0-9_.]+)-([a-z0-9_.]+)-([a-z0-9_.]+)\.whl$/;
const MiB = 1024 * 1024;
/** Each process for Python holds all of them. */
const MAX_BYTES = 64 * MiB;
const MAX_BYTES_OF_ONE = 48 * MiB;

/** PEP 503: `Foo.bar_baz` and `foo-bar-baz` are one package. */
const normalized = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, "-");

interface FoundWheel {
  readonly name: string;
  readonly fileName: string;
  /** Undefined where it can be loaded. */
  readonly fault: string | undefined;
}

/** Pure Python, or built for this interpreter. @param built its tag, such as `cp314-cp314-pyemscripten_2026_0_wasm32` */
function faultOf(python: string, abi: string, platform: string, built: string): string | undefined {
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
  return { name: normalized(name), fileName, fault: faultOf(python, abi, platform, built) };
}

/** Of this Pyodide, as its own wheels have it: `cp314-cp314-pyemscripten_2026_0_wasm32`. */
async function readBuiltTag(): Promise<string> {
  const { info } = JSON.parse(await readFile(join(pyodideFolder(), "pyodide-lock.json"), "utf8")) as {
    readonly info: { readonly abi_version: string; readonly arch: string; readonly python: string };
  };
  const python = `cp${info.python.split(".").slice(0, 2).join("")}`;
  return `${python}-${python}-pyemscripten_${info.abi_version}_${info.arch}`;
}

const refused = (message: string): ToolError => new ToolError("PARAM_INVALID", `options.python.packages: ${message}`);

function choose(found: readonly FoundWheel[], name: string): string {
  const named = found.filter((wheel) => wheel.name === normalized(name));
  const fitting = named.filter(({ fault }) => fault === undefined);
  const [first, second] = fitting;
  if (first !== undefined && second === undefined) return first.fileName;
  if (first !== undefined) {
    throw refused(`expected one wheel of ${name}, got ${fitting.map(({ fileName }) => fileName).join(", ")}`);
  }
  const [other] = named;
  throw refused(
    other === undefined ? `there is no wheel of ${name} in the store` : `${other.fileName}: ${other.fault}`,
  );
}

/**
 * Those that are allowed, in the order of their names. What one of them depends on has to be allowed, too.
 * @throws {ToolError} PARAM_INVALID for one that is missing, is there twice, is built for another interpreter, or is too large
 */
export async function readWheels(packages: PythonOptions["packages"]): Promise<readonly PythonWheel[]> {
  if (packages === undefined || packages.allow.length === 0) return [];
  const built = await readBuiltTag();
  const { store, allow } = packages;
  const names = await readdir(store).catch(() => {
    throw refused("the store is no folder that can be read");
  });
  const found = names.flatMap((fileName) => parse(fileName, built) ?? []);
  const fileNames = [...new Set(allow.map((name) => choose(found, name)))].sort();
  const wheels: PythonWheel[] = [];
  let left = MAX_BYTES;
  for (const fileName of fileNames) {
    const path = join(store, fileName);
    const { size } = await stat(path);
    if (size > MAX_BYTES_OF_ONE || size > left) {
      throw refused(`expected wheels of at most ${MAX_BYTES / MiB} MiB together, ${MAX_BYTES_OF_ONE / MiB} MiB each`);
    }
    left -= size;
    wheels.push({ fileName, bytes: await readFile(path) });
  }
  return wheels;
}
