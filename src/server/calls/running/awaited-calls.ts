// Follows calls that wait for an approval, for the clients that wait for their results.
import { setTimeout as sleep } from "node:timers/promises";
import type { CallContext, ToolResult } from "../../../host/index.ts";
import { pendingError } from "../../approvals/approval-service.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import { markDelivered } from "../../records/calls/approvals.ts";
import { findParts, withContents } from "../../records/calls/call-contents.ts";
import { type CallRow, findCall } from "../../records/calls/calls.ts";
import type { TenantRecord } from "../../records/tenants/tenants.ts";
import type { CallCaller, CallProgressEvent } from "../call-request.ts";
import { toFailedResult, toToolResult } from "../call-results.ts";
import type { WatchedCalls } from "./watched-calls.ts";

/** How often the row of a call that waits for an approval is read, in ms. Another process may decide or run it. */
const WATCH_MS = 250;
/** Time in ms that a call over MCP waits for an approval: less than the 60 s after which most clients give up. */
const MCP_WAIT_MS = 50_000;
const PROGRESS_MS = 10_000;
const NEVER = new AbortController().signal;

export interface AwaitedCallsDependencies {
  readonly database: OpenDatabase;
  readonly watched: Pick<WatchedCalls, "lines">;
  readonly cancel: (tenant: TenantRecord, id: string) => Promise<unknown>;
  readonly onError: (error: unknown) => void;
}

export class AwaitedCalls {
  readonly #dependencies: AwaitedCallsDependencies;
  /** Receive the results of calls that ran in this process, by the ids of the calls. */
  readonly #waiters = new Map<string, Set<(result: ToolResult) => void>>();

  constructor(dependencies: AwaitedCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Passes the result of a call on to those who wait for it. */
  settle(id: string, result: ToolResult): void {
    for (const receive of this.#waiters.get(id) ?? []) receive(result);
  }

  /** Waits until a call was decided about and has ended, but not longer than clients wait. */
  async awaitResult(call: CallRow, context: CallContext, { tenant }: CallCaller): Promise<ToolResult> {
    const { db } = this.#dependencies.database;
    const approvalId = call.approval_id ?? "";
    const own = Promise.withResolvers<ToolResult>();
    const waiters = this.#waiters.get(call.id) ?? new Set();
    this.#waiters.set(call.id, waiters.add(own.resolve));
    const begun = performance.now();
    let shownAt = Number.NEGATIVE_INFINITY;
    try {
      while (performance.now() - begun < MCP_WAIT_MS) {
        if (context.signal?.aborted === true) {
          await this.#dependencies.cancel(tenant, call.id);
          break;
        }
        if (performance.now() - shownAt >= PROGRESS_MS) {
          shownAt = performance.now();
          const progress = Math.round(shownAt - begun);
          context.onProgress?.({ progress, message: `Waiting for approval ${approvalId}` });
        }
        const row = await findCall(db, tenant.id, call.id);
        if (row === undefined) break;
        const ran = await Promise.race([own.promise, sleep(row.ended_at === null ? WATCH_MS : 0)]);
        if (ran === undefined && row.ended_at === null) continue;
        await markDelivered(db, approvalId, Date.now());
        return ran ?? toToolResult(await withContents(db, row));
      }
      return toFailedResult(call, pendingError(call.tool_name, approvalId, call.id), this.#dependencies.onError);
    } finally {
      waiters.delete(own.resolve);
      if (waiters.size === 0) this.#waiters.delete(call.id);
    }
  }

  /** Reports a call that waits for an approval, and its result when it has ended. A client that leaves does not cancel it. */
  async stream(
    waiting: CallRow,
    { tenant, signal }: CallCaller,
    push: (event: CallProgressEvent) => void,
  ): Promise<void> {
    const { db } = this.#dependencies.database;
    push({ event: "approval", data: { approvalId: waiting.approval_id ?? "", callId: waiting.id } });
    let next = 0;
    while (signal?.aborted !== true) {
      const row = await findCall(db, tenant.id, waiting.id);
      if (row === undefined || row.ended_at !== null) {
        push({
          event: "result",
          data: row === undefined ? waiting : { ...(await withContents(db, row)), parts: await findParts(db, row) },
        });
        return;
      }
      if (row.state === "running") {
        const key = { tenantId: tenant.id, callId: row.id };
        for await (const { index, entry } of this.#dependencies.watched.lines(key, signal ?? NEVER, next)) {
          next = index + 1;
          push({ event: "log", data: entry });
        }
      }
      await sleep(WATCH_MS);
    }
  }
}
