// A host that is about to die: starts a worker's process, stops it by a signal, tells its number and waits for its own end. Run by the
// doctor, to see whether the process outlives it.
import { loadSandboxArtifacts } from "../../bundler/sandbox-artifacts.ts";
import { Launcher } from "../workers/hardening/launcher.ts";
import { innermostProcess } from "../workers/process-meter.ts";

const { probePath } = await loadSandboxArtifacts();
const [without = "[]", targets = "{}"] = process.argv.slice(2);
const launcher = await Launcher.create(probePath, { require: [], without: JSON.parse(without), jitless: false }, 1);
const child = launcher.launch({ args: [targets] });
child.stdio[3]?.once("data", () => {
  const pid = innermostProcess(child.pid ?? 0);
  process.kill(pid, "SIGSTOP");
  process.stdout.write(`${pid}\n`);
});
