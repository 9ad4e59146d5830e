// Glovebox.close() while a part of it hangs: it resolves, and nothing keeps the host's process alive afterwards.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../support/hanging-close-script.ts", import.meta.url));

/** The modes of one group hang one after the other in the same process. To find the one that keeps a process alive, give it a group of its own. */
const GROUPS: readonly (readonly string[])[] = [
  ["nothing", "kv-pipe", "kv-folder", "host-kv-store", "capability", "host-function", "host-source", "flags"],
  ["hook-validate", "hook-prepare", "hook-execute", "hook-result", "client", "loop", "session", "stream"],
  ["bundler", "mcp-deaf", "mcp-mute"],
];

const LISTS = GROUPS.map((modes) => modes.join(", "));
test.for(LISTS)("close() resolves, and the process ends by itself, with %s", async (group) => {
  const modes = group.split(", ");
  const folder = mkdtempSync(join(tmpdir(), "glovebox-close-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const args = ["--no-node-snapshot", SCRIPT, folder, ...modes];
  const host = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void host.kill("SIGKILL"));
  const exit = once(host, "exit");
  const said: string[] = [];
  for await (const line of createInterface({ input: host.stdout })) said.push(line);
  expect([said, await exit]).toEqual([modes.flatMap((mode) => [`${mode}: begun`, `${mode}: closed`]), [0, null]]);
});
