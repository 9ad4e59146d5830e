#!/usr/bin/env node
// The command's entry. It first sees whether this Node can run the rest at all: nothing that needs a newer one is imported above that.
import nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { oldNodeMessage } from "../host/util/node-version.ts";

const oldNode = oldNodeMessage();
if (oldNode !== undefined) {
  process.stderr.write(`${oldNode}\n`);
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
