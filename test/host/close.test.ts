// Glovebox.close() while a part of it hangs: it resolves, and nothing keeps the host's process alive afterwards.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../support/hanging-close-script.ts", import.meta.url));

const MODES = [
  ...["nothing", "kv-pipe", "kv-folder", "host-kv-store", "capability", "host-function", "host-source", "flags"],
  ...["hook-validate", "hook-prepare", "hook-execute", "hook-result", "client", "loop", "session", "stream", "bundler"],
  ...["mcp-deaf", "mcp-mute"],
];

test.for(MODES)("close() resolves, and the process ends by itself, with %s", async (mode) => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-close-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const args = ["--no-node-snapshot", SCRIPT, mode, folder];
  const host = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void host.kill("SIGKILL"));
  const exit = once(host, "exit");
  const said: string[] = [];
  for await (const line of createInterface({ input: host.stdout })) said.push(line);
  expect([said, await exit]).toEqual([
    ["begun", "closed"],
    [0, null],
  ]);
});
