// A host that is about to die: starts a worker's process, by itself or through a spawner, stops it by a signal, tells its number and
// waits for its own end. Run by the doctor, to see whether the process outlives it.
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
