// A correct tool that is called at a steady pace, and the time of each stage of its calls.
import { setTimeout as pause } from "node:timers/promises";
import type { Glovebox, ToolResult } from "../../src/host/index.ts";
import { percentile } from "./measure.ts";

/** Arithmetic and a little JSON. */
export const SMALL_TOOL = `export default ({ n }) => ({ n, squares: Array.from({ length: 10 }, (_, i) => (n + i) ** 2), text: "n is " + n });`;
/** About 2 ms of CPU on the machine of the results. */
export const COMPUTING_TOOL = `export default ({ n }) => {
  let sum = n;
  for (let i = 0; i < 60_000; i += 1) sum = (sum * 31 + i) % 1_000_003;
  return { n, sum };
};`;

/** Parts of a call's time, in ms. */
export const PARTS = ["total", "queue", "start", "execute", "rest"] as const;
export type Part = (typeof PARTS)[number];

/** Times of many calls of one tool. */
export class ProbeTimes {
  readonly #times: { readonly [name in Part]: number[] } = { total: [], queue: [], start: [], execute: [], rest: [] };
  readonly failures: { [code: string]: number } = {};

  /** `rest` is what no meter names: sockets, both event loops, and waiting for a core between them. */
  add(result: ToolResult, totalMs: number): void {
    if (!result.success) this.failures[result.error.code] = (this.failures[result.error.code] ?? 0) + 1;
    const { queueMs, startMs, executeMs } = result.usage;
    this.#times.total.push(totalMs);
    this.#times.queue.push(queueMs);
    this.#times.start.push(startMs);
    this.#times.execute.push(executeMs);
    this.#times.rest.push(Math.max(0, totalMs - queueMs - startMs - executeMs));
  }

  get n(): number {
    return this.#times.total.length;
  }

  at(part: Part, share: number): number {
    return percentile(
      this.#times[part].toSorted((a, b) => a - b),
      share,
    );
  }
}

export interface Probe {
  readonly toolName: string;
  readonly tenantId: string;
  /** From one call's start to the next; a call that takes longer delays the next one. */
  readonly everyMs: number;
}

/** Calls the tool until the signal; a failed call counts with its time. */
export async function runProbe(
  glovebox: Glovebox,
  probe: Probe,
  times: ProbeTimes,
  signal: AbortSignal,
): Promise<void> {
  const { toolName, tenantId, everyMs } = probe;
  for (let n = 0; !signal.aborted; n += 1) {
    const started = performance.now();
    const result = await glovebox.execute({ id: `${toolName}-${n}`, toolName, arguments: { n } }, { tenantId });
    const totalMs = performance.now() - started;
    times.add(result, totalMs);
    if (result.success && (result.output as { readonly n?: unknown }).n !== n)
      throw new Error("A result of another call");
    await pause(Math.max(0, everyMs - totalMs));
  }
}
