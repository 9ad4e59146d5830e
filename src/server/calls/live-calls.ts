// The calls that run in this process and the log lines that they have written so far, for those who watch a call.
import type { LogEntry } from "../../host/index.ts";

/** Log lines that are kept of one running call for those who begin to watch it later. */
const MAX_LINES = 1_000;

/** A call that runs. */
export class LiveCall {
  readonly tenantId: string;
  #lines: LogEntry[] = [];
  #dropped = 0;
  #isEnded = false;
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

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#watchers) wake();
  }

  /** Yields the log lines from the first one that is kept, until the call ends or the signal aborts. */
  async *lines(signal: AbortSignal): AsyncGenerator<LogEntry, void> {
    let next = 0;
    while (!signal.aborted) {
      next = Math.max(next, this.#dropped);
      const entry = this.#lines[next - this.#dropped];
      if (entry !== undefined) {
        next += 1;
        yield entry;
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

  end(id: string): void {
    this.#calls.get(id)?.end();
    this.#calls.delete(id);
  }

  find(tenantId: string, id: string): LiveCall | undefined {
    const call = this.#calls.get(id);
    return call?.tenantId === tenantId ? call : undefined;
  }
}
