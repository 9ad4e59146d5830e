// Tests ProcessMonitor: the CPU time that a process may use without a call, and when it counts as hung.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
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
        { interval: 20 },
      )
      .toBeGreaterThan(ms);
  };
  await burnt(350);
  expect(strict.checkIdle(Number.POSITIVE_INFINITY)).toBe("idle-cpu");
  await burnt(100);
  expect(some.checkIdle(Number.POSITIVE_INFINITY)).toBe("idle-cpu");
  some.beginWork();
  expect(some.checkIdle(Number.POSITIVE_INFINITY)).toBeUndefined();
  expect(generous.checkIdle(Number.POSITIVE_INFINITY)).toBeUndefined();
  expect(generous.checkIdle(0)).toBe("memory");
});

test("ProcessMonitor.check() does not count the time that a process waits for a core as silence", async () => {
  const [pid = 0] = Array.from({ length: availableParallelism() + 1 }, startBurning);
  const monitor = new ProcessMonitor();
  onTestFinished(() => monitor[Symbol.dispose]());
  monitor.begin(pid, 0);
  let pings = 0;
  const check = (elapsedMs: number): unknown => monitor.check(elapsedMs, Number.POSITIVE_INFINITY, () => (pings += 1));
  expect(check(300)).toBeUndefined();
  expect(pings).toBe(1);
  const waitedBefore = monitor.waitedMs;
  await expect.poll(() => monitor.waitedMs - waitedBefore, { timeout: 60_000, interval: 20 }).toBeGreaterThan(200);
  // Of 5,300 ms of silence, the process has waited for more than 50 ms.
  expect(check(5_000)).toBeUndefined();
  expect(check(600_000)).toBe("hung");
});
