// Stores approvals of single calls. The call itself waits in the table of calls, with its input, until the approval is decided.
import type { Db } from "../../database/open-database.ts";
import { IS_PENDING_APPROVAL } from "../../database/partial-indexes.ts";
import type { ApprovalState, ApprovalsTable } from "../../database/tables/call-tables.ts";
import { withContents } from "./call-contents.ts";
import { type CallRow, insertOnce } from "./calls.ts";

export type ApprovalRow = ApprovalsTable;

/** Maximum number of approvals of a tenant that wait at the same time. */
export const MAX_PENDING = 1_000;

export async function countPending(db: Db, tenantId: string): Promise<number> {
  const row = await db
    .selectFrom("approvals")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("tenant_id", "=", tenantId)
    .where("state", "=", "pending")
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Inserts a call that waits, with its approval. Returns the call that has used its idempotency key before, if there is one. */
export async function insertWaiting(
  transaction: Db,
  call: CallRow,
  approval: ApprovalRow,
): Promise<CallRow | undefined> {
  const known = await insertOnce(transaction, call);
  if (known === undefined) await transaction.insertInto("approvals").values(approval).execute();
  return known;
}

/** Returns the columns of a call that waits for an approval. */
export const toWaiting = (approval: ApprovalRow) =>
  ({
    state: "waiting_for_approval",
    effects: "none",
    approval_id: approval.id,
    attempts: 0,
    tool_version: approval.tool_version,
    started_at: null,
    lease_until: null,
  }) as const;

/** Lets a call that was claimed from the queue wait for an approval. Returns false if the claim has been lost. */
export async function parkClaimed(transaction: Db, call: CallRow, approval: ApprovalRow): Promise<boolean> {
  const { numUpdatedRows } = await transaction
    .updateTable("calls")
    .set({ ...toWaiting(approval), lease_owner: null })
    .where("id", "=", call.id)
    .where("fence", "=", call.fence)
    .where("state", "=", "running")
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return false;
  await transaction.insertInto("approvals").values(approval).execute();
  return true;
}

export async function findApproval(db: Db, tenantId: string, id: string): Promise<ApprovalRow | undefined> {
  return await db
    .selectFrom("approvals")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
}

/** An approval with its call. */
export interface ApprovalOfCall {
  readonly approval: ApprovalRow;
  readonly call: CallRow;
}

/** Returns an approval with its call, whose input may be in the table of large contents. */
export async function findWithCall(db: Db, tenantId: string, id: string): Promise<ApprovalOfCall | undefined> {
  const approval = await findApproval(db, tenantId, id);
  if (approval === undefined) return undefined;
  const call = await db.selectFrom("calls").selectAll().where("id", "=", approval.call_id).executeTakeFirst();
  return call && { approval, call: await withContents(db, call) };
}

export interface ApprovalFilter {
  readonly state: ApprovalState;
  /** Id of the last approval of the page before. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** Lists approvals with their calls, without large inputs: what waits by age, and what was decided by the latest request. */
export async function listApprovals(
  db: Db,
  tenantId: string,
  { state, after, limit }: ApprovalFilter,
): Promise<readonly ApprovalOfCall[]> {
  const isPending = state === "pending";
  let query = db
    .selectFrom("approvals")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("state", "=", state)
    .orderBy("id", isPending ? "asc" : "desc")
    .limit(limit);
  if (after !== undefined) query = query.where("id", isPending ? ">" : "<", after);
  const approvals = await query.execute();
  if (approvals.length === 0) return [];
  const ids = approvals.map(({ call_id }) => call_id);
  const calls = await db.selectFrom("calls").selectAll().where("id", "in", ids).execute();
  const byId = new Map(calls.map((call) => [call.id, call]));
  return approvals.flatMap((approval) => {
    const call = byId.get(approval.call_id);
    return call === undefined ? [] : [{ approval, call }];
  });
}

/** Decides an approval that is pending. Returns false if it is not. */
export async function storeDecision(
  transaction: Db,
  id: string,
  decision: Pick<ApprovalRow, "state" | "decided_by" | "decided_at" | "reason">,
): Promise<boolean> {
  const { numUpdatedRows } = await transaction
    .updateTable("approvals")
    .set(decision)
    .where("id", "=", id)
    .where("state", "=", "pending")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Puts a call whose approval was given into the queue. */
export async function releaseCall(transaction: Db, callId: string, runAt: number): Promise<boolean> {
  const { numUpdatedRows } = await transaction
    .updateTable("calls")
    .set({ state: "queued", run_at: runAt })
    .where("id", "=", callId)
    .where("state", "=", "waiting_for_approval")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Returns pending approvals whose time is over. */
export async function findOverdue(db: Db, now: number): Promise<readonly ApprovalRow[]> {
  return await db
    .selectFrom("approvals")
    .selectAll()
    .where(IS_PENDING_APPROVAL)
    .where("expires_at", "<=", now)
    .limit(100)
    .execute();
}

/** What a caller requests, to find the approval that it has requested before. */
export interface ApprovalKey {
  readonly tenantId: string;
  readonly toolName: string;
  readonly inputSha256: string;
  readonly requestedBy: string;
}

/** Returns the approval of the same call over MCP that its caller has not received the result of. */
export async function findUndelivered(db: Db, key: ApprovalKey): Promise<ApprovalRow | undefined> {
  return await db
    .selectFrom("approvals")
    .selectAll()
    .where("tenant_id", "=", key.tenantId)
    .where("tool_name", "=", key.toolName)
    .where("input_sha256", "=", key.inputSha256)
    .where("requested_by", "=", key.requestedBy)
    .where("origin", "=", "mcp")
    .where("state", "in", ["pending", "approved"])
    .where("delivered_at", "is", null)
    .orderBy("id", "desc")
    .limit(1)
    .executeTakeFirst();
}

/** Records that a caller received the result. Returns false if another one has received it. */
export async function markDelivered(db: Db, id: string, at: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("approvals")
    .set({ delivered_at: at })
    .where("id", "=", id)
    .where("delivered_at", "is", null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
