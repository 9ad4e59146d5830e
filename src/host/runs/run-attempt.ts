// One attempt to run a durable run up to its next wait or its end: passes from the runs to the executor as `context.run`. It answers what the
// journal has, and stores each capability call before it is made, and each answer before the tool receives it.
import { ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { type Limits, lowestLimits } from "../../sandbox/contract/limits.ts";
import type { ToolMessage } from "../../sandbox/protocol/host-messages.ts";
import { TurnsSchema } from "../../sandbox/protocol/turn-schemas.ts";
import { MAX_TURNS_LENGTH, type Turn, type TurnDivergence } from "../../sandbox/protocol/turns.ts";
import type { Deterministic } from "../../sandbox/worker/random-bytes.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { Redactor } from "../observability/redaction/call-redactor.ts";
import { inputHashOf } from "../recording/input-hash.ts";
import { diverged } from "../recording/recorded-answers.ts";
import { SHOWN_INPUT_LENGTH } from "../recording/recording.ts";
import {
  ApprovedCalls,
  type CallToApprove,
  type RequestedCall,
  readToolCall,
  type ToolCallRules,
} from "./call-approval.ts";
import type { JournalEntry, RunJournal, RunSecret } from "./run-journal.ts";
import {
  checkCode,
  checkEngine,
  engineOf,
  type PinnedCode,
  type RunCode,
  readStoredCode,
  type StoredPinnedCode,
} from "./run-pin.ts";
import { parseRollbackStep, type RollbackStep } from "./run-rollback.ts";
import { parseElicitation, parseWait, type RunWait } from "./run-wait.ts";

type RequestEntry = Extract<JournalEntry, { type: "request" }>;
type ToolProfile = Omit<ToolMessage, "type" | "toolId">;

export interface RunAttemptOptions {
  readonly journal: RunJournal;
  /** Seed of a run that begins. */
  readonly seed: string;
  readonly now: () => number;
  /** Stores entries. It is called again only when it has ended. @throws {ToolError} if the claim was lost, or the journal is too long */
  readonly append: (entries: readonly JournalEntry[]) => Promise<void>;
  /** Whether a capability call that was under way when its process ended may be made again. */
  readonly isRepeatable: (name: string, text: string) => boolean;
  /** Whether the quotas have counted the attempt already, with the call that waits for the run. */
  readonly isCounted?: boolean | undefined;
  /** Whether a client is connected that answers this request of `ctx.elicit`. Otherwise the run waits for the answer. */
  readonly canElicit?: ((text: string) => boolean) | undefined;
  /** Numbers the calls of tools that the run makes. `last`: number of the latest one. */
  readonly nestedCallNumbers: { last: number };
  /** Whether to repeat a journal that another engine has written. */
  readonly triesOtherEngines?: boolean | undefined;
}

/**
 * What the executor does with a capability call. `send`: the answer is known, with `isRepeated` from an earlier attempt. `wait`: the run waits;
 * `answered` resolves if it ends before the run is suspended. `leave-open`: it gets no answer.
 */
export type RunDecision =
  | { readonly kind: "send"; readonly envelope: string; readonly isRepeated?: boolean }
  | { readonly kind: "execute" }
  | { readonly kind: "wait"; readonly answered?: Promise<string> }
  | { readonly kind: "leave-open" };

/** Longest time that a timer of Node.js can have, in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const DONE = JSON.stringify({ ok: true, value: null });
const failure = (code: string, message: string): string => JSON.stringify({ ok: false, code, message });

/** One object serves one call. */
export class RunAttempt {
  readonly #options: RunAttemptOptions;
  readonly #failures = new Set<string>();
  readonly #waits = new Map<number, RunWait>();
  #start: { readonly seed: string; readonly now: number };
  /** Turns that the worker has reported, in this attempt. */
  #reported = 0;
  /** Requests that are being decided or made, and answers that the guest has not received. */
  readonly #underWay = new Set<number>();
  /** Timers of waits for a time, by wait. */
  readonly #timers = new Map<number, NodeJS.Timeout>();
  /** Whether the guest only waits for the host. */
  #isIdle = false;
  #stopped: ToolError | undefined;
  /** Set when the store, or the rule for approvals, has failed. The run has not: it continues from its journal. */
  interruption: ToolError | undefined;
  /** Values of secrets that the journal has. */
  readonly #storedSecrets: Set<string>;
  /** Ends with the latest append. Never rejects. */
  #appended: Promise<void> = Promise.resolve();
  /** Set when the run was stopped because it only waits. */
  isSuspended = false;
  /** Whether the run has registered functions with ctx.onRollback. */
  hasCompensations = false;
  /** Set for tools: the rules for the calls that the tool makes. */
  toolCalls: ToolCallRules | undefined;
  /** Set for code, before it runs: the rules for the calls that the code makes. */
  codeCalls: ToolCallRules | undefined;
  /** The calls of tools that a person has approved and that are about to be made. */
  readonly approved = new ApprovedCalls();
  /** Set for code that begins, before it runs: what its continuations run. */
  codeToPin: PinnedCode | undefined;
  /** Whether the functions of ctx.onRollback run. */
  #isRollingBack = false;
  /** Set when all of them have run. */
  isRolledBack = false;
  /** Set when the attempt ended because its time is needed for the next function. */
  isUnfinished = false;
  /** Limit of one function in ms, and the time after which an attempt starts one at most. Set when the limits of the call are known. */
  #rollbackMs = 1;
  #began = performance.now();
  /** Whether the attempt has stored a step of the rollback. Otherwise a further attempt would come no further. */
  #hasRolledBack = false;
  /** Limits of the input of a capability. Set when the limits of the call are known, before the guest runs. */
  #inputLimits: JsonTextLimits = { bytes: 0, depth: 0, values: 0 };
  readonly #ended = new AbortController();

  constructor(options: RunAttemptOptions) {
    this.#options = options;
    this.#storedSecrets = new Set(options.journal.secrets.map(({ value }) => value));
    const { start } = options.journal;
    this.#start =
      start === undefined ? { seed: options.seed, now: options.now() } : { seed: start.seed, now: start.now };
  }

  get #callRules(): ToolCallRules | undefined {
    return this.codeCalls ?? this.toolCalls;
  }

  /** Initial state of the call's isolate. */
  get start(): Deterministic {
    const { turns } = this.#options.journal;
    if (turns.length === 0) return { mode: "record", ...this.#start };
    const rollback = this.#options.journal.rollback === undefined ? {} : { rollbackMs: this.#rollbackMs };
    return { mode: "resume", ...this.#start, turns, ...rollback };
  }

  /** Whether the quotas have counted the attempt already. */
  get isCounted(): boolean {
    return this.#options.isCounted === true;
  }

  /** Whether an earlier attempt has begun. */
  get isContinued(): boolean {
    return this.#options.journal.start !== undefined;
  }

  /**
   * What a continuation of code runs. Undefined for tools, and for code that an earlier release has begun.
   * @throws {ToolError} INTERNAL if it is not what the run began with
   */
  get storedCode(): StoredPinnedCode | undefined {
    const { start } = this.#options.journal;
    return start && readStoredCode(start);
  }

  get nestedCallNumbers(): { last: number } {
    return this.#options.nestedCallNumbers;
  }

  /** What the run waits for. */
  get waits(): readonly RunWait[] {
    return [...this.#waits.values()];
  }

  /** Whether the guest repeats what it did in an earlier attempt, so that its log lines are known. */
  get isRepeating(): boolean {
    // The result of code has all its log lines.
    if (this.codeCalls !== undefined) return false;
    const known = this.#options.journal.turns.length;
    return known > 0 && this.#reported <= known;
  }

  /** Why the attempt ended, if the journal ended it. */
  get stopped(): ToolError | undefined {
    return this.#stopped;
  }

  /**
   * Returns the settings of the call's isolate: as at the beginning of the run, within the limits that apply today.
   * @throws {ToolError} TOOL_UNAVAILABLE if the tool has other code now, or the engine is another one
   */
  async profileOf(current: ToolProfile, limits: Limits, code: RunCode): Promise<ToolProfile> {
    const { start } = this.#options.journal;
    if (start !== undefined) checkCode(start, code, this.codeCalls !== undefined);
    if (start !== undefined && this.#options.triesOtherEngines !== true) checkEngine(start.engine, code);
    const { features, granted, denied, descriptors, logSourceLocations } = current;
    const pinned = start?.profile ?? {
      limits,
      features: [...features],
      granted: [...granted],
      denied: [...denied],
      logSourceLocations,
      ...(descriptors === undefined ? {} : { descriptors }),
    };
    if (start === undefined) {
      const began = { bundle: code.key, engine: engineOf(code), profile: pinned, ...this.#start };
      const own = this.codeToPin === undefined ? {} : { code: this.codeToPin };
      await this.#append([{ type: "start", ...began, ...own }]);
    }
    // Half for the function that runs, and half for the attempt to repeat the journal before it.
    this.#rollbackMs = Math.max(1, Math.floor(limits.timeoutMs / 2));
    this.#began = performance.now();
    const lowest = lowestLimits(limits, pinned.limits);
    this.#inputLimits = { bytes: lowest.inputBytes, depth: lowest.jsonDepth, values: lowest.jsonValues };
    return {
      sha256: current.sha256,
      isolateLifetime: "call",
      prewarm: false,
      coarseTime: false,
      ...pinned,
      limits: lowest,
      // A feature that was withdrawn from the tool since then stays withdrawn.
      features: pinned.features.filter((name) => features.includes(name)),
    };
  }

  /** Adds entries one after the other, so that the journal has the order in which things happened. */
  #append(entries: readonly JournalEntry[]): Promise<void> {
    const next = this.#appended.then(() => this.#write(entries));
    this.#appended = next.catch(() => undefined);
    return next;
  }

  /** @throws {ToolError} if the attempt has ended, also while the entries were written: what they announce must not be done then */
  async #write(entries: readonly JournalEntry[]): Promise<void> {
    this.#checkOpen();
    try {
      await this.#options.append(entries);
    } catch (thrown) {
      this.#stopped ??= this.#toReason(thrown, "The journal of the run could not be written");
    }
    this.#checkOpen();
  }

  /** Returns why the attempt ends. An error that is no ToolError is a failure of the host, and not of the run. */
  #toReason(thrown: unknown, message: string): ToolError {
    if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
    this.interruption ??= new ToolError("INTERNAL", message, { cause: thrown });
    return this.interruption;
  }

  /** Returns what a person must approve before a call is made; undefined if it needs no approval. */
  async #approvalOf(call: RequestedCall): Promise<CallToApprove | undefined> {
    try {
      return await this.#callRules?.approvalOf(call);
    } catch (thrown) {
      throw this.#toReason(thrown, "The host could not tell whether a call of the run needs an approval");
    }
  }

  #checkOpen(): void {
    if (this.#stopped !== undefined) throw this.#stopped;
  }

  /**
   * Adds turns of the worker, whose text is untrusted. Those that the journal has come first.
   * @returns resolves when they are stored
   */
  addTurns(text: string): Promise<void> {
    const turns: Turn[] = TurnsSchema.parse(JSON.parse(`[${text}]`));
    const isNew = turns.slice(Math.max(0, this.#options.journal.turns.length - this.#reported));
    this.#reported += turns.length;
    for (const [kind, , ...ids] of turns) if (kind === "answer") for (const id of ids) this.#underWay.delete(id);
    return isNew.length === 0 ? Promise.resolve() : this.#append([{ type: "turns", turns: isNew }]);
  }

  /** The worker has dropped turns, so the run could not be repeated. Returns the error with which it ends. */
  rejectTurns(): ToolError {
    const message = `The run has had too many turns (answers, timers and jobs) to be repeated: more than ${MAX_TURNS_LENGTH} characters. Divide its work among several runs`;
    this.#stopped ??= new ToolError("QUOTA_EXCEEDED", message);
    return this.#stopped;
  }

  /**
   * Decides about a capability call, which is stored before it is made.
   * @throws {ToolError} REPLAY_DIVERGED for another call than the journal has at this position; the reason if the attempt has ended
   */
  async request(id: number, name: string, text: string): Promise<RunDecision> {
    this.#checkOpen();
    this.#underWay.add(id);
    const { journal, isRepeatable } = this.#options;
    const known = journal.requests.get(id);
    const step = this.#stepOf(name, text);
    if (step?.op === "register") this.hasCompensations = true;
    if (step?.op === "begin") this.#isRollingBack = true;
    if (known === undefined) return await this.#begin(id, name, text, step);
    if (known.name !== name || known.hash !== inputHashOf(text)) {
      throw diverged(id, `${known.name}(${known.input.slice(0, 200)})`, `${name}(${text.slice(0, 200)})`);
    }
    if (step?.op === "done") this.isRolledBack = true;
    const envelope = journal.answers.get(id);
    if (envelope !== undefined) return { ...this.#send(envelope), isRepeated: true };
    if (step !== undefined) return await this.#answer(id, DONE);
    if (this.#isPastEnd) return { kind: "leave-open" };
    if (known.wait !== undefined && name !== "tools") return await this.#wait(known.wait);
    if (known.wait !== undefined && !journal.approved.has(id)) return await this.#waitForCall(known.wait, text);
    // The client whose answer is missing is gone, and a question has no effects: the run waits for the answer.
    if (name === "elicit" && !this.#isRollingBack) return await this.#beginWait(known, text);
    const call = await this.#readCall(name, text);
    if (call instanceof ToolError) return await this.#answer(id, failure(call.code, call.message));
    const mayRepeat = call === undefined ? isRepeatable(name, text) : this.#callRules?.isRepeatable(call) === true;
    if (mayRepeat) {
      // The client may have left while it was asked to approve the call, and the rule may have changed.
      const unapproved = call && known.wait === undefined && (await this.#requireApproval(known, call, text));
      if (unapproved) return unapproved;
      if (call !== undefined && known.wait?.toolDigest !== undefined)
        this.#callRules?.noteApproved(call, known.wait.toolDigest);
      return { kind: "execute" };
    }
    const message = `The process ended while "${name}" was under way. Its effects are possible`;
    return await this.#answer(id, failure("EFFECTS_POSSIBLE", message));
  }

  /** Returns the call of a tool that a request makes, or why it cannot be read. Undefined for other requests, and without rules. */
  async #readCall(name: string, text: string): Promise<RequestedCall | ToolError | undefined> {
    if (name !== "tools" || this.#callRules === undefined) return undefined;
    try {
      return await readToolCall(text, this.#inputLimits, this.#ended.signal);
    } catch (thrown) {
      this.#checkOpen();
      return toToolError(thrown);
    }
  }

  /** A run reports other steps than registrations only while it is rolled back. */
  #stepOf(name: string, text: string): RollbackStep | undefined {
    const step = name === "waitFor" ? parseRollbackStep(text) : undefined;
    return step?.op === "register" || this.#options.journal.rollback !== undefined ? step : undefined;
  }

  /** Whether a request is one of the run's own code after the end of the run, whose rollback continues. */
  get #isPastEnd(): boolean {
    return this.#options.journal.rollback !== undefined && !this.#isRollingBack;
  }

  async #begin(id: number, name: string, text: string, step: RollbackStep | undefined): Promise<RunDecision> {
    const input = text.slice(0, SHOWN_INPUT_LENGTH);
    const request: RequestEntry = { type: "request", id, name, hash: inputHashOf(text), input };
    if (step !== undefined) return await this.#beginStep(request, step);
    if (this.#isPastEnd) return { kind: "leave-open" };
    if (name === "waitFor" && this.#isRollingBack) {
      await this.#append([request]);
      return await this.#answer(id, failure("CAPABILITY_DENIED", "A function of ctx.onRollback cannot wait"));
    }
    const isElicited = name === "elicit" && this.#options.canElicit?.(text) !== true && !this.#isRollingBack;
    const call = await this.#readCall(name, text);
    if (call instanceof ToolError) {
      await this.#append([request]);
      return await this.#answer(id, failure(call.code, call.message));
    }
    const unapproved = call && (await this.#requireApproval(request, call, text));
    if (unapproved !== undefined) return unapproved;
    if (name !== "waitFor" && !isElicited) {
      await this.#append([request]);
      return { kind: "execute" };
    }
    return await this.#beginWait(request, text);
  }

  /** Lets the run wait if a person must approve a call. Returns undefined if the call needs no approval. */
  async #requireApproval(request: RequestEntry, call: RequestedCall, text: string): Promise<RunDecision | undefined> {
    const { id } = request;
    const toApprove = await this.#approvalOf(call);
    if (toApprove === undefined) return undefined;
    if (this.#isRollingBack) {
      await this.#append([request]);
      const message = "A function of ctx.onRollback cannot wait for an approval, so the call was not run";
      return await this.#answer(id, failure("APPROVAL_REQUIRED", message));
    }
    const { expiresInMs, ...shown } = toApprove;
    const until = expiresInMs === undefined ? {} : { until: this.#options.now() + expiresInMs };
    const asked = { id, kind: "approval", ...shown, ...until } as const;
    await this.#append([{ ...request, wait: asked }]);
    return await this.#waitForCall(asked, text);
  }

  /** Stores a request with what the run waits for. A second entry of a request takes the place of the first. */
  async #beginWait(request: RequestEntry, text: string): Promise<RunDecision> {
    const { id, name } = request;
    let wait: RunWait;
    try {
      wait = name === "elicit" ? parseElicitation(id, text) : parseWait(id, text, this.#options.now());
    } catch (thrown) {
      await this.#append([request]);
      return await this.#answer(id, failure("PARAM_INVALID", (thrown as ToolError).message));
    }
    await this.#append([{ ...request, wait }]);
    return await this.#wait(wait);
  }

  async #beginStep(request: RequestEntry, step: RollbackStep): Promise<RunDecision> {
    const isLate = performance.now() - this.#began > this.#rollbackMs;
    if (step.op === "begin" && isLate && this.#hasRolledBack) {
      this.isUnfinished = true;
      throw new ToolError("CANCELLED", "The rollback continues in another attempt");
    }
    await this.#append([{ ...request, rollback: step }]);
    if (step.op !== "register") this.#hasRolledBack = true;
    const decision = await this.#answer(request.id, DONE);
    if (step.op === "done") this.isRolledBack = true;
    return decision;
  }

  async #wait(wait: RunWait): Promise<RunDecision> {
    const found = this.#options.journal.answerOf(wait, this.#options.now());
    if (found !== undefined) return await this.#answer(wait.id, found.envelope, { event: found.event });
    this.#waits.set(wait.id, wait);
    this.#underWay.delete(wait.id);
    // Only the journal in the store has events and answers of people that came in time, which the next attempt reads.
    return wait.kind === "duration" ? { kind: "wait", answered: this.#waitHere(wait) } : { kind: "wait" };
  }

  /** Resolves with the answer of a wait for a time that comes while the run is not suspended. Stays pending if the attempt ends before. */
  async #waitHere(wait: RunWait): Promise<string> {
    const { journal, now } = this.#options;
    let found = journal.answerOf(wait, now());
    while (found === undefined) {
      const leftMs = Math.max(1, (wait.until ?? 0) - now());
      await new Promise<void>((resolve) => {
        this.#timers.set(wait.id, setTimeout(resolve, Math.min(leftMs, MAX_TIMER_MS)));
      });
      found = journal.answerOf(wait, now());
    }
    // The next attempt finds the time over.
    if (this.isSuspended || this.#stopped !== undefined) return await new Promise(() => {});
    this.#waits.delete(wait.id);
    this.#underWay.add(wait.id);
    await this.#answer(wait.id, found.envelope);
    return found.envelope;
  }

  /** Waits until a person has decided about a call. An approval is valid for the tool that the person saw. */
  async #waitForCall(wait: RunWait, text: string): Promise<RunDecision> {
    const decision = this.#options.journal.decisionOf(wait.id);
    if (decision === undefined) {
      if (wait.until !== undefined && wait.until <= this.#options.now())
        return await this.#answer(
          wait.id,
          failure("APPROVAL_REQUIRED", "The call was not approved in time and not run"),
        );
      this.#waits.set(wait.id, wait);
      this.#underWay.delete(wait.id);
      return { kind: "wait" };
    }
    if (!decision.approved) {
      const why = decision.reason === undefined ? "" : `: ${decision.reason}`;
      return await this.#answer(wait.id, failure("APPROVAL_REQUIRED", `The call was denied and not run${why}`));
    }
    const call = await this.#readCall("tools", text);
    if (call instanceof ToolError) return await this.#answer(wait.id, failure(call.code, call.message));
    const now = call && (await this.#approvalOf(call));
    if (now !== undefined && now.toolDigest !== wait.toolDigest) {
      const message = "The tool has changed since the call was approved, so it was not run";
      return await this.#answer(wait.id, failure("TOOL_UNAVAILABLE", message));
    }
    await this.#append([{ type: "approved", id: wait.id }]);
    if (call !== undefined && wait.toolDigest !== undefined) this.#callRules?.noteApproved(call, wait.toolDigest);
    return { kind: "execute" };
  }

  async #answer(
    id: number,
    envelope: string,
    more: { readonly event?: number | undefined; readonly secrets?: readonly RunSecret[] } = {},
  ): Promise<RunDecision> {
    const { event, secrets = [] } = more;
    const own = secrets.length === 0 ? {} : { secrets: [...secrets] };
    await this.#append([{ type: "answer", id, envelope, ...(event === undefined ? {} : { event }), ...own }]);
    return this.#send(envelope);
  }

  #send(envelope: string): Extract<RunDecision, { kind: "send" }> {
    if (envelope.startsWith('{"ok":false'))
      this.#failures.add(String((JSON.parse(envelope) as { code?: unknown }).code));
    return { kind: "send", envelope };
  }

  /**
   * Stores the answer of a capability. The tool must not receive it before this resolves.
   * @param redactor has the secrets of the call. Those that the tool receives for the first time are stored with the answer
   */
  async executed(id: number, envelope: string, redactor: Redactor | undefined): Promise<void> {
    const found = redactor === undefined ? [] : await redactor.find(envelope, this.#storedSecrets);
    for (const { value } of found) this.#storedSecrets.add(value);
    await this.#answer(id, envelope, { secrets: found });
  }

  /** Returns a redactor with the secrets that earlier attempts have received; undefined if they have received none. */
  createRedactor(): Redactor | undefined {
    const { secrets } = this.#options.journal;
    if (secrets.length === 0) return undefined;
    const redactor = new Redactor();
    for (const { label, value } of secrets) redactor.addSecret(label, value);
    return redactor;
  }

  setIdle(isIdle: boolean): void {
    this.#isIdle = isIdle;
  }

  /** A process has taken the call. It cannot begin again, because the journal has what it did. */
  begin(): void {
    if (this.#reported > 0) this.#stopped ??= new ToolError("SANDBOX_CRASHED", "The process ended while the run began");
  }

  /**
   * Ends the attempt: appends that have not begun are dropped, and their calls are not made. The journal is then as after a crash at this point.
   * @returns resolves when nothing of the attempt is being stored. The next attempt must not begin earlier
   */
  async end(): Promise<void> {
    // Nothing of a run that waits is under way. Its last turns belong to the journal, so that the next attempt does not log them again.
    if (this.isSuspended) await this.#appended;
    this.#stopped ??= new ToolError("CANCELLED", "The call of the run has ended");
    this.#ended.abort(this.#stopped);
    for (const timer of this.#timers.values()) clearTimeout(timer);
    await this.#appended;
  }

  /** Whether the run waits, and nothing of it is under way. Its process can be freed. */
  get canSuspend(): boolean {
    return (
      this.#stopped === undefined &&
      !this.#isRollingBack &&
      this.#isIdle &&
      this.#waits.size > 0 &&
      this.#underWay.size === 0
    );
  }

  /** As of a CapabilityBroker: whether a request of this run has failed with the code. */
  wasDeniedWith(code: string): boolean {
    return this.#failures.has(code);
  }

  traceOf(): undefined {
    return undefined;
  }

  /** Returns the error of a run that needs other turns than its journal has. */
  toError({ turn, expected, actual }: TurnDivergence): ToolError {
    const message = `The run differs from its journal at turn ${turn}: expected ${expected}, got ${actual}`;
    return new ToolError("REPLAY_DIVERGED", message, { details: { position: turn, expected, actual } });
  }
}
