// The log of one call: what the tool wrote, capped; passed on as it comes if somebody listens.
import type { JsonValue } from "../sandbox/errors.ts";
import type { Limits } from "../sandbox/limits.ts";
import type { LogLevel } from "../sandbox/protocol.ts";

/** One line of a tool's log. `time` is milliseconds since 1970; `data` is what `ctx.log` was given beside the message. */
export interface LogEntry {
  readonly level: LogLevel;
  readonly time: number;
  readonly message: string;
  readonly data?: JsonValue;
}

export type LogListener = (entry: LogEntry) => void;

export class CallLog {
  readonly entries: LogEntry[] = [];
  readonly #listener: LogListener | undefined;
  readonly #limits: Pick<Limits, "logBytes" | "logLines">;
  #bytes = 0;
  #dropped = 0;

  constructor(limits: Pick<Limits, "logBytes" | "logLines">, listener: LogListener | undefined) {
    this.#limits = limits;
    this.#listener = listener;
  }

  /** Lines left out because of the caps. */
  get dropped(): number {
    return this.#dropped;
  }

  add(level: LogLevel, time: number, message: string, data?: JsonValue): void {
    this.#bytes += message.length + (data === undefined ? 0 : JSON.stringify(data).length);
    if (this.entries.length >= this.#limits.logLines || this.#bytes > this.#limits.logBytes) {
      this.#dropped += 1;
      return;
    }
    const entry: LogEntry = { level, time, message, ...(data === undefined ? {} : { data }) };
    this.entries.push(entry);
    try {
      this.#listener?.(entry);
    } catch {
      // A listener that throws is the caller's own affair: the call goes on.
    }
  }
}
