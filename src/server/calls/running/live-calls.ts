// The calls that run in this process and the log lines that they have written so far, for those who watch a call.
import type { LogEntry } from "../../../host/index.ts";
import { pause } from "../../operation/background-work.ts";
import type { LiveLine } from "../../records/calls/live-logs.ts";

/** Log lines that are kept of one running call for those who begin to watch it later. */
const MAX_LINES = 1_000;
/** Longest time in ms that the end of a call waits until its last lines are written for watchers at other replicas. */
const LAST_LINES_MS = 1_000;

/** A call that runs. */
export class LiveCall {
  readonly tenantId: string;
  #lines: LogEntry[] = [];
  #dropped = 0;
  #isEnded = false;
  readonly #end = Promise.withResolvers<void>();
  /** Resolves when its lines are written for the watchers at other replicas, if there are any. */
  forwarding: Promise<void> | undefined;
  readonly #watchers = new Set<() => void>();

  constructor(tenantId: string) {
    this.tenantId = tenantId;
  }

  log(entry: LogEntry): void {
    if (this.#lines.length >= MAX_LINES) {
      this.#lines = this.#lines.slice(MAX_LINES / 2);
      this.#dropped += MAX_LINES / 2;
    }
    this.#lines.push(entry);
    this.#wake();
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Resolves when the call has ended. */
  get ended(): Promise<void> {
    return this.#end.promise;
  }

  end(): void {
    this.#isEnded = true;
    this.#end.resolve();
    this.#wake();
  }

  /** Returns the lines that there are, from a number on. */
  take(from: number, limit: number): readonly LiveLine[] {
    const first = Math.max(from, this.#dropped);
    const lines = this.#lines.slice(first - this.#dropped, first - this.#dropped + limit);
    return lines.map((entry, offset) => ({ index: first + offset, entry }));
  }

  #wake(): void {
    for (const wake of this.#watchers) wake();
  }

  /**
   * Yields the log lines, each with its number, until the call ends or the signal aborts.
   * @param from number of the first line, unless it is no longer kept
   */
  async *lines(signal: AbortSignal, from = 0): AsyncGenerator<LiveLine, void> {
    let next = from;
    while (!signal.aborted) {
      const [line] = this.take(next, 1);
      if (line !== undefined) {
        yield line;
        next = line.index + 1;
        continue;
      }
      if (this.#isEnded) return;
      await this.#change(signal);
    }
  }

  async #change(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#watchers.add(resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    await promise;
    this.#watchers.delete(resolve);
  }
}

export class LiveCalls {
  readonly #calls = new Map<string, LiveCall>();

  begin(tenantId: string, id: string): LiveCall {
    const call = new LiveCall(tenantId);
    this.#calls.set(id, call);
    return call;
  }

  /** Ends a call. Resolves when those who watch it at other replicas can read its last lines, after a second in any case. */
  async end(id: string): Promise<void> {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    call?.end();
    if (call?.forwarding === undefined) return;
    const timeout = new AbortController();
    await Promise.race([call.forwarding, pause(LAST_LINES_MS, timeout.signal)]);
    timeout.abort();
  }

  find(tenantId: string, id: string): LiveCall | undefined {
    const call = this.#calls.get(id);
    return call?.tenantId === tenantId ? call : undefined;
  }
}
