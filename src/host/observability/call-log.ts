// The log of one call: what the tool wrote, capped; passed on as it comes if somebody listens.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { LogLevel } from "../../sandbox/protocol/messages.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { Redactor } from "./redaction/redactor.ts";

/**
 * One line of a tool's log. `time` is milliseconds since 1970; `data` is what `ctx.log` was given beside the message; `place` is where a
 * line of console comes from (`tool.ts:12:5`), for a call with `logPlaces`; `callId` is there for a line of a call that is nested in the
 * listener's own, and is that call's.
 */
export interface LogEntry {
  readonly level: LogLevel;
  readonly time: number;
  readonly message: string;
  readonly data?: JsonValue;
  readonly place?: string;
  readonly callId?: string;
}

export type LogListener = (entry: LogEntry) => void;

/** A trusted host function writes here too, and a type is all that keeps it to JSON. */
function toDataText(data: unknown): string | undefined {
  try {
    return JSON.stringify(data);
  } catch {
    return undefined;
  }
}

/** Where a value stood as a number, all of it becomes a text. */
function redactData(text: string | undefined, redactor: Redactor): string | undefined {
  if (text === undefined) return undefined;
  const redacted = redactor.text(text);
  return isJson(redacted) ? redacted : JSON.stringify(redacted);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

interface LogExtras {
  readonly data?: JsonValue | undefined;
  readonly place?: string | undefined;
}

export class CallLog {
  readonly entries: LogEntry[] = [];
  readonly #listener: LogListener | undefined;
  readonly #limits: Pick<Limits, "logBytes" | "logLines">;
  /** Of what a capability has concealed, if any has. */
  redactor: Redactor | undefined;
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

  /** Never throws; a line past a cap is counted and left out. `data` is copied, and left out where it has no JSON. */
  add(level: LogLevel, time: number, message: string, { data, place }: LogExtras = {}): void {
    const { redactor } = this;
    const shown = redactor === undefined ? message : redactor.text(message);
    const text = redactor === undefined ? toDataText(data) : redactData(toDataText(data), redactor);
    const bytes = shown.length + (text?.length ?? 0) + (place?.length ?? 0);
    if (this.entries.length >= this.#limits.logLines || this.#bytes + bytes > this.#limits.logBytes) {
      this.#dropped += 1;
      return;
    }
    this.#bytes += bytes;
    const entry: LogEntry = {
      level,
      time,
      message: shown,
      ...(text === undefined ? {} : { data: JSON.parse(text) as JsonValue }),
      ...(place === undefined ? {} : { place }),
    };
    this.entries.push(entry);
    notifySafely(this.#listener, entry);
  }

  /** A line of a call that is nested in this one: its result has it and its limits have capped it; whoever listens here hears of it. */
  forward(entry: LogEntry, callId: string): void {
    if (this.#listener === undefined) return;
    notifySafely(this.#listener, this.#redacted({ ...entry, callId: entry.callId ?? callId }));
  }

  #redacted(entry: LogEntry): LogEntry {
    const { redactor } = this;
    if (redactor === undefined) return entry;
    const data = redactData(toDataText(entry.data), redactor);
    const message = redactor.text(entry.message);
    return { ...entry, message, ...(data === undefined ? {} : { data: JSON.parse(data) as JsonValue }) };
  }
}
