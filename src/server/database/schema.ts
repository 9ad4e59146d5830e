// The tables of the server's database, as kysely reads and writes them. JSON is stored as text and times as ms since 1970, so that SQLite and
// Postgres have one schema.
import type { Generated } from "kysely";

export interface TenantsTable {
  id: string;
  name: string;
  state: "active" | "suspended" | "deleting";
  /** JSON of a {@link TenantPolicy}. */
  policy: string;
  /** Counts the changes of the tenant, its tools and its releases, so that every server process notices them. */
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface ApiKeysTable {
  id: string;
  /** Null for a key of the platform. */
  tenant_id: string | null;
  name: string;
  /** SHA-256 of the key, in hexadecimal. */
  hash: string;
  /** The first characters of the key, to recognize it. */
  prefix: string;
  /** JSON array of scopes. */
  scopes: string;
  /** JSON of a {@link KeyRateLimit}, or null. */
  rate_limit: string | null;
  /** JSON of {@link KeyCallLimits}, or null. */
  limits: string | null;
  created_at: number;
  expires_at: number | null;
  last_used_at: number | null;
  revoked_at: number | null;
}

export interface ToolVersionsTable {
  tenant_id: string;
  tool_name: string;
  /** 1, 2, 3 … for each tool. */
  version: number;
  /** SHA-256 of what was uploaded and of its settings, in hexadecimal. */
  content_hash: string;
  state: "ready" | "waiting_for_approval" | "denied";
  language: "javascript" | "python";
  /** SHA-256 of the bundle. */
  bundle_hash: string;
  /** JSON of the definition. */
  definition: string;
  /** JSON of a {@link VersionSettings}. */
  settings: string;
  /** Key that uploaded it. */
  created_by: string;
  created_at: number;
  /** Key that approved or denied it. */
  decided_by: string | null;
  decided_at: number | null;
}

export interface BlobsTable {
  tenant_id: string;
  /** SHA-256 of the bytes, in hexadecimal. */
  hash: string;
  bytes: Uint8Array;
  size: number;
}

/** The code of a version. */
export interface VersionFilesTable {
  tenant_id: string;
  tool_name: string;
  version: number;
  /** `source`: the uploaded files as JSON. `bundle`: the bundle as JSON. */
  kind: "source" | "bundle";
  blob_hash: string;
}

export interface ReleasesTable {
  tenant_id: string;
  tool_name: string;
  alias: string;
  /** JSON array of `{ version, weight }`. */
  versions: string;
  /** JSON of a {@link RollbackPolicy}, or null. */
  rollback: string | null;
  /** Counts the changes of this release, from 1. */
  revision: number;
  changed_by: string;
  updated_at: number;
}

export interface ReleaseHistoryTable {
  tenant_id: string;
  tool_name: string;
  alias: string;
  revision: number;
  versions: string;
  reason: "set" | "rollback" | "automatic_rollback";
  changed_by: string;
  created_at: number;
}

export type StoredCallState = "waiting_for_approval" | "queued" | "running" | "succeeded" | "failed" | "cancelled";

export interface CallsTable {
  id: string;
  tenant_id: string;
  tool_name: string;
  /** Null until a version is chosen. */
  tool_version: number | null;
  alias: string;
  /** `nested`: another call made it. */
  /** `run`: a durable run that has ended. */
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
  /** Which of input (1), output (2) and timeline (4) are in `call_contents`, or were too long to keep; whether it has a recording (8), and content parts (16). */
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

export interface AuditTable {
  sequence: number;
  at: number;
  /** `key:ID`, or `server`. */
  actor: string;
  tenant_id: string | null;
  action: string;
  target: string;
  ip: string | null;
  request_id: string | null;
  /** JSON of the details. */
  details: string;
  previous_hash: string;
  hash: string;
  /** What `hash` covers: 1: all columns above. 2: `content_hash` instead of actor, target, ip, request_id and details. */
  hash_version: number;
  /** Random, part of `content_hash`. Null for version 1, and once the entry is erased. */
  salt: string | null;
  /** Null for version 1. */
  content_hash: string | null;
  /** The entry that records the erasure of this one; null if it was not erased. */
  erased_by: number | null;
}

/** Large inputs, outputs and timelines of calls. */
export interface CallContentsTable {
  call_id: string;
  tenant_id: string;
  kind: "input" | "output" | "timeline" | "recording" | "parts";
  text: string;
}

/** Values of the database as a whole. */
export interface SettingsTable {
  /** `queue_id`: part of the name of the work queue in NATS. */
  name: "master_key_id" | "queue_id";
  value: string;
}

export interface SecretsTable {
  tenant_id: string;
  name: string;
  /** The value, encrypted under the master key. */
  sealed: Uint8Array;
  /** JSON array of the hosts that may receive the value. */
  hosts: string;
  changed_by: string;
  created_at: number;
  updated_at: number;
}

/** Usage of a tenant's calls of one tool in one hour, by outcome. */
export interface UsageTable {
  tenant_id: string;
  tool_name: string;
  /** Start of the hour in ms since 1970. */
  hour: number;
  /** `ok`, or the code of the error. */
  outcome: string;
  calls: number;
  cpu_ms: number;
  wall_ms: number;
  input_bytes: number;
  output_bytes: number;
  egress_bytes_in: number;
  egress_bytes_out: number;
}

/** Counters of rate limits and quotas. */
export interface QuotaCountersTable {
  tenant_id: string;
  name: string;
  /** For a window: the amount charged. For a bucket: the time when it is full again, in ms since 1970. */
  value: number;
  /** Time in ms since 1970 when the counter can be removed. */
  ends_at: number;
  /** 1 once the warning at 80 % of the limit was sent. */
  is_warned: number;
}

export interface SchedulesTable {
  id: string;
  tenant_id: string;
  name: string;
  tool_name: string;
  alias: string;
  /** JSON of the input. */
  input: string;
  cron: string;
  time_zone: string;
  overlap: "skip" | "queue";
  catch_up: "none" | "latest" | "all";
  state: "active" | "paused";
  created_by: string;
  /** Time of the next run; null if there is none. */
  next_at: number | null;
  last_at: number | null;
  last_call_id: string | null;
  /** Runs that were skipped because the one before had not ended. */
  skipped: number;
  created_at: number;
  updated_at: number;
}

export interface WebhooksTable {
  id: string;
  tenant_id: string;
  url: string;
  /** JSON array of event types. */
  events: string;
  /** The signing secret, encrypted under the master key. */
  sealed_secret: Uint8Array;
  state: "active" | "disabled";
  created_by: string;
  created_at: number;
  updated_at: number;
}

export type DeliveryState = "waiting" | "sending" | "delivered" | "failed";

export interface DeliveriesTable {
  id: string;
  tenant_id: string;
  webhook_id: string;
  event: string;
  /** JSON of the body. */
  body: string;
  state: DeliveryState;
  attempts: number;
  /** Earliest time of the next attempt. */
  run_at: number;
  lease_until: number | null;
  fence: number;
  /** Status of the latest response; null if there was none. */
  status: number | null;
  error: string | null;
  created_at: number;
  ended_at: number | null;
}

export interface TriggersTable {
  id: string;
  tenant_id: string;
  name: string;
  tool_name: string;
  alias: string;
  /** How a request proves that it is genuine. */
  verification: "standard_webhooks" | "github";
  sealed_secret: Uint8Array;
  state: "active" | "paused";
  created_by: string;
  created_at: number;
  updated_at: number;
}

/** Totals of the values of one tool of one tenant. */
export interface KvSpacesTable {
  tenant_id: string;
  /** `tenant/NAME`. */
  tool: string;
  keys: number;
  bytes: number;
}

/** Values of tools. */
export interface KvEntriesTable {
  tenant_id: string;
  tool: string;
  /** The key in UTF-8, because Postgres stores no NUL in text. */
  key: Uint8Array;
  kind: "json" | "bytes";
  data: Uint8Array;
  version: string;
  expires_at: number | null;
  size: number;
}

/** Sessions of the console. */
export interface ConsoleSessionsTable {
  id: string;
  /** Tenant of the key; null for a key of the platform. */
  tenant_id: string | null;
  key_id: string;
  /** SHA-256 of the token in the cookie, in hexadecimal. */
  hash: string;
  ip: string | null;
  user_agent: string;
  /** JSON array of scopes, for a user of an identity provider; null for a key, whose scopes count. */
  scopes: string | null;
  created_at: number;
  expires_at: number;
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

/** The server processes that share a Postgres. Times are the database's. */
export interface ReplicasTable {
  id: string;
  /** Version of Glovebox. */
  version: string;
  started_at: number;
  /** When it was last alive. */
  seen_at: number;
  /** Where other replicas reach it: `http://10.0.0.7:7070`. Null if they cannot. */
  url: Generated<string | null>;
}

/** Messages between server processes, for about a minute. */
export interface ReplicaMessagesTable {
  id: Generated<number>;
  /** Id of the replica that sent it. */
  sender: string;
  /** JSON of a {@link ReplicaMessage}. */
  body: string;
  created_at: number;
}

/** Log lines of calls that run, while someone watches them at another replica. */
export interface LiveLogsTable {
  call_id: string;
  /** Random, for each time that the call begins. */
  attempt: string;
  /** 0, 1, 2 … for the lines of an attempt. */
  position: number;
  tenant_id: string;
  /** JSON of the line, without the secrets in it. */
  text: string;
  created_at: number;
}

/** Which releases work with the schema after a migration. */
export interface MigrationRulesTable {
  /** Name of the migration. */
  name: string;
  /** Number of the last migration of the oldest release that works with it. */
  works_with: number;
}

/** Which replica has the isolate of a session of a tool. */
export interface SessionHomesTable {
  tenant_id: string;
  tool_name: string;
  session_id: string;
  replica_id: string;
  /** When the session has ended without a call, at the latest. */
  expires_at: number;
}

/** How many calls of a key a replica may run at the same time. */
export interface KeySlotsTable {
  key_id: string;
  replica_id: string;
  held: number;
  expires_at: number;
}

/** How many calls of a tenant a replica may run at the same time. */
export interface ConcurrencySlotsTable {
  tenant_id: string;
  replica_id: string;
  held: number;
  expires_at: number;
}

/** How many calls of a version have ended and failed under a revision of a release that can be rolled back automatically. */
export interface ReleaseCountsTable {
  tenant_id: string;
  tool_name: string;
  alias: string;
  revision: number;
  version: number;
  calls: number;
  faults: number;
}

/** A sign-in at the identity provider that has opened a session. */
export interface UsedSignInsTable {
  /** SHA-256 hash of its state. */
  hash: string;
  /** Ms since 1970, from which the sign-in is too old to be accepted. */
  expires_at: number;
}

/** How many bytes a tenant has stored: the sum of its rows. Triggers of the database write them. */
export interface StoredBytesTable {
  tenant_id: string;
  /** 0, or with Postgres the process of the connection that has counted, so that no transaction waits for another one. */
  part: number;
  /** Can be negative, as what one connection has stored is removed by another one. */
  bytes: number;
}

export interface DatabaseSchema {
  stored_bytes: StoredBytesTable;
  release_counts: ReleaseCountsTable;
  concurrency_slots: ConcurrencySlotsTable;
  key_slots: KeySlotsTable;
  session_homes: SessionHomesTable;
  migration_rules: MigrationRulesTable;
  live_logs: LiveLogsTable;
  replicas: ReplicasTable;
  replica_messages: ReplicaMessagesTable;
  runs: RunsTable;
  run_entries: RunEntriesTable;
  run_requests: RunRequestsTable;
  console_sessions: ConsoleSessionsTable;
  used_sign_ins: UsedSignInsTable;
  call_contents: CallContentsTable;
  settings: SettingsTable;
  secrets: SecretsTable;
  usage: UsageTable;
  quota_counters: QuotaCountersTable;
  schedules: SchedulesTable;
  webhooks: WebhooksTable;
  deliveries: DeliveriesTable;
  triggers: TriggersTable;
  kv_spaces: KvSpacesTable;
  kv_entries: KvEntriesTable;
  tenants: TenantsTable;
  api_keys: ApiKeysTable;
  tool_versions: ToolVersionsTable;
  blobs: BlobsTable;
  version_files: VersionFilesTable;
  releases: ReleasesTable;
  release_history: ReleaseHistoryTable;
  calls: CallsTable;
  approvals: ApprovalsTable;
  audit: AuditTable;
}
