// Samples of the soak, every few seconds: the host's memory, handles and descriptors, the processes below it, and the calls.
import { readdirSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { descendantsOf } from "../../test/support/process-tree.ts";
import { percentile } from "./measure.ts";
import type { DriftRule } from "./slope.ts";
import type { SoakLoad } from "./soak-load.ts";

const MiB = 1024 * 1024;

/**
 * Each figure with what it may do over a whole run, however long: growth past the floor that is also more than noise is a leak.
 * The floors of counts are what the load itself makes: calls under way, and processes that come and go, each worker with three
 * processes of its own, three resources of the host's and four descriptors.
 */
export const FIGURES = {
  hostRssMiB: { unit: "MiB", bad: "up", floor: 24 },
  hostHeapMiB: { unit: "MiB", bad: "up", floor: 4 },
  hostExternalMiB: { unit: "MiB", bad: "up", floor: 8 },
  hostArrayBuffersMiB: { unit: "MiB", bad: "up", floor: 8 },
  activeResources: { unit: "", bad: "up", floor: 12 },
  openFiles: { unit: "", bad: "up", floor: 16 },
  workers: { unit: "", bad: "up", floor: 4 },
  descendants: { unit: "", bad: "up", floor: 12 },
  descendantsRssMiB: { unit: "MiB", bad: "up", floor: 0.15, relative: true },
  callsPerS: { unit: "", bad: "down", floor: 0.15, relative: true },
  healthyP50Ms: { unit: "ms", bad: "up", floor: 0.25, relative: true },
  healthyP99Ms: { unit: "ms", bad: "up", floor: 0.5, relative: true },
} as const satisfies { readonly [figure: string]: DriftRule };

export type Figure = keyof typeof FIGURES;
export const FIGURE_NAMES = Object.keys(FIGURES) as Figure[];
export type Reading = { readonly [figure in Figure]: number } & { readonly hours: number };

/** V8's own collector, whatever flags this process was started with. */
function exposeGc(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

export class Sampler {
  readonly #gc = exposeGc();
  readonly #load: SoakLoad;
  readonly #began = performance.now();
  #lastAt = performance.now();

  constructor(load: SoakLoad) {
    this.#load = load;
  }

  read(): Reading {
    this.#gc();
    const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
    const now = performance.now();
    const { calls, latencies } = this.#load.takeCounts();
    const sorted = latencies.toSorted((a, b) => a - b);
    const beneath = descendantsOf(process.pid);
    const seconds = (now - this.#lastAt) / 1_000;
    this.#lastAt = now;
    return {
      hours: (now - this.#began) / 3_600_000,
      hostRssMiB: rss / MiB,
      hostHeapMiB: heapUsed / MiB,
      hostExternalMiB: external / MiB,
      hostArrayBuffersMiB: arrayBuffers / MiB,
      activeResources: process.getActiveResourcesInfo().length,
      openFiles: readdirSync("/proc/self/fd").length,
      workers: this.#load.glovebox.workerPids.length,
      descendants: beneath.length,
      descendantsRssMiB: beneath.reduce((sum, { residentBytes }) => sum + residentBytes, 0) / MiB,
      callsPerS: calls / seconds,
      healthyP50Ms: percentile(sorted, 0.5),
      healthyP99Ms: percentile(sorted, 0.99),
    };
  }
}
