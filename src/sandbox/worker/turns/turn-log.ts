// Collects the turns of a recorded call as JSON text, up to a limit. The worker sends them before each message that depends on them.
import { MAX_TURNS_LENGTH, type Turn } from "../../protocol/turns.ts";

/** Turns that the host does not have yet. */
export interface TurnReport {
  /** Turns as JSON text, one after another, separated by commas. */
  readonly text: string;
  /** Whether turns were dropped because the call had too many. */
  readonly isTruncated: boolean;
}

export class TurnLog {
  #text = "";
  #length = 0;
  #isTruncated = false;

  add(turn: Turn): void {
    if (this.#isTruncated) return;
    let text = this.#text === "" ? `["${turn[0]}"` : `,["${turn[0]}"`;
    for (let index = 1; index < turn.length; index += 1) text += `,${turn[index]}`;
    text += "]";
    this.#length += text.length;
    if (this.#length > MAX_TURNS_LENGTH) this.#isTruncated = true;
    else this.#text += text;
  }

  /** Returns the turns since the last report, or undefined if there are none. */
  take(): TurnReport | undefined {
    if (this.#text === "" && !this.#isTruncated) return undefined;
    const report = { text: this.#text, isTruncated: this.#isTruncated };
    this.#text = "";
    return report;
  }
}
