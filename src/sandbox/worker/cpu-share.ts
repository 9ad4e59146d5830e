// CPU time of isolates. isolated-vm's `cpuTime` is the time that a thread has spent in the isolate by the wall's clock: on a machine
// with more to run than it has cores, mostly waiting (16 loops on 2 cores: 59 s in 4 s). What the process has really used is
// known to the kernel, so that is divided among the isolates by the time each has been in.

/** An isolate's user. */
export interface CpuShareAccount {
  /** Time spent in the isolate since the last time this was asked, in ms of the wall's clock. */
  takeBusyMs(): number;
  charge(cpuMs: number): void;
}

export class CpuShare {
  #usedMs = 0;
  #factor = 1;

  /** Of the time in an isolate, the part that is CPU time: 1 where there is a core for each thread. */
  get factor(): number {
    return this.#factor;
  }

  /** From here on the process's CPU time is somebody's. */
  begin(): void {
    this.#usedMs = processCpuMs();
  }

  /** Divides what the process has used since the last time. No isolate is charged more than the time it has been in. */
  share(payers: readonly CpuShareAccount[]): void {
    const usedMs = processCpuMs();
    const spentMs = usedMs - this.#usedMs;
    this.#usedMs = usedMs;
    const busy = payers.map((payer) => payer.takeBusyMs());
    const totalMs = busy.reduce((sum, ms) => sum + ms, 0);
    if (totalMs > 0) this.#factor = Math.min(1, spentMs / totalMs);
    for (const [index, payer] of payers.entries()) payer.charge((busy[index] ?? 0) * this.#factor);
  }
}

function processCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
