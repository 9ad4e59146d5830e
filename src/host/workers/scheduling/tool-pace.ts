// Remembers how long a tool's calls compute, so that the pool can tell short calls from long ones before they run.
import type { WorkerToolProfile } from "../../../sandbox/protocol/host-messages.ts";
import type { WorkerKind } from "../worker-kind.ts";

/** What is known of a tool: its calls are short, one has computed for long, or neither yet. */
export type Pace = "unknown" | "short" | "long";

/**
 * CPU time in ms up to which a call is short, and from which it is long, by the kind of its process. The smallest Python
 * call takes 10 to 50 ms.
 */
export const PACE_CPU_MS = {
  plain: { short: 5, long: 50 },
  python: { short: 60, long: 500 },
} as const satisfies { readonly [Kind in WorkerKind]: { readonly short: number; readonly long: number } };
/** Short calls in a row after which a tool's next call is expected to be short. Doubled each time that this was wrong. */
const FIRST_PROOF = 3;
const MAX_PROOF = 3_000;

interface History {
  shortCalls: number;
  proof: number;
  isLong: boolean;
}

export class ToolPaces {
  /** A tool's profile is a new object for each version and set of limits, so the history ends with it. */
  readonly #histories = new WeakMap<WorkerToolProfile, History>();

  paceOf(profile: WorkerToolProfile): Pace {
    const history = this.#histories.get(profile);
    if (history === undefined) return "unknown";
    if (history.isLong) return "long";
    return history.shortCalls >= history.proof ? "short" : "unknown";
  }

  /**
   * Records the CPU time of a call.
   * @param isEstimate whether part of it may belong to other calls. For a short tool it then only counts if it is short,
   * for another one if it is short or long
   */
  record(
    profile: WorkerToolProfile,
    cpuMs: number,
    isEstimate: boolean = false,
    { short, long }: (typeof PACE_CPU_MS)[WorkerKind] = PACE_CPU_MS.plain,
  ): void {
    const isLong = cpuMs >= long;
    if (cpuMs > short) {
      if (isEstimate && (!isLong || this.paceOf(profile) === "short")) return;
      if (isLong) this.recordLong(profile);
      else this.#weaken(profile);
      return;
    }
    const history = this.#historyOf(profile);
    history.shortCalls = Math.min(history.shortCalls + 1, MAX_PROOF);
    if (history.shortCalls >= history.proof) history.isLong = false;
  }

  /** Records that a call computes for long, or did not end by itself. */
  recordLong(profile: WorkerToolProfile): void {
    const history = this.#historyOf(profile);
    const wasShort = !history.isLong && history.shortCalls >= history.proof;
    if (wasShort) history.proof = Math.min(2 * history.proof, MAX_PROOF);
    history.shortCalls = 0;
    history.isLong = true;
  }

  /** Halves what proves a tool short. On a busy machine, each tool has a call that is not short now and then. */
  #weaken(profile: WorkerToolProfile): void {
    const history = this.#historyOf(profile);
    history.shortCalls >>= 1;
  }

  #historyOf(profile: WorkerToolProfile): History {
    const known = this.#histories.get(profile);
    if (known !== undefined) return known;
    const history: History = { shortCalls: 0, proof: FIRST_PROOF, isLong: false };
    this.#histories.set(profile, history);
    return history;
  }
}
