// Sandboxed tools as an Executor: a prepared call becomes a job of the worker pool, and what comes back becomes an Execution.
import type { StackMapper } from "../../bundler/compile/source-map.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type EngineFeature, unlimitedFeatures } from "../../sandbox/contract/engine-features.ts";
import { ERROR_CODES, type ErrorCode, type ErrorDetails, ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { type CapabilityShapes, PYTHON_OUT_OF_MEMORY } from "../../sandbox/protocol/guest-messages.ts";
import {
  type EndedMessage,
  GuestErrorSchema,
  GuestIssuesSchema,
  type Isolation,
  ProgressSchema,
} from "../../sandbox/protocol/messages.ts";
import type { Deterministic } from "../../sandbox/worker/seeded-bytes.ts";
import { CapabilityBroker } from "../capabilities/broker.ts";
import { CallScope } from "../capabilities/call-scope.ts";
import type { Capability } from "../capabilities/capability.ts";
import { NO_USAGE, type ToolContext, type ToolUsage } from "../contract/tool-call.ts";
import { type AttachmentReader, readBeside, toBesideParts } from "../contract/tool-value.ts";
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
import type { Job, SessionSeat, Ticket, WorkerPool } from "../workers/worker-pool.ts";
import type { SentBundle, SessionOrder, WorkerToolProfile } from "../workers/worker-process.ts";
import type { Execution } from "./execution.ts";
import type { Executor } from "./executor.ts";
import type { PlatformModuleUsage } from "./platform-module-usage.ts";
import { redactExecution } from "./redact-execution.ts";
import { WarmVersion } from "./warm-version.ts";

/** All tools in Python have one bundle: this tells them apart. */
export interface PythonCalls {
  /** Which of the tenant's tools it is. */
  readonly lane: string;
  /** A PythonRun as JSON text, of arguments as JSON text. */
  readonly toRun: (args: string | Buffer, limits: Limits, isInSession: boolean) => string | Buffer;
}

export interface SandboxTool {
  readonly bundle: Pick<ToolBundle, "sha256" | "code">;
  readonly codeCache: Uint8Array;
  readonly chunks: Pick<PlatformModuleUsage, "add" | "names">;
  readonly stackMapper: StackMapper;
  readonly isolation: Isolation;
  /** Its author has nothing against its top level being run ahead. */
  readonly prewarm: boolean;
  /** Which processes it may run in: a tenant's own, or those of a trust group. */
  readonly ownerOf: (tenantId: string) => string;
  /** Other tenants' tools run in the same processes: that one of them ends says nothing of this tool. */
  readonly sharesProcesses?: boolean;
  readonly sourceId?: string;
  readonly granted: ReadonlyMap<string, Capability>;
  /** Asked for, not granted: the tool is told so when it uses one. */
  readonly denied: readonly string[];
  /** How those of both look to the tool, where they are more than functions. */
  readonly shapes?: CapabilityShapes | undefined;
  /** What of the engine was granted. */
  readonly features: readonly EngineFeature[];
  /** Where the bundle is the Python runtime, and the tool is what it is given to run. */
  readonly python?: PythonCalls | undefined;
  /** Whose isolate its calls run in, where `isolation` is `session`. */
  readonly session?: SandboxSession | undefined;
  readonly onHandlerError?: ((error: unknown, capability: string) => void) | undefined;
}

/** A conversation's isolate, as its calls see it. */
export interface SandboxSession {
  readonly seat: SessionSeat;
  /** What one run was told in confidence the guest may still know in the next one. */
  readonly redactor: Redactor;
  /** Bundle and profile are for one call only. */
  readonly once: boolean;
  /** A call of it has left its isolate in the process of its seat. */
  readonly isKept: boolean;
  /** A call of it may be in the isolate from now on. */
  onPlaced(): void;
  /** A call of it is over: how, and whether its isolate waits for the next one. */
  onEnded(isKept: boolean, usage: ToolUsage, error: ToolError | undefined): void;
}

/** After its signal a call's process may still say what it cost; the caller waits no longer than this for it. */
const CANCEL_GRACE_MS = 50;

export function createSandboxExecutor(tool: SandboxTool, pool: WorkerPool): Executor {
  const { bundle, codeCache, chunks } = tool;
  const sent: SentBundle = { sha256: bundle.sha256, code: bundle.code, codeCache, chunks };
  const warm = new WarmVersion(tool, sent, pool);
  const profileOf = ({ limits, tenant, context }: PreparedCall): WorkerToolProfile =>
    warm.profileOf({ limits, coarseTime: tenant.coarseTime }, context.logPlaces === true);
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

/** Isolates in a process that is a tool's own: the one that runs, and the one before it, on its way out. */
const CONFINED_ISOLATES = 2;

type Place = Pick<Job, "owner" | "exclusive" | "dataBytes" | "flavour">;

/**
 * Whose process a Python call runs in: one at a time in each, since the memory of WebAssembly is nobody's that V8 knows.
 * @param keeper what keeps its isolate between calls, and so has a process of its own: there is room for two interpreters in each
 */
export function pythonPlaceOf(owner: string, { memoryMiB }: Limits, keeper = ""): Place {
  const classMiB = pythonClassOf(memoryMiB);
  const dataBytes = pythonDataBytes(classMiB);
  return { owner: `${owner} python ${classMiB} ${keeper}`, flavour: "python", exclusive: true, dataBytes };
}

/** Whose process a tool runs in. One whose memory V8 does not count has a process of its own, which the operating system limits. */
export function placementOf(
  owner: string,
  sha256: string,
  features: readonly EngineFeature[],
  { memoryMiB }: Limits,
): Place {
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

/** One call on its way through the pool. */
class SandboxRun {
  readonly #tool: SandboxTool;
  readonly #sent: SentBundle;
  readonly #profile: WorkerToolProfile;
  readonly #call: PreparedCall;
  readonly #log: CallLog;
  readonly #pool: WorkerPool;
  readonly #payer: CpuAccount;
  /** Both made when the tool first asks for something: most calls never do. */
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
    this.#payer = { account: tenantId, charge: (ms) => pool.chargeHostTime(tenantId, ms) };
    this.#redactor = tool.session?.redactor;
    log.redactor = this.#redactor;
  }

  #brokerOfCall(): CapabilityBroker {
    if (this.#broker !== undefined) return this.#broker;
    const { callId, tenantId, limits, definition, watch } = this.#call;
    const { granted, onHandlerError } = this.#tool;
    const redactor = this.#redactor ?? new Redactor();
    this.#redactor = redactor;
    this.#log.redactor = redactor;
    this.#scope = new CallScope({
      callId,
      tenantId,
      toolName: definition.name,
      redactor,
      asked: definition.capabilities ?? {},
      call: this.#call,
      payer: this.#payer,
      log: (message, data, level = "info") => this.#log.add(level, Date.now(), message, { data }),
      // What was refused the tool has been told.
      onError: (error) => {
        if (!(error instanceof ToolError)) notifySafely((thrown) => onHandlerError?.(thrown, "perCall"), error);
      },
    });
    const { context } = this.#scope;
    this.#broker = new CapabilityBroker({ granted, limits, context, payer: this.#payer, watch, onHandlerError });
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
          // What it has asked for ends with it, not when its process has said what it cost.
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
    this.#setState("queued");
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
      ...this.#place(),
      claim: {
        account: tenantId,
        weight: tenant.weight,
        lane: python?.lane ?? sha256,
        accountLimits: tenant.limits,
        laneLimits: limits,
        ...(chain.parent === undefined ? {} : { seat: chain.parent.seat }),
      },
      memoryMiB: limits.memoryMiB,
      ...this.#patience(),
      order: {
        type: "call",
        tool: this.#profile,
        callId,
        tenantId,
        stream: chunks === undefined ? undefined : true,
        deterministic: toDeterministic(context),
        ...(session === undefined ? {} : { session: toSessionOrder(session) }),
      },
      ...(session === undefined ? {} : { session: session.seat }),
      bundle: this.#sent,
      input: python === undefined ? inputText : python.toRun(inputText, limits, session !== undefined),
      inputBytes: inputBytes === undefined ? undefined : toBesideParts(inputBytes),
      listener: this.#listener(resolve),
      // What has been yielded has been seen.
      idempotent: chunks === undefined && definition.annotations?.idempotentHint === true,
    });
  }

  #setState(state: CallState): void {
    const { tracked } = this.#call;
    if (tracked !== undefined) tracked.state = state;
  }

  #place(): Place {
    const { python, features, isolation, ownerOf, session } = this.#tool;
    const { tenantId, limits } = this.#call;
    const owner = ownerOf(tenantId);
    if (python === undefined) return placementOf(owner, this.#sent.sha256, features, limits);
    const keeper = session === undefined ? python.lane : `session ${session.seat.id}`;
    return pythonPlaceOf(owner, limits, isolation === "call" ? "" : keeper);
  }

  /** The call's own clock ends it anyway. A nested one, whose caller may hold what it waits for, leaves that time to do without it. */
  #patience(): { readonly queueMs?: number } {
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
        this.#setState("running");
        this.#tool.session?.onPlaced();
      },
      onLog: (level, time, text, place) => {
        const { stackMapper } = this.#tool;
        const mapped = place === undefined ? undefined : stackMapper.mapPlace(place);
        this.#log.add(level, time, stackMapper.mapText(text), { place: mapped });
      },
      onProgress: (text) => this.#reportProgress(text),
      onCapability: (name, text, answer) => {
        const { chain } = this.#call;
        const answering = this.#brokerOfCall().answer(name, text);
        chain.weigh();
        // An answer that cannot be sent leaves the tool waiting for it: the call is over.
        answering
          .then((envelope) => {
            // From here on the guest is at work, until its process says that it is not.
            chain.setIdle(false);
            chain.weigh();
            answer(envelope);
          })
          .catch(() => this.#ticket?.cancel());
      },
      onIdle: (isIdle) => this.#call.chain.setIdle(isIdle),
      onEnded: (message, parts, peakBytes) => {
        this.#tool.chunks.add(message.touched ?? []);
        const execution = this.#toExecution(message, parts, peakBytes);
        const error = "error" in execution ? execution.error : undefined;
        this.#tool.session?.onEnded(message.kept === true, execution.usage, error);
        resolve("error" in execution ? execution : { ...execution, payer: this.#payer });
      },
      onLost: (loss, peakBytes) => {
        const usage = this.#usage(undefined, peakBytes);
        const error = this.#lost(loss, usage);
        // One that never came to its turn has touched nothing.
        if (this.#placedAt !== undefined) this.#tool.session?.onEnded(false, usage, error);
        resolve({ usage, error, isSourceFailure: this.#isSourceFailure(loss, error) });
      },
      onHeld: (isHeld) => this.#call.clock?.hold(isHeld),
      onStuck() {},
    };
  }

  #reportProgress(text: string): void {
    const { onProgress } = this.#call.context;
    if (onProgress === undefined) return;
    // A report in which a concealed value stood as a number is none afterwards.
    const parsed = ProgressSchema.safeParse(parseOr(this.#redactor?.text(text) ?? text));
    if (parsed.success) notifySafely(onProgress, parsed.data);
  }

  #usage(message?: EndedMessage, peakBytes = 0): ToolUsage {
    const now = performance.now();
    const placedAt = this.#placedAt ?? now;
    // Its process has not said what it cost: no less than a tool that has computed all the time.
    const cpuMs = Math.min(this.#call.limits.cpuMs, Math.ceil(now - placedAt));
    return { ...NO_USAGE, cpuMs, queueMs: placedAt - this.#admitted, ...message?.usage, peakBytes };
  }

  #lost({ begun, cause, outOfMemory }: CallLossReason, usage: ToolUsage): ToolError {
    // What the call's own clock or caller ended is not a crash, however its process came to its end.
    if (this.#call.signal.aborted) return this.#call.signal.reason as ToolError;
    if (cause !== undefined) return cause;
    if (outOfMemory) return memoryError(this.#call.definition.name, this.#call.limits, usage.peakBytes);
    return new ToolError("SANDBOX_CRASHED", "The sandbox process of the call ended before the call did", {
      details: { begun },
    });
  }

  /** A tool that takes too long does so by itself; a process that cannot be had, or breaks, is what all its calls need. */
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
    const facts = {
      limits: this.#call.limits,
      usage,
      text: text?.toString() ?? "",
      stackMapper: this.#tool.stackMapper,
    };
    const error = toGuestFailure(message, facts, this.#call.definition.name);
    if (this.#tool.python !== undefined && error.details?.errorCode === PYTHON_OUT_OF_MEMORY) {
      return { usage, error: withCode(error, "MEMORY_LIMIT", memoryDetails(facts.limits, usage.peakBytes)) };
    }
    return { usage, error: this.#believe(this.#traced(error)) };
  }

  /** A failure that came from a tool that this one has called tells the way that it came. */
  #traced(error: ToolError): ToolError {
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
      besideBytes: (data?.length ?? 0) + (contentData?.length ?? 0),
      content:
        contentText === undefined
          ? undefined
          : { text: contentText, bytes: toBytesReader(contentHeader, contentData, `The content of ${name}`) },
    };
  }

  /**
   * CAPABILITY_DENIED counts only if the host has really refused something, or has not granted what it names: a guest may write anything.
   * Whether there is a capability of that name makes no difference. QUOTA_EXCEEDED is the prelude's word, since it counts before a request leaves; a guest that forges it says no more than that its own call failed.
   */
  #believe(error: ToolError): ToolError {
    const claimed = error.details?.capabilityCode;
    if (typeof claimed !== "string" || !isErrorCode(claimed)) return error;
    const missing = error.details?.capability;
    const denied = claimed === "CAPABILITY_DENIED" && typeof missing === "string" && !this.#tool.granted.has(missing);
    if (!denied && claimed !== "QUOTA_EXCEEDED" && !this.#broker?.wasRefusedWith(claimed)) return error;
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

/** Undefined where there are none. */
function toBytesReader(
  header: Buffer | undefined,
  data: Buffer | undefined,
  what: string,
): AttachmentReader | undefined {
  if (header === undefined || data === undefined || header.length === 0) return undefined;
  return () => readBeside(header, data, what);
}

const toSessionOrder = ({ seat, once, isKept }: SandboxSession): SessionOrder =>
  isKept ? { id: seat.id, once, resumes: true } : { id: seat.id, once };

/** A clock that begins at 1970 shows what tests show: code that takes 0 for no time at all. */
const FIRST_NOW = Date.UTC(2025, 0, 1);

const toDeterministic = ({ deterministic }: ToolContext): Deterministic | undefined =>
  deterministic && { seed: deterministic.seed, now: deterministic.now ?? FIRST_NOW };

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(ERROR_CODES, code);

function parseOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What is known beside an outcome. */
export interface FailureFacts {
  readonly limits: Limits;
  readonly usage: ToolUsage;
  readonly text: string;
  readonly stackMapper: StackMapper;
}

/** Who was stopped at its limit has reached it: the peak is no lower, though the process was not looked at in that moment. */
const memoryDetails = ({ memoryMiB }: Limits, peakBytes: number): ErrorDetails => ({
  limitMiB: memoryMiB,
  peakMiB: Math.max(memoryMiB, Math.ceil(peakBytes / 1024 / 1024)),
});

export function memoryError(name: string, limits: Limits, peakBytes: number): ToolError {
  return new ToolError("MEMORY_LIMIT", `${name} used more than ${limits.memoryMiB} MiB of memory and was stopped`, {
    details: memoryDetails(limits, peakBytes),
  });
}

/** How each outcome that is not an output becomes an error. By where it happened, never by what the guest wrote. */
export function toGuestFailure(message: EndedMessage, facts: FailureFacts, name: string): ToolError {
  const { limits, text } = facts;
  switch (message.outcome) {
    case "memory":
      return memoryError(name, limits, facts.usage.peakBytes);
    case "cpu":
      return new ToolError("CPU_LIMIT", `${name} used more than ${limits.cpuMs} ms of CPU time and was stopped`, {
        details: { limitMs: limits.cpuMs, usedMs: Math.round(facts.usage.cpuMs) },
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
    case "refused":
    case "thrown":
      return thrownError(message, facts, name);
    default:
      return new ToolError("SANDBOX_CRASHED", `The isolate of ${name} ended before the call did`, {
        details: { outcome: message.outcome },
      });
  }
}

function issuesError(code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string, text: string): ToolError {
  const parsed = GuestIssuesSchema.safeParse(parseOr(text));
  const issues = parsed.success ? parsed.data : [];
  const problems = issues.length === 0 ? "the tool's own schema refused the value" : formatIssues(issues);
  return new ToolError(code, `${what}: ${problems}`, {
    details: { problems: issues },
  });
}

const THROWN_CODES = { unserializable: "OUTPUT_INVALID", refused: "BUNDLE_FAILED", thrown: "TOOL_FAILED" } as const;

function thrownError(message: EndedMessage, facts: FailureFacts, name: string): ToolError {
  const outcome = message.outcome as keyof typeof THROWN_CODES;
  const parsed = GuestErrorSchema.safeParse(parseOr(facts.text));
  if (!parsed.success)
    return new ToolError("SANDBOX_CRASHED", `The isolate of ${name} answered with nothing that can be read`);
  const { name: errorName, message: errorMessage, stack, code, capabilityCode, capability } = parsed.data;
  const mapped = stack === "" ? undefined : facts.stackMapper.mapStack(stack);
  const frames = mapped?.frames ?? [];
  // What an author can change is in the tool, though a package may have thrown.
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
