// A conversation: several calls of one tenant in one isolate, one after the other, until it is closed, falls silent, has spent what it
// may, or its isolate is gone. Those of a box together, counted for each tenant.

import { type ErrorCode, ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import type { SandboxSession } from "../executors/sandbox.ts";
import { Redactor } from "../observability/redaction/redactor.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { SessionSeat } from "../workers/worker-pool.ts";
import type { EndReason } from "../workers/worker-process.ts";

/** What a conversation may spend in all. */
export interface ConversationBounds {
  /** Silent for so long, it is over. */
  readonly idleMs: number;
  readonly lifetimeMs: number;
  /** CPU time of all its runs together. */
  readonly cpuMs: number;
  readonly runs: number;
}

/** What is told of one. */
export interface SessionInfo {
  readonly id: string;
  readonly tenantId: string;
  /** What runs in it: cells of a language, or calls of a tool. */
  readonly kind: string;
  /** In ms since 1970. */
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly runs: number;
  readonly cpuMs: number;
}

export interface ConversationOptions {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: string;
  readonly bounds: ConversationBounds;
  /** Bundle and profile of a run are its own. */
  readonly once: boolean;
  /** Told once, when it is over. */
  readonly onOver?: (() => void) | undefined;
}

/** A run's turn; dispose of it when the run is over. */
export interface SessionTurn extends Disposable {
  /** Aborts with the run's own signal, and when the conversation is closed. */
  readonly signal: AbortSignal;
}

/** How many a tenant may have, and what is there to end one. */
interface Keeper {
  endSession(seat: SessionSeat): void;
  forget(conversation: Conversation): void;
}

const PROCESS_ENDED: { readonly [Reason in EndReason]?: string } = {
  memory: "its process had more memory than it may",
  stuck: "something in its process could not be stopped",
  budget: "all processes together had more memory than they may",
  room: "nobody was using it, and others needed its place",
};

const TIME_IS_UP = "its time is up";

/** Each is looked for in all that every later run says. */
const MAX_CONCEALED = 1_000;

/** After a failure with one of these the isolate is gone, and it was the run's own doing. */
const ENDING_CODES: ReadonlySet<ErrorCode> = new Set(["TOOL_TIMEOUT", "CPU_LIMIT", "MEMORY_LIMIT", "CANCELLED"]);

export class Conversation implements SandboxSession, Disposable {
  readonly info: { -readonly [Field in keyof SessionInfo]: SessionInfo[Field] };
  readonly once: boolean;
  readonly seat: SessionSeat;
  readonly redactor: Redactor = new Redactor();
  readonly #bounds: ConversationBounds;
  readonly #keeper: Keeper;
  readonly #endsAt: number;
  readonly #closing = new AbortController();
  readonly #onOver: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;
  /** A run is in its isolate. */
  #isInside = false;
  #endedFor: string | undefined;
  /** Why it is to end when its present runs have ended. */
  #retiredFor: string | undefined;
  isKept = false;

  constructor(seatId: number, { id, tenantId, kind, bounds, once, onOver }: ConversationOptions, keeper: Keeper) {
    const now = Date.now();
    this.info = { id, tenantId, kind, createdAt: now, lastUsedAt: now, runs: 0, cpuMs: 0 };
    this.once = once;
    this.#bounds = bounds;
    this.#keeper = keeper;
    this.#endsAt = now + bounds.lifetimeMs;
    this.#onOver = onOver;
    this.seat = {
      id: seatId,
      worker: undefined,
      onLost: (reason) => this.end((reason && PROCESS_ENDED[reason]) ?? "its process has ended"),
    };
    this.#expect();
  }

  get isOver(): boolean {
    return this.#endedFor !== undefined;
  }

  /** It takes no place of the tenant's quota any more, and ends with its present runs. */
  get isRetiring(): boolean {
    return this.#retiredFor !== undefined;
  }

  /** CPU time that is left to it. */
  get cpuMsLeft(): number {
    return Math.max(1, Math.ceil(this.#bounds.cpuMs - this.info.cpuMs));
  }

  /**
   * Waits for those before it.
   * @throws {ToolError} TOOL_UNAVAILABLE when the conversation is over, saying why; PARAM_INVALID for a call that is to repeat exactly,
   *   which could not; the signal's reason when that aborts first
   */
  async enter({ signal, context }: Pick<PreparedCall, "signal" | "context">): Promise<SessionTurn> {
    this.refuseWhenOver();
    if (context.deterministic !== undefined) {
      throw new ToolError(
        "PARAM_INVALID",
        "context.deterministic: expected nothing in a session, whose runs find what others have left",
      );
    }
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = before.then(() => promise);
    this.#waiting += 1;
    clearTimeout(this.#timer);
    const leave = (): void => {
      resolve();
      this.#waiting -= 1;
      if (this.#waiting > 0 || this.isOver) return;
      if (this.#retiredFor === undefined) this.#expect();
      else this.end(this.#retiredFor);
    };
    try {
      await untilAborted(before, signal);
      this.refuseWhenOver();
    } catch (thrown) {
      leave();
      throw thrown;
    }
    this.info.runs += 1;
    this.info.lastUsedAt = Date.now();
    return { signal: AbortSignal.any([signal, this.#closing.signal]), [Symbol.dispose]: leave };
  }

  onPlaced(): void {
    this.#isInside = true;
  }

  /** A run is over for whoever has asked for it; what of it may still be going on takes the isolate with it. */
  left(error: ToolError | undefined): void {
    if (this.#isInside) this.end(`a run of it was stopped (${error?.code ?? "CANCELLED"})`);
  }

  onEnded(isKept: boolean, { cpuMs }: ToolUsage, error: ToolError | undefined): void {
    this.#isInside = false;
    this.isKept = isKept;
    this.info.cpuMs += cpuMs;
    this.info.lastUsedAt = Date.now();
    const { runs, cpuMs: spentMs } = this.info;
    if (!isKept) {
      const isOwn = error !== undefined && ENDING_CODES.has(error.code);
      this.end(isOwn ? `a run of it was stopped (${error.code})` : "its isolate did not outlive a run");
    } else if (spentMs >= this.#bounds.cpuMs) this.end(`it has used its ${this.#bounds.cpuMs} ms of CPU time`);
    else if (runs >= this.#bounds.runs) this.end(`it has had its ${this.#bounds.runs} runs`);
    else if (this.redactor.size > MAX_CONCEALED)
      this.end(`it was told more than ${MAX_CONCEALED} values in confidence`);
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE when the conversation is over, saying why */
  refuseWhenOver(): void {
    // One that is never idle hears of no timer.
    if (Date.now() >= this.#endsAt) this.end(TIME_IS_UP);
    if (this.#endedFor === undefined) return;
    const { id } = this.info;
    throw unavailable("session_ended", `The session ${id} is over: ${this.#endedFor}; open a new one`, {
      details: { sessionId: id, endedFor: this.#endedFor },
    });
  }

  /** When nothing runs. */
  #expect(): void {
    const leftMs = this.#endsAt - Date.now();
    const { idleMs } = this.#bounds;
    const isLast = leftMs <= idleMs;
    const why = isLast ? TIME_IS_UP : `nobody has used it for ${idleMs} ms`;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(why), Math.max(0, Math.min(leftMs, idleMs))).unref();
  }

  /** Its isolate goes; whoever comes after this is told why. Twice is a no-op. */
  end(why: string): void {
    if (this.#endedFor !== undefined) return;
    this.#endedFor = why;
    clearTimeout(this.#timer);
    this.#keeper.endSession(this.seat);
    this.#keeper.forget(this);
    this.#onOver?.();
  }

  /** Lets its present runs end, those that wait included, and ends it then. Twice is a no-op. */
  retire(why: string): void {
    this.#retiredFor ??= why;
    if (this.#waiting === 0) this.end(why);
  }

  /** A run that is under way ends with it. */
  [Symbol.dispose](): void {
    this.#closing.abort(new ToolError("CANCELLED", `The session ${this.info.id} was closed`));
    this.end("it was closed");
  }
}

export class Conversations implements Disposable {
  readonly #endSession: (seat: SessionSeat) => void;
  /** By tenant. */
  readonly #open = new Map<string, Set<Conversation>>();
  #lastSeat = 0;

  constructor(endSession: (seat: SessionSeat) => void) {
    this.#endSession = endSession;
  }

  /** @throws {ToolError} QUOTA_EXCEEDED when the tenant has as many as it may */
  open(options: ConversationOptions, quota: number): Conversation {
    const { tenantId } = options;
    const own = this.#open.get(tenantId) ?? new Set();
    if ([...own].filter(({ isRetiring }) => !isRetiring).length >= quota) {
      const message = `This tenant may have ${quota} sessions open at one time; close one, or let it expire`;
      throw new ToolError("QUOTA_EXCEEDED", message, { details: { sessions: quota } });
    }
    this.#lastSeat += 1;
    const conversation = new Conversation(this.#lastSeat, options, {
      endSession: this.#endSession,
      forget: (one) => {
        own.delete(one);
        if (own.size === 0) this.#open.delete(tenantId);
      },
    });
    own.add(conversation);
    this.#open.set(tenantId, own);
    return conversation;
  }

  /** A tenant's, or everybody's. */
  list(tenantId?: string): readonly Conversation[] {
    if (tenantId !== undefined) return [...(this.#open.get(tenantId) ?? [])];
    return [...this.#open.values()].flatMap((own) => [...own]);
  }

  [Symbol.dispose](): void {
    for (const conversation of this.list()) conversation.end("Glovebox was closed");
  }
}
