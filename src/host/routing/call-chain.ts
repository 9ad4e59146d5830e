// How a call came about: the calls that it is nested in, and those nested in it. A call that would make the chain too long, the family
// too large, or a circle, is refused here before it begins.
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { NestedCall } from "../contract/tool-call.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { Clock } from "../pipeline/clock.ts";
import type { TrackedCall } from "./open-calls.ts";

/** The place in the queue that a running call holds. While it waits for a call that is nested in it, that one may have it. */
export interface NestedCallSlot {
  isTaken: boolean;
}

type ChainLimits = Pick<Limits, "nestedDepth" | "nestedCalls" | "nestedRepeats">;

/** A nested call's id is its caller's and a number; what is cut off only makes it shorter than any id may be. */
const MAX_CALLER_ID_UNITS = 900;

const refused = (code: "CAPABILITY_DENIED" | "QUOTA_EXCEEDED", message: string, chain: readonly string[]): ToolError =>
  new ToolError(code, `${message}: ${chain.join(" → ")}`, { details: { trace: chain } });

/** One call in its chain. Every call has one, so it is made of what is there. */
export class CallChain {
  readonly callId: string;
  readonly toolName: string;
  readonly parent: CallChain | undefined;
  readonly #limits: ChainLimits;
  #nestedCallSlot: NestedCallSlot | undefined;
  #calls: NestedCall[] | undefined;
  #begun = 0;
  /** Once it runs; what calls nested in it log is told there. */
  log: CallLog | undefined;
  /** The call as the operator sees it. */
  tracked: TrackedCall | undefined;
  /** Once it has begun. */
  clock: Pick<Clock, "hold"> | undefined;
  /** Whoever runs it hears that it waits for its caller, and so computes nothing. */
  onHold: ((isHeld: boolean) => void) | undefined;
  /** Whoever runs it hears that something in it waits for its caller, whatever else it does: from then on it says `setIdle`. */
  onWait: ((isWaiting: boolean) => void) | undefined;
  /** How many capability calls of it are open; undefined where it can make none. */
  openCalls: (() => number) | undefined;
  /** What waits for the caller: open questions, and calls nested in this one whose clocks stand still. */
  readonly #waits = new Set<object>();
  /** Undefined for one that has no guest which could be busy meanwhile. */
  #isIdle: boolean | undefined;
  #isHeld = false;
  /** Of all that are nested in an outermost call, however deep; counted there. */
  #family = 0;

  constructor(callId: string, toolName: string, limits: ChainLimits, parent: CallChain | undefined) {
    this.callId = callId;
    this.toolName = toolName;
    this.#limits = limits;
    this.parent = parent;
  }

  get nestedCallSlot(): NestedCallSlot {
    this.#nestedCallSlot ??= { isTaken: false };
    return this.#nestedCallSlot;
  }

  /** Those nested directly in it that have ended; undefined where there are none. */
  get calls(): readonly NestedCall[] | undefined {
    return this.#calls;
  }

  /** How many calls it has begun. */
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
   * Counts a call that is to be nested in this one, and names it.
   * @throws {ToolError} CAPABILITY_DENIED for a circle; QUOTA_EXCEEDED when the chain is too long or its calls are too many
   */
  begin(toolName: string): string {
    const trace = this.trace;
    const chain = [...trace, toolName];
    const repeats = trace.filter((name) => name === toolName).length;
    if (repeats > this.#lowest("nestedRepeats")) {
      throw refused("CAPABILITY_DENIED", "Tools that call each other in a circle", chain);
    }
    // Each call states how deep it may go from where it is.
    let depth = 1;
    for (let link: CallChain | undefined = this; link !== undefined; link = link.parent, depth += 1) {
      if (depth <= link.#limits.nestedDepth) continue;
      throw refused("QUOTA_EXCEEDED", `Tools may call each other ${link.#limits.nestedDepth} deep`, chain);
    }
    const { root } = this;
    const allowed = Math.min(root.#limits.nestedCalls, this.#lowest("nestedCalls"));
    if (root.#family >= allowed) {
      throw refused("QUOTA_EXCEEDED", `One call may cause ${allowed} calls of other tools`, chain);
    }
    root.#family += 1;
    this.#begun += 1;
    return `${this.callId.slice(0, MAX_CALLER_ID_UNITS)}.${this.#begun}`;
  }

  /**
   * Something in it waits for its caller, or does so no more. Its clock stands still while it does nothing else, and so do those of the
   * calls that wait for it.
   */
  hold(isWaiting: boolean, holder: object): void {
    const before = this.#waits.size;
    if (isWaiting) this.#waits.add(holder);
    else this.#waits.delete(holder);
    if (before === 0 && this.#waits.size > 0) this.onWait?.(true);
    if (before > 0 && this.#waits.size === 0) this.onWait?.(false);
    this.weigh();
  }

  /** Whether its guest neither runs nor has timers, as its process says; a guest that gets an answer is busy until the process says so again. */
  setIdle(isIdle: boolean): void {
    if (isIdle === this.#isIdle) return;
    this.#isIdle = isIdle;
    this.weigh();
  }

  /** Decides anew whether its clock stands still: all that it is at has to wait for the caller. */
  weigh(): void {
    const { size } = this.#waits;
    const isHeld = size > 0 && this.#isIdle !== false && (this.openCalls?.() ?? 0) <= size;
    if (isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    this.clock?.hold(isHeld, this);
    this.onHold?.(isHeld);
    this.parent?.hold(isHeld, this);
  }

  ended(call: NestedCall): void {
    this.#calls ??= [];
    this.#calls.push(call);
  }

  #lowest(name: "nestedCalls" | "nestedRepeats"): number {
    const own = this.#limits[name];
    return this.parent === undefined ? own : Math.min(own, this.parent.#lowest(name));
  }
}
