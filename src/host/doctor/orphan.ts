// The host process that the doctor kills: starts a worker process, directly or through a spawner, stops it by SIGSTOP, prints its PID, and
// waits to be killed. The doctor then checks whether the worker process outlives it.
import { loadSandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import { Launcher } from "../workers/hardening/launcher.ts";
import { innermostProcess } from "../workers/health/process-meter.ts";
import { ProcessStarter } from "../workers/spawn/process-starter.ts";

const { probePath } = await loadSandboxArtifacts();
const [without = "[]", targets = "{}", parent = "host"] = process.argv.slice(2);
const launcher = await Launcher.create({
  script: probePath,
  hardening: { require: [], without: JSON.parse(without), jitless: false },
  isolatesPerProcess: 1,
  starter: new ProcessStarter(parent === "host" ? Number.POSITIVE_INFINITY : 0),
});
const launched = launcher.launch(
  {
    onConnected: (socket) =>
      socket.once("data", () => {
        const pid = innermostProcess(launched.connection?.pid ?? 0);
        process.kill(pid, "SIGSTOP");
        process.stdout.write(`${pid}\n`);
      }),
    onExit: () => {},
    onClose: () => {},
  },
  { args: [targets] },
);
