#!/usr/bin/env node
// The command's entry. It first sees whether this Node can run the rest at all: nothing that needs a newer one is imported above that.
const MIN_NODE_MAJOR = 24;
const major = Number.parseInt(process.versions.node, 10);
if (major < MIN_NODE_MAJOR) {
  process.stderr.write(`glovebox needs Node ${MIN_NODE_MAJOR} or newer; this is Node ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  const { runCli } = await import("./cli.ts");
  process.exitCode = await runCli(process.argv.slice(2), process);
}

export {};
