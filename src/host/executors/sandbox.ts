// Runs calls of sandboxed tools: converts a prepared call to a job of the worker pool, and its outcome to an Execution.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type EndedMessage, ProgressSchema } from "../../sandbox/protocol/messages.ts";
import type { Deterministic } from "../../sandbox/worker/seeded-bytes.ts";
import { CapabilityBroker } from "../capabilities/broker.ts";
import { CallScope } from "../capabilities/call-scope.ts";
import { NO_USAGE, type ToolContext, type ToolUsage } from "../contract/tool-call.ts";
import { toAttachmentParts } from "../contract/tool-value.ts";
import type { CallLog } from "../observability/call-log.ts";
import { Redactor } from "../observability/redaction/redactor.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { CallState } from "../routing/open-calls.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import type { CallListener, CallLossReason } from "../workers/open-call.ts";
import type { Ticket, WorkerPool } from "../workers/worker-pool.ts";
import type { SentBundle, SessionOrder, WorkerToolProfile } from "../workers/worker-process.ts";
import type { Execution } from "./execution.ts";
import type { Executor } from "./executor.ts";
import { memoryError, toCallFailure, toGuestOutput, tryParse } from "./guest-outcome.ts";
import { type ProcessPlacement, placementOf, pythonPlacementOf } from "./process-placement.ts";
import { redactExecution } from "./redact-execution.ts";
import type { SandboxSession, SandboxTool } from "./sandbox-tool.ts";
import { WarmVersion } from "./warm-version.ts";

export type { SandboxSession, SandboxTool } from "./sandbox-tool.ts";

/** Longest time in ms that an aborted call waits for its process to report what it cost. */
const CANCEL_GRACE_MS = 50;

/** Creates the executor of one sandboxed tool, or of the runs of one session. */
export function createSandboxExecutor(tool: SandboxTool, pool: WorkerPool): Executor {
  const { bundle, codeCache, modules } = tool;
  const sent: SentBundle = { sha256: bundle.sha256, code: bundle.code, codeCache, modules };
  const warm = new WarmVersion(tool, sent, pool);
  const profileOf = ({ limits, tenant, context }: PreparedCall): WorkerToolProfile =>
    warm.profileOf({ limits, coarseTime: tenant.coarseTime }, context.logSourceLocations === true);
  return {
    source: tool.python === undefined ? "sandbox" : "python",
    sourceId: tool.sourceId,
    wants: "text",
    warm,
    retire: () => warm.retire(),
    execute: async (call, log) => {
      warm.begin();
      try {
        return await new SandboxRun({ tool, sent, profile: profileOf(call), call, log, pool }).run();
      } finally {
        warm.end();
      }
    },
  };
}

interface SandboxRunOptions {
  readonly tool: SandboxTool;
  readonly sent: SentBundle;
  readonly profile: WorkerToolProfile;
  readonly call: PreparedCall;
  readonly log: CallLog;
  readonly pool: WorkerPool;
}

/** One call in the worker pool. */
class SandboxRun {
  readonly #tool: SandboxTool;
  readonly #sent: SentBundle;
  readonly #profile: WorkerToolProfile;
  readonly #call: PreparedCall;
  readonly #log: CallLog;
  readonly #pool: WorkerPool;
  readonly #cpuAccount: CpuAccount;
  /** Both are created on the tool's first request to a capability. Most calls make none. */
  #broker: CapabilityBroker | undefined;
  #scope: CallScope | undefined;
  #redactor: Redactor | undefined;
  readonly #admitted = performance.now();
  #placedAt: number | undefined;
  #ticket: Ticket | undefined;

  constructor({ tool, sent, profile, call, log, pool }: SandboxRunOptions) {
    this.#tool = tool;
    this.#sent = sent;
    this.#profile = profile;
    this.#call = call;
    this.#log = log;
    this.#pool = pool;
    const { tenantId } = call;
    this.#cpuAccount = { account: tenantId, charge: (ms) => pool.chargeHostTime(tenantId, ms) };
    this.#redactor = tool.session?.redactor;
    log.redactor = this.#redactor;
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
    let graceTimer: NodeJS.Timeout | undefined;
    let abort: (() => void) | undefined;
    try {
      const execution = await new Promise<Execution>((resolve) => {
        this.#ticket = this.#enqueue(resolve);
        abort = () => {
          const stopped = (): void => resolve({ usage: this.#usage(), error: signal.reason as ToolError });
          this.#ticket?.cancel();
          // Its pending requests end now, without waiting for the process's report.
          this.#scope?.[Symbol.dispose]();
          if (this.#placedAt === undefined) stopped();
          else graceTimer = setTimeout(stopped, CANCEL_GRACE_MS);
        };
        signal.addEventListener("abort", abort, { once: true });
      });
      return this.#redactor === undefined ? execution : await redactExecution(execution, this.#redactor);
    } finally {
      clearTimeout(graceTimer);
      if (abort !== undefined) signal.removeEventListener("abort", abort);
      this.#scope?.[Symbol.dispose]();
    }
  }

  #enqueue(resolve: (execution: Execution) => void): Ticket {
    this.#setCallState("queued");
    const { callId, tenantId, tenant, inputText, inputBytes, definition, limits, chain, chunks, context } = this.#call;
    const { python, session } = this.#tool;
    const { sha256 } = this.#sent;
    const redactor = (): Redactor | undefined => this.#redactor;
    chain.onPause = (isPaused) => this.#ticket?.rest(isPaused);
    chain.onWait = (isWaiting) => this.#ticket?.watchIdle(isWaiting);
    chain.openCalls = () => this.#broker?.pending ?? 0;
    chain.setIdle(false);
    chunks?.open((taken) => this.#ticket?.credit(taken), redactor);
    return this.#pool.run({
      ...this.#placement(),
      claim: {
        account: tenantId,
        weight: tenant.weight,
        toolKey: python?.toolKey ?? sha256,
        accountLimits: tenant.limits,
        toolLimits: limits,
        ...(chain.parent === undefined ? {} : { parentSlot: chain.parent.nestedCallSlot }),
      },
      memoryMiB: limits.memoryMiB,
      ...this.#queueTimeout(),
      order: {
        type: "call",
        tool: this.#profile,
        callId,
        tenantId,
        stream: chunks === undefined ? undefined : true,
        deterministic: toDeterministic(context),
        ...(session === undefined ? {} : { session: toSessionOrder(session) }),
      },
      ...(session === undefined ? {} : { session: session.placement }),
      bundle: this.#sent,
      input: python === undefined ? inputText : python.toRun(inputText, limits, session !== undefined),
      inputBytes: inputBytes === undefined ? undefined : toAttachmentParts(inputBytes),
      listener: this.#listener(resolve),
      leftMs: () => this.#call.clock?.leftMs ?? 0,
      // A caller that has seen chunks must not get them again from a second run.
      idempotent: chunks === undefined && definition.annotations?.idempotentHint === true,
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

  #listener(resolve: (execution: Execution) => void): CallListener {
    const { chunks } = this.#call;
    return {
      onChunks: chunks === undefined ? undefined : (come) => chunks.push(come),
      onPlaced: () => {
        this.#placedAt = performance.now();
        this.#setCallState("running");
        this.#tool.session?.onPlaced();
      },
      onLog: (level, time, text, place) => {
        const { stackMapper } = this.#tool;
        const mapped = place === undefined ? undefined : stackMapper.mapLocation(place);
        this.#log.add(level, time, stackMapper.mapText(text), { place: mapped });
      },
      onProgress: (text) => this.#reportProgress(text),
      onCapability: (name, text, answer) => {
        const { chain } = this.#call;
        const answered = this.#getBroker().answer(name, text);
        chain.updatePause();
        // If the answer cannot be sent, the tool would wait for it forever: end the call.
        answered
          .then((envelope) => {
            // The guest works from now on, until its process reports that it is idle.
            chain.setIdle(false);
            chain.updatePause();
            answer(envelope);
          })
          .catch(() => this.#ticket?.cancel());
      },
      onIdle: (isIdle) => this.#call.chain.setIdle(isIdle),
      onEnded: (message, parts, peakBytes) => {
        this.#tool.modules.add(message.usedModules ?? []);
        const execution = this.#toExecution(message, parts, peakBytes);
        const error = "error" in execution ? execution.error : undefined;
        this.#tool.session?.onEnded(message.kept === true, execution.usage, error);
        resolve("error" in execution ? execution : { ...execution, cpuAccount: this.#cpuAccount });
      },
      onLost: (loss, peakBytes) => {
        const usage = this.#usage(undefined, peakBytes);
        const error = this.#toLossError(loss, usage);
        // A call that was never placed has not affected the session.
        if (this.#placedAt !== undefined) this.#tool.session?.onEnded(false, usage, error);
        resolve({ usage, error, isSourceFailure: this.#isSourceFailure(loss, error) });
      },
      onPaused: (isHeld) => this.#call.clock?.hold(isHeld),
      onStuck() {},
    };
  }

  #reportProgress(text: string): void {
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

  #toLossError({ begun, cause, outOfMemory }: CallLossReason, usage: ToolUsage): ToolError {
    // An aborted call reports its own reason, however its process ended.
    if (this.#call.signal.aborted) return this.#call.signal.reason as ToolError;
    if (cause !== undefined) return cause;
    if (outOfMemory) return memoryError(this.#call.definition.name, this.#call.limits, usage.peakBytes);
    return new ToolError("SANDBOX_CRASHED", "The sandbox process of the call ended before the call did", {
      details: { begun },
    });
  }

  /** A timeout is the tool's fault alone. A process that cannot start or crashes affects all calls of the source. */
  #isSourceFailure({ isNotStarted }: CallLossReason, { code }: ToolError): boolean {
    return isNotStarted === true || (code === "SANDBOX_CRASHED" && this.#tool.sharesProcesses !== true);
  }

  #toExecution(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): Execution {
    const { limits, definition, chunks, signal } = this.#call;
    const usage = this.#usage(message, peakBytes);
    const [text] = parts;
    if (message.outcome === "output" && text !== undefined)
      return { usage, ...toGuestOutput(definition.name, text, parts) };
    if (message.outcome === "streamed" && chunks !== undefined) return { usage, outputText: "null", isStreamed: true };
    if (message.outcome === "cancelled" && signal.aborted) return { usage, error: signal.reason as ToolError };
    const context = { limits, usage, text: text?.toString() ?? "", stackMapper: this.#tool.stackMapper };
    return { usage, error: toCallFailure(message, context, definition.name, this.#tool, this.#broker) };
  }
}

const toSessionOrder = ({ placement, once, isKept }: SandboxSession): SessionOrder =>
  isKept ? { id: placement.id, once, resumes: true } : { id: placement.id, once };

/** Default start of a deterministic clock. At 1970, code that treats 0 as a missing time would pass its tests. */
const FIRST_NOW = Date.UTC(2025, 0, 1);

const toDeterministic = ({ deterministic }: ToolContext): Deterministic | undefined =>
  deterministic && { seed: deterministic.seed, now: deterministic.now ?? FIRST_NOW };
