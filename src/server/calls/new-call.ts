// Creates the rows of new calls, and the context in which the library runs them.
import { createHash } from "node:crypto";
import type { CallContext, CallInfo, NestedCallStart } from "../../host/index.ts";
import { createId, parentOf, rootOf } from "../ids.ts";
import type { CallRow } from "../records/calls/calls.ts";
import { LIVE } from "../tools/tenant-tools.ts";
import type { CallRequest } from "./call-request.ts";
import { inputTextOf } from "./input-text.ts";

function requestHash(request: CallRequest): string {
  const { toolName, input, version, alias, sessionId, timeoutMs } = request;
  const others = [version, alias, sessionId, timeoutMs].map((value) => JSON.stringify(value ?? null));
  const inputText = input === undefined || input === null ? "null" : inputTextOf(input);
  return createHash("sha256")
    .update(`[${[JSON.stringify(toolName), inputText, ...others].join(",")}]`)
    .digest("hex");
}

const NEW_CALL_COLUMNS = {
  input: null,
  output: null,
  content: 0,
  error: null,
  logs: null,
  usage: null,
  calls: null,
  timeline: null,
  ended_at: null,
  run_at: null,
  lease_owner: null,
  lease_until: null,
  fence: 0,
  attempts: 1,
  cancel_requested: 0,
  approval_id: null,
} as const;

/** Returns the row of a call that runs now. @param now ms since 1970, by the clock of the database */
export function toNewRow(
  request: CallRequest,
  { tenantId, keyId, now }: { readonly tenantId: string; readonly keyId: string; readonly now: number },
  mode: CallRow["mode"],
): CallRow {
  const { idempotencyKey } = request;
  return {
    ...NEW_CALL_COLUMNS,
    id: createId("call", now),
    tenant_id: tenantId,
    tool_name: request.toolName,
    mode,
    tool_version: request.version ?? null,
    alias: request.alias ?? LIVE,
    key_id: keyId,
    state: "running",
    effects: "possible",
    session_id: request.sessionId ?? null,
    idempotency_key: idempotencyKey ?? null,
    request_hash: idempotencyKey === undefined ? null : requestHash(request),
    timeout_ms: request.timeoutMs ?? null,
    created_at: now,
    started_at: now,
    parent_id: null,
    root_id: null,
  };
}

/** Returns the row of a call that another call makes. */
export function toNestedRow(
  { callId, toolName, parentCallId, startedAt }: NestedCallStart,
  { tenantId, keyId }: { readonly tenantId: string; readonly keyId: string },
): CallRow {
  return {
    ...NEW_CALL_COLUMNS,
    id: callId,
    tenant_id: tenantId,
    tool_name: toolName,
    mode: "nested",
    tool_version: null,
    alias: LIVE,
    key_id: keyId,
    state: "running",
    effects: "possible",
    session_id: null,
    idempotency_key: null,
    request_hash: null,
    timeout_ms: null,
    created_at: startedAt,
    started_at: startedAt,
    parent_id: parentCallId,
    root_id: rootOf(callId),
  };
}

/** Returns the row that a call will have which runs in this process and has none yet. */
export function runningRow({ callId, toolName, startedAt }: CallInfo, tenantId: string): CallRow {
  const parentId = parentOf(callId);
  const start = { callId, toolName, startedAt, parentCallId: parentId ?? "", arguments: undefined };
  const row = toNestedRow(start, { tenantId, keyId: "" });
  return parentId === undefined ? { ...row, parent_id: null, root_id: null } : row;
}

export const toContext = (
  { sessionId, timeoutMs }: Pick<CallRequest, "sessionId" | "timeoutMs">,
  tenantId: string,
): CallContext & { readonly tenantId: string } => ({
  tenantId,
  timeline: true,
  logSourceLocations: true,
  ...(sessionId === undefined ? {} : { sessionId }),
  ...(timeoutMs === undefined ? {} : { timeoutMs }),
});
