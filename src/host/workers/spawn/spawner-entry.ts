// The spawner: a small process that starts workers for the host. To start one, the operating system copies its parent's page tables,
// which takes 1 ms of a small process's time and 28 ms of a host's that holds 600 MiB (measured); meanwhile that host answers nobody.
// What it has started it ends when the host is gone, stopped or not.

import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { startTimeOf } from "../health/process-meter.ts";
import { setIdlePolicy } from "./idle-policy.ts";
import { inheritedDescriptors } from "./launch.ts";
import { killProcess, type ProcessIdentity } from "./process-identity.ts";
import { type SpawnCommand, spawnCommand } from "./spawn-command.ts";
import type { SpawnerReply, SpawnerRequest } from "./spawner-protocol.ts";

const HOST_LOOK_MS = 250;

/** What is to be ended with the host. */
const running = new Set<ProcessIdentity>();

function reply(message: SpawnerReply, socket?: Socket): void {
  // A host that is gone is told nothing: `disconnect` says so.
  if (process.connected) process.send?.(message, socket, undefined, () => {});
}

async function start(id: number, command: SpawnCommand): Promise<void> {
  const started = spawnCommand(command);
  // Read while nobody can have waited for it yet.
  const startTime = started && startTimeOf(started.pid);
  if (started === undefined || startTime === undefined) {
    started?.child.kill("SIGKILL");
    reply({ type: "failed", id });
    return;
  }
  const identity = { pid: started.pid, startTime };
  running.add(identity);
  reply({ type: "started", id, identity }, started.socket);
  const ending = await started.ended;
  running.delete(identity);
  reply({ type: "ended", id, ending });
}

process.on("message", (request: SpawnerRequest) => {
  if (request.type === "start") void start(request.id, request.command);
  else if (request.type === "adopt") running.add(request.identity);
  else setIdlePolicy(request.policy);
});

function end(): never {
  for (const identity of running) killProcess(identity);
  process.kill(process.pid, "SIGKILL");
  process.exit();
}

process.on("disconnect", end);

// Meant for the whole group, they are the host's to act on: it drains.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
// What whoever started the host left open in it is no worker's.
for (const descriptor of inheritedDescriptors()) closeSync(Number(descriptor));
// A host that died while this was being loaded, or an answer was on its way, may be gone without a word.
const hostPid = Number(process.argv[2]);
setInterval(() => {
  if (process.ppid !== hostPid) end();
}, HOST_LOOK_MS);
