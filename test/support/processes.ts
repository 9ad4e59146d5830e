// Reads the process table from /proc: processes, their parents and their CPU usage.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { expect, vi } from "vitest";

/** Signals are numbered from 1. */
const SIGKILL_BIT = 8n;

interface ProcessStat {
  readonly state: string;
  readonly parent: number;
  /** User and system time, in ticks of 10 ms. */
  readonly ticks: number;
}

function statOf(pid: number): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may hold spaces.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state = "", parent = "0"] = fields;
    return { state, parent: Number(parent), ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined;
  }
}

/** A zombie is dead: it only waits to be counted. */
export function isAlive(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && stat.state !== "Z" && stat.state !== "X";
}

/** SIGKILL has been sent to it, and it has found no time to die yet: a processor that is busy comes to it last. */
export function isBeingKilled(pid: number): boolean {
  const pending = /^SigPnd:\s*([0-9a-f]+)$/m.exec(readOr(`/proc/${pid}/status`))?.[1] ?? "0";
  return ((BigInt(`0x${pending}`) >> SIGKILL_BIT) & 1n) === 1n;
}

export function childrenOf(parent: number): number[] {
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return pids.filter((pid) => statOf(pid)?.parent === parent && isAlive(pid));
}

function readOr(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // It ended while we looked.
  }
}

/** Processor time of this thread. */
export const threadMs = (): number => Number(readOr("/proc/thread-self/schedstat").split(" ")[0] ?? 0) / 1e6;

/** The least processor time of this thread that three runs have taken: a collection of garbage falls into one of them. */
export function leastThreadMs(run: () => unknown): number {
  const times = [0, 1, 2].map(() => {
    const started = threadMs();
    run();
    return threadMs() - started;
  });
  return Math.min(...times);
}

/** Below this many ms of CPU time, the clock's steps and the machine's other work are larger than what is measured. */
const MEASURABLE_MS = 1;

/**
 * Expects that the CPU time of a run grows about linearly with its size: sixteen times the size takes less than 80 times as long. Quadratic
 * work takes 256 times as long, on a machine of any speed.
 */
export function expectLinearTime(run: (size: number) => unknown, size: number): void {
  // Compiles the code first.
  run(size);
  const smallMs = leastThreadMs(() => run(size));
  const largeMs = leastThreadMs(() => run(16 * size));
  expect(largeMs / Math.max(MEASURABLE_MS, smallMs), `CPU time of size ${16 * size} against ${size}`).toBeLessThan(80);
}

const PAGE_BYTES = 4_096;

/** Resident memory; 0 for a process that is gone. */
export function residentMiB(pid: number): number {
  return (Number(readOr(`/proc/${pid}/statm`).split(" ")[1] ?? 0) * PAGE_BYTES) / 2 ** 20;
}

/** These processes, and all below them: a worker may run under a wrapper. Cheap enough for a hundred looks a second. */
export function withDescendants(pids: readonly number[]): number[] {
  const all = [...pids];
  for (let index = 0; index < all.length; index += 1) {
    const children = readOr(`/proc/${all[index]}/task/${all[index]}/children`);
    all.push(...children.split(" ").filter(Boolean).map(Number));
  }
  return all;
}

const ticksOf = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + (statOf(pid)?.ticks ?? 0), 0);

/** CPU time in ms of these processes together, in steps of the kernel's clock. */
export const cpuMsOfAll = (pids: readonly number[]): number => ticksOf(withDescendants(pids)) * 10;

export async function expectDead(pids: readonly number[], withinMs = 200_000): Promise<void> {
  await vi.waitFor(() => expect(pids.filter(isAlive)).toEqual([]), { timeout: withinMs, interval: 10 });
}

const WATCH_MS = 120;
/** A core that is busy for WATCH_MS burns 12 ticks; an idle process now and then one. */
const IDLE_TICKS = 4;

/** Asserts that these processes use no more CPU time. */
export async function expectIdle(pidsOf: () => readonly number[], withinMs = 200_000): Promise<void> {
  await vi.waitFor(
    async () => {
      const pids = withDescendants(pidsOf());
      const before = ticksOf(pids);
      await pause(WATCH_MS);
      expect(ticksOf(pids) - before).toBeLessThan(IDLE_TICKS);
    },
    { timeout: withinMs, interval: 20 },
  );
}
