// A host whose spawner dies while no file descriptors are free. Prints `alive` when it has continued, and `replaced` when descriptors
// are free again and the spawner has been replaced. Run by starter.test.ts.
import { closeSync, openSync } from "node:fs";
import { setTimeout as pause, setImmediate as turn } from "node:timers/promises";
import { childrenOf } from "../../src/host/workers/health/process-meter.ts";
import { ProcessStarter } from "../../src/host/workers/spawn/process-starter.ts";

const starter = new ProcessStarter(0);
const connected = Promise.withResolvers<void>();
const argv = [process.execPath, "-e", "setInterval(() => {}, 1_000)"];
const command = { argv, cwd: "/", env: {}, detached: false, niceness: 0, filter: undefined };
const launched = starter.start(() => command, { onConnected: () => connected.resolve(), onExit() {}, onClose() {} });
await connected.promise;
const open: number[] = [];
const exhaust = (): void => {
  try {
    for (;;) open.push(openSync("/dev/null", "r"));
  } catch {
    // There are none left.
  }
};
const spawners = childrenOf(process.pid);
exhaust();
for (const spawner of spawners) process.kill(spawner, "SIGKILL");
const until = performance.now() + 500;
// The descriptors of the dead spawner are taken at once.
while (performance.now() < until) {
  exhaust();
  await turn();
}
console.log("alive");
for (const descriptor of open) closeSync(descriptor);
while (!childrenOf(process.pid).some((pid) => !spawners.includes(pid))) await pause(20);
console.log("replaced");
launched.kill();
starter[Symbol.dispose]();
process.exit();
