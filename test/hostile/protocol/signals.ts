// A worker process could signal any process of its user, such as the host and workers of other tenants. SIGUSR1 would even open a debugger.
import { expect, onTestFinished } from "vitest";
import { testWorkerAttack } from "./support.ts";

const heard: string[] = [];
const hear = (): void => void heard.push("SIGUSR2");
process.on("SIGUSR2", hear);

testWorkerAttack("signals its host", {
  worker: `serve((call) => {
    for (const pid of [process.ppid, ${process.pid}]) try { process.kill(pid, "SIGUSR2"); } catch {}
    setTimeout(() => behave(call), 50);
  });`,
  codes: ["ok"],
  dies: false,
  check: () => {
    onTestFinished(() => void process.off("SIGUSR2", hear));
    expect(heard).toEqual([]);
  },
});
