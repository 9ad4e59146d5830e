// Tables of tools: versions with their files, releases, and the values that tools keep.

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
