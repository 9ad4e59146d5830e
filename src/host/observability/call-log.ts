// The log of one call: collects the tool's log entries within limits and passes each entry to a listener.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { LogLevel } from "../../sandbox/protocol/message-fields.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { Redactor } from "./redaction/call-redactor.ts";

/**
 * An entry of a tool's log. `time` is in ms since 1970. `data` is the value passed to `ctx.log` next to the message. `place` is the source
 * location of a console call (`tool.ts:12:5`), set for a call with `logSourceLocations`. `callId` is set if the entry belongs to a call that is
 * nested in the listener's own.
 */
export interface LogEntry {
  readonly level: LogLevel;
  readonly time: number;
  readonly message: string;
  readonly data?: JsonValue;
  readonly place?: string;
  readonly callId?: string;
}

/** Receives the log lines of calls. It is not awaited, and an exception in it does not affect the call. */
export type LogListener = (entry: LogEntry) => void;

/** Serializes data. Trusted host functions write to the log too, and only their types ensure that the data is JSON. */
function toDataText(data: unknown): string | undefined {
  try {
    return JSON.stringify(data);
  } catch {
    return undefined;
  }
}

/** Redacts JSON text. If a redacted number makes the JSON invalid, the whole data becomes a string. */
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
  /** Replaces the values that capabilities registered as secrets, if any. */
  redactor: Redactor | undefined;
  #bytes = 0;
  #dropped = 0;

  constructor(limits: Pick<Limits, "logBytes" | "logLines">, listener: LogListener | undefined) {
    this.#limits = limits;
    this.#listener = listener;
  }

  /** Number of entries dropped because of the limits. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Adds an entry. Never throws. An entry beyond the limits is counted and dropped. `data` is copied, or dropped if it has no JSON. */
  add(level: LogLevel, time: number, message: string, { data, place }: LogExtras = {}): void {
    const { redactor } = this;
    const redactedMessage = redactor === undefined ? message : redactor.text(message);
    const text = redactor === undefined ? toDataText(data) : redactData(toDataText(data), redactor);
    const bytes = redactedMessage.length + (text?.length ?? 0) + (place?.length ?? 0);
    if (this.entries.length >= this.#limits.logLines || this.#bytes + bytes > this.#limits.logBytes) {
      this.#dropped += 1;
      return;
    }
    this.#bytes += bytes;
    const entry: LogEntry = {
      level,
      time,
      message: redactedMessage,
      ...(text === undefined ? {} : { data: JSON.parse(text) as JsonValue }),
      ...(place === undefined ? {} : { place }),
    };
    this.entries.push(entry);
    notifySafely(this.#listener, entry);
  }

  /** Passes an entry of a nested call to the listener. It is stored in the nested call's result and counts against that call's limits. */
  forward(entry: LogEntry, callId: string): void {
    if (this.#listener === undefined) return;
    notifySafely(this.#listener, this.#redact({ ...entry, callId: entry.callId ?? callId }));
  }

  #redact(entry: LogEntry): LogEntry {
    const { redactor } = this;
    if (redactor === undefined) return entry;
    const data = redactData(toDataText(entry.data), redactor);
    const message = redactor.text(entry.message);
    return { ...entry, message, ...(data === undefined ? {} : { data: JSON.parse(data) as JsonValue }) };
  }
}
