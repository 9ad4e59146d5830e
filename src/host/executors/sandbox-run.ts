// Runs one call of a sandboxed tool: converts the prepared call to a job of the worker pool, answers the tool's requests meanwhile, and converts
// the outcome to an Execution.
import { ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { LogLevel } from "../../sandbox/protocol/message-fields.ts";
import { DivergenceSchema } from "../../sandbox/protocol/turn-schemas.ts";
import { type EndedMessage, ProgressSchema } from "../../sandbox/protocol/worker-messages.ts";
import type { Deterministic } from "../../sandbox/worker/random-bytes.ts";
import { CapabilityBroker } from "../capabilities/broker.ts";
import { CallScope } from "../capabilities/call-scope.ts";
import { type CallContext, NO_USAGE, type ToolUsage } from "../contract/tool-call.ts";
import { toAttachmentParts } from "../contract/tool-value.ts";
import type { CallLog } from "../observability/call-log.ts";
import { Redactor } from "../observability/redaction/call-redactor.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { CallRecorder } from "../recording/call-recorder.ts";
import { RECORDING_BYTES } from "../recording/recording.ts";
import type { PreparedReplay } from "../recording/replay.ts";
import { ReplayRun } from "../recording/replay-run.ts";
import type { ChainedRun } from "../routing/call-chain.ts";
import type { CallState } from "../routing/open-calls.ts";
import type { RunAttempt } from "../runs/run-attempt.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { Ticket } from "../workers/pool-job.ts";
import type { CallListener, CallLossReason, CapabilityRequest } from "../workers/process/call-events.ts";
import type { SentBundle, SessionOrder } from "../workers/worker-job.ts";
import type { Execution } from "./execution.ts";
import { memoryError, toCallFailure, toGuestOutput, tryParse } from "./guest-outcome.ts";
import { type ProcessPlacement, placementOf, pythonPlacementOf } from "./process-placement.ts";
import { redactExecution } from "./redact-execution.ts";
import type { SandboxSession, SandboxTool } from "./sandbox-tool.ts";

/** Longest time in ms that an aborted call waits for its process to report what it cost. */
const CANCEL_GRACE_MS = 50;

/** Longest time in ms that a call waits for that report if its host has stopped it, for example because its run waits. No caller is in a hurry. */
const STOP_GRACE_MS = 1_000;

export interface SandboxRunOptions {
  readonly tool: SandboxTool;
  readonly sent: SentBundle;
  readonly profile: WorkerToolProfile;
  readonly call: PreparedCall;
  readonly log: CallLog;
  readonly pool: CallPool;
}

/** One call in the worker pool. */
export class SandboxRun implements CallListener, ChainedRun {
  readonly #tool: SandboxTool;
  readonly #sent: SentBundle;
  readonly #profile: WorkerToolProfile;
  readonly #call: PreparedCall;
  readonly #log: CallLog;
  readonly #pool: CallPool;
  readonly #cpuAccount: CpuAccount;
  /** Both are created on the tool's first request to a capability. Most calls make none. */
  #broker: CapabilityBroker | undefined;
  #scope: CallScope | undefined;
  #redactor: Redactor | undefined;
  readonly #recorder: CallRecorder | undefined;
  readonly #replayRun: ReplayRun | undefined;
  readonly #run: RunAttempt | undefined;
  readonly #admitted = performance.now();
  #placedAt: number | undefined;
  #ticket: Ticket | undefined;
  #resolve: ((execution: Execution) => void) | undefined;
  /** Set when the host has stopped the call: because of its journal or recording, or because its run waits. */
  #stopped: ToolError | undefined;
  #graceTimer: NodeJS.Timeout | undefined;
  /** Receives the chunks of a streaming call. */
  readonly onChunks: CallListener["onChunks"];
  /** Receives the turns of a call that is recorded. */
  readonly onTurns: CallListener["onTurns"];

  constructor({ tool, sent, profile, call, log, pool }: SandboxRunOptions) {
    this.#tool = tool;
    this.#sent = sent;
    this.#profile = profile;
    this.#call = call;
    this.#log = log;
    this.#pool = pool;
    const { tenantId, chunks } = call;
    this.#cpuAccount = { key: tenantId, charge: (ms) => pool.chargeHostTime(tenantId, ms) };
    const { record, replay, run } = call.context;
    this.#redactor = tool.session?.redactor ?? run?.createRedactor();
    log.redactor = this.#redactor;
    const replayRun = replay && new ReplayRun(replay);
    this.#replayRun = replayRun;
    this.#run = run;
    const { maxBytes = RECORDING_BYTES.default, redact } = record ?? {};
    const redactor = (): Redactor | undefined => this.#redactor;
    const recorder = record && new CallRecorder({ call, profile, maxBytes, redact, redactor });
    this.#recorder = recorder;
    this.onTurns =
      run === undefined
        ? recorder && ((text, message) => recorder.addTurns(text, message))
        : (text, { isTruncated }) => {
            if (isTruncated === true) this.#stop(run.rejectTurns());
            else run.addTurns(text).catch((thrown) => this.#stop(thrown));
          };
    if (replayRun?.replay.isStreamed === true) {
      this.onChunks = (come) => {
        replayRun.addChunks(come);
        this.#ticket?.credit(come.length);
      };
    }
    if (chunks === undefined) return;
    this.onChunks = (come) => {
      recorder?.addChunks(come);
      chunks.push(come);
    };
  }

  #getBroker(): CapabilityBroker {
    if (this.#broker !== undefined) return this.#broker;
    const { callId, tenantId, limits, definition, observer } = this.#call;
    const { granted, onHandlerError } = this.#tool;
    const redactor = this.#redactor ?? new Redactor();
    this.#redactor = redactor;
    this.#log.redactor = redactor;
    this.#scope = new CallScope({
      callId,
      tenantId,
      toolName: definition.name,
      redactor,
      requested: definition.capabilities ?? {},
      call: this.#call,
      cpuAccount: this.#cpuAccount,
      log: (message, data, level = "info") => this.#log.add(level, Date.now(), message, { data }),
      // The tool itself receives every ToolError.
      onError: (error) => {
        if (!(error instanceof ToolError)) notifySafely((thrown) => onHandlerError?.(thrown, "perCall"), error);
      },
    });
    const { context } = this.#scope;
    this.#broker = new CapabilityBroker({
      granted,
      limits,
      context,
      cpuAccount: this.#cpuAccount,
      observer,
      onHandlerError,
    });
    return this.#broker;
  }

  async run(): Promise<Execution> {
    const { signal } = this.#call;
    let abort: (() => void) | undefined;
    try {
      const execution = await new Promise<Execution>((resolve) => {
        this.#resolve = resolve;
        abort = () => this.#cancel(CANCEL_GRACE_MS);
        // The caller may have its answer already: loading the code or storing the start of a run takes time.
        if (signal.aborted) return abort();
        this.#ticket = this.#enqueue();
        signal.addEventListener("abort", abort, { once: true });
      });
      // Calls that the journal is being asked for are not made any more, although the rest of the pipeline takes time.
      await this.#run?.end();
      const redacted = this.#redactor === undefined ? execution : await redactExecution(execution, this.#redactor);
      // A replay that no process has taken has no outcome: that it had to wait says nothing about its version.
      const replayRun = this.#placedAt === undefined ? undefined : this.#replayRun;
      const shown = replayRun === undefined ? redacted : await replayRun.end(redacted);
      if (this.#recorder !== undefined) {
        const recording = await this.#recorder.end(shown, this.#redactor);
        notifySafely(this.#call.context.record?.onRecording, recording);
      }
      return shown;
    } finally {
      this.#resolve = undefined;
      clearTimeout(this.#graceTimer);
      if (abort !== undefined) signal.removeEventListener("abort", abort);
      this.#scope?.[Symbol.dispose]();
    }
  }

  #enqueue(): Ticket {
    this.#setCallState("queued");
    this.#call.observer?.timeline?.queued();
    const { callId, tenantId, tenant, inputText, inputBytes, definition, limits, chain, chunks, context } = this.#call;
    const { python, session } = this.#tool;
    const { sha256 } = this.#sent;
    chain.run = this;
    chain.setIdle(false);
    chunks?.open(
      (taken) => this.#ticket?.credit(taken),
      () => this.#redactor,
    );
    return this.#pool.run({
      ...this.#placement(),
      claim: {
        account: tenantId,
        weight: tenant.weight,
        toolKey: python?.toolKey ?? sha256,
        accountLimits: tenant.limits,
        toolLimits: limits,
        ...(chain.parent === undefined
          ? {}
          : { parentSlot: chain.parent.nestedCallSlot, rootNumber: chain.root.number }),
      },
      memoryMiB: limits.memoryMiB,
      pools: tenant.pools,
      python,
      ...this.#queueTimeout(),
      order: {
        type: "call",
        tool: this.#profile,
        callId,
        tenantId,
        stream: this.onChunks === undefined ? undefined : true,
        deterministic: context.replay?.start ?? context.run?.start ?? toDeterministic(context),
        ...(session === undefined ? {} : { session: toSessionOrder(session) }),
      },
      ...(session === undefined ? {} : { session: session.placement }),
      bundle: this.#sent,
      input: python === undefined ? inputText : python.toRun(inputText, limits, session !== undefined),
      inputBytes: inputBytes === undefined ? undefined : toAttachmentParts(inputBytes),
      listener: this,
      leftMs: () => this.#call.clock?.leftMs ?? 0,
      // A caller that has seen chunks must not get them again from a second run, and a durable run has a journal of the first.
      idempotent: chunks === undefined && context.run === undefined && definition.annotations?.idempotentHint === true,
    });
  }

  #setCallState(state: CallState): void {
    const { tracked } = this.#call;
    if (tracked !== undefined) tracked.state = state;
  }

  #placement(): ProcessPlacement {
    const { python, features, isolateLifetime, ownerOf, session } = this.#tool;
    const { tenantId, limits } = this.#call;
    const owner = ownerOf(tenantId);
    if (python === undefined) return placementOf(owner, this.#sent.sha256, features, limits);
    const keeper = session === undefined ? python.toolKey : `session ${session.placement.id}`;
    return pythonPlacementOf(owner, limits, isolateLifetime === "call" ? "" : keeper);
  }

  /**
   * Longest time in the queue. The call's own deadline ends the wait anyway. A nested call, whose caller may hold the
   * slot it waits for, leaves half of the remaining time to its caller.
   */
  #queueTimeout(): { readonly queueMs?: number } {
    const { limits, chain, deadlineAt } = this.#call;
    const leftMs =
      chain.parent === undefined ? limits.timeoutMs : Math.max(1, Math.round((deadlineAt - performance.now()) / 2));
    return limits.queueMs < leftMs
      ? { queueMs: limits.queueMs }
      : chain.parent === undefined
        ? {}
        : { queueMs: leftMs };
  }

  get openCalls(): number {
    return this.#broker?.pending ?? 0;
  }

  setPaused(isPaused: boolean): void {
    this.#ticket?.setPaused(isPaused);
  }

  setWaiting(isWaiting: boolean): void {
    // A durable run that waits is suspended when its process reports that it is idle.
    const isRunWaiting = this.#run !== undefined && this.#run.waits.length > 0;
    this.#ticket?.watchIdle(isWaiting || isRunWaiting);
  }

  onPlaced(ageMs = 0): void {
    this.#recorder?.begin();
    this.#replayRun?.begin();
    this.#run?.begin();
    this.#placedAt = performance.now() - ageMs;
    this.#call.observer?.timeline?.placed(this.#placedAt);
    this.#setCallState("running");
    this.#tool.session?.onPlaced();
  }

  /** Ends what the lost attempt has left: its requests, its exchanges, and the nested calls that use its slot. */
  onPutBack(): void {
    this.#scope?.[Symbol.dispose]();
    this.#scope = undefined;
    this.#broker = undefined;
    this.#placedAt = undefined;
    this.#setCallState("queued");
    this.#call.observer?.timeline?.queued();
    this.#call.chain.setIdle(false);
    this.#call.chain.updatePause();
  }

  onStarted(): void {
    this.#call.observer?.timeline?.started();
  }

  onLog(level: LogLevel, time: number, text: string, place?: string): void {
    // A process reports up to 10 ms later that the tool has begun.
    this.#call.observer?.timeline?.started();
    if (this.#run?.isRepeating === true) return;
    const { stackMapper } = this.#tool;
    const mapped = place === undefined ? undefined : stackMapper.mapLocation(place);
    this.#log.add(level, time, stackMapper.mapText(text), { place: mapped });
  }

  onCapability(name: string, text: string, request: CapabilityRequest): void {
    // Its guest does not know yet that the call has been stopped.
    if (this.#stopped !== undefined) return;
    if (this.#replayRun !== undefined && name !== "log") {
      this.#answerFrom(this.#replayRun.replay, name, text, request);
      return;
    }
    if (this.#run !== undefined) {
      void this.#answerInRun(this.#run, name, text, request);
      return;
    }
    const { chain } = this.#call;
    const recorder = this.#recorder;
    recorder?.addRequest(request.requestId, name, text);
    const broker = this.#getBroker();
    const answered = broker.answer(name, text);
    chain.updatePause();
    // If the answer cannot be sent, the tool would wait for it forever: end the call.
    answered
      .then((envelope) => {
        // The request of a lost process. The call runs again and numbers its requests anew.
        if (broker !== this.#broker) return;
        // The guest works from now on, until its process reports that it is idle.
        chain.setIdle(false);
        chain.updatePause();
        recorder?.addAnswer(request.requestId, envelope);
        request.send(envelope);
      })
      .catch(() => this.#ticket?.cancel());
  }

  /** Answers a request of a replay. A request that differs from the recording ends the call. */
  #answerFrom(replay: PreparedReplay, name: string, text: string, { requestId, send }: CapabilityRequest): void {
    try {
      const { envelope, latencyMs } = replay.answer(requestId, name, text);
      if (envelope !== undefined) send(envelope, latencyMs);
    } catch (thrown) {
      this.#stop(thrown);
    }
  }

  /** Answers a capability call of a durable run: from its journal, or by the capability, whose answer the journal has first. */
  async #answerInRun(
    run: RunAttempt,
    name: string,
    text: string,
    { requestId, send }: CapabilityRequest,
  ): Promise<void> {
    const { chain } = this.#call;
    try {
      const decision = await run.request(requestId, name, text);
      if (run.isRolledBack) return this.#stop(new ToolError("CANCELLED", "The run has been rolled back"));
      if (decision.kind === "send") {
        const { envelope, isRepeated } = decision;
        if (isRepeated === true && this.#tool.granted.get(name)?.restore !== undefined)
          await this.#getBroker().restore(name, text, envelope);
        return send(envelope);
      }
      if (decision.kind === "leave-open") return;
      if (decision.kind === "wait") {
        // The process reports when nothing else of the run is under way.
        this.#ticket?.watchIdle(true);
        if (decision.answered === undefined) return;
        const envelope = await decision.answered;
        chain.setIdle(false);
        chain.updatePause();
        return send(envelope);
      }
      if (run.stopped !== undefined) throw run.stopped;
      const answered = this.#getBroker().answer(name, text);
      chain.updatePause();
      const envelope = await answered;
      chain.setIdle(false);
      chain.updatePause();
      await run.executed(requestId, envelope, this.#redactor);
      send(envelope);
    } catch (thrown) {
      this.#stop(thrown);
    }
  }

  /** Stops the call: it ends with this reason, whatever its process reports. An earlier reason, or that of its signal, counts. */
  #stop(reason: unknown): void {
    if (this.#resolve === undefined || this.#stopped !== undefined || this.#call.signal.aborted) return;
    this.#stopped = toToolError(reason);
    this.#cancel(STOP_GRACE_MS);
  }

  /** Cancels the call, which ends when its process has reported what it cost, or after `graceMs`. */
  #cancel(graceMs: number): void {
    const error = this.#stopped ?? (this.#call.signal.reason as ToolError);
    // Before its pending requests fail: their failures are not answers of the run.
    void this.#run?.end();
    this.#ticket?.cancel();
    // Its pending requests end now, without waiting for the process's report.
    this.#scope?.[Symbol.dispose]();
    const end = (): void => this.#resolve?.({ usage: this.#usage(), error });
    clearTimeout(this.#graceTimer);
    if (this.#placedAt === undefined) end();
    else this.#graceTimer = setTimeout(end, graceMs);
  }

  onIdle(isIdle: boolean): void {
    this.#call.chain.setIdle(isIdle);
    const run = this.#run;
    run?.setIdle(isIdle);
    if (run?.canSuspend !== true) return;
    run.isSuspended = true;
    this.#stop(new ToolError("CANCELLED", "The run waits"));
  }

  onEnded(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void {
    if (message.usedModules !== undefined) this.#tool.modules.add(message.usedModules);
    const execution = this.#toExecution(message, parts, peakBytes);
    const error = "error" in execution ? execution.error : undefined;
    const isKept = message.kept === true;
    // A call that was never placed has left the session as it was, and the next one may run in it by now.
    if (this.#placedAt !== undefined || !isKept) this.#tool.session?.onEnded(isKept, execution.usage, error);
    this.#resolve?.("error" in execution ? execution : { ...execution, cpuAccount: this.#cpuAccount });
  }

  onLost(loss: CallLossReason, peakBytes: number): void {
    // The circuit compares when calls began.
    const executeMs = this.#placedAt === undefined ? 0 : performance.now() - this.#placedAt;
    const usage = { ...this.#usage(undefined, peakBytes), executeMs };
    const error = this.#toLossError(loss, usage);
    // A call that was never placed has not affected the session.
    if (this.#placedAt !== undefined) this.#tool.session?.onEnded(false, usage, error);
    this.#resolve?.({ usage, error, isSourceFailure: this.#isSourceFailure(loss, error) });
  }

  onPaused(isPaused: boolean): void {
    this.#call.clock?.setPaused(isPaused);
  }

  onStuck(): void {}

  onSpan(time: number, text: string): void {
    this.#call.observer?.toolSpan(time, this.#redactor?.text(text) ?? text);
  }

  onProgress(text: string): void {
    const { onProgress } = this.#call.context;
    if (onProgress === undefined) return;
    // Redaction of a number makes the report invalid. Drop it then.
    const parsed = ProgressSchema.safeParse(tryParse(this.#redactor?.text(text) ?? text));
    if (parsed.success) notifySafely(onProgress, parsed.data);
  }

  #usage(message?: EndedMessage, peakBytes = 0): ToolUsage {
    const now = performance.now();
    const placedAt = this.#placedAt ?? now;
    // Without a report from the process, assume that the tool computed all the time.
    const cpuMs = Math.min(this.#call.limits.cpuMs, Math.ceil(now - placedAt));
    return { ...NO_USAGE, cpuMs, queueMs: placedAt - this.#admitted, ...message?.usage, peakBytes };
  }

  #toLossError({ begun, cause, outOfMemory, event }: CallLossReason, usage: ToolUsage): ToolError {
    if (this.#stopped !== undefined) return this.#stopped;
    // An aborted call reports its own reason, however its process ended.
    if (this.#call.signal.aborted) return this.#call.signal.reason as ToolError;
    if (cause !== undefined) return cause;
    if (outOfMemory) return memoryError(this.#call.definition.name, this.#call.limits, usage.peakBytes);
    const what =
      event?.isExecutorLost === true ? "The executor of the call was lost" : "The sandbox process of the call ended";
    return new ToolError("SANDBOX_CRASHED", `${what} before the call ended`, { cause: event, details: { begun } });
  }

  /**
   * A timeout is the tool's fault alone. A process that cannot start or crashes affects all calls of the source. A lost executor counts too,
   * because its tools may have exhausted its machine, but once for all its calls.
   */
  #isSourceFailure({ isNotStarted }: CallLossReason, { code }: ToolError): boolean {
    return isNotStarted === true || (code === "SANDBOX_CRASHED" && this.#tool.sharesProcesses !== true);
  }

  #toExecution(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): Execution {
    const { limits, definition, signal } = this.#call;
    const usage = this.#usage(message, peakBytes);
    if (this.#stopped !== undefined) return { usage, error: this.#stopped };
    const [text] = parts;
    if (message.outcome === "output" && text !== undefined)
      return { usage, ...toGuestOutput(definition.name, text, parts) };
    if (message.outcome === "streamed" && this.onChunks !== undefined)
      return { usage, outputText: "null", isStreamed: true };
    if (message.outcome === "cancelled" && signal.aborted) return { usage, error: signal.reason as ToolError };
    const repeated = this.#replayRun?.replay ?? this.#run;
    if (message.outcome === "diverged" && repeated !== undefined) {
      const divergence = DivergenceSchema.parse(tryParse(text?.toString() ?? ""));
      return { usage, error: repeated.toError(divergence) };
    }
    const context = { limits, usage, text: text?.toString() ?? "", stackMapper: this.#tool.stackMapper };
    const failures = this.#replayRun?.replay.answers ?? this.#run ?? this.#broker;
    return { usage, error: toCallFailure(message, context, definition.name, this.#tool, failures) };
  }
}

const toSessionOrder = ({ placement, once, isKept }: SandboxSession): SessionOrder =>
  isKept ? { id: placement.id, once, resumes: true } : { id: placement.id, once };

/** Default start of a deterministic clock. At 1970, code that treats 0 as a missing time would pass its tests. */
const FIRST_NOW = Date.UTC(2025, 0, 1);

const toDeterministic = ({ deterministic }: CallContext): Deterministic | undefined =>
  deterministic && { mode: "virtual", seed: deterministic.seed, now: deterministic.now ?? FIRST_NOW };
