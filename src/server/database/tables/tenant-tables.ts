// Tables of tenants: keys, settings, secrets, usage, quotas and sessions of the console.

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
