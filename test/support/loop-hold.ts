// Measures how long the event loop was blocked during an operation. On a shared machine the wall clock also counts other processes, so
// where it shows a long turn, the CPU time of this thread in its longest turn decides.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

const SETTLE_MS = 10;
/** Time between two looks at this thread's CPU time: with one in each turn, the thread would compute while the action waits for another one. */
const LOOK_MS = 1;

export interface Hold<Value> {
  readonly value: Value;
  /** Milliseconds of the longest turn, and of the short ones within the millisecond before it. */
  readonly heldMs: number;
}

export async function holdOf<Value>(action: () => Value | Promise<Value>): Promise<Hold<Value>> {
  // Garbage of what made the test's text is not the action's.
  globalThis.gc?.();
  using delay = monitorEventLoopDelay({ resolution: 1 });
  let running = true;
  let longest = 0;
  const watch = (async () => {
    for (let last = threadCpuMs(); running; ) {
      await pause(LOOK_MS);
      const now = threadCpuMs();
      longest = Math.max(longest, now - last);
      last = now;
    }
  })();
  delay.enable();
  // It sees what lies between two of its ticks: one is to come before the action, one after it. A reset would forget the first.
  await pause(SETTLE_MS);
  longest = 0;
  try {
    const value = await action();
    await pause(SETTLE_MS);
    return { value, heldMs: Math.min(delay.max / 1e6, longest) };
  } finally {
    running = false;
    await watch;
  }
}

/** Rounds until an action counts as one that holds the loop. */
const MAX_ROUNDS = 10;

interface HoldBound {
  /** A turn below this many ms is short on any machine. */
  readonly boundMs: number;
  /** A longer turn may take less than this share of the control's, measured after it. */
  readonly share: number;
  /** @default MAX_ROUNDS */
  readonly rounds?: number;
}

/**
 * Runs an action until none of its turns was long, and returns its value. Code that holds the loop does so each time; other programs, a
 * pause of the machine or a collection of garbage do so now and then.
 */
export async function expectShortTurns<Value>(
  action: () => Value | Promise<Value>,
  { boundMs, share, rounds = MAX_ROUNDS }: HoldBound,
): Promise<Value> {
  for (let round = 1; ; round += 1) {
    const { value, heldMs } = await holdOf(action);
    if (heldMs < boundMs) return value;
    const controlMs = await controlHoldMs();
    if (heldMs < controlMs * share) return value;
    if (round === rounds)
      throw new Error(`Held the event loop for ${heldMs} ms; a turn of the control: ${controlMs} ms`);
  }
}

const CONTROL = `{${Array.from({ length: 600_000 }, (_, index) => `"key${index}":0`).join()}}`;

/** How long this machine holds the loop now for one turn of about 300 ms: what a busy machine makes longer is longer here too. */
export const controlHoldMs = async (): Promise<number> => (await holdOf(() => void JSON.parse(CONTROL))).heldMs;
