// glovebox approvals: lists the calls that wait for approval, and approves or denies them.
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { printItems, take, timeOf } from "../remote/table.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const LIST_LIMIT = 1_000;

async function list(given: Arguments, io: Io): Promise<number> {
  const tenant = await connectTenant(given, io);
  const state = given.values.state as "pending" | undefined;
  printItems(given, io, await take(tenant.callApprovals({ state }), LIST_LIMIT), {
    id: (one) => one.id,
    tool: (one) => `${one.tool}@${one.version}`,
    arguments: (one) => (one.omitted ? "(large)" : JSON.stringify(one.input)),
    because: (one) => one.because,
    "requested by": (one) => one.requestedBy,
    expires: (one) => timeOf(one.expiresAt),
  });
  return 0;
}

async function decide(given: Arguments, io: Io, action: "approve" | "deny", id: string): Promise<number> {
  const tenant = await connectTenant(given, io);
  const reason = given.values.reason as string | undefined;
  const decided = action === "approve" ? await tenant.approveCall(id, reason) : await tenant.denyCall(id, reason);
  printItems(given, io, [decided], {
    id: (one) => one.id,
    state: (one) => one.state,
    call: (one) => one.callId,
  });
  return 0;
}

export async function approvalsCommand(given: Arguments, io: Io): Promise<number> {
  const [action = "list", id] = given.positionals;
  if (action === "list" && id === undefined) return await withServerErrors(() => list(given, io));
  if ((action === "approve" || action === "deny") && id !== undefined)
    return await withServerErrors(() => decide(given, io, action, id));
  throw new UsageError("approvals: expected list, approve ID or deny ID");
}
