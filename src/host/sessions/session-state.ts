// The isolate state behind a session: several calls of one tenant in one isolate, one after another, until it is
// closed, expires, exceeds a bound, or loses its isolate. Also keeps all open sessions of a Glovebox instance, counted
// for each tenant.

import { type ErrorCode, ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import type { SandboxSession } from "../executors/sandbox.ts";
import { Redactor } from "../observability/redaction/call-redactor.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { SessionLoss, SessionPlacement } from "../workers/pool-job.ts";

/** Bounds on a whole session. */
export interface SessionBounds {
  /** Time in ms without a run after which the session ends. */
  readonly idleMs: number;
  readonly lifetimeMs: number;
  /** CPU time in ms of all runs together. */
  readonly cpuMs: number;
  readonly runs: number;
}

/** Public metadata of a session. */
export interface SessionInfo {
  readonly id: string;
  readonly tenantId: string;
  /** What runs in the session: the language of its cells, or the name of its tool. */
  readonly kind: string;
  /** In ms since 1970. */
  readonly createdAt: number;
  /** In ms since 1970. */
  readonly lastUsedAt: number;
  /** Number of runs. */
  readonly runs: number;
  /** CPU time of all runs in ms. */
  readonly cpuMs: number;
}

export interface SessionStateOptions {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: string;
  readonly bounds: SessionBounds;
  /** Each run has a bundle and profile of its own. */
  readonly once: boolean;
  /** Called once, when the session has ended. */
  readonly onEnd?: (() => void) | undefined;
}

/** A run's exclusive use of the session. Dispose it when the run has ended. */
export interface SessionLease extends Disposable {
  /** Aborts with the run's own signal, and when the session is closed. */
  readonly signal: AbortSignal;
}

/** Callbacks with which a session ends itself. */
interface SessionRegistry {
  endSession(placement: SessionPlacement): void;
  remove(state: SessionState): void;
}

const ISOLATE_LOST: { readonly [Reason in NonNullable<SessionLoss>]?: string } = {
  memory: "its process exceeded its memory limit",
  stuck: "code in its process could not be stopped",
  budget: "all processes together exceeded their memory budget",
  room: "it was idle, and other calls needed its process slot",
  "executor-lost": "its executor was lost",
  "executor-stops": "its executor stops",
  "pool-denied": "its tenant may no longer use the pool of its executor",
};

const LIFETIME_EXPIRED = "its lifetime has expired";

/** Maximum number of secrets. Every later run's output is searched for each of them. */
const MAX_SECRETS = 1_000;

/** Failures of a run that end its isolate and are the run's own fault. */
const ENDING_CODES: ReadonlySet<ErrorCode> = new Set(["TOOL_TIMEOUT", "CPU_LIMIT", "MEMORY_LIMIT", "CANCELLED"]);

export class SessionState implements SandboxSession, Disposable {
  readonly info: { -readonly [Field in keyof SessionInfo]: SessionInfo[Field] };
  readonly once: boolean;
  readonly placement: SessionPlacement;
  readonly redactor: Redactor = new Redactor();
  readonly #bounds: SessionBounds;
  readonly #registry: SessionRegistry;
  readonly #endsAt: number;
  readonly #closing = new AbortController();
  readonly #onOver: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #previousRun: Promise<void> = Promise.resolve();
  #waiting = 0;
  /** A run is in the isolate. */
  #isRunning = false;
  #endReason: string | undefined;
  /** Reason to end when the current runs have ended. */
  #retireReason: string | undefined;
  isKept = false;

  constructor(
    placementId: number,
    { id, tenantId, kind, bounds, once, onEnd }: SessionStateOptions,
    registry: SessionRegistry,
  ) {
    const now = Date.now();
    this.info = { id, tenantId, kind, createdAt: now, lastUsedAt: now, runs: 0, cpuMs: 0 };
    this.once = once;
    this.#bounds = bounds;
    this.#registry = registry;
    this.#endsAt = now + bounds.lifetimeMs;
    this.#onOver = onEnd;
    this.placement = {
      id: placementId,
      worker: undefined,
      onLost: (reason) => {
        this.end((reason && ISOLATE_LOST[reason]) ?? "its process has ended");
        return this.#endedError();
      },
    };
    this.#startIdleTimer();
  }

  get hasEnded(): boolean {
    return this.#endReason !== undefined;
  }

  /** Whether the session ends with its current runs. It then no longer counts towards the tenant's quota. */
  get isRetiring(): boolean {
    return this.#retireReason !== undefined;
  }

  /** Remaining CPU time in ms. */
  get cpuMsLeft(): number {
    return Math.max(1, Math.ceil(this.#bounds.cpuMs - this.info.cpuMs));
  }

  /**
   * Waits for earlier runs.
   * @throws {ToolError} TOOL_UNAVAILABLE with the reason if the session has ended; PARAM_INVALID for a deterministic
   * run, because state of other runs makes it unrepeatable; the signal's reason if it aborts first
   */
  async enter({ signal, context }: Pick<PreparedCall, "signal" | "context">): Promise<SessionLease> {
    this.assertOpen();
    for (const field of ["deterministic", "record", "replay"] as const) {
      if (context[field] === undefined) continue;
      throw new ToolError("PARAM_INVALID", `context.${field}: not supported in a session, because runs share state`);
    }
    const before = this.#previousRun;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#previousRun = before.then(() => promise);
    this.#waiting += 1;
    clearTimeout(this.#timer);
    const leave = (): void => {
      resolve();
      this.#waiting -= 1;
      if (this.#waiting > 0 || this.hasEnded) return;
      if (this.#retireReason === undefined) this.#startIdleTimer();
      else this.end(this.#retireReason);
    };
    try {
      await untilAborted(before, signal);
      this.assertOpen();
    } catch (thrown) {
      leave();
      throw thrown;
    }
    this.info.runs += 1;
    this.info.lastUsedAt = Date.now();
    return { signal: AbortSignal.any([signal, this.#closing.signal]), [Symbol.dispose]: leave };
  }

  onPlaced(): void {
    this.#isRunning = true;
  }

  /** Called when a run's result is final. If code of the run may still be in the isolate, the session ends. */
  handleRunSettled(error: ToolError | undefined): void {
    if (this.#isRunning) this.end(`one of its runs was stopped (${error?.code ?? "CANCELLED"})`);
  }

  onEnded(isKept: boolean, { cpuMs }: ToolUsage, error: ToolError | undefined): void {
    this.#isRunning = false;
    this.isKept = isKept;
    // It ended while this run, its first one, waited for an isolate, which nothing else would end.
    if (this.hasEnded) this.#registry.endSession(this.placement);
    this.info.cpuMs += cpuMs;
    this.info.lastUsedAt = Date.now();
    const { runs, cpuMs: spentMs } = this.info;
    if (!isKept) {
      const isOwn = error !== undefined && ENDING_CODES.has(error.code);
      this.end(isOwn ? `one of its runs was stopped (${error.code})` : "its isolate was lost after a run");
    } else if (spentMs >= this.#bounds.cpuMs) this.end(`it has used ${this.#bounds.cpuMs} ms of CPU time`);
    else if (runs >= this.#bounds.runs) this.end(`it has reached ${this.#bounds.runs} runs`);
    else if (this.redactor.size > MAX_SECRETS) this.end(`it was given more than ${MAX_SECRETS} secrets`);
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE with the reason if the session has ended */
  assertOpen(): void {
    // The timer only runs while the session is idle.
    if (Date.now() >= this.#endsAt) this.end(LIFETIME_EXPIRED);
    const error = this.#endedError();
    if (error !== undefined) throw error;
  }

  #endedError(): ToolError | undefined {
    if (this.#endReason === undefined) return undefined;
    const { id } = this.info;
    return unavailable("session_ended", `The session ${id} has ended: ${this.#endReason}. Open a new one`, {
      details: { sessionId: id, endedFor: this.#endReason },
    });
  }

  /** Starts the timer of an idle session. */
  #startIdleTimer(): void {
    const leftMs = this.#endsAt - Date.now();
    const { idleMs } = this.#bounds;
    const isLast = leftMs <= idleMs;
    const reason = isLast ? LIFETIME_EXPIRED : `it was idle for ${idleMs} ms`;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(reason), Math.max(0, Math.min(leftMs, idleMs))).unref();
  }

  /** Ends the session and its isolate. Later runs fail with `reason`. Calling it twice is a no-op. */
  end(reason: string): void {
    if (this.#endReason !== undefined) return;
    this.#endReason = reason;
    clearTimeout(this.#timer);
    this.#registry.endSession(this.placement);
    this.#registry.remove(this);
    this.#onOver?.();
  }

  /** Ends the session after its current and waiting runs. Calling it twice is a no-op. */
  retire(reason: string): void {
    this.#retireReason ??= reason;
    if (this.#waiting === 0) this.end(reason);
  }

  /** Closes the session. A current run fails with CANCELLED. */
  [Symbol.dispose](): void {
    this.#closing.abort(new ToolError("CANCELLED", `The session ${this.info.id} was closed`));
    this.end("it was closed");
  }
}

export class OpenSessions implements Disposable {
  readonly #endSession: (placement: SessionPlacement) => void;
  /** Open sessions of each tenant. */
  readonly #open = new Map<string, Set<SessionState>>();
  #lastPlacementId = 0;

  constructor(endSession: (placement: SessionPlacement) => void) {
    this.#endSession = endSession;
  }

  /** @throws {ToolError} QUOTA_EXCEEDED when the tenant has as many sessions as its quota allows */
  open(options: SessionStateOptions, quota: number): SessionState {
    const { tenantId } = options;
    const sessions = this.#open.get(tenantId) ?? new Set();
    if ([...sessions].filter(({ isRetiring }) => !isRetiring).length >= quota) {
      const message = `A tenant may have at most ${quota} open sessions (limits.sessions). Close one, or let it expire`;
      throw new ToolError("QUOTA_EXCEEDED", message, { details: { sessions: quota } });
    }
    this.#lastPlacementId += 1;
    const state = new SessionState(this.#lastPlacementId, options, {
      endSession: this.#endSession,
      remove: (state) => {
        sessions.delete(state);
        if (sessions.size === 0) this.#open.delete(tenantId);
      },
    });
    sessions.add(state);
    this.#open.set(tenantId, sessions);
    return state;
  }

  /** Lists the sessions of a tenant, or of all tenants. */
  list(tenantId?: string): readonly SessionState[] {
    if (tenantId !== undefined) return [...(this.#open.get(tenantId) ?? [])];
    return [...this.#open.values()].flatMap((sessions) => [...sessions]);
  }

  [Symbol.dispose](): void {
    for (const state of this.list()) state.end("Glovebox was closed");
  }
}
