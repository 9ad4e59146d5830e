// How a worker process is started: which flags, which files, which environment. The hardening table in code.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(import.meta.url);

/** A code cache is good only under the flags that it was made under: they are a part of its key. */
export const V8_FLAGS: readonly string[] = ["--no-turboshaft-loop-unrolling", "--no-wasm-async-compilation"];

/** Folders of packages that the worker loads, as linked and as they really lie (a package manager may link them). */
function packageFolders(): string[] {
  const isolatedVm = dirname(require.resolve("isolated-vm/package.json"));
  const fromThere = createRequire(join(isolatedVm, "package.json"));
  const nodeGypBuild = dirname(fromThere.resolve("node-gyp-build/package.json"));
  const folders = [isolatedVm, realpathSync(isolatedVm), nodeGypBuild, realpathSync(nodeGypBuild)];
  return [...new Set(folders)];
}

/**
 * Each with its reason:
 * - the permission model from the first instruction: no files but its own, no child processes, no network, no workers
 * - addons: isolated-vm is one
 * - FFI is on by default in Node 26 and would be a way around all of it
 * - V8: loop unrolling by Turboshaft let an allocating loop pass memoryLimit and survive dispose(); asynchronous
 *   WebAssembly compilation escapes an isolate's end (both measured with isolated-vm 7.0.1, Node 26.10)
 */
function nodeFlags(workerPath: string): string[] {
  const readable = [dirname(workerPath), ...packageFolders()];
  return [
    "--permission",
    "--allow-addons",
    ...readable.map((folder) => `--allow-fs-read=${join(folder, "*")}`),
    ...(process.allowedNodeEnvironmentFlags.has("--experimental-ffi") ? ["--no-experimental-ffi"] : []),
    ...V8_FLAGS,
    "--disable-warning=PERM0001",
  ];
}

/** Starts a worker. Its one channel is the socket at descriptor 3; what it writes elsewhere is for diagnosis only. */
export function launchWorker(workerPath: string): ChildProcess {
  return spawn(process.execPath, [...nodeFlags(workerPath), workerPath], {
    // Otherwise node-gyp-build looks for this file from inside, where it may not.
    env: { LIBC: existsSync("/etc/alpine-release") ? "musl" : "glibc" },
    cwd: dirname(workerPath),
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
}
