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

/** CPU time of this thread in ms. The kernel counts it in steps of some ms. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function msOf(run: () => unknown, runs = 1): number {
  const started = threadMs();
  for (let index = 0; index < runs; index += 1) run();
  return threadMs() - started;
}

/** Below this many ms of CPU time, the steps of the kernel's clock are larger than what is measured. */
const MEASURABLE_MS = 40;
const MAX_RUNS = 4_096;
/** Rounds until a run counts as slow: a collection of garbage, or what else the machine does, falls into some of them. */
const ROUNDS = 5;

/** CPU time of one run in ms, which is repeated until it can be measured. */
export function msPerRun(run: () => unknown): number {
  for (let runs = 1; ; runs *= 2) {
    const ms = msOf(run, runs);
    if (ms >= MEASURABLE_MS || runs >= MAX_RUNS) return ms / runs;
  }
}

const WORK = `[${"1,".repeat(200_000)}1]`;
/** CPU time of parsing it on a usual machine, in ms. */
const USUAL_MS = 2;
/** How many times as slow as a usual machine this one is now; at least 1. */
const slowness = (): number => Math.max(1, msPerRun(() => JSON.parse(WORK)) / USUAL_MS);

/** Expects that a run takes less CPU time than a bound, which is for a usual machine: a slow one has more. */
export function expectQuick(run: () => unknown, boundMs: number, what: unknown): void {
  for (let round = 1; ; round += 1) {
    const ms = msOf(run);
    if (ms < boundMs) return;
    const slowBoundMs = boundMs * slowness();
    if (ms < slowBoundMs) return;
    if (round === ROUNDS) expect(ms, `CPU time of ${JSON.stringify(what)}`).toBeLessThan(slowBoundMs);
  }
}

/**
 * Expects that the CPU time of a run grows about linearly with its size: sixteen times the size takes less than 80 times as long. Quadratic
 * work takes 256 times as long, on a machine of any speed.
 */
export function expectLinearTime(run: (size: number) => unknown, size: number): void {
  // Compiles the code first.
  run(size);
  for (let round = 1; ; round += 1) {
    const ratio = msPerRun(() => run(16 * size)) / msPerRun(() => run(size));
    if (ratio < 80) return;
    if (round === ROUNDS) expect(ratio, `CPU time of size ${16 * size} against ${size}`).toBeLessThan(80);
  }
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
