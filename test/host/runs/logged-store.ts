// A store of durable runs that survives the death of its process by SIGKILL: it writes each change to a file at once, and reads them all when it opens.
// As a test has many runs in one process, each has its own point after which nothing more is taken from it.
import { openSync, readFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { NewRun, RunClaim, RunKey, RunLease, RunRelease } from "../../../src/host/runs/run-store.ts";

type Method = "create" | "claim" | "append" | "appendEvent" | "release";

/** A store over a network answers after other things have happened: an attempt must not depend on its speed. */
const delay = async (): Promise<void> => {
  const ms = Math.floor(Math.random() * 4);
  if (ms > 0) await sleep(ms);
};

export class LoggedStore extends MemoryRunStore {
  readonly #file: number;
  #isReading = true;
  /** Number of appends that are taken from a run, by its id. */
  readonly #left = new Map<string, number>();
  readonly appends = new Map<string, number>();
  /** Ids of runs whose append at their point never ends, as if the process died in it. */
  readonly blocked = new Set<string>();
  onBlocked: () => void = () => {};

  private constructor(path: string) {
    super();
    this.#file = openSync(path, "a+");
  }

  static async open(path: string): Promise<LoggedStore> {
    const store = new LoggedStore(path);
    for (const line of readFileSync(path, "utf8").split("\n")) {
      // A line that the dead process has not finished was not written.
      if (!line.endsWith("]")) continue;
      const [method, ...args] = JSON.parse(line) as [Method, ...never[]];
      await (store[method] as (...args: never[]) => Promise<unknown>)(...args);
    }
    store.#isReading = false;
    return store;
  }

  /** Takes this number of appends from a run. @param blocks whether the next one never ends, or fails */
  stopAfter(id: string, appends: number, blocks: boolean): void {
    this.#left.set(id, appends);
    if (blocks) this.blocked.add(id);
  }

  #log(...change: [Method, ...unknown[]]): void {
    if (!this.#isReading) writeSync(this.#file, `\n${JSON.stringify(change)}`);
  }

  /** @throws {Error} if nothing more is taken from the run */
  async #check(id: string): Promise<void> {
    if ((this.appends.get(id) ?? 0) < (this.#left.get(id) ?? Number.POSITIVE_INFINITY)) return;
    if (!this.blocked.has(id)) throw new Error("The process has died");
    this.onBlocked();
    await new Promise(() => {});
  }

  override create(run: NewRun, maxOpen: number): ReturnType<MemoryRunStore["create"]> {
    // Leases have always expired, so that the next process takes over at once.
    const leased = { ...run, leaseUntil: 0 };
    this.#log("create", leased, maxOpen);
    return super.create(leased, maxOpen);
  }

  override claim(key: RunKey, { kind, now }: RunLease): Promise<number | undefined> {
    this.#log("claim", key, { kind, now });
    return super.claim(key, { kind, now, until: 0 });
  }

  override async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
    if (!this.#isReading) {
      await delay();
      await this.#check(claim.id);
      this.appends.set(claim.id, (this.appends.get(claim.id) ?? 0) + 1);
    }
    this.#log("append", claim, entries);
    const isWritten = await super.append(claim, entries);
    if (!this.#isReading) await delay();
    return isWritten;
  }

  override appendEvent(key: RunKey, entry: string): ReturnType<MemoryRunStore["appendEvent"]> {
    this.#log("appendEvent", key, entry);
    return super.appendEvent(key, entry);
  }

  override async release(claim: RunClaim, release: RunRelease, entries: number): ReturnType<MemoryRunStore["release"]> {
    if (!this.#isReading) await this.#check(claim.id);
    this.#log("release", claim, release, entries);
    return await super.release(claim, release, entries);
  }
}
