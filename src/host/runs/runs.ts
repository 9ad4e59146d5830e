// createRuns: durable runs of tools. A suspended run occupies no process. Any process with the store continues it by repeating its journal; a
// request whose answer is in the journal is not made again.
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { type JsonValue, ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { withVersion } from "../routing/tool-release.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { notifySafely } from "../util/host-callback.ts";
import { clockOf } from "../util/store-clock.ts";
import { ActiveRuns, quoteId } from "./active-runs.ts";
import { limitsOf, type RunHost, type RunScope, toJournalLengthError } from "./claimed-run.ts";
import { DueRuns, MAX_DUE } from "./due-runs.ts";
import { checkStarter, copySignal, inputBoundsOf, toInputText } from "./run-input.ts";
import { RunJournal } from "./run-journal.ts";
import {
  CloseSchema,
  ListSchema,
  type ParsedRunsOptions,
  type RunOwner,
  type RunStart,
  type RunStarter,
  type RunsOptions,
  RunsOptionsSchema,
  StartSchema,
  WhoseSchema,
} from "./run-options.ts";
import { type RunSignal, SignalSchema, toEntryText } from "./run-signal.ts";
import type { NewRun, RunFilter, RunKey, RunRecord } from "./run-store.ts";

/**
 * Durable runs of the tools of one Glovebox. Create it with {@link createRuns}, and close it before the Glovebox.
 * @example
 * ```typescript
 * import type { Runs } from "glovebox";
 *
 * async function approvePayment(runs: Runs): Promise<void> {
 *   let run = await runs.start({ toolName: "pay", arguments: { eur: 50 } });
 *   const wait = run.waits.find(({ kind }) => kind === "approval");
 *   if (wait !== undefined) run = await runs.signal(run.id, { approval: wait.id, approved: true });
 *   console.log(run.state);
 * }
 * ```
 */
export class Runs implements AsyncDisposable {
  readonly #host: RunHost;
  readonly #options: ParsedRunsOptions;
  readonly #now: () => number;
  readonly #scope: RunScope;
  #poller: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  readonly #active: ActiveRuns;
  /** While it is open, the tenant's runs are deleted with a tenant of the Glovebox. */
  readonly #registration: Disposable | undefined;

  /** @internal use {@link createRuns} */
  constructor(host: RunHost, options: ParsedRunsOptions) {
    this.#host = host;
    this.#options = options;
    this.#now = clockOf(options.store);
    this.#scope = host.runScope ?? { kind: "tool" };
    this.#active = new ActiveRuns(host, options, { scope: this.#scope, now: this.#now });
    this.#registration = host.runStores?.add(options.store);
    if (options.pollMs === 0) return;
    const due = new DueRuns({
      store: options.store,
      onError: options.onError,
      scope: this.#scope,
      now: this.#now,
      // The router of a code mode is not there yet.
      isAlone: () => this.#scope.tenantId !== undefined || host.router.tenancy.mode === "single",
      claim: async (key) => (this.#active.has(key) ? undefined : await this.#active.claim(key)),
      continueRun: (claim) => this.#active.continue(claim),
    });
    this.#poller = setInterval(() => {
      this.#polling ??= due
        .poll()
        .catch((thrown) => notifySafely(options.onError, thrown))
        .then(() => {
          this.#polling = undefined;
        });
    }, options.pollMs);
    this.#poller.unref();
  }

  /**
   * Starts a run, and returns it when it has ended or waits.
   * @throws {ToolError} PARAM_INVALID for invalid options, and for arguments that are not JSON or exceed `limits.inputBytes`; NAME_TAKEN for an id
   *   that the tenant has used; QUOTA_EXCEEDED if the tenant has `maxOpen` runs; TOOL_UNAVAILABLE after `close()`, and while the tenant is deleted
   */
  start(run: RunStart): Promise<RunRecord> {
    return deferFailure(async () => await (await this.#begin(run)).settled);
  }

  /**
   * Starts a run as {@link start} does, and returns when it is stored.
   * @returns `settled` resolves when the run has ended or waits
   */
  begin(run: RunStart, starter?: RunStarter): Promise<{ readonly id: string; readonly settled: Promise<RunRecord> }> {
    return deferFailure(() => this.#begin(run, starter));
  }

  async #begin(
    run: RunStart,
    starter?: RunStarter,
  ): Promise<{ readonly id: string; readonly settled: Promise<RunRecord> }> {
    checkStarter(starter);
    this.#active.checkOpen();
    const {
      toolName,
      arguments: input,
      id = randomUUID(),
      toolVersion,
      tenantId,
    } = parseOptions(StartSchema, run, "run");
    const { store, leaseMs } = this.#options;
    const now = this.#now();
    const key = { tenantId: this.#tenantOf(tenantId, "run.tenantId"), id };
    const { maxOpen, lifetimeMs } = await limitsOf(this.#options, key.tenantId);
    const bounds = await inputBoundsOf(this.#host.router, key.tenantId, toolName);
    const text = toInputText(input, bounds, "run.arguments", `The arguments of ${toolName}`);
    const newRun: NewRun = {
      ...key,
      kind: this.#scope.kind,
      toolName,
      toolVersion: this.#versionOf(key.tenantId, toolName, toolVersion),
      input: text,
      createdAt: now,
      expiresAt: now + lifetimeMs,
      leaseUntil: now + leaseMs,
    };
    // A deletion of the tenant may have begun meanwhile. One that begins later waits for the run, and deletes it.
    this.#host.router.tenantStates.checkAdding(key.tenantId);
    const creation = store.create(newRun, maxOpen);
    const created = await (this.#host.runStores?.trackCreation(key.tenantId, creation) ?? creation);
    if (created === "taken") throw new ToolError("NAME_TAKEN", `There is a run with the id ${JSON.stringify(id)}`);
    if (created === "full")
      throw new ToolError("QUOTA_EXCEEDED", `The tenant has ${maxOpen} runs that have not ended (runs.maxOpen)`);
    const settled = this.#active.continue({ ...key, fence: 1 }, starter);
    // A caller that does not wait for it loses nothing: the run is stored.
    settled.catch((thrown) => notifySafely(this.#options.onError, thrown));
    return { id, settled };
  }

  /**
   * Returns a run; undefined if the tenant has none of this id.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an id that is not a string, and for a tenant that does not match the tenancy
   */
  async get(id: string, options: RunOwner = {}): Promise<RunRecord | undefined> {
    return await deferFailure(() => this.#options.store.find(this.#keyOf(id, options)));
  }

  /**
   * Returns the journal of a run, entry by entry; empty if the tenant has no run of this id.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an id that is not a string, and for a tenant that does not match the tenancy
   */
  async journal(id: string, options: RunOwner = {}): Promise<readonly JsonValue[]> {
    const texts = await deferFailure(() => this.#options.store.journal(this.#keyOf(id, options)));
    return texts.map((text) => JSON.parse(text) as JsonValue);
  }

  /**
   * Lists the runs of a tenant, by id.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an invalid filter, and for a tenant that does not match the tenancy
   */
  list(options: RunOwner & Partial<RunFilter> = {}): Promise<readonly RunRecord[]> {
    return deferFailure(async () => {
      const { tenantId, ...filter } = parseOptions(ListSchema, options, "options");
      return await this.#options.store.list(this.#tenantOf(tenantId, "options.tenantId"), filter);
    });
  }

  /**
   * Gives a run what it waits for, and continues it. An event that no wait needs yet is kept for the first one of its name.
   * @returns the run when it waits again or has ended; as it is if another process has claimed it
   * @throws {ToolError} PARAM_INVALID for invalid arguments, for an answer to a wait that the run does not have (yet) or that has another
   *   answer, and for a value nested more than 1,000 levels deep; QUOTA_EXCEEDED for a value that
   *   exceeds `maxJournalLength` with the rest of the journal; TOOL_UNAVAILABLE for a run that has ended or does not exist
   */
  signal(id: string, signal: RunSignal, options: RunOwner = {}): Promise<RunRecord> {
    return deferFailure(async () => {
      const state = await this.#deliver(id, signal, options);
      const key = this.#keyOf(id, options);
      // An attempt that was under way before is not waited for: it may be what gives the signal.
      const run = state === "suspended" ? await this.#active.resumeOrJoin(key) : await this.#active.resume(key);
      return run ?? (await this.#active.find(key));
    });
  }

  /**
   * Stores what a run waits for as {@link signal} does, and does not continue the run.
   * @throws {ToolError} as {@link signal} does
   */
  deliver(id: string, signal: RunSignal, options: RunOwner = {}): Promise<void> {
    return deferFailure(async () => {
      await this.#deliver(id, signal, options);
    });
  }

  /** Returns the state that the run had. */
  async #deliver(id: string, signal: RunSignal, options: RunOwner): Promise<RunRecord["state"]> {
    const { store } = this.#options;
    const key = this.#keyOf(id, options);
    // The host's limits: a look-up of the tenant's could fail, and `maxJournalLength` limits what is stored.
    const { inputBounds } = this.#host.router.tenants.default;
    const parsed = copySignal(parseOptions(SignalSchema, signal, "signal"), inputBounds);
    const text = "event" in parsed ? toEntryText(parsed, undefined) : await this.#toAnswerText(key, parsed);
    const { journalLength, kind } = await this.#active.find(key);
    if (kind !== this.#scope.kind) {
      const message = `The run is of kind ${JSON.stringify(kind)}, and this host continues only runs of kind "${this.#scope.kind}"`;
      throw unavailable("not_found", message);
    }
    const { maxJournalLength } = await limitsOf(this.#options, key.tenantId);
    if (journalLength + text.length > maxJournalLength) throw toJournalLengthError(maxJournalLength);
    const state = await store.appendEvent(key, text);
    if (state === undefined) throw unavailable("not_found", `There is no run ${quoteId(key.id)}, or it has ended`);
    return state;
  }

  /**
   * Returns the entry of the journal for an answer to a wait. A wait that the run does not have yet cannot be answered.
   * @throws {ToolError} TOOL_UNAVAILABLE if there is no such run; PARAM_INVALID if it has no such wait, or has another answer to it
   */
  async #toAnswerText(key: RunKey, answer: Exclude<RunSignal, { event: string }>): Promise<string> {
    const [kind, id] =
      "approval" in answer ? (["approval", answer.approval] as const) : (["elicitation", answer.elicitation] as const);
    await this.#active.find(key);
    const journal = new RunJournal(await this.#options.store.journal(key));
    const wait = journal.requests.get(id)?.wait;
    if (wait?.kind !== kind)
      throw new ToolError("PARAM_INVALID", `signal.${kind}: The run has no ${kind} with the id ${id}`);
    const text = toEntryText(answer, wait);
    if (!journal.hasOtherAnswer(text)) return text;
    throw new ToolError(
      "PARAM_INVALID",
      `signal.${kind}: The ${kind} ${id} of the run was answered before, differently`,
    );
  }

  /**
   * Continues a run that is suspended, or whose process is gone, or waits for its attempt that is under way here.
   * @returns the run when it waits again or has ended; undefined if it does not exist, has ended, or another process has claimed it
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an id that is not a string, and for a tenant that does not
   *   match the tenancy; TOOL_UNAVAILABLE after `close()`
   */
  async resume(id: string, options: RunOwner = {}): Promise<RunRecord | undefined> {
    return await deferFailure(() => this.#active.resumeOrJoin(this.#keyOf(id, options)));
  }

  /**
   * Ends a run that waits, when the functions of its `ctx.onRollback` have run, and stops one that is under way in this process. A run whose journal
   * cannot be read fails, and is not rolled back.
   * @returns false if it does not exist, has ended, or is under way in another process
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an id that is not a string, and for a tenant that does not match the tenancy
   */
  async cancel(id: string, options: RunOwner = {}): Promise<boolean> {
    return await deferFailure(() => this.#active.cancel(this.#keyOf(id, options)));
  }

  /** Continues the runs of all tenants whose time has come, or whose process is gone. Resolves when they wait again or have ended. */
  async poll(): Promise<void> {
    const filter = { ...this.#scope, perTenant: MAX_DUE, limit: MAX_DUE };
    const due = await this.#options.store.due(this.#now(), filter);
    const idle = due.filter((key) => !this.#active.has(key));
    const outcomes = await Promise.allSettled(idle.map((key) => this.#active.resume(key)));
    for (const outcome of outcomes)
      if (outcome.status === "rejected") notifySafely(this.#options.onError, outcome.reason);
  }

  /**
   * Stops looking for runs, and lets those that are under way go, so that another process continues them.
   * @param options `drainMs`: longest time in ms to wait until they wait or have ended. Default: 0
   * @throws {ToolError} PARAM_INVALID, as a rejection, for invalid options: nothing is closed then
   */
  async close(options: { readonly drainMs?: number | undefined } = {}): Promise<void> {
    const { drainMs } = await deferFailure(() => parseOptions(CloseSchema, options, "options"));
    clearInterval(this.#poller);
    if (drainMs > 0 && this.#active.size > 0) {
      const timer = new AbortController();
      const late = setTimeout(drainMs, undefined, { signal: timer.signal }).catch(() => {});
      await Promise.race([this.#active.settled(), late]);
      timer.abort();
    }
    this.#active.stop();
    await this.#polling;
    await this.#active.settled();
    this.#registration?.[Symbol.dispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #tenantOf(tenantId: string | undefined, where: string): string {
    const found = this.#host.router.tenancy.tenantOf(tenantId, where);
    const { tenantId: owner = found } = this.#scope;
    if (found === owner) return found;
    throw new ToolError("PARAM_INVALID", `${where}: Expected the tenant of the code mode, ${JSON.stringify(owner)}`);
  }

  #keyOf(id: string, options: unknown): RunKey {
    if (typeof id !== "string") throw new ToolError("PARAM_INVALID", "id: Expected a string");
    const { tenantId } = parseOptions(WhoseSchema, options, "options");
    return { tenantId: this.#tenantOf(tenantId, "options.tenantId"), id };
  }

  /** Pins the version of a run: the given one, or the one that a call would run now. @throws {ToolError} TOOL_UNAVAILABLE */
  #versionOf(tenantId: string, toolName: string, toolVersion: string | undefined): string | undefined {
    return withVersion({ toolVersion }, toolName, this.#host.router.registry.get(toolName, tenantId)).toolVersion;
  }
}

/**
 * Creates durable runs of the tools of a Glovebox. A tool that is granted `waitFor` can wait with `ctx.waitFor({ event })`, `{ approval }` or
 * `{ durationMs }`; its process is freed, and the run continues in any process with the same store and the same version of the tool.
 * @param glovebox a Glovebox, or a code mode whose code is to run durably
 * @throws {ToolError} PARAM_INVALID for invalid options
 * @example
 * ```typescript
 * import { createGlovebox, createRuns, MemoryRunStore } from "glovebox";
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/refund.ts" }, { grant: ["waitFor"] });
 * await using runs = createRuns(glovebox, { store: new MemoryRunStore() });
 * const run = await runs.start({ toolName: "refund", arguments: { amount: 500 } });
 * const [wait] = run.waits; // The run is suspended until a person decides.
 * if (wait?.kind === "approval") await runs.signal(run.id, { approval: wait.id, approved: true });
 * ```
 */
export function createRuns(glovebox: RunHost, options: RunsOptions): Runs {
  // The router of a code mode is not there yet when it creates its runs.
  if (typeof (glovebox as Partial<RunHost> | null | undefined)?.execute !== "function")
    throw new ToolError("PARAM_INVALID", `glovebox: Expected a Glovebox or a code mode, got ${describeKind(glovebox)}`);
  return new Runs(glovebox, parseOptions(RunsOptionsSchema, options, "options"));
}
