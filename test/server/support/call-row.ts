// Rows of calls that have ended, for tests and benchmarks that need many of them.
import { createId } from "../../../src/server/ids.ts";
import type { CallRow } from "../../../src/server/records/calls/calls.ts";

/** Returns a call of the tenant acme that was made at a time in ms since 1970, and took a millisecond. */
export function endedRow(at: number, more: Partial<CallRow> = {}): CallRow {
  return {
    id: createId("call", at),
    tenant_id: "acme",
    tool_name: "common",
    tool_version: 1,
    alias: "live",
    mode: "sync",
    state: "succeeded",
    effects: "complete",
    key_id: "k",
    session_id: null,
    idempotency_key: null,
    request_hash: null,
    timeout_ms: null,
    input: "{}",
    output: "1",
    content: 0,
    error: null,
    logs: null,
    usage: null,
    calls: null,
    timeline: null,
    created_at: at,
    started_at: at,
    ended_at: at + 1,
    run_at: null,
    lease_owner: null,
    lease_until: null,
    fence: 0,
    attempts: 1,
    cancel_requested: 0,
    parent_id: null,
    root_id: null,
    approval_id: null,
    ...more,
  };
}
