// The sessions whose isolates are on executors. The first call of a session chooses the executor, and later calls go to it
// and nowhere else. An isolate that may be lost, or in whose state a call of unknown outcome may have been, ends its session.
import { randomBytes } from "node:crypto";
import { type ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import type { Job, SessionLoss, SessionPlacement } from "../../workers/pool-job.ts";
import type { SessionOrder } from "../../workers/worker-job.ts";
import type { RemoteExecutor } from "./remote-executor.ts";

const sessionEnded = (): ToolError => unavailable("session_ended", "The session has ended. Open a new one");

type Executor = Pick<RemoteExecutor, "id" | "announcement" | "sessions" | "send">;

/** A call that may belong to a session. */
export interface SessionCall<Call extends SessionCall<Call>> {
  readonly job: Pick<Job, "session"> & { readonly order: { readonly session?: SessionOrder | undefined } };
  readonly state: "queued" | "placed" | "over";
  /** The session in whose isolate it runs; undefined until an executor is chosen for the isolate. */
  session: FleetSession<Call> | undefined;
}

/** What the sessions need of the pool. */
export interface SessionOwner<Call> {
  /** Gives up a call that waits for a session which has ended. */
  giveUpQueued(call: Call, error: ToolError | undefined): void;
}

/** The isolate of a session on its executor, from the first call on. */
export class FleetSession<Call extends SessionCall<Call>> {
  /** Name of the isolate between this control plane and the executor: 128 random bits. */
  readonly token: string = randomBytes(16).toString("base64url");
  readonly placement: SessionPlacement;
  readonly executor: Executor;
  readonly #sessions: FleetSessions<Call>;
  /** Whether an earlier call has left the isolate. */
  isKept = false;
  /** The call that waits for the executor, or runs on it. There is one at a time. */
  call: Call | undefined;
  #retireReason: { readonly reason: SessionLoss } | undefined;

  constructor(placement: SessionPlacement, executor: Executor, sessions: FleetSessions<Call>) {
    this.placement = placement;
    this.executor = executor;
    this.#sessions = sessions;
  }

  get #isRunning(): boolean {
    return this.call?.state === "placed";
  }

  /** Ends the session, because its isolate is lost. Returns the error of its calls that have not begun. */
  lose(reason: SessionLoss): ToolError | undefined {
    const error = this.#sessions.unbind(this) ? this.placement.onLost(reason) : undefined;
    // Also one that has waited since before the host ended the session.
    if (this.call?.state === "queued") this.#sessions.owner.giveUpQueued(this.call, error ?? sessionEnded());
    return error;
  }

  /** Ends the session when its running call has ended. */
  retire(reason: SessionLoss): void {
    if (this.#isRunning) this.#retireReason ??= { reason };
    else this.lose(reason);
  }

  /** While a call runs, its outcome tells whether the isolate is lost, and the executor may not have read the call yet. */
  reportEnded(reason: SessionLoss): void {
    if (!this.#isRunning) this.lose(reason);
  }

  /** A call of it has ended, after whose cancellation the next one may have begun. @param isKept whether it has left the isolate */
  callEnded(call: Call, isKept: boolean): void {
    if (this.call === call) this.call = undefined;
    this.isKept = isKept;
    if (!isKept) this.lose(undefined);
    else if (this.#retireReason !== undefined && !this.#isRunning) this.lose(this.#retireReason.reason);
  }
}

export class FleetSessions<Call extends SessionCall<Call>> {
  readonly owner: SessionOwner<Call>;
  readonly #bound = new Map<SessionPlacement, FleetSession<Call>>();

  constructor(owner: SessionOwner<Call>) {
    this.owner = owner;
  }

  /**
   * Finds the isolate of a call's session.
   * @throws {ToolError} TOOL_UNAVAILABLE if earlier calls have left an isolate, which is lost
   */
  enter(call: Call): void {
    const { order, session: placement } = call.job;
    if (placement === undefined) return;
    call.session = this.#bound.get(placement);
    if (call.session !== undefined) call.session.call = call;
    // In another isolate, the effects of the earlier calls would be missing.
    else if (order.session?.resumes === true) throw placement.onLost(undefined) ?? sessionEnded();
  }

  /** Binds the session of a call to its executor, if it has none. */
  bind(call: Call, executor: Executor): void {
    const { session: placement } = call.job;
    if (placement === undefined || call.session !== undefined) return;
    const session = new FleetSession(placement, executor, this);
    session.call = call;
    call.session = session;
    this.#bound.set(placement, session);
    executor.sessions.set(session.token, session);
  }

  /** The executor of a call does not run it. A session of which nothing has run can begin on another one. */
  leave(call: Call): void {
    const { session } = call;
    if (session === undefined || session.isKept) return;
    // After the cancellation of this call, another one may begin the session on the same executor.
    if (session.call === call) this.unbind(session);
    call.session = undefined;
  }

  /** Forgets where a session is, and lets the executor dispose its isolate. Returns false if that has been done. */
  unbind({ placement, executor, token }: FleetSession<Call>): boolean {
    if (!executor.sessions.delete(token)) return false;
    this.#bound.delete(placement);
    executor.send({ type: "end-session", session: token });
    return true;
  }

  /** The host has ended a session. */
  end(placement: SessionPlacement): void {
    const session = this.#bound.get(placement);
    if (session !== undefined) this.unbind(session);
  }
}
