// glovebox approvals: lists the versions of tools and the calls that wait for approval, and approves or denies them.
import type { Approval, CallApproval } from "../../client/index.ts";
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { printItems, take, timeOf } from "../remote/table.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const LIST_LIMIT = 1_000;

/** Returns what names an approval on the command line: a version has no id of its own. */
const idOf = (one: Approval | CallApproval): string => (one.kind === "version" ? `${one.tool}@${one.version}` : one.id);

async function list(given: Arguments, io: Io): Promise<number> {
  const tenant = await connectTenant(given, io);
  const state = given.values.state as "pending" | undefined;
  // A version that was decided about is no longer listed.
  const versions = state === undefined || state === "pending" ? await take(tenant.approvals(), LIST_LIMIT) : [];
  const calls = await take(tenant.callApprovals({ state }), LIST_LIMIT);
  printItems<Approval | CallApproval>(given, io, [...versions, ...calls], {
    id: idOf,
    kind: (one) => one.kind,
    tool: (one) => `${one.tool}@${one.version}`,
    "arguments or requests": (one) => {
      if (one.kind === "version") return one.requests.added.map((item) => `+ ${item}`).join(", ");
      return one.omitted ? "(large)" : JSON.stringify(one.input);
    },
    because: (one) => (one.kind === "version" ? "requests" : one.because),
    "requested by": (one) => (one.kind === "version" ? one.createdBy : one.requestedBy),
    expires: (one) => (one.kind === "version" ? "" : timeOf(one.expiresAt)),
  });
  return 0;
}

/** Who may approve a version need not be who may release it. */
const RELEASE_HINT = "An approval releases nothing. To release the version, deploy it again, or use the console\n";

/** A version on the command line. */
const VERSION = /^([A-Za-z0-9_.-]{1,128})@([1-9][0-9]{0,8})$/;

async function decideVersion(
  given: Arguments,
  io: Io,
  action: "approve" | "deny",
  { tool, version }: { readonly tool: string; readonly version: number },
): Promise<number> {
  if (given.values.reason !== undefined) throw new UsageError("--reason: only for the approval of a call");
  const tenant = await connectTenant(given, io);
  const decided = action === "approve" ? await tenant.approve(tool, version) : await tenant.deny(tool, version);
  printItems(given, io, [decided], {
    id: (one) => `${one.tool}@${one.version}`,
    state: (one) => one.state,
  });
  if (action === "approve") io.stderr.print(RELEASE_HINT);
  return 0;
}

async function decide(given: Arguments, io: Io, action: "approve" | "deny", id: string): Promise<number> {
  const [, tool, version] = VERSION.exec(id) ?? [];
  if (tool !== undefined) return await decideVersion(given, io, action, { tool, version: Number(version) });
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
  throw new UsageError(
    "approvals: expected list, approve ID or deny ID, where ID is that of a call's approval or TOOL@VERSION",
  );
}
