// Runs calls whose clients wait for them: in this process, or in the replica that has the session of the call.
import type { ToolError, ToolResult } from "../../../host/index.ts";
import { isLostConnection, type OpenDatabase } from "../../database/open-database.ts";
import { renewLeases } from "../../records/calls/call-claims.ts";
import { type CallRow, insertOnce, type WholeCall } from "../../records/calls/calls.ts";
import type { SessionHome } from "../../records/calls/session-homes.ts";
import type { ServerCallAdmission } from "../call-admission.ts";
import { checkSame, toFailedResult } from "../call-results.ts";
import type { ForwardedCalls } from "../replicas/forwarded-calls.ts";
import { type DirectAnswer, type DirectCall, wholeCall } from "./direct-call.ts";
import type { JournaledCallRunner } from "./journaled-call-runner.ts";

/**
 * Length of the lease of a call with an idempotency key in ms, and how often it is renewed. A call that runs on while the database is away for
 * less than the difference keeps its lease. Most calls end before the first renewal.
 */
const LEASE_MS = 330_000;
const RENEW_MS = 60_000;

export interface DirectCallsDependencies {
  readonly database: OpenDatabase;
  readonly admission: Pick<ServerCallAdmission, "admit">;
  readonly runner: Pick<JournaledCallRunner, "execute" | "stream" | "ended" | "starting">;
  /** Passes calls on to other replicas. */
  readonly forwarded: Pick<ForwardedCalls, "begin">;
  readonly onError: (error: unknown) => void;
}

export class DirectCalls {
  readonly #dependencies: DirectCallsDependencies;

  constructor(dependencies: DirectCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Runs a call, wherever its session is. Never rejects because of the call itself.
   * @throws {IdempotencyConflict} if the idempotency key is in use
   * @throws {ToolError} QUOTA_EXCEEDED if too many calls of the tenant wait for an approval
   */
  async run(call: DirectCall): Promise<DirectAnswer> {
    const answer = await this.runHere(call);
    return "home" in answer ? await this.#runElsewhere(call, answer.home) : answer;
  }

  /** Runs a call in this process. Does nothing if another replica has its session, and returns that one. */
  async runHere(call: DirectCall): Promise<DirectAnswer | { readonly home: SessionHome }> {
    using _starting = this.#dependencies.runner.starting.add(call.row.id);
    if (call.sink === undefined) return await this.#begin(call);
    try {
      return await this.#begin(call);
    } catch (thrown) {
      // A stream has begun, so its failure is its result.
      return { ended: await this.#end(call, toFailedResult(call.row, thrown, this.#dependencies.onError)) };
    }
  }

  async #begin(call: DirectCall): Promise<DirectAnswer | { readonly home: SessionHome }> {
    const { row, request, caller, sink } = call;
    const { admission, runner } = this.#dependencies;
    const admitted = await admission.admit(row, request, caller);
    if ("waiting" in admitted || "home" in admitted) return admitted;
    const known = await this.#claimKey(row);
    if (known !== undefined) return { ended: known };
    using _lease = this.#keepLease(row);
    if ("failed" in admitted) return { ended: await this.#end(call, admitted.failed) };
    const result =
      sink === undefined
        ? await runner.execute(row, request, caller, admitted)
        : await runner.stream(row, request, caller, { pins: admitted, sink });
    return { ended: await this.#end(call, result) };
  }

  async #end({ row, request, caller }: DirectCall, result: ToolResult): Promise<WholeCall> {
    return await this.#dependencies.runner.ended(row, request, caller, result);
  }

  /** Stores the row of a call with an idempotency key before it runs. Returns the call that has used the key before. */
  async #claimKey(row: CallRow): Promise<WholeCall | undefined> {
    if (row.idempotency_key === null) return undefined;
    const { database } = this.#dependencies;
    // With a lease, so that a call whose server has died gets a final state.
    const leased = { ...row, lease_until: this.#leaseEnd() };
    const known = await insertOnce(database.db, leased).catch(async (thrown: unknown) => {
      if (!isLostConnection(thrown)) throw thrown;
      // The connection may have been lost after the COMMIT: then the key is in use by this call, which nothing else would run.
      const found = await insertOnce(database.db, leased);
      return found?.id === row.id ? undefined : found;
    });
    return known === undefined ? undefined : await wholeCall(database, checkSame(known, row));
  }

  #leaseEnd(): number {
    return this.#dependencies.database.clock.now() + LEASE_MS;
  }

  /** Renews the lease of a call until the returned object is disposed of: it may wait for slots longer than any timeout, and run then. */
  #keepLease(row: CallRow): Disposable | undefined {
    if (row.idempotency_key === null) return undefined;
    const { database, onError } = this.#dependencies;
    const timer = setInterval(() => {
      renewLeases(database.db, [row.id], { owner: null, until: this.#leaseEnd() }).catch(onError);
    }, RENEW_MS);
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  /** Passes a call on. Claims its session again as long as the home has run nothing of it: the home may be gone by now. */
  async #runElsewhere(call: DirectCall, home: SessionHome): Promise<DirectAnswer> {
    using forwarding = this.#dependencies.forwarded.begin(call);
    let next = home;
    for (;;) {
      const outcome = await forwarding.send(next);
      if (outcome !== "not sent") return "error" in outcome ? await this.#fail(call, outcome.error) : outcome;
      const answer = await this.runHere(call);
      if (!("home" in answer)) return answer;
      next = answer.home;
    }
  }

  /** Ends a call that cannot be passed on. */
  async #fail(call: DirectCall, error: ToolError): Promise<DirectAnswer> {
    const { row } = call;
    const known = await this.#claimKey(row);
    if (known !== undefined) return { ended: known };
    return { ended: await this.#end(call, toFailedResult(row, error, this.#dependencies.onError)) };
  }
}
