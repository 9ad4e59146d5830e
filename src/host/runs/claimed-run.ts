// Runs what this process has claimed: attempts, until the run waits or ends. Each attempt repeats what the journal has.
import { randomBytes } from "node:crypto";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { parseOptions } from "../config/option-errors.ts";
import { canElicit } from "../contract/client-requests.ts";
import type { CallContext, ToolCall, ToolResult } from "../contract/tool-call.ts";
import { toJson } from "../contract/tool-value.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { TenantStates } from "../tenants/tenant-states.ts";
import { notifySafely } from "../util/host-callback.ts";
import { clockOf } from "../util/store-clock.ts";
import { RunAttempt } from "./run-attempt.ts";
import { type JournalEntry, RunJournal, rollbackEndOf } from "./run-journal.ts";
import {
  type ParsedRunsOptions,
  type RunContext,
  type RunStarter,
  TenantLimitsSchema,
  type TenantRunLimits,
} from "./run-options.ts";
import { messageWithWaits, RETRY_MS, retryAfter, stateOf, toFailedResult, withRollback } from "./run-outcome.ts";
import type { RunClaim, RunRecord, RunRelease } from "./run-store.ts";
import type { RunStores } from "./run-stores.ts";
import { parseRequest, type RunWait } from "./run-wait.ts";
import { rulesOfToolRun } from "./tool-run-rules.ts";

/** The runs of a store that a host continues. Others would fail with it. */
export interface RunScope {
  readonly kind: string;
  /** Default: those of all tenants. */
  readonly tenantId?: string | undefined;
}

/** What runs need of a Glovebox, or of a code mode. */
export interface RunHost {
  readonly router: Pick<ToolRouter, "tenancy" | "tenants"> & {
    readonly registry: Pick<ToolRouter["registry"], "get">;
    /** @internal stripped from the published declarations, as in {@link ToolRouter} */
    readonly tenantStates: Pick<TenantStates, "checkAdding">;
  };
  /** The runs that it continues. Default: those of kind `tool` of all tenants. */
  readonly runScope?: RunScope | undefined;
  /** Stores whose runs are deleted with their tenant. Default: the host deletes them itself. */
  readonly runStores?: RunStores | undefined;
  execute(toolCall: ToolCall, context?: CallContext): Promise<ToolResult>;
}

/** Attempts of one claim that ended because their worker process was lost. */
const MAX_LOST = 3;
/** Room in a journal to roll the run back, in addition to `maxJournalLength`. */
const ROLLBACK_LENGTH = 1024 * 1024;
/** Capability calls without effects, which may be made again. */
const READS: { readonly [capability: string]: ReadonlySet<string> } = {
  kv: new Set(["get", "list"]),
  secrets: new Set(["use"]),
  result: new Set(["load", "list"]),
};

type Rollback = Extract<JournalEntry, { type: "rollback" }>;

/** What can end an attempt from outside. */
export interface ClaimSignals {
  /** Another process has the run now. */
  readonly lost: AbortSignal;
  /** The run was cancelled in this process. */
  readonly cancelled: AbortSignal;
  /** This process stops. */
  readonly closing: AbortSignal;
}

interface Attempted {
  readonly attempt: RunAttempt;
  readonly result: ToolResult;
  /** Entries that the attempt has added to the journal. */
  readonly written: number;
}

/** @throws {ToolError} PARAM_INVALID if the host's answer is invalid */
export async function limitsOf(
  { tenantLimits, maxJournalLength, lifetimeMs, maxOpen }: ParsedRunsOptions,
  tenantId: string,
): Promise<Pick<ParsedRunsOptions, keyof TenantRunLimits>> {
  const given = parseOptions(TenantLimitsSchema, (await tenantLimits?.(tenantId)) ?? {}, "options.tenantLimits()");
  return {
    maxJournalLength: given.maxJournalLength ?? maxJournalLength,
    lifetimeMs: given.lifetimeMs ?? lifetimeMs,
    maxOpen: given.maxOpen ?? maxOpen,
  };
}

export const toJournalLengthError = (max: number): ToolError =>
  new ToolError("QUOTA_EXCEEDED", `The journal of the run exceeds ${max} characters (runs.maxJournalLength)`);

/** Longest time in ms until a run continues whose attempt a failure of the store or of `approvalOf` has interrupted. */
const LONGEST_INTERRUPTION_MS = 60_000;

/** A run under a claim of this process. */
export class ClaimedRun {
  readonly #host: RunHost;
  readonly #options: ParsedRunsOptions;
  readonly #now: () => number;
  readonly #claim: RunClaim;
  readonly #signals: ClaimSignals;
  /** Attempts that ended because their process was lost, and attempts to roll back that did not end. */
  #lost = 0;
  readonly #nestedCallNumbers = { last: 0 };

  constructor(host: RunHost, options: ParsedRunsOptions, claim: RunClaim, signals: ClaimSignals) {
    this.#host = host;
    this.#options = options;
    this.#now = clockOf(options.store);
    this.#claim = claim;
    this.#signals = signals;
  }

  /** Runs until the run waits or ends, or this process has to let it go. */
  async run(starter: RunStarter | undefined): Promise<void> {
    const { store } = this.#options;
    for (let mustGoOn = true; mustGoOn; ) {
      const run = await store.find(this.#claim);
      // Its tenant was deleted meanwhile.
      if (run === undefined) return;
      const journal = await this.#read(run);
      if (journal === undefined) return;
      const isOver = (journal.rollback?.until ?? run.expiresAt) <= this.#now();
      mustGoOn = await (isOver ? this.#expire(run, journal) : this.#advance(run, journal, starter));
    }
  }

  /**
   * Reads the journal of the run. A run with a journal that cannot be read ends when its time is over; until then, another release may read it.
   * @returns undefined if the run has ended
   * @throws {ToolError} INTERNAL for a journal that cannot be read
   */
  async #read(run: RunRecord): Promise<RunJournal | undefined> {
    const { store, leaseMs } = this.#options;
    const texts = await store.journal(this.#claim);
    try {
      return new RunJournal(texts);
    } catch (thrown) {
      const until = rollbackEndOf(texts) ?? run.expiresAt;
      if (until <= this.#now()) {
        await this.abandon(run, thrown as ToolError);
        return undefined;
      }
      // It can be cancelled meanwhile.
      await this.#suspend(run.waits, Math.min(this.#now() + leaseMs, until), texts.length);
      throw thrown;
    }
  }

  /** Ends a run whose journal cannot be read: it fails, and what it did is not undone. Returns whether this process has ended it. */
  async abandon(run: RunRecord, error: ToolError): Promise<boolean> {
    const release: RunRelease = { state: "failed", result: toFailedResult(run, error) };
    return (await this.#options.store.release(this.#claim, release, 0)) === "released";
  }

  /** Ends a run that has used up its time. Returns whether it goes on, to be rolled back. */
  async #expire(run: RunRecord, { rollback }: RunJournal): Promise<boolean> {
    if (rollback !== undefined) {
      await this.#endRollback(rollback);
      return false;
    }
    const error = new ToolError("TOOL_TIMEOUT", "The run did not end in its lifetime (runs.lifetimeMs)");
    return (await this.end("failed", toFailedResult(run, error))) === "rollback";
  }

  /** Returns the time in ms until a run continues whose attempt was interrupted. The older it is, the longer: the host may never answer. */
  #retryInterrupted({ createdAt }: RunRecord): number {
    return Math.min(LONGEST_INTERRUPTION_MS, Math.max(RETRY_MS, (this.#now() - createdAt) / 10));
  }

  /** Makes one attempt. Returns whether another one follows. */
  async #advance(run: RunRecord, journal: RunJournal, starter: RunStarter | undefined): Promise<boolean> {
    const { lost, cancelled, closing } = this.#signals;
    const { rollback } = journal;
    // What undoes a run is not cancelled.
    const signal = rollback === undefined ? AbortSignal.any([lost, cancelled]) : lost;
    const first = journal.size === 0 ? starter : undefined;
    const { attempt, result, written } = await this.#attempt(run, { journal, lost: signal, starter: first });
    if (closing.aborted) {
      // Another process need not wait for the end of the lease.
      await this.#options.store.renew(this.#claim, 0);
      return false;
    }
    if (lost.aborted) return false;
    const size = journal.size + written;
    if (attempt.isSuspended && !(cancelled.aborted && rollback === undefined)) {
      return await this.#suspend(attempt.waits, wakeTimeOf(attempt.waits), size);
    }
    const { interruption } = attempt;
    const isInterrupted = interruption !== undefined && !result.success && !attempt.isRolledBack;
    if (isInterrupted) notifySafely(this.#options.onError, interruption);
    const retryMs = isInterrupted ? this.#retryInterrupted(run) : retryAfter(result);
    if (retryMs !== undefined) {
      const wakeAt = Math.min(this.#now() + retryMs, rollback?.until ?? run.expiresAt);
      return await this.#suspend(run.waits, wakeAt, size);
    }
    const isLost = !result.success && result.error.code === "SANDBOX_CRASHED";
    this.#lost += isLost || (rollback !== undefined && !attempt.isUnfinished) ? 1 : 0;
    const mayRepeat = this.#lost <= MAX_LOST;
    if (rollback === undefined) {
      return (isLost && mayRepeat) || (await this.end(stateOf(result), result)) === "rollback";
    }
    if (!attempt.isRolledBack && mayRepeat) return true;
    await this.#endRollback(rollback);
    return false;
  }

  /** Lets the run wait. Returns true if something has come meanwhile: it may be what the run waits for. */
  async #suspend(waits: readonly RunWait[], wakeAt: number | undefined, size: number): Promise<boolean> {
    const release: RunRelease = { state: "suspended", waits, wakeAt };
    return (await this.#options.store.release(this.#claim, release, size)) === "changed";
  }

  /** Ends the run. If it has failed and has functions to roll it back, the journal has its result first, and the run continues with them. */
  async end(
    state: "succeeded" | "failed" | "cancelled",
    result: ToolResult,
  ): Promise<"released" | "changed" | "lost" | "rollback"> {
    const { store, rollbackMs } = this.#options;
    if (state !== "succeeded") {
      const { compensations } = new RunJournal(await store.journal(this.#claim));
      const until = this.#now() + rollbackMs;
      const entry: JournalEntry = { type: "rollback", state, result: result as unknown as JsonValue, until };
      if (compensations.length > 0)
        return (await store.append(this.#claim, [JSON.stringify(entry)])) ? "rollback" : "lost";
    }
    return await store.release(this.#claim, { state, result }, 0);
  }

  /** Ends a run that was rolled back, as far as that was possible. */
  async #endRollback({ state, result }: Rollback): Promise<void> {
    const { store } = this.#options;
    const { compensations } = new RunJournal(await store.journal(this.#claim));
    const ended = withRollback(result as unknown as ToolResult, compensations);
    await store.release(this.#claim, { state, result: ended }, 0);
  }

  async #attempt(
    run: RunRecord,
    {
      journal,
      lost,
      starter,
    }: { readonly journal: RunJournal; readonly lost: AbortSignal; readonly starter: RunStarter | undefined },
  ): Promise<Attempted> {
    const { store, prepare, onAttempt, otherEngines } = this.#options;
    const { maxJournalLength } = await limitsOf(this.#options, run.tenantId);
    let written = 0;
    let length = run.journalLength;
    const append = async (entries: readonly JournalEntry[]): Promise<void> => {
      const texts = entries.map((entry) => JSON.stringify(entry));
      length += texts.reduce((sum, text) => sum + text.length, 0);
      if (length > maxJournalLength + (journal.rollback === undefined ? 0 : ROLLBACK_LENGTH)) {
        throw toJournalLengthError(maxJournalLength);
      }
      if (!(await store.append(this.#claim, texts)))
        throw new ToolError("CANCELLED", "Another process has claimed the run");
      written += texts.length;
    };
    let prepared: RunContext | undefined;
    let failed: ToolError | undefined;
    try {
      prepared = await prepare?.(run);
      if (starter !== undefined) prepared = { ...prepared, client: starter.client };
    } catch (thrown) {
      if (!(thrown instanceof ToolError)) throw thrown;
      failed = thrown;
    }
    const { approvalOf, isCounted, ...context } = prepared ?? {};
    const { tenantId, toolName, toolVersion } = run;
    const { registry } = this.#host.router;
    // Above those of earlier claims as well: the journal has an entry for each call that they made.
    this.#nestedCallNumbers.last = Math.max(this.#nestedCallNumbers.last, journal.size);
    const attempt = new RunAttempt({
      journal,
      seed: randomBytes(32).toString("base64url"),
      now: this.#now,
      isCounted,
      canElicit: (text) => mayElicit(text, prepared, starter),
      nestedCallNumbers: this.#nestedCallNumbers,
      triesOtherEngines: otherEngines === "try",
      append,
      isRepeatable,
    });
    const { approved } = attempt;
    attempt.toolCalls = rulesOfToolRun({ registry, tenantId, toolName, toolVersion, approved, approvalOf });
    const result =
      failed === undefined ? await this.#execute(run, attempt, lost, context) : toFailedResult(run, failed);
    await attempt.end();
    const stored = result.success
      ? { ...result, output: toJson(result.output) as never }
      : { ...result, error: { ...result.error, message: messageWithWaits(result.error, attempt.waits) } };
    notifySafely(onAttempt, run, stored, attempt.isSuspended);
    return { attempt, written, result: { ...stored, callId: run.id } };
  }

  async #execute(
    run: RunRecord,
    attempt: RunAttempt,
    lost: AbortSignal,
    { callId = run.id, ...context }: Omit<RunContext, "approvalOf" | "isCounted">,
  ): Promise<ToolResult> {
    const { tenancy } = this.#host.router;
    return await this.#host.execute(
      { id: callId, toolName: run.toolName, arguments: JSON.parse(run.input) as JsonValue },
      {
        ...context,
        ...(tenancy.mode === "multi" ? { tenantId: run.tenantId } : {}),
        ...(run.toolVersion === undefined ? {} : { toolVersion: run.toolVersion }),
        run: attempt,
        signal: AbortSignal.any([lost, this.#signals.closing]),
      },
    );
  }
}

/** Whether a capability call that was under way when its process ended may be made again. Calls of tools have rules of their own. */
function isRepeatable(name: string, text: string): boolean {
  if (name === "log" || READS[name] === undefined) return name === "log";
  const { op } = (parseRequest(text) ?? {}) as { readonly op?: unknown };
  return READS[name].has(String(op));
}

/** Returns the earliest time at which a wait ends by itself. */
function wakeTimeOf(waits: readonly RunWait[]): number | undefined {
  const times = waits.flatMap(({ until }) => until ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** @param text request of `ctx.elicit` as JSON */
function mayElicit(text: string, prepared: RunContext | undefined, starter: RunStarter | undefined): boolean {
  if (!canElicit(prepared?.client)) return false;
  if (starter === undefined) return true;
  if (starter.answers === "all") return starter.isOpen();
  const { key } = (parseRequest(text) ?? {}) as { readonly key?: unknown };
  return typeof key === "string" && starter.isOpen();
}
