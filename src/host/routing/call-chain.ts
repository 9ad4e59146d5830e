// The position of a call in a tree of nested calls. Denies a nested call that would exceed the limits of depth or number, or would repeat a
// tool in a cycle, before it begins.
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { NestedCall } from "../contract/tool-call.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { Clock } from "../pipeline/clock.ts";
import type { TrackedCall } from "./open-calls.ts";

/** The concurrency slot of a running call. While the call waits for a nested call, the nested call can use it. */
export interface NestedCallSlot {
  isTaken: boolean;
}

type ChainLimits = Pick<Limits, "nestedDepth" | "nestedCalls" | "nestedRepeats">;

/** The id of a nested call is the id of its caller and a number. The caller's id is truncated so that the result is a valid id. */
const MAX_CALLER_ID_LENGTH = 900;

const createChainError = (
  code: "CAPABILITY_DENIED" | "QUOTA_EXCEEDED",
  message: string,
  chain: readonly string[],
): ToolError => new ToolError(code, `${message}: ${chain.join(" → ")}`, { details: { trace: chain } });

/** A running call, as its chain sees it. */
export interface ChainedRun {
  /** Number of pending capability calls. */
  readonly openCalls: number;
  /** Receives whether the call is paused: it waits for its caller and computes nothing. */
  setPaused(isPaused: boolean): void;
  /** Receives whether a request to the caller is pending. While one is, the executor reports through `setIdle` whether the guest is idle. */
  setWaiting(isWaiting: boolean): void;
}

/** Numbers of nested calls, which are part of their ids. The attempts of a durable run share them, since their calls have the same id. */
export interface NestedCallNumbers {
  /** Number of the latest nested call. */
  last: number;
}

/** A nested call that has started and not ended. */
export interface OpenNestedCall {
  readonly callId: string;
  readonly toolName: string;
  /** By the monotonic clock, in ms. */
  readonly startedAt: number;
}

/** Number of the chains that were created. */
let created = 0;

/** One call in its chain. Created for every call, so it allocates the rest only when needed. */
export class CallChain {
  readonly callId: string;
  readonly toolName: string;
  readonly parent: CallChain | undefined;
  /** Later calls have higher numbers. */
  readonly number: number;
  readonly #limits: ChainLimits;
  #nestedCallSlot: NestedCallSlot | undefined;
  #calls: NestedCall[] | undefined;
  #openCalls: Map<string, OpenNestedCall> | undefined;
  #begun = 0;
  /** Set for an attempt of a durable run. */
  numbers: NestedCallNumbers | undefined;
  /** Log of the running call. Receives the log entries of nested calls too. */
  log: CallLog | undefined;
  /** The call in the operator's list. */
  tracked: TrackedCall | undefined;
  /** Clock of the call, once it has started. */
  clock: Pick<Clock, "setPaused"> | undefined;
  /** The call in its executor. Undefined if the call cannot wait for its caller. */
  run: ChainedRun | undefined;
  /** Pending requests to the caller, and nested calls that are paused. */
  #waits: Set<object> | undefined;
  /** Whether the guest is idle. Undefined for a call without a guest. */
  #isIdle: boolean | undefined;
  #isPaused = false;
  /** Number of calls nested in this call at any depth; counted only in the outermost call. */
  #descendantCount = 0;

  constructor(callId: string, toolName: string, limits: ChainLimits, parent: CallChain | undefined) {
    this.callId = callId;
    this.toolName = toolName;
    this.#limits = limits;
    this.parent = parent;
    created += 1;
    this.number = created;
  }

  get nestedCallSlot(): NestedCallSlot {
    this.#nestedCallSlot ??= { isTaken: false };
    return this.#nestedCallSlot;
  }

  /** Directly nested calls that have ended; undefined if there are none. */
  get calls(): readonly NestedCall[] | undefined {
    return this.#calls;
  }

  /** Directly nested calls that have started and not ended. */
  get openCalls(): readonly OpenNestedCall[] {
    return [...(this.#openCalls?.values() ?? [])];
  }

  /** Number of directly nested calls that have begun. */
  get begun(): number {
    return this.#begun;
  }

  get root(): CallChain {
    return this.parent?.root ?? this;
  }

  /** Names of the tools, outermost first. */
  get trace(): readonly string[] {
    return this.parent === undefined ? [this.toolName] : [...this.parent.trace, this.toolName];
  }

  /**
   * Counts a new nested call and returns its id.
   * @throws {ToolError} CAPABILITY_DENIED for a cycle; QUOTA_EXCEEDED if the chain would be too long or has too many calls
   */
  begin(toolName: string): string {
    const trace = this.trace;
    const chain = [...trace, toolName];
    const repeats = trace.filter((name) => name === toolName).length;
    if (repeats > this.#lowest("nestedRepeats")) {
      throw createChainError("CAPABILITY_DENIED", "The tools call each other in a cycle", chain);
    }
    // Each call limits the depth below itself.
    let depth = 1;
    for (let link: CallChain | undefined = this; link !== undefined; link = link.parent, depth += 1) {
      if (depth <= link.#limits.nestedDepth) continue;
      throw createChainError(
        "QUOTA_EXCEEDED",
        `Calls can be nested ${link.#limits.nestedDepth} deep at most (limits.nestedDepth)`,
        chain,
      );
    }
    const { root } = this;
    const allowed = Math.min(root.#limits.nestedCalls, this.#lowest("nestedCalls"));
    if (root.#descendantCount >= allowed) {
      throw createChainError(
        "QUOTA_EXCEEDED",
        `A call can cause ${allowed} nested calls at most (limits.nestedCalls)`,
        chain,
      );
    }
    root.#descendantCount += 1;
    this.#begun += 1;
    let number = this.#begun;
    if (this.numbers !== undefined) {
      this.numbers.last += 1;
      number = this.numbers.last;
    }
    return `${this.callId.slice(0, MAX_CALLER_ID_LENGTH)}.${number}`;
  }

  /**
   * Records that something in the call started or stopped waiting for the caller. The clock is paused while the call does nothing else, and
   * so are the clocks of the calls that wait for this one.
   */
  setWaiting(isWaiting: boolean, waiter: object): void {
    this.#waits ??= new Set();
    const before = this.#waits.size;
    if (isWaiting) this.#waits.add(waiter);
    else this.#waits.delete(waiter);
    if (before === 0 && this.#waits.size > 0) this.run?.setWaiting(true);
    if (before > 0 && this.#waits.size === 0) this.run?.setWaiting(false);
    this.updatePause();
  }

  /** Records whether the guest is idle: it neither runs nor has timers. After an answer the guest counts as busy until its process reports again. */
  setIdle(isIdle: boolean): void {
    if (isIdle === this.#isIdle) return;
    this.#isIdle = isIdle;
    this.updatePause();
  }

  /** Pauses or resumes the clock: the call is paused while everything it does waits for the caller. */
  updatePause(): void {
    const size = this.#waits?.size ?? 0;
    const isPaused = size > 0 && this.#isIdle !== false && (this.run?.openCalls ?? 0) <= size;
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    this.clock?.setPaused(isPaused, this);
    this.run?.setPaused(isPaused);
    this.parent?.setWaiting(isPaused, this);
  }

  /** Records that a nested call runs now. */
  started(callId: string, toolName: string): void {
    this.#openCalls ??= new Map();
    this.#openCalls.set(callId, { callId, toolName, startedAt: performance.now() });
  }

  ended(call: NestedCall): void {
    this.#openCalls?.delete(call.callId);
    this.#calls ??= [];
    this.#calls.push(call);
  }

  #lowest(name: "nestedCalls" | "nestedRepeats"): number {
    const own = this.#limits[name];
    return this.parent === undefined ? own : Math.min(own, this.parent.#lowest(name));
  }
}
