// The Node process itself: which flags, which files, which environment. What it is wrapped in is hardening/'s to say.
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(import.meta.url);

const V8_FLAGS: readonly string[] = ["--no-turboshaft-loop-unrolling", "--no-wasm-async-compilation"];
/** A code cache is good only under the flags that it was made under: they are a part of its key. */
export const v8FlagsOf = ({ jitless }: { readonly jitless: boolean }): readonly string[] =>
  jitless ? [...V8_FLAGS, "--jitless"] : V8_FLAGS;

/** A folder as it is linked, and as it really lies: a package manager may link it. */
export interface LinkedFolder {
  readonly path: string;
  readonly real: string;
}

const linked = (path: string): LinkedFolder => ({ path, real: realpathSync(path) });

/** Packages that the worker loads. */
export function packageFolders(): readonly LinkedFolder[] {
  const isolatedVm = dirname(require.resolve("isolated-vm/package.json"));
  const fromThere = createRequire(join(isolatedVm, "package.json"));
  const nodeGypBuild = dirname(fromThere.resolve("node-gyp-build/package.json"));
  return [linked(isolatedVm), linked(nodeGypBuild)];
}

/** isolated-vm's native addon, to be asked for the libraries it needs. */
export function addonPath(): string {
  const isolatedVm = dirname(require.resolve("isolated-vm/package.json"));
  const fromThere = createRequire(join(isolatedVm, "package.json"));
  const find = fromThere("node-gyp-build") as { readonly path: (folder: string) => string };
  return realpathSync(find.path(isolatedVm));
}

const UNWANTED_MODULES = ["experimental-ffi", "experimental-sqlite"] as const;

export interface NodeArguments {
  readonly script: string;
  /** Packages that the script loads, as `packageFolders()` finds them. */
  readonly packages: readonly LinkedFolder[];
  readonly jitless: boolean;
  /** Node's permission model; left out only to show what holds without it. */
  readonly permission: boolean;
}

/**
 * Each with its reason:
 * - the permission model from the first instruction: no files but its own, no child processes, no network, no workers
 * - addons: isolated-vm is one
 * - FFI and SQLite are on by default in Node 26 and ways around it: SQLite opens files by itself
 * - V8: loop unrolling by Turboshaft let an allocating loop pass memoryLimit and survive dispose(); asynchronous
 *   WebAssembly compilation escapes an isolate's end (both measured with isolated-vm 7.0.1, Node 26.10)
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
    // Newer algorithms are a guest's to ask for, and nobody reads what Node would say of them.
    "--disable-warning=ExperimentalWarning",
    ...v8FlagsOf({ jitless }),
    script,
  ];
}

/** O_CLOEXEC of fcntl.h, as /proc writes it. */
const CLOSE_ON_EXEC = 0o2000000;
/** The worker's own: standard streams, its socket, and what bubblewrap reads. */
const OWN_DESCRIPTORS = 5;

/**
 * Descriptors that whoever started the host left open in it: Node closes the first few in what it starts, and no more. A worker is told to
 * close the others before anything else.
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
 * All that a worker's environment holds. `LIBC`: otherwise node-gyp-build looks for a file from inside, where it may not.
 * `TZ`: a guest is not told where the host is.
 */
export const workerEnvironment = (): NodeJS.ProcessEnv => ({
  LIBC: existsSync("/etc/alpine-release") ? "musl" : "glibc",
  TZ: "UTC",
});
