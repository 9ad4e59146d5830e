// The tables of the server's database, as kysely reads and writes them. JSON is stored as text and times as ms since 1970, so that SQLite and
// Postgres have one schema.

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

export type CallState = "queued" | "running" | "succeeded" | "failed" | "cancelled";

export interface CallsTable {
  id: string;
  tenant_id: string;
  tool_name: string;
  /** Null until a version is chosen. */
  tool_version: number | null;
  alias: string;
  mode: "sync" | "async" | "stream";
  state: CallState;
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
}

export interface Schema {
  tenants: TenantsTable;
  api_keys: ApiKeysTable;
  tool_versions: ToolVersionsTable;
  blobs: BlobsTable;
  version_files: VersionFilesTable;
  releases: ReleasesTable;
  release_history: ReleaseHistoryTable;
  calls: CallsTable;
  audit: AuditTable;
}
