// Estimates the CPU time of isolates. isolated-vm's `cpuTime` is the wall-clock time that a thread spent in the isolate. On a machine with
// more running threads than cores that is mostly waiting (16 loops on 2 cores: 59 s in 4 s). Therefore the process's CPU time, as measured
// by the kernel, is divided among the isolates in proportion to their wall-clock time.

/** Call to which the CPU time of an isolate is charged. */
export interface CpuShareAccount {
  /** Returns the wall-clock time in ms that was spent in the isolate since the last call of this method. */
  takeBusyMs(): number;
  charge(cpuMs: number): void;
}

export class CpuShare {
  #usedMs = 0;
  #factor = 1;

  /** Fraction of the time in an isolate that is CPU time: 1 if there is a core for each thread. */
  get factor(): number {
    return this.#factor;
  }

  /** Starts a period in which the process's CPU time is charged to calls. */
  begin(): void {
    this.#usedMs = processCpuMs();
  }

  /** Divides the CPU time since the last call of this method. No isolate is charged more than its wall-clock time. */
  share(accounts: readonly CpuShareAccount[]): void {
    const usedMs = processCpuMs();
    const spentMs = usedMs - this.#usedMs;
    this.#usedMs = usedMs;
    const busy = accounts.map((account) => account.takeBusyMs());
    const totalMs = busy.reduce((sum, ms) => sum + ms, 0);
    if (totalMs > 0) this.#factor = Math.min(1, spentMs / totalMs);
    for (const [index, account] of accounts.entries()) account.charge((busy[index] ?? 0) * this.#factor);
  }
}

function processCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
