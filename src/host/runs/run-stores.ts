// The stores of durable runs that a Glovebox knows: those of its open `createRuns`, and those of the option `runStores`, which also have agents'
// journals. A tenant's runs in them are deleted and exported with the tenant.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { runCallback } from "../util/host-callback.ts";
import { PendingByKey } from "../util/pending-by-key.ts";
import type { RunRecord, RunStore } from "./run-store.ts";

/** A run with the entries of its journal, as JSON texts. */
export interface StoredRun {
  readonly run: RunRecord;
  readonly journal: readonly string[];
}

/** Timeout in ms of a store that deletes a tenant. Long, because a store may have to copy its file. */
const DELETE_TIMEOUT_MS = 300_000;
/** Timeout in ms of a store that reads. */
const READ_TIMEOUT_MS = 60_000;
const PAGE = 100;

export class RunStores {
  /** Number of uses of each store. */
  readonly #uses = new Map<RunStore, number>();
  /** Runs that are being created, by tenant: a deletion waits for them. */
  readonly #creating = new PendingByKey();

  constructor(stores: readonly RunStore[]) {
    for (const store of stores) this.add(store);
  }

  /** Adds a store until the returned object is disposed. */
  add(store: RunStore): Disposable {
    this.#uses.set(store, (this.#uses.get(store) ?? 0) + 1);
    let isDisposed = false;
    return {
      [Symbol.dispose]: () => {
        if (isDisposed) return;
        isDisposed = true;
        const uses = (this.#uses.get(store) ?? 1) - 1;
        if (uses === 0) this.#uses.delete(store);
        else this.#uses.set(store, uses);
      },
    };
  }

  /** Tracks the creation of a run, so that a deletion that begins meanwhile removes it. */
  trackCreation<Result>(tenantId: string, creation: Promise<Result>): Promise<Result> {
    return this.#creating.track(tenantId, creation);
  }

  /**
   * Deletes all runs of a tenant. Its calls must have ended, and no run of it is created any more.
   * @returns how many there were
   * @throws {Error} if a store fails, or does not answer in time
   */
  async deleteTenant(tenantId: string, signal: AbortSignal): Promise<number> {
    const bounds = { timeoutMs: DELETE_TIMEOUT_MS, signal };
    const settled = await runCallback(() => this.#creating.settled(tenantId), bounds);
    if ("failed" in settled) throw new Error("A store of durable runs did not finish creating a run");
    let deleted = 0;
    for (const store of [...this.#uses.keys()]) {
      const outcome = await runCallback(() => store.deleteTenant(tenantId), bounds);
      const count = "answer" in outcome ? outcome.answer : undefined;
      if (!Number.isSafeInteger(count) || (count as number) < 0)
        throw new Error("A store of durable runs failed", { cause: "failed" in outcome ? outcome.cause : undefined });
      deleted += count as number;
    }
    return deleted;
  }

  /**
   * Yields the runs of a tenant, one at a time.
   * @throws {ToolError} INTERNAL if a store fails
   */
  async *runsOf(tenantId: string, signal: AbortSignal): AsyncGenerator<StoredRun, void> {
    for (const store of [...this.#uses.keys()]) {
      for (let before: string | undefined; ; ) {
        const filter = { limit: PAGE, ...(before === undefined ? {} : { before }) };
        const runs = await read(() => store.list(tenantId, filter), signal);
        for (const run of runs) {
          // A store that ignores `before` would never end.
          if (before !== undefined && run.id >= before) throw failed(new Error("RunStore.list() ignored its filter"));
          before = run.id;
          yield { run, journal: await read(() => store.journal({ tenantId, id: run.id }), signal) };
        }
        if (runs.length < PAGE) break;
      }
    }
  }
}

const failed = (cause: unknown): ToolError =>
  new ToolError("INTERNAL", "The export ended early: a store of durable runs failed", { cause });

/** @throws {ToolError} INTERNAL, as a rejection, if the store fails or does not return a list in time */
async function read<Item>(ask: () => Promise<readonly Item[]>, signal: AbortSignal): Promise<readonly Item[]> {
  const outcome = await runCallback(ask, { timeoutMs: READ_TIMEOUT_MS, signal });
  if ("failed" in outcome) throw failed(outcome.cause);
  if (!Array.isArray(outcome.answer)) throw failed(new TypeError("Expected a list"));
  return outcome.answer as readonly Item[];
}
