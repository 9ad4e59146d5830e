#!/usr/bin/env node
// Entry point of the command. Checks the version of Node before it imports anything that requires a newer one.
import nodeModule from "node:module";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { makeFolderSync } from "../bundler/locate/make-folder.ts";
import { homeFolder } from "../host/util/home-folder.ts";
import { oldNodeMessage } from "../host/util/node-version.ts";

/**
 * Enables Node's cache of compiled code. It is in the user's home, because cached code that others could write would be executed. The folder
 * is created first: where nothing can be created, such as below /proc, Node's own function never returns.
 */
function cacheCompiledCode(): void {
  let folder: string;
  try {
    folder = join(homeFolder(), ".cache", "glovebox", "node");
    makeFolderSync(folder);
  } catch {
    // Without a cache, the command takes longer.
    return;
  }
  nodeModule.enableCompileCache(folder);
}

const oldNode = oldNodeMessage();
if (oldNode !== undefined) {
  process.stderr.write(`${oldNode}\n`);
  process.exitCode = 2;
} else {
  // An executor runs for long and allocates little: its space for new objects stays at 1 MiB, where it would grow to 32. It
  // would keep the cached code of all its functions, of which it calls few (2 MiB, measured).
  if (process.argv[2] === "executor") setFlagsFromString("--semi-space-growth-factor=1");
  // Compiling takes a tenth of a short command's time (measured).
  else cacheCompiledCode();
  // Installs the signal handlers before the rest is loaded.
  const { ProcessIo } = await import("./terminal/process-io.ts");
  await new ProcessIo(process).run(async (io) => {
    const { runCli } = await import("./cli.ts");
    return await runCli(process.argv.slice(2), io);
  });
}
