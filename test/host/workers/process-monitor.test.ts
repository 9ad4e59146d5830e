// CPU time that a process may use without a call: almost none, or what its kind does ahead.
import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { ProcessMonitor } from "../../../src/host/workers/health/process-monitor.ts";

function startBurning(): number {
  const child = spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child.pid as number;
}

test("ProcessMonitor.checkIdle() allows the idle work of the process's kind, again after each call, and no more", async () => {
  const pid = startBurning();
  const watches = [0, 400, 3_600_000].map((idleWorkMs) => new ProcessMonitor(idleWorkMs));
  for (const watch of watches) {
    onTestFinished(() => watch[Symbol.dispose]());
    watch.begin(pid, 0);
    expect(watch.checkIdle(Number.POSITIVE_INFINITY)).toBeUndefined();
  }
  const [strict, some, generous] = watches as [ProcessMonitor, ProcessMonitor, ProcessMonitor];
  const burnt = (ms: number): Promise<void> => {
    const { cpuMs } = generous;
    return expect
      .poll(
        () => {
          generous.refresh();
          return generous.cpuMs - cpuMs;
        },
        { timeout: 20_000, interval: 20 },
      )
      .toBeGreaterThan(ms);
  };
  await burnt(350);
  expect(strict.checkIdle(Number.POSITIVE_INFINITY)).toBe("burning");
  await burnt(100);
  expect(some.checkIdle(Number.POSITIVE_INFINITY)).toBe("burning");
  some.beginWork();
  expect(some.checkIdle(Number.POSITIVE_INFINITY)).toBeUndefined();
  expect(generous.checkIdle(Number.POSITIVE_INFINITY)).toBeUndefined();
  expect(generous.checkIdle(0)).toBe("memory");
});
