#!/usr/bin/env node
// The command's entry. It first sees whether this Node can run the rest at all: nothing that needs a newer one is imported above that.
import nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

const MIN_NODE_MAJOR = 24;
const major = Number.parseInt(process.versions.node, 10);
if (major < MIN_NODE_MAJOR) {
  process.stderr.write(`glovebox needs Node ${MIN_NODE_MAJOR} or newer; this is Node ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  // A tenth of what a short command takes is compiling [m]. In the caller's home: what somebody else could write would be run. Where none
  // can be kept, Node goes on without.
  nodeModule.enableCompileCache(join(homedir(), ".cache", "glovebox", "node"));
  // Signals are handled before the rest is loaded.
  const { ProcessIo } = await import("./terminal/process-io.ts");
  await new ProcessIo(process).run(async (io) => {
    const { runCli } = await import("./cli.ts");
    return await runCli(process.argv.slice(2), io);
  });
}
