// Owners whose processes keep coming to a bad end wait a little longer for each next one: starting a process takes a tenth of a second of
// CPU time and holds the host up for milliseconds, and that should be theirs to bear.

import { setBounded } from "../../util/bounded-map.ts";

/** Bad ends that are bad luck. */
const FREE_ENDS = 3;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
/** An owner with no bad end for so long starts anew. */
const FORGET_MS = 10_000;
const MAX_REMEMBERED = 1_000;

interface Record {
  ends: number;
  endedAt: number;
  /** No process before then, by performance.now(). */
  until: number;
}

export class StartBackoff {
  readonly #records = new Map<string, Record>();

  /** A process of this owner had to be killed, or crashed. */
  endedBadly(owner: string, now: number): void {
    const known = this.#records.get(owner);
    const ends = known === undefined || now - known.endedAt > FORGET_MS ? 1 : known.ends + 1;
    const delayMs = ends <= FREE_ENDS ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (ends - FREE_ENDS - 1));
    setBounded(this.#records, owner, { ends, endedAt: now, until: now + delayMs }, MAX_REMEMBERED);
  }

  /** How long this owner's next process has to wait, in ms. */
  delayMs(owner: string, now: number): number {
    return Math.max(0, (this.#records.get(owner)?.until ?? 0) - now);
  }
}
