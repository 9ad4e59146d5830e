// Approvals of single calls. A call that needs one is stored with its exact input, on one version of its tool, and waits. Once approved, it
// runs exactly once, from the queue; if it is denied or expires, it never runs.
import { digestOfTool, type Glovebox, type RegisteredTool, ToolError } from "../../host/index.ts";
import { toStoredInput } from "../calls/outcome.ts";
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { createId } from "../ids.ts";
import { type Actor, appendAudit, SERVER_ACTOR } from "../records/audit/audit.ts";
import {
  type ApprovalOfCall,
  type ApprovalRow,
  countPending,
  findApproval,
  findOverdue,
  findUndelivered,
  findWithCall,
  insertWaiting,
  MAX_PENDING,
  parkClaimed,
  releaseCall,
  storeDecision,
  toWaiting,
} from "../records/calls/approvals.ts";
import { endCall, notRunOutcome } from "../records/calls/call-outcomes.ts";
import { type CallRow, findCall } from "../records/calls/calls.ts";
import { emitEvents } from "../records/events/webhooks.ts";
import { isKeyRevoked } from "../records/tenants/api-keys.ts";
import { findTenant, type TenantRecord } from "../records/tenants/tenants.ts";
import { changeExclusively } from "../records/write-lock.ts";
import { type ApprovalReason, mayWait, mustWait, sha256Of } from "./approval-rule.ts";

const EXPIRY_MS = 1_000;
const MINUTE_MS = 60_000;

/** What the approval of a call is valid for. */
export interface NeededApproval {
  readonly because: ApprovalReason;
  readonly version: string;
  readonly toolDigest: string;
}

/** The version that a call runs, if it is chosen already, and the approval that it needs. */
export interface Admission {
  readonly toolVersion?: string;
  /** Digest of the tool that was approved. Another one does not run. */
  readonly toolDigest?: string;
  readonly needed?: NeededApproval;
}

/** Why an approval cannot be decided. */
export class ApprovalConflict extends Error {
  override readonly name = "ApprovalConflict";
}

export interface Decision {
  readonly isApproved: boolean;
  readonly reason: string | null;
  readonly actor: Actor;
  readonly decidedBy: string;
}

export interface ApprovalServiceDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Glovebox;
  /** Called when a call may have been added to the queue. */
  readonly onReleased: (callId: string) => void;
  readonly onError: (error: unknown) => void;
}

/** Returns the error of a call that waits. */
export const pendingError = (toolName: string, approvalId: string, callId: string): ToolError =>
  new ToolError("APPROVAL_REQUIRED", `The call of "${toolName}" waits for approval ${approvalId} and was not run`, {
    recoverable: true,
    details: { approvalId, callId },
  });

function deniedError(row: CallRow, approvalId: string, reason: string | null): ToolError {
  const why = reason === null || reason === "" ? "" : `: ${reason}`;
  return new ToolError("APPROVAL_REQUIRED", `The call of "${row.tool_name}" was denied and not run${why}`, {
    recoverable: false,
    details: { approved: false, approvalId, ...(reason === null ? {} : { reason }) },
  });
}

const expiredError = (row: CallRow, approvalId: string): ToolError =>
  new ToolError("APPROVAL_REQUIRED", `The call of "${row.tool_name}" was not approved in time and not run`, {
    recoverable: false,
    details: { approved: false, approvalId, expired: true },
  });

export class ApprovalService implements AsyncDisposable {
  readonly #dependencies: ApprovalServiceDependencies;
  #timer: NodeJS.Timeout | undefined;
  #expiring: Promise<void> | undefined;

  constructor(dependencies: ApprovalServiceDependencies) {
    this.#dependencies = dependencies;
  }

  /** Starts the timer that ends calls without a decision once they expire. */
  start(): void {
    this.#timer = setInterval(() => {
      this.#expiring ??= this.expire(this.#dependencies.database.clock.now())
        .catch(this.#dependencies.onError)
        .finally(() => {
          this.#expiring = undefined;
        });
    }, EXPIRY_MS);
    this.#timer.unref();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#expiring;
  }

  /**
   * Decides whether a call has to wait, and chooses its version if that depends on it. The tool must be registered.
   * @param given `isFixed: false` for a call whose version cannot be fixed: it waits if any version has to
   * @throws {ToolError} TOOL_UNAVAILABLE for a version that the tool does not have
   */
  check(
    tenant: TenantRecord,
    toolName: string,
    {
      isFixed = true,
      ...given
    }: {
      readonly toolVersion?: string | undefined;
      readonly sessionId?: string | undefined;
      readonly isFixed?: boolean;
    },
  ): Admission {
    const unchanged: Admission = given.toolVersion === undefined ? {} : { toolVersion: given.toolVersion };
    const tool = this.#dependencies.glovebox.router.registry.get(toolName, tenant.id);
    // A call of an unknown tool fails by itself.
    if (tool === undefined) return unchanged;
    const because = mayWait(tenant.policy, tool);
    if (because === undefined) return unchanged;
    const version = tool.release?.choose(toolName, given) ?? "0";
    const chosen: RegisteredTool = tool.release?.get(version) ?? tool;
    if (isFixed && !mustWait(because, chosen)) return { toolVersion: version };
    return { toolVersion: version, needed: { because, version, toolDigest: digestOfTool(chosen) } };
  }

  /** Returns for how long a call that a durable run makes waits for an approval; undefined if it needs none. The tool must be registered. */
  waitOf(tenant: TenantRecord, toolName: string): { readonly expiresInMs: number } | undefined {
    const { needed } = this.check(tenant, toolName, { isFixed: false });
    return needed && { expiresInMs: tenant.policy.approvals.expiresInMinutes * MINUTE_MS };
  }

  #newApproval(
    call: CallRow,
    tenant: TenantRecord,
    { because, version, toolDigest }: NeededApproval,
    origin: ApprovalRow["origin"],
  ): ApprovalRow {
    const now = this.#dependencies.database.clock.now();
    return {
      id: createId("approval", now),
      tenant_id: tenant.id,
      call_id: call.id,
      state: "pending",
      because,
      origin,
      tool_name: call.tool_name,
      tool_version: Number(version),
      tool_digest: toolDigest,
      input_sha256: sha256Of(call.input ?? ""),
      requested_by: call.key_id,
      created_at: now,
      expires_at: now + tenant.policy.approvals.expiresInMinutes * MINUTE_MS,
      decided_by: null,
      decided_at: null,
      reason: null,
      delivered_at: null,
    };
  }

  /** @throws {ToolError} QUOTA_EXCEEDED if too many calls of the tenant wait */
  async #store(
    call: CallRow,
    approval: ApprovalRow,
    store: (transaction: Db) => Promise<CallRow | boolean | undefined>,
  ): Promise<CallRow | boolean | undefined> {
    const { database } = this.#dependencies;
    // Exclusively, so that concurrent requests cannot exceed the limit.
    return await changeExclusively(database, async (transaction) => {
      if ((await countPending(transaction, call.tenant_id)) >= MAX_PENDING) {
        const message = `${MAX_PENDING} calls of this tenant wait for an approval. Approve or deny some of them first`;
        throw new ToolError("QUOTA_EXCEEDED", message, { details: { retryAfterMs: MINUTE_MS } });
      }
      const outcome = await store(transaction);
      if (outcome !== undefined && outcome !== true) return outcome;
      const { id, tool_name, tool_version, because, origin, requested_by, expires_at } = approval;
      await emitEvents(transaction, [
        {
          tenantId: call.tenant_id,
          type: "approval.requested",
          data: {
            id,
            callId: call.id,
            tool: tool_name,
            version: tool_version,
            because,
            origin,
            requestedBy: requested_by,
            expiresAt: expires_at,
          },
        },
      ]);
      return outcome;
    });
  }

  /**
   * Stores a call that waits.
   * @param call its row, with its input
   * @returns the row as it was stored, or the call that has used the idempotency key before, or the same call over MCP
   * @throws {ToolError} QUOTA_EXCEEDED if too many calls of the tenant wait
   */
  async request(
    call: CallRow,
    tenant: TenantRecord,
    needed: NeededApproval,
    origin: ApprovalRow["origin"],
  ): Promise<{ readonly call: CallRow; readonly isKnown: boolean }> {
    const approval = this.#newApproval(call, tenant, needed, origin);
    const waiting: CallRow = {
      ...call,
      ...toWaiting(approval),
      run_at: null,
    };
    const known = await this.#store(waiting, approval, async (transaction) => {
      const joined = origin === "mcp" ? await this.#findSame(transaction, approval) : undefined;
      return joined ?? (await insertWaiting(transaction, waiting, approval));
    });
    return { call: (known as CallRow | undefined) ?? waiting, isKnown: known !== undefined };
  }

  /** Returns the call that the same caller over MCP has requested at the same time. */
  async #findSame(transaction: Db, approval: ApprovalRow): Promise<CallRow | undefined> {
    const { tenant_id: tenantId, tool_name: toolName, input_sha256: inputSha256, requested_by: requestedBy } = approval;
    const found = await findUndelivered(transaction, { tenantId, toolName, inputSha256, requestedBy });
    return found && (await findCall(transaction, tenantId, found.call_id));
  }

  /** Lets a call that was claimed from the queue wait, instead of running it. @throws {ToolError} as {@link request} does */
  async park(call: CallRow, tenant: TenantRecord, needed: NeededApproval): Promise<void> {
    const origin = /^(schedule|trigger)_/.exec(call.key_id)?.[1] as "schedule" | "trigger" | undefined;
    const approval = this.#newApproval(call, tenant, needed, origin ?? "api");
    await this.#store(call, approval, (transaction) => parkClaimed(transaction, call, approval));
  }

  /**
   * Returns what an approved call may run on.
   * @param call claimed from the queue, with its input
   * @throws {ToolError} APPROVAL_REQUIRED if there is no approval for exactly this call
   */
  async pinsOf(call: CallRow): Promise<{ readonly toolVersion: string; readonly toolDigest: string }> {
    const { db } = this.#dependencies.database;
    const found = await findApproval(db, call.tenant_id, call.approval_id ?? "");
    const isValid =
      found?.state === "approved" && found.call_id === call.id && found.input_sha256 === sha256Of(call.input ?? "");
    if (isValid) return { toolVersion: String(found.tool_version), toolDigest: found.tool_digest };
    throw new ToolError("APPROVAL_REQUIRED", `The call of "${call.tool_name}" has no valid approval and was not run`, {
      recoverable: false,
      details: { approved: false },
    });
  }

  /**
   * Approves or denies a call.
   * @returns undefined if the tenant has no such approval
   * @throws {ApprovalConflict} if it was decided before, or has expired
   */
  async decide(tenant: TenantRecord, id: string, decision: Decision): Promise<ApprovalOfCall | undefined> {
    const { database, onReleased } = this.#dependencies;
    const { isApproved, reason, actor, decidedBy } = decision;
    const decided = await changeExclusively(database, async (transaction) => {
      const found = await findWithCall(transaction, tenant.id, id);
      if (found === undefined) return undefined;
      const { approval, call } = found;
      const now = this.#dependencies.database.clock.now();
      if (approval.state === "pending" && approval.expires_at <= now)
        throw new ApprovalConflict("The time to decide about this call is over");
      if (isApproved && (await isKeyRevoked(transaction, approval.requested_by)))
        throw new ApprovalConflict("The key that requested this call was revoked. Deny the call");
      const state = isApproved ? "approved" : "denied";
      const change = { state, decided_by: decidedBy, decided_at: now, reason } as const;
      const isStored =
        (await storeDecision(transaction, id, change)) &&
        (isApproved
          ? await releaseCall(transaction, call.id, now)
          : await this.#endUnrun(transaction, call, tenant, deniedError(call, id, reason)));
      if (!isStored) throw new ApprovalConflict(`The approval does not wait for a decision (${approval.state})`);
      await this.#record(transaction, { ...approval, ...change }, actor);
      return await findWithCall(transaction, tenant.id, id);
    });
    if (isApproved && decided !== undefined) onReleased(decided.call.id);
    return decided;
  }

  /** Ends the calls whose approvals are overdue. @param now ms since 1970 */
  async expire(now: number): Promise<void> {
    const { database } = this.#dependencies;
    for (const { tenant_id, id } of await findOverdue(database.db, now)) {
      await changeExclusively(database, async (transaction) => {
        const tenant = await findTenant(transaction, tenant_id);
        const found = await findWithCall(transaction, tenant_id, id);
        if (tenant === undefined || found === undefined) return;
        const { approval, call } = found;
        const change = { state: "expired", decided_by: null, decided_at: now, reason: null } as const;
        if (!(await storeDecision(transaction, id, change))) return;
        await this.#endUnrun(transaction, call, tenant, expiredError(call, id));
        await this.#record(transaction, { ...approval, ...change }, SERVER_ACTOR);
      });
    }
  }

  async #endUnrun(transaction: Db, call: CallRow, { policy }: TenantRecord, error: ToolError): Promise<boolean> {
    const input = policy.retention.keepContent ? toStoredInput(call.input) : null;
    const outcome = notRunOutcome(call, "failed", error.toData(call.tool_name), input);
    return await endCall(transaction, call, outcome, "waiting_for_approval");
  }

  async #record(transaction: Db, approval: ApprovalRow, actor: Actor): Promise<void> {
    const { id, tenant_id: tenantId, state, tool_name, tool_version, call_id, input_sha256, reason } = approval;
    const facts = { callId: call_id, tool: tool_name, version: tool_version, inputSha256: input_sha256, reason };
    await appendAudit(transaction, { actor, tenantId, action: `approval.${state}`, target: id, details: facts });
    const data = { id, state, ...facts };
    await emitEvents(transaction, [{ tenantId, type: "approval.decided", data }]);
  }
}
