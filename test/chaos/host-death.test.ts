// The host dies by SIGKILL under load. No process that it started survives, whether busy, idle, building or stopped.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { commandOf, descendantsOf, readProcess, signal, treeOf } from "../support/process-tree.ts";
import { expectDead } from "../support/processes.ts";

const SCRIPT = fileURLToPath(new URL("../support/busy-host-script.ts", import.meta.url));
const isWorker = (pid: number): boolean => commandOf(pid).includes("/worker.cjs");
const isBuilder = (pid: number): boolean => /\/build-child\.cjs$/.test(commandOf(pid));

async function startHost(): Promise<ChildProcess> {
  const host = spawn(process.execPath, [SCRIPT], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => {
    host.kill("SIGKILL");
  });
  await once(host.stdout, "data");
  return host;
}

/** Stops the host, so that it starts nothing more, at a moment when it has workers and a build under way. */
async function freeze(host: ChildProcess): Promise<readonly number[]> {
  const { pid: root = 0 } = host;
  return await vi.waitFor(
    () => {
      host.kill("SIGSTOP");
      const pids = descendantsOf(root).map(({ pid }) => pid);
      const isAsWanted = pids.filter(isWorker).length >= 3 && pids.some(isBuilder);
      if (!isAsWanted) host.kill("SIGCONT");
      expect(isAsWanted).toBe(true);
      onTestFinished(() => {
        for (const pid of pids) if (readProcess(pid) !== undefined) signal(pid, "SIGKILL");
      });
      return pids;
    },
    { interval: 20 },
  );
}

test("a host that is killed under load leaves no worker and no bundler behind, also if they had been stopped before", async () => {
  const host = await startHost();
  const pids = await freeze(host);
  // A worker may run under wrappers, which have its command line too.
  const isOutermost = (pid: number): boolean => !isWorker(readProcess(pid)?.parent ?? 0);
  const workers = pids.filter((pid) => isWorker(pid) && isOutermost(pid));
  expect(workers.length).toBeGreaterThanOrEqual(2);
  // Every other one: what is busy and what is stopped end at the same death.
  for (const [index, worker] of workers.entries())
    if (index % 2 === 0) for (const pid of treeOf(worker)) signal(pid, "SIGSTOP");
  host.kill("SIGKILL");
  await expectDead(pids);
});
