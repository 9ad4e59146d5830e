// Runs calls of sandboxed tools: turns a prepared call into a job of the worker pool, and the outcome into an
// Execution.
import type { StackMapper } from "../../bundler/compile/source-map.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type EngineFeature, unlimitedFeatures } from "../../sandbox/contract/engine-features.ts";
import { ERROR_CODES, type ErrorCode, type ErrorDetails, ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { type CapabilityDescriptors, PYTHON_OUT_OF_MEMORY } from "../../sandbox/protocol/guest-messages.ts";
import {
  type EndedMessage,
  GuestErrorSchema,
  GuestIssuesSchema,
  type IsolateLifetime,
  ProgressSchema,
} from "../../sandbox/protocol/messages.ts";
import type { Deterministic } from "../../sandbox/worker/seeded-bytes.ts";
import { CapabilityBroker } from "../capabilities/broker.ts";
import { CallScope } from "../capabilities/call-scope.ts";
import type { Capability } from "../capabilities/capability.ts";
import { NO_USAGE, type ToolContext, type ToolUsage } from "../contract/tool-call.ts";
import { type AttachmentReader, readAttachments, toAttachmentParts } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import type { CallLog } from "../observability/call-log.ts";
import { Redactor } from "../observability/redaction/redactor.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { CallState } from "../routing/open-calls.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import { dataLimitBytes } from "../workers/hardening/launcher.ts";
import type { CallListener, CallLossReason } from "../workers/open-call.ts";
import { pythonClassOf, pythonDataBytes } from "../workers/worker-kind.ts";
import type { Job, SessionPlacement, Ticket, WorkerPool } from "../workers/worker-pool.ts";
import type { SentBundle, SessionOrder, WorkerToolProfile } from "../workers/worker-process.ts";
import type { Execution } from "./execution.ts";
import type { Executor } from "./executor.ts";
import type { PlatformModuleUsage } from "./platform-module-usage.ts";
import { redactExecution } from "./redact-execution.ts";
import { WarmVersion } from "./warm-version.ts";

/** Identifies a Python tool, since all Python tools share one bundle. */
export interface PythonCalls {
  /** Key of the tool in the tenant's queue. */
  readonly toolKey: string;
  /** Builds a PythonRun as JSON text around arguments in JSON text. */
  readonly toRun: (args: string | Buffer, limits: Limits, isInSession: boolean) => string | Buffer;
}

export interface SandboxTool {
  readonly bundle: Pick<ToolBundle, "sha256" | "code">;
  readonly codeCache: Uint8Array;
  readonly modules: Pick<PlatformModuleUsage, "add" | "names">;
  readonly stackMapper: StackMapper;
  readonly isolateLifetime: IsolateLifetime;
  /** The tool's author allows its top level to run ahead of calls. */
  readonly prewarm: boolean;
  /** Returns the owner of the processes that the tool may run in: its tenant or a trust group. */
  readonly ownerOf: (tenantId: string) => string;
  /** Other tenants' tools run in the same processes, so the end of one says nothing about this tool. */
  readonly sharesProcesses?: boolean;
  readonly sourceId?: string;
  readonly granted: ReadonlyMap<string, Capability>;
  /** Capabilities that were requested but not granted. The tool receives CAPABILITY_DENIED when it uses one. */
  readonly denied: readonly string[];
  /** Descriptors of granted and denied capabilities that are more than functions. */
  readonly descriptors?: CapabilityDescriptors | undefined;
  /** Granted features of the engine. */
  readonly features: readonly EngineFeature[];
  /** Set if the bundle is the Python runtime, which then runs the tool's source. */
  readonly python?: PythonCalls | undefined;
  /** The session whose isolate the calls run in, if `isolateLifetime` is `session`. */
  readonly session?: SandboxSession | undefined;
  readonly onHandlerError?: ((error: unknown, capability: string) => void) | undefined;
}

/** A session's isolate, from the point of view of its calls. */
export interface SandboxSession {
  readonly placement: SessionPlacement;
  /** Secrets of all runs, because the guest may still know those of an earlier one. */
  readonly redactor: Redactor;
  /** Bundle and profile are used for one call only. */
  readonly once: boolean;
  /** An earlier call has left its isolate in the session's process. */
  readonly isKept: boolean;
  /** A call may be in the isolate from now on. */
  onPlaced(): void;
  /**
   * A call has ended.
   * @param isKept whether the isolate remains for the next call
   */
  onEnded(isKept: boolean, usage: ToolUsage, error: ToolError | undefined): void;
}

/** Longest time in ms that an aborted call waits for its process to report what it cost. */
const CANCEL_GRACE_MS = 50;

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

/** Most isolates in a tool's own process: the running one, and the previous one while it is disposed. */
const CONFINED_ISOLATES = 2;

type ProcessPlacement = Pick<Job, "owner" | "exclusive" | "dataBytes" | "kind">;

/**
 * Returns the process placement of a Python call. Each process runs one call at a time, because V8 does not count the
 * memory of WebAssembly.
 * @param keeper key of what keeps its isolate between calls, and therefore has processes of its own, with room for two
 * interpreters each
 */
export function pythonPlaceOf(owner: string, { memoryMiB }: Limits, keeper = ""): ProcessPlacement {
  const classMiB = pythonClassOf(memoryMiB);
  const dataBytes = pythonDataBytes(classMiB);
  return { owner: `${owner} python ${classMiB} ${keeper}`, kind: "python", exclusive: true, dataBytes };
}

/**
 * Returns the process placement of a tool. A tool whose memory V8 does not count gets a process of its own, limited by
 * the operating system.
 */
export function placementOf(
  owner: string,
  sha256: string,
  features: readonly EngineFeature[],
  { memoryMiB }: Limits,
): ProcessPlacement {
  if (unlimitedFeatures(features).length === 0) return { owner };
  return {
    owner: `${owner} ${sha256} ${memoryMiB}`,
    exclusive: true,
    dataBytes: dataLimitBytes(CONFINED_ISOLATES, memoryMiB),
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
    chain.onHold = (isHeld) => this.#ticket?.rest(isHeld);
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
    return pythonPlaceOf(owner, limits, isolateLifetime === "call" ? "" : keeper);
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
        chain.weigh();
        // If the answer cannot be sent, the tool would wait for it forever: end the call.
        answered
          .then((envelope) => {
            // The guest works from now on, until its process reports that it is idle.
            chain.setIdle(false);
            chain.weigh();
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
    const usage = this.#usage(message, peakBytes);
    const [text] = parts;
    if (message.outcome === "output" && text !== undefined) return { usage, ...this.#toOutput(text, parts) };
    if (message.outcome === "streamed" && this.#call.chunks !== undefined) {
      return { usage, outputText: "null", isStreamed: true };
    }
    if (message.outcome === "cancelled" && this.#call.signal.aborted) {
      return { usage, error: this.#call.signal.reason as ToolError };
    }
    const context = {
      limits: this.#call.limits,
      usage,
      text: text?.toString() ?? "",
      stackMapper: this.#tool.stackMapper,
    };
    const error = toGuestFailure(message, context, this.#call.definition.name);
    if (this.#tool.python !== undefined && error.details?.errorCode === PYTHON_OUT_OF_MEMORY) {
      return { usage, error: withCode(error, "MEMORY_LIMIT", memoryLimitDetails(context.limits, usage.peakBytes)) };
    }
    return { usage, error: this.#verifyCapabilityCode(this.#withTrace(error)) };
  }

  /** Adds the trace of a failure that a nested call has caused. */
  #withTrace(error: ToolError): ToolError {
    const claimed = error.details?.capabilityCode;
    const trace = typeof claimed === "string" ? this.#broker?.traceOf(claimed, error.message) : undefined;
    return trace === undefined ? error : withCode(error, error.code, { trace });
  }

  #toOutput(text: Buffer, parts: readonly Buffer[]): Omit<Extract<Execution, { outputText: unknown }>, "usage"> {
    if (parts.length === 1) return { outputText: text };
    const [, header, data, contentText, contentHeader, contentData] = parts;
    const { name } = this.#call.definition;
    return {
      outputText: text,
      outputBytes: toBytesReader(header, data, `The output of ${name}`),
      attachmentBytes: (data?.length ?? 0) + (contentData?.length ?? 0),
      content:
        contentText === undefined
          ? undefined
          : { text: contentText, bytes: toBytesReader(contentHeader, contentData, `The content of ${name}`) },
    };
  }

  /**
   * Maps a failure to CAPABILITY_DENIED or QUOTA_EXCEEDED. A guest can claim any code, so CAPABILITY_DENIED counts only
   * if the host has denied a request or has not granted the named capability, whether or not one of that name exists.
   * QUOTA_EXCEEDED is accepted from the guest, because the prelude counts before a request is sent: a forged one only
   * says that the guest's own call failed.
   */
  #verifyCapabilityCode(error: ToolError): ToolError {
    const claimed = error.details?.capabilityCode;
    if (typeof claimed !== "string" || !isErrorCode(claimed)) return error;
    const missing = error.details?.capability;
    const denied = claimed === "CAPABILITY_DENIED" && typeof missing === "string" && !this.#tool.granted.has(missing);
    if (!denied && claimed !== "QUOTA_EXCEEDED" && !this.#broker?.wasDeniedWith(claimed)) return error;
    if (claimed !== "CAPABILITY_DENIED" && claimed !== "QUOTA_EXCEEDED") return error;
    return withCode(error, claimed);
  }
}

function withCode({ message, details, guestStack }: ToolError, code: ErrorCode, more: ErrorDetails = {}): ToolError {
  return new ToolError(code, message, {
    ...(details === undefined ? {} : { details: { ...details, ...more } }),
    ...(guestStack === undefined ? {} : { guestStack }),
  });
}

/** Returns a reader for binary attachments, or undefined if there are none. */
function toBytesReader(
  header: Buffer | undefined,
  data: Buffer | undefined,
  what: string,
): AttachmentReader | undefined {
  if (header === undefined || data === undefined || header.length === 0) return undefined;
  return () => readAttachments(header, data, what);
}

const toSessionOrder = ({ placement, once, isKept }: SandboxSession): SessionOrder =>
  isKept ? { id: placement.id, once, resumes: true } : { id: placement.id, once };

/** Default start of a deterministic clock. At 1970, code that treats 0 as a missing time would pass its tests. */
const FIRST_NOW = Date.UTC(2025, 0, 1);

const toDeterministic = ({ deterministic }: ToolContext): Deterministic | undefined =>
  deterministic && { seed: deterministic.seed, now: deterministic.now ?? FIRST_NOW };

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERROR_CODES, code);

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Data needed to turn an outcome into an error. */
export interface FailureContext {
  readonly limits: Limits;
  readonly usage: ToolUsage;
  readonly text: string;
  readonly stackMapper: StackMapper;
}

/** The peak is at least the limit, even if no reading was taken at that moment. */
const memoryLimitDetails = ({ memoryMiB }: Limits, peakBytes: number): ErrorDetails => ({
  limitMiB: memoryMiB,
  peakMiB: Math.max(memoryMiB, Math.ceil(peakBytes / 1024 / 1024)),
});

export function memoryError(name: string, limits: Limits, peakBytes: number): ToolError {
  return new ToolError("MEMORY_LIMIT", `${name} used more than ${limits.memoryMiB} MiB of memory and was stopped`, {
    details: memoryLimitDetails(limits, peakBytes),
  });
}

/**
 * Converts an outcome without output into an error. Its code depends on where the failure happened, never on text from
 * the guest.
 */
export function toGuestFailure(message: EndedMessage, context: FailureContext, name: string): ToolError {
  const { limits, text } = context;
  switch (message.outcome) {
    case "memory":
      return memoryError(name, limits, context.usage.peakBytes);
    case "cpu":
      return new ToolError("CPU_LIMIT", `${name} used more than ${limits.cpuMs} ms of CPU time and was stopped`, {
        details: { limitMs: limits.cpuMs, usedMs: Math.round(context.usage.cpuMs) },
      });
    case "too-large":
      return new ToolError(
        "OUTPUT_TOO_LARGE",
        `The output of ${name}: expected at most ${limits.outputBytes} bytes of JSON`,
        {
          details: { limitBytes: limits.outputBytes, characters: Number(text) || 0 },
        },
      );
    case "input":
      return issuesError("PARAM_INVALID", `The arguments of ${name}`, text);
    case "output-schema":
      return issuesError("OUTPUT_INVALID", `The output of ${name}`, text);
    case "unserializable":
    case "rejected":
    case "thrown":
      return thrownError(message, context, name);
    default:
      return new ToolError("SANDBOX_CRASHED", `The isolate of ${name} ended before the call did`, {
        details: { outcome: message.outcome },
      });
  }
}

function issuesError(code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string, text: string): ToolError {
  const parsed = GuestIssuesSchema.safeParse(tryParse(text));
  const issues = parsed.success ? parsed.data : [];
  const problems = issues.length === 0 ? "the tool's own schema rejected the value" : formatIssues(issues);
  return new ToolError(code, `${what}: ${problems}`, {
    details: { problems: issues },
  });
}

const THROWN_CODES = { unserializable: "OUTPUT_INVALID", rejected: "BUNDLE_FAILED", thrown: "TOOL_FAILED" } as const;

function thrownError(message: EndedMessage, context: FailureContext, name: string): ToolError {
  const outcome = message.outcome as keyof typeof THROWN_CODES;
  const parsed = GuestErrorSchema.safeParse(tryParse(context.text));
  if (!parsed.success) return new ToolError("SANDBOX_CRASHED", `The isolate of ${name} sent an invalid error report`);
  const { name: errorName, message: errorMessage, stack, code, capabilityCode, capability } = parsed.data;
  const mapped = stack === "" ? undefined : context.stackMapper.mapStack(stack);
  const frames = mapped?.frames ?? [];
  // Prefer a frame in the tool's own code, which its author can change, even if a package threw.
  const frame = frames.find(({ isOwn }) => isOwn) ?? frames[0];
  const details: ErrorDetails = {
    errorName,
    ...(code === undefined ? {} : { errorCode: code }),
    ...(capabilityCode === undefined ? {} : { capabilityCode }),
    ...(capability === undefined ? {} : { capability }),
    ...(message.phase === "load" ? { phase: "load" } : {}),
    ...(frame === undefined ? {} : { file: frame.file, line: frame.line, column: frame.column }),
  };
  return new ToolError(THROWN_CODES[outcome], errorMessage, {
    details,
    ...(mapped === undefined ? {} : { guestStack: mapped.stack }),
  });
}
