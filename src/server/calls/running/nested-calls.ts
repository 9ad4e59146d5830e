// Observes the calls that a call makes: each becomes a call with a record of its own, and waits for an approval where it needs one.
import type { LogEntry, NestedCallObserver, NestedCallStart, ToolResult } from "../../../host/index.ts";
import { toApprovalText } from "../../approvals/approval-rule.ts";
import { type ApprovalService, type NeededApproval, pendingError } from "../../approvals/approval-service.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import type { TenantRecord } from "../../records/tenants/tenants.ts";
import type { TenantTools } from "../../tools/tenant-tools.ts";
import { checkToolName } from "../call-results.ts";
import { toNestedRow } from "../new-call.ts";
import type { LiveCall, LiveCalls } from "./live-calls.ts";

export interface NestedCallsDependencies {
  readonly approvals: ApprovalService;
  readonly live: LiveCalls;
  /** Registers a tool before it is called by name. */
  readonly tools: Pick<TenantTools, "ensureTool">;
  /** Adds the record of a nested call that has ended. */
  readonly onEnded: (row: CallRow, input: unknown, result: ToolResult, tenant: TenantRecord) => void;
}

export type NeededHandler = (call: NestedCallStart, needed: NeededApproval) => Promise<void> | void;

/** The calls below one call of a client. */
export class NestedCalls {
  readonly #dependencies: NestedCallsDependencies;
  readonly #tenant: TenantRecord;
  readonly #keyId: string;
  readonly #onNeeded: NeededHandler | undefined;
  /** Nested calls that run, by their ids. */
  readonly #running = new Map<string, LiveCall>();
  readonly observer: NestedCallObserver;

  /** @param onNeeded rejects a call that needs an approval, or lets it run. Default: the call waits as one of its own */
  constructor(dependencies: NestedCallsDependencies, tenant: TenantRecord, keyId: string, onNeeded?: NeededHandler) {
    this.#dependencies = dependencies;
    this.#tenant = tenant;
    this.#keyId = keyId;
    this.#onNeeded = onNeeded;
    this.observer = { onStart: (call) => this.#start(call), onEnd: (call, result) => this.#end(call, result) };
  }

  /** Passes a log line on to the nested call that has written it. */
  log(entry: LogEntry): void {
    if (entry.callId !== undefined) this.#running.get(entry.callId)?.log(entry);
  }

  async #start(call: NestedCallStart): Promise<void> {
    const { id, revision } = this.#tenant;
    checkToolName(call.toolName);
    await this.#dependencies.tools.ensureTool(id, revision, call.toolName);
    const { needed } = this.#dependencies.approvals.check(this.#tenant, call.toolName, { isFixed: false });
    if (needed !== undefined && call.isApproved !== true) await (this.#onNeeded ?? this.#wait)(call, needed);
    this.#running.set(call.callId, this.#dependencies.live.begin(id, call.callId));
  }

  /** @throws {ToolError} APPROVAL_REQUIRED in any case */
  readonly #wait: NeededHandler = async (call, needed) => {
    const row = { ...this.#rowOf(call), input: toApprovalText(call.arguments, call.toolName) };
    const { call: waiting } = await this.#dependencies.approvals.request(row, this.#tenant, needed, "nested");
    throw pendingError(call.toolName, waiting.approval_id ?? "", waiting.id);
  };

  #rowOf(call: NestedCallStart): CallRow {
    return toNestedRow(call, { tenantId: this.#tenant.id, keyId: this.#keyId });
  }

  #end(call: NestedCallStart, result: ToolResult): void {
    this.#running.delete(call.callId);
    void this.#dependencies.live.end(call.callId);
    this.#dependencies.onEnded(this.#rowOf(call), call.arguments, result, this.#tenant);
  }
}
