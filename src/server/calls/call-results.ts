// Checks before a call runs, and conversions between its result and its row.
import { setTimeout as sleep } from "node:timers/promises";
import { NO_USAGE } from "../../host/contract/tool-call.ts";
import { ToolError, type ToolResult, toJson, unavailable } from "../../host/index.ts";
import { writeJson } from "../../host/json/write-json.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { type CallRow, findCall, type WholeCall } from "../records/calls/calls.ts";
import { isKeyRevoked } from "../records/tenants/api-keys.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import { type CallRequest, IdempotencyConflict } from "./call-request.ts";
import { inputTextOf, NEVER } from "./input-text.ts";
import { toJsonParts } from "./outcome.ts";

/** Returns the result of a call that failed before it reached the Glovebox. @param onError receives the cause of an internal error */
export function toFailedResult(
  { id, tool_name: toolName }: Pick<CallRow, "id" | "tool_name">,
  thrown: unknown,
  onError: (error: unknown) => void,
): ToolResult {
  const error =
    thrown instanceof ToolError ? thrown : new ToolError("INTERNAL", "The server failed", { cause: thrown });
  if (error.code === "INTERNAL") onError(thrown);
  return {
    callId: id,
    toolName,
    durationMs: 0,
    usage: NO_USAGE,
    logs: [],
    success: false,
    error: error.toData(toolName),
  };
}

/** Times in ms after which a missing record is looked for again. */
const RECHECKS_MS = [30, 60, 120, 300, 600] as const;

/** Returns the record of a call, also of one whose result another replica has just sent: that replica writes the record a moment later. */
export async function findWritten(
  { db, kind }: Pick<OpenDatabase, "db" | "kind">,
  tenantId: string,
  id: string,
): Promise<CallRow | undefined> {
  let row = await findCall(db, tenantId, id);
  for (const ms of kind === "postgres" ? RECHECKS_MS : []) {
    if (row !== undefined) break;
    await sleep(ms);
    row = await findCall(db, tenantId, id);
  }
  return row;
}

/** Returns the error of a call of a tenant that does not exist any more. */
export const tenantDeletedError = (): ToolError => unavailable("tenant_deleted", "The tenant was deleted");

/** Returns the error of a call whose key was revoked while it waited. */
export const keyRevokedError = (): ToolError =>
  unavailable("key_revoked", "The key that requested this call was revoked before the call began");

/**
 * Checks that the key which requested a call was not revoked while the call waited.
 * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "key_revoked"`)
 */
export async function checkKeyNotRevoked(db: Db, { key_id }: CallRow): Promise<void> {
  if (!(await isKeyRevoked(db, key_id))) return;
  throw keyRevokedError();
}

/**
 * Checks a name that did not come through a route, before it reaches the database.
 * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "not_found"`) if no tool can have it
 */
export function checkToolName(toolName: string): void {
  if (TOOL_NAME_PATTERN.test(toolName)) return;
  const shown = toolName.slice(0, 128);
  const message = `There is no tool named ${JSON.stringify(shown)}: a name has ${TOOL_NAME_RULE}`;
  throw unavailable("not_found", message, { details: { toolName: shown } });
}

/** @throws {ToolError} TOOL_UNAVAILABLE for a tenant that may not call now */
export function checkActive({ state }: TenantRecord): void {
  if (state === "active") return;
  const reason = state === "suspended" ? "tenant_suspended" : "tenant_deleted";
  const message = state === "suspended" ? "The tenant is suspended" : "The tenant is being deleted";
  throw unavailable(reason, message);
}

/**
 * Returns the call that has used an idempotency key before. The output of another caller's call is not disclosed, and the call is not made again: a
 * client whose API key was replaced must not call twice.
 * @throws {IdempotencyConflict} if it was another request, or one of another caller, or runs still
 */
export function checkSame(known: CallRow, row: CallRow): CallRow {
  if (known.request_hash !== row.request_hash || known.key_id !== row.key_id) throw new IdempotencyConflict(true);
  const isOpen = known.ended_at === null && known.state !== "waiting_for_approval";
  if (row.mode === "sync" && isOpen) throw new IdempotencyConflict(false);
  return known;
}

/** Outputs with more bytes are serialized over several turns of the event loop. */
const LARGE_OUTPUT_BYTES = 256 * 1024;

/** Returns the output of a call as JSON text, with bytes as base64; null for a failed call. */
export async function writeOutput(result: ToolResult): Promise<string | null> {
  if (!result.success) return null;
  const output = toJson(result.output);
  return result.usage.outputBytes > LARGE_OUTPUT_BYTES ? await writeJson(output, NEVER) : JSON.stringify(output);
}

/**
 * Returns what the caller sees of a call: what the tool returned, although the stored copy is redacted.
 * @param output as JSON text; null for a failed call
 */
export function toShown(
  result: ToolResult,
  request: CallRequest,
  output: string | null,
): Pick<WholeCall, "input" | "output" | "error" | "logs" | "parts"> {
  const parts = toJsonParts(result);
  return {
    parts: parts === undefined ? null : JSON.stringify(parts),
    input: inputTextOf(request.input),
    output,
    error: result.success ? null : JSON.stringify(result.error),
    logs: JSON.stringify(result.logs),
  };
}

/** Returns the result of a call as it is stored: without its secrets, and without long texts. */
export function toToolResult(row: CallRow): ToolResult {
  const common = {
    callId: row.id,
    toolName: row.tool_name,
    durationMs: (row.ended_at ?? 0) - row.created_at,
    usage: NO_USAGE,
    logs: [],
  };
  if (row.error !== null) return { ...common, success: false, error: JSON.parse(row.error) as never };
  return { ...common, success: true, output: JSON.parse(row.output ?? "null") as never };
}
