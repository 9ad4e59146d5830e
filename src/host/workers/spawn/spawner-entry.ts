// Entry of the spawner, a small process that starts workers for the host. To start a process, the operating system
// copies the page tables of its parent: 1 ms for a small parent, 28 ms for a host of 600 MiB (measured), during which
// the host cannot respond. When the host ends, the spawner ends everything that it started, even stopped processes.

import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { startTimeOf } from "../health/process-meter.ts";
import { setIdlePolicy } from "./idle-policy.ts";
import { inheritedDescriptors } from "./launch.ts";
import { killProcess, type ProcessIdentity } from "./process-identity.ts";
import { type SpawnCommand, spawnCommand } from "./spawn-command.ts";
import type { SpawnerReply, SpawnerRequest } from "./spawner-protocol.ts";

const HOST_CHECK_MS = 250;

/** Processes to end together with the host. */
const running = new Set<ProcessIdentity>();

function reply(message: SpawnerReply, socket?: Socket): void {
  // Without a connection the host is gone, and `disconnect` ends the spawner.
  if (process.connected) process.send?.(message, socket, undefined, () => {});
}

async function start(id: number, command: SpawnCommand): Promise<void> {
  const started = spawnCommand(command);
  // Read at once: until the child is reaped, its pid cannot be reused.
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

// Signals to the whole process group are for the host, which drains first.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
// Workers must not inherit descriptors that the parent of the host left open.
for (const descriptor of inheritedDescriptors()) closeSync(Number(descriptor));
// A host that died while this module was loading may not cause `disconnect`, so the parent id is polled as well.
const hostPid = Number(process.argv[2]);
setInterval(() => {
  if (process.ppid !== hostPid) end();
}, HOST_CHECK_MS);
