// The runs that this process has claimed: continues each until it waits or ends, renews its lease meanwhile, and cancels it on request.
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { notifySafely } from "../util/host-callback.ts";
import { ClaimedRun, type ClaimSignals, type RunHost, type RunScope } from "./claimed-run.ts";
import { RunJournal } from "./run-journal.ts";
import type { ParsedRunsOptions, RunStarter } from "./run-options.ts";
import { toFailedResult } from "./run-outcome.ts";
import type { RunClaim, RunKey, RunRecord } from "./run-store.ts";

const NEVER = new AbortController().signal;
/** A run that is only ended has no attempt to stop. */
const NO_SIGNALS = { lost: NEVER, cancelled: NEVER };

export class ActiveRuns {
  readonly #host: RunHost;
  readonly #options: ParsedRunsOptions;
  readonly #scope: RunScope;
  readonly #now: () => number;
  /** The attempts that are under way here, with their claims. */
  readonly #active = new Map<Promise<RunRecord>, RunClaim>();
  /** Cancels the attempts that are under way, by run. */
  readonly #cancels = new Map<string, AbortController>();
  readonly #closing = new AbortController();

  constructor(
    host: RunHost,
    options: ParsedRunsOptions,
    { scope, now }: { readonly scope: RunScope; readonly now: () => number },
  ) {
    this.#host = host;
    this.#options = options;
    this.#scope = scope;
    this.#now = now;
  }

  /** Number of runs that are under way here. */
  get size(): number {
    return this.#active.size;
  }

  /**
   * Whether a run is under way here. A poll leaves it alone: its lease may have ended while the store was away, or because the clock has gone
   * forward, and is renewed soon.
   */
  has(key: RunKey): boolean {
    return this.#cancels.has(nameOf(key));
  }

  /** Claims a run. Returns the fence; undefined if another process has it, or it has ended. */
  async claim(key: RunKey): Promise<number | undefined> {
    const now = this.#now();
    return await this.#options.store.claim(key, { kind: this.#scope.kind, now, until: now + this.#options.leaseMs });
  }

  /** Continues a claimed run. Returns it when it waits or has ended. */
  async continue(claim: RunClaim, starter?: RunStarter): Promise<RunRecord> {
    const attempt = this.#runClaimed(claim, starter).finally(() => this.#active.delete(attempt));
    this.#active.set(attempt, claim);
    return await attempt;
  }

  /** Runs a claimed run until it waits or ends, and renews its lease meanwhile. */
  async #runClaimed(claim: RunClaim, starter: RunStarter | undefined): Promise<RunRecord> {
    const { store, leaseMs, onError } = this.#options;
    const lost = new AbortController();
    const cancel = new AbortController();
    const name = nameOf(claim);
    this.#cancels.set(name, cancel);
    const renew = async (): Promise<void> => {
      if (!(await store.renew(claim, this.#now() + leaseMs))) lost.abort();
    };
    const renewing = setInterval(() => void renew().catch((thrown) => notifySafely(onError, thrown)), leaseMs / 3);
    try {
      await this.#claimed(claim, { lost: lost.signal, cancelled: cancel.signal }).run(starter);
    } finally {
      clearInterval(renewing);
      if (this.#cancels.get(name) === cancel) this.#cancels.delete(name);
    }
    const run = await this.find(claim);
    // It was cancelled while its suspension was on its way to the store, which nothing would end.
    if (!cancel.signal.aborted || run.state !== "suspended") return run;
    await this.cancel(claim);
    return await this.find(claim);
  }

  #claimed(claim: RunClaim, signals: Omit<ClaimSignals, "closing">): ClaimedRun {
    return new ClaimedRun(this.#host, this.#options, claim, { ...signals, closing: this.#closing.signal });
  }

  /** Returns whether an attempt of a run is under way here. Its lease may have ended, and is renewed soon: to claim it would begin a second one. */
  async #isRunningHere(key: RunKey): Promise<boolean> {
    return this.has(key) && (await this.#options.store.find(key))?.state === "running";
  }

  /** Claims a run and continues it. Returns undefined if it cannot be claimed. */
  async resume(key: RunKey): Promise<RunRecord | undefined> {
    this.checkOpen();
    if (await this.#isRunningHere(key)) return undefined;
    const fence = await this.claim(key);
    return fence === undefined ? undefined : await this.continue({ ...key, fence });
  }

  /** Continues a run, unless another caller has begun to a moment before: its attempt is waited for then. */
  async resumeOrJoin(key: RunKey): Promise<RunRecord | undefined> {
    const run = await this.resume(key);
    if (run !== undefined) return run;
    for (const [attempt, { tenantId, id }] of this.#active)
      if (tenantId === key.tenantId && id === key.id) return await attempt;
    return undefined;
  }

  /** Cancels a run. Returns false if it does not exist, has ended, or is under way in another process. */
  async cancel({ tenantId, id }: RunKey): Promise<boolean> {
    const key = { tenantId, id };
    const fence = (await this.#isRunningHere(key)) ? undefined : await this.claim(key);
    if (fence === undefined) {
      const active = this.#cancels.get(nameOf(key));
      active?.abort();
      return active !== undefined;
    }
    const claim = { ...key, fence };
    const run = await this.find(key);
    const claimed = this.#claimed(claim, NO_SIGNALS);
    const texts = await this.#options.store.journal(key);
    let rollback: RunJournal["rollback"];
    try {
      rollback = new RunJournal(texts).rollback;
    } catch (thrown) {
      return await claimed.abandon(run, thrown as ToolError);
    }
    const result = toFailedResult(run, new ToolError("CANCELLED", "The run was cancelled"));
    const ended = rollback === undefined ? await claimed.end("cancelled", result) : "rollback";
    return ended === "rollback" ? (await this.continue(claim)).state === "cancelled" : ended === "released";
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE if there is no such run */
  async find(key: RunKey): Promise<RunRecord> {
    const run = await this.#options.store.find(key);
    if (run === undefined) throw unavailable("not_found", `There is no run ${quoteId(key.id)}`);
    return run;
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE after {@link stop} */
  checkOpen(): void {
    if (!this.#closing.signal.aborted) return;
    throw unavailable("closed", "The runs are closed");
  }

  /** Lets the runs that are under way go, so that another process continues them. */
  stop(): void {
    this.#closing.abort();
  }

  /** Resolves when the runs that are under way now wait or have ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#active.keys());
  }
}

const nameOf = ({ tenantId, id }: RunKey): string => JSON.stringify([tenantId, id]);
/** Quotes the id of a run for a message. Ids of callers may be longer than those of runs. */
export const quoteId = (id: string): string => JSON.stringify(id.slice(0, 200));
