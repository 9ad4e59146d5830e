// The sessions whose isolates are on this executor: where each isolate is, and which control plane it belongs to. A session
// whose control plane does not hold it any longer ends.
import type { RunMessage } from "../../host/fleet/protocol/control-messages.ts";
import type { RejectionReason, SessionEnding } from "../../host/fleet/protocol/executor-messages.ts";
import { MAX_FLEET_SESSIONS } from "../../host/fleet/protocol/message-fields.ts";
import type { SessionLoss, SessionPlacement } from "../../host/workers/pool-job.ts";

export interface HostedSessionsDependencies {
  /** Disposes the isolate of a session. */
  readonly endSession: (placement: SessionPlacement) => void;
  /** Tells a control plane that isolates of its sessions are lost. */
  readonly onEnded: (control: string, sessions: readonly SessionEnding[]) => void;
  /** Default: performance.now */
  readonly now?: () => number;
}

/** The isolate of a session. */
export interface HostedSession {
  readonly placement: SessionPlacement;
  /** Whether an earlier call has left the isolate. */
  readonly isKept: boolean;
}

interface OpenSession extends HostedSession {
  readonly token: string;
  readonly control: string;
  readonly tenantId: string;
  isKept: boolean;
  /** A call of it runs. There is one at a time. */
  isRunning: boolean;
  /** When its control plane has last named it, by the clock. */
  heldAt: number;
}

const REPORTED = new Set(["memory", "stuck", "budget", "room"] as const);
type Reported = typeof REPORTED extends Set<infer Reason> ? Reason : never;
const reasonOf = (loss: SessionLoss): SessionEnding[1] =>
  REPORTED.has(loss as Reported) ? (loss as Reported) : "other";

export class HostedSessions {
  readonly #dependencies: HostedSessionsDependencies;
  readonly #now: () => number;
  /** By the name that the control plane has given it. */
  readonly #open = new Map<string, OpenSession>();
  #lastId = 0;

  constructor(dependencies: HostedSessionsDependencies) {
    this.#dependencies = dependencies;
    this.#now = dependencies.now ?? (() => performance.now());
  }

  get size(): number {
    return this.#open.size;
  }

  /** Returns the session of a call, which it uses until `leave`, or why the call cannot run. */
  enter({ session: wanted, control, tenantId }: RunMessage): HostedSession | RejectionReason {
    if (wanted === undefined) return "failed";
    const known = this.#open.get(wanted.id);
    if (known !== undefined) {
      const isRight = known.control === control && known.tenantId === tenantId && wanted.resumes === true;
      if (!isRight || known.isRunning || !known.isKept) return "no-session";
      known.isRunning = true;
      known.heldAt = this.#now();
      return known;
    }
    if (wanted.resumes === true) return "no-session";
    if (this.#open.size >= MAX_FLEET_SESSIONS) return "full";
    this.#lastId += 1;
    const placement: SessionPlacement = {
      id: this.#lastId,
      worker: undefined,
      onLost: (loss) => {
        // While a call runs, its outcome tells that the isolate is lost.
        if (this.#open.delete(opened.token) && !opened.isRunning)
          this.#dependencies.onEnded(control, [[opened.token, reasonOf(loss)]]);
        return undefined;
      },
    };
    const times = { isKept: false, isRunning: true, heldAt: this.#now() };
    const opened: OpenSession = { token: wanted.id, control, tenantId, placement, ...times };
    this.#open.set(opened.token, opened);
    return opened;
  }

  /** A call of a session has ended. @param isKept whether it has left the isolate */
  leave(session: HostedSession, isKept: boolean): void {
    const open = session as OpenSession;
    open.isRunning = false;
    open.isKept = isKept;
    if (!isKept) this.#open.delete(open.token);
    // Also if it has ended meanwhile.
    if (!this.#open.has(open.token)) this.#dependencies.endSession(open.placement);
  }

  /** Ends a session. The isolate of a running call is disposed when the call has ended. */
  end(token: string): void {
    const open = this.#open.get(token);
    if (open === undefined) return;
    this.#open.delete(token);
    if (!open.isRunning) this.#dependencies.endSession(open.placement);
  }

  /** Ends the sessions of a tenant. */
  endTenant(tenantId: string): void {
    for (const open of [...this.#open.values()]) if (open.tenantId === tenantId) this.end(open.token);
  }

  /** Ends the sessions of a control plane that it does not name, and tells it which of those that it names are not here. */
  hold(control: string, tokens: readonly string[]): void {
    const held = new Set(tokens);
    for (const open of [...this.#open.values()]) {
      if (open.control !== control) continue;
      if (held.delete(open.token)) open.heldAt = this.#now();
      else this.end(open.token);
    }
    if (held.size > 0)
      this.#dependencies.onEnded(
        control,
        [...held].map((token) => [token, "other"]),
      );
  }

  /** Ends the sessions that their control planes have not named for a while. */
  endOrphans(withinMs: number): void {
    const before = this.#now() - withinMs;
    for (const open of [...this.#open.values()]) if (open.heldAt <= before) this.end(open.token);
  }
}
