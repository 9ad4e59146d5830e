// Quarantines tools that may have crashed a process. Their calls run alone in a process until enough have succeeded, so
// that a further crash costs only their own call.

import { setBounded } from "../../util/bounded-map.ts";

/** Successful calls after which a tool may share a process again. */
const PROBATION_CALLS = 10;
const MAX_TOOLS = 1_000;

/** A tool in quarantine. */
export interface QuarantinedTool {
  /** SHA-256 of the tool's bundle, or of its source in Python, in hexadecimal. */
  readonly contentHash: string;
  /** Successful calls after which it may share a process again. */
  readonly callsLeft: number;
}

export class CrashQuarantine {
  /** Successful calls that each tool still needs; most recently added last. */
  readonly #remaining = new Map<string, number>();

  has(tool: string): boolean {
    return this.#remaining.size > 0 && this.#remaining.has(tool);
  }

  add(tool: string): void {
    setBounded(this.#remaining, tool, PROBATION_CALLS, MAX_TOOLS);
  }

  list(): readonly QuarantinedTool[] {
    return [...this.#remaining].map(([contentHash, callsLeft]) => ({ contentHash, callsLeft }));
  }

  recordSuccess(tool: string): void {
    const remaining = this.#remaining.get(tool);
    if (remaining === undefined) return;
    if (remaining > 1) this.#remaining.set(tool, remaining - 1);
    else this.#remaining.delete(tool);
  }
}
