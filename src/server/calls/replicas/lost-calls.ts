// Completes calls that were passed on to a replica that stopped. Each gets one record: the one that replica wrote, otherwise SANDBOX_CRASHED.
import { setTimeout as sleep } from "node:timers/promises";
import type { ToolError, ToolResult } from "../../../host/index.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import type { Metrics } from "../../operation/metrics.ts";
import { type CallOutcome, finishCall, insertEndedOnce } from "../../records/calls/call-outcomes.ts";
import { type CallRow, findCall, type WholeCall } from "../../records/calls/calls.ts";
import { toFailedResult, toShown } from "../call-results.ts";
import { toOutcome } from "../outcome.ts";
import { lostError } from "../queue/call-recovery.ts";
import { type DirectCall, wholeCall } from "../running/direct-call.ts";

/** Delays in ms before each lookup of a record: a replica writes it shortly after the end of the call. */
const RECHECKS_MS = [0, 50, 100, 200, 400, 800] as const;

export interface LostCallsDependencies {
  readonly database: OpenDatabase;
  readonly metrics: Pick<Metrics, "callEnded">;
  readonly onError: (error: unknown) => void;
}

export class LostCalls {
  readonly #dependencies: LostCallsDependencies;

  constructor(dependencies: LostCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns the record of a call whose replica stopped. Without one, stores that the call was lost. Never rejects. */
  async settle(call: DirectCall): Promise<WholeCall> {
    const { database, metrics, onError } = this.#dependencies;
    const { row } = call;
    try {
      const found = await this.#findEnded(row);
      const known = found === undefined || found.ended_at === null ? await this.#store(call, found) : found;
      if (known !== undefined) return await wholeCall(database, known);
    } catch (thrown) {
      onError(thrown);
    }
    metrics.callEnded(row.mode, "SANDBOX_CRASHED", 0);
    return this.failed(call, lostError());
  }

  /** Returns a call that may have run, with an error instead of its result, as its caller sees it. Stores nothing. */
  failed(call: DirectCall, error: ToolError): WholeCall {
    const { row, request } = call;
    const { result, outcome } = this.#end(call, error);
    return { ...row, ...outcome, ...toShown(result, request, null) };
  }

  #end(
    { row, request, caller }: DirectCall,
    error: ToolError,
  ): { readonly result: ToolResult; readonly outcome: CallOutcome } {
    const { database, onError } = this.#dependencies;
    const result = toFailedResult(row, error, onError);
    const outcome = toOutcome(result, request.input, caller.tenant.policy, database.clock.now());
    return { result, outcome: { ...outcome, effects: "possible", tool_version: row.tool_version } };
  }

  /** Waits a moment for the record. Returns the row of a call with an idempotency key also if it has not ended. */
  async #findEnded({ tenant_id: tenantId, id }: CallRow): Promise<CallRow | undefined> {
    let found: CallRow | undefined;
    for (const ms of RECHECKS_MS) {
      await sleep(ms);
      found = await findCall(this.#dependencies.database.db, tenantId, id);
      if (found !== undefined && found.ended_at !== null) return found;
    }
    return found;
  }

  /** Stores that a call was lost. Returns the record if another one was stored in the meantime. @param found its row, which has not ended */
  async #store(call: DirectCall, found: CallRow | undefined): Promise<CallRow | undefined> {
    const { db } = this.#dependencies.database;
    const { row } = call;
    const { outcome } = this.#end(call, lostError());
    if (found === undefined) return await insertEndedOnce(db, { row: { ...row, ...outcome } });
    return (await finishCall(db, found, outcome)) ? undefined : await findCall(db, row.tenant_id, row.id);
  }
}
