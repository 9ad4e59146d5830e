// A store of durable runs for tests whose process dies after a number of appends: it takes nothing more from it.
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { NewRun, RunClaim, RunKey, RunLease } from "../../../src/host/runs/run-store.ts";

/** Leases have always expired, so that the next claim takes over at once. After `appends` appends, it takes nothing more, as after a crash. */
export class CrashingStore extends MemoryRunStore {
  #left = Number.POSITIVE_INFINITY;
  /** The entries of each append since {@link crashAfter}, as text. */
  appended: string[] = [];

  get appends(): number {
    return this.appended.length;
  }

  crashAfter(appends: number): void {
    this.appended = [];
    this.#left = appends;
  }

  override create(run: NewRun, maxOpen: number): ReturnType<MemoryRunStore["create"]> {
    return super.create({ ...run, leaseUntil: 0 }, maxOpen);
  }

  override claim(key: RunKey, { kind, now }: RunLease): Promise<number | undefined> {
    return super.claim(key, { kind, now, until: 0 });
  }

  /** A process that dies slowly, on a busy machine, must not keep the run: its lease stays expired. */
  override renew(claim: RunClaim): Promise<boolean> {
    return super.renew(claim, 0);
  }

  override async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
    if (this.appends >= this.#left) throw new Error("The process has died");
    this.appended.push(entries.join("\n"));
    return await super.append(claim, entries);
  }

  override async release(...args: Parameters<MemoryRunStore["release"]>): ReturnType<MemoryRunStore["release"]> {
    if (this.appends >= this.#left) throw new Error("The process has died");
    return await super.release(...args);
  }
}
