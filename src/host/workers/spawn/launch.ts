// Builds the command line and environment of the worker's Node.js process. hardening/ decides what wraps it.
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(import.meta.url);

const V8_FLAGS: readonly string[] = [
  "--no-turboshaft-loop-unrolling",
  "--no-wasm-async-compilation",
  "--no-wasm-deopt",
];
/** V8 flags of a worker. Code caches are valid only under the same flags, so the flags are part of a cache's key. */
export const v8FlagsOf = ({ jitless }: { readonly jitless: boolean }): readonly string[] =>
  jitless ? [...V8_FLAGS, "--jitless"] : V8_FLAGS;

/** A folder's path and its real path. They differ where a package manager links packages. */
export interface ResolvedFolder {
  readonly path: string;
  readonly real: string;
}

const toResolvedFolder = (path: string): ResolvedFolder => ({ path, real: realpathSync(path) });

/** Returns the packages that the worker loads. */
export function packageFolders(): readonly ResolvedFolder[] {
  const isolatedVm = dirname(require.resolve("isolated-vm/package.json"));
  const requireFromPackage = createRequire(join(isolatedVm, "package.json"));
  const nodeGypBuild = dirname(requireFromPackage.resolve("node-gyp-build/package.json"));
  return [toResolvedFolder(isolatedVm), toResolvedFolder(nodeGypBuild)];
}

/** Returns the path of isolated-vm's native addon, to find the shared libraries that it needs. */
export function addonPath(): string {
  const isolatedVm = dirname(require.resolve("isolated-vm/package.json"));
  const requireFromPackage = createRequire(join(isolatedVm, "package.json"));
  const find = requireFromPackage("node-gyp-build") as { readonly path: (folder: string) => string };
  return realpathSync(find.path(isolatedVm));
}

const UNWANTED_MODULES = ["experimental-ffi", "experimental-sqlite"] as const;

export interface NodeArguments {
  readonly script: string;
  /** Packages that the script loads, from `packageFolders()`. */
  readonly packages: readonly ResolvedFolder[];
  readonly jitless: boolean;
  /** Enables Node's permission model. Tests disable it to check the other layers alone. */
  readonly permission: boolean;
}

/**
 * Returns Node's arguments. The reasons for each:
 * - Permission model: from the first instruction no files but its own, no child processes, no network, no workers.
 * - Addons: isolated-vm is one.
 * - FFI and SQLite: on by default in Node 26, and both bypass the permission model (SQLite opens files by itself).
 * - V8: loop unrolling by Turboshaft let an allocating loop pass memoryLimit and survive dispose(). Asynchronous
 *   WebAssembly compilation survives the end of its isolate (both measured with isolated-vm 7.0.1, Node 26.10).
 *   Deoptimization compiles Python's main loop, a function of 77 KiB, up to four times for 0.3 s each (measured); without it, computing
 *   Python takes no longer.
 *   They are on the command line, although V8 then rejects the code caches of Node's own modules (a tenth of a start): a Node that does
 *   not know one must not start.
 */
export function nodeArguments({ script, packages, jitless, permission }: NodeArguments): readonly string[] {
  const folders = packages.flatMap(({ path, real }) => [path, real]);
  const readable = [...new Set([dirname(script), ...folders])];
  const permissions = [
    "--permission",
    "--allow-addons",
    ...readable.map((folder) => `--allow-fs-read=${join(folder, "*")}`),
    "--disable-warning=PERM0001",
  ];
  return [
    ...(permission ? permissions : []),
    ...UNWANTED_MODULES.filter((name) => process.allowedNodeEnvironmentFlags.has(`--${name}`)).map(
      (name) => `--no-${name}`,
    ),
    // Guests may use experimental algorithms, and the warnings would have no reader.
    "--disable-warning=ExperimentalWarning",
    ...v8FlagsOf({ jitless }),
    script,
  ];
}

/** O_CLOEXEC of fcntl.h, as /proc writes it. */
const CLOSE_ON_EXEC = 0o2000000;
/** Descriptors of the worker itself: standard streams, its socket, and the one that bubblewrap reads. */
const OWN_DESCRIPTORS = 5;

/**
 * Returns the descriptors that the parent of the host left open in it. Node closes only the first few in its children.
 * A worker receives this list and closes them before anything else.
 */
export function inheritedDescriptors(): readonly string[] {
  try {
    return readdirSync("/proc/self/fd").filter((descriptor) => {
      const flags = /^flags:\s*(\d+)/m.exec(readOrEmpty(`/proc/self/fdinfo/${descriptor}`))?.[1];
      const isOpenInChildren = flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
      return isOpenInChildren && Number(descriptor) >= OWN_DESCRIPTORS;
    });
  } catch {
    return [];
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/**
 * Returns the whole environment of a worker. `LIBC` keeps node-gyp-build from looking for a file that it may not read.
 * `TZ` hides the host's time zone from guests.
 */
export const workerEnvironment = (): NodeJS.ProcessEnv => ({
  LIBC: existsSync("/etc/alpine-release") ? "musl" : "glibc",
  TZ: "UTC",
});
