// Tables of calls: their records and contents, approvals, and durable runs.

export type StoredCallState = "waiting_for_approval" | "queued" | "running" | "succeeded" | "failed" | "cancelled";

export interface CallsTable {
  id: string;
  tenant_id: string;
  tool_name: string;
  /** Null until a version is chosen. */
  tool_version: number | null;
  alias: string;
  /** `nested`: another call made it. `run`: a durable run that has ended. */
  mode: "sync" | "async" | "stream" | "nested" | "run";
  state: StoredCallState;
  effects: "none" | "possible" | "complete";
  key_id: string;
  session_id: string | null;
  idempotency_key: string | null;
  /** SHA-256 of the request that used the idempotency key. */
  request_hash: string | null;
  timeout_ms: number | null;
  /** JSON of the input; redacted once the call has ended. Null if it is not kept. */
  input: string | null;
  output: string | null;
  /** JSON of the timeline and of the nested calls with theirs. */
  timeline: string | null;
  /**
   * Which of input (1), output (2) and timeline (4) are in `call_contents`, or were too long to keep; whether it has a
   * recording (8), and content parts (16).
   */
  content: number;
  error: string | null;
  logs: string | null;
  usage: string | null;
  /** JSON of the nested calls. */
  calls: string | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  /** Earliest time at which a queued call runs. */
  run_at: number | null;
  lease_owner: string | null;
  lease_until: number | null;
  /** Counts the claims. A result is stored only with the number of the latest claim. */
  fence: number;
  attempts: number;
  cancel_requested: number;
  /** The call that made this one; null for a call of a client. */
  parent_id: string | null;
  /** The call of a client that this one belongs to; null for that call itself. */
  root_id: string | null;
  /** The approval that the call waits or has waited for. */
  approval_id: string | null;
}

export type ApprovalState = "pending" | "approved" | "denied" | "expired" | "cancelled";

/** Approvals of single calls. The input is in the row of the call. */
export interface ApprovalsTable {
  id: string;
  tenant_id: string;
  call_id: string;
  state: ApprovalState;
  /** What requires the approval: the tool's own annotation, or the tenant's policy. */
  because: "destructive" | "policy";
  origin: "api" | "mcp" | "nested" | "schedule" | "trigger";
  tool_name: string;
  /** The approval is valid for this version and digest of the tool. */
  tool_version: number;
  tool_digest: string;
  /** SHA-256 of the JSON text of the input, in hexadecimal. */
  input_sha256: string;
  /** Key of the caller, or the schedule or trigger. */
  requested_by: string;
  created_at: number;
  expires_at: number;
  decided_by: string | null;
  decided_at: number | null;
  reason: string | null;
  /** When the caller received the result, for a call over MCP. */
  delivered_at: number | null;
}

/** Large inputs, outputs and timelines of calls. */
export interface CallContentsTable {
  call_id: string;
  tenant_id: string;
  kind: "input" | "output" | "timeline" | "recording" | "parts";
  text: string;
}

/** Durable runs. */
export interface RunsTable {
  tenant_id: string;
  id: string;
  /** `code`: code of a model, run by the tool `run_code` of the tenant's code mode. */
  kind: "tool" | "code";
  tool_name: string;
  tool_version: string | null;
  /** JSON of the arguments. */
  input: string;
  state: "running" | "suspended" | "succeeded" | "failed" | "cancelled";
  /** Counts the claims. What an earlier claim writes is rejected. */
  fence: number;
  lease_until: number;
  wake_at: number | null;
  /** JSON array of what the run waits for. */
  waits: string;
  /** JSON of the result. */
  result: string | null;
  created_at: number;
  expires_at: number;
  journal_length: number;
  entries: number;
  ended_at: number | null;
}

/** Who has started a run. A row is stored before its run. */
export interface RunRequestsTable {
  tenant_id: string;
  run_id: string;
  key_id: string;
  idempotency_key: string | null;
  /** SHA-256 of the request, in hexadecimal. */
  request_hash: string;
  /** 1 for a run that is to be cancelled as soon as it waits. */
  cancel_requested: number;
  created_at: number;
}

/** The journals of durable runs. */
export interface RunEntriesTable {
  tenant_id: string;
  run_id: string;
  position: number;
  /** JSON of the entry. */
  text: string;
  created_at: number | null;
}
