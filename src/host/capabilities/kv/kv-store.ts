// The interface of the store behind `ctx.kv`. A host may pass its own store; every store must pass the tests of
// test/host/capabilities/kv-store-conformance.ts.

/** Format of the embedded store's file, as `PRAGMA user_version`. A file with a higher one is of a later release, and is not opened. */
export const KV_FILE_FORMAT = 1;

/** Identifies the entries of one tenant for one tool. Spaces are isolated from each other. */
export interface KvSpace {
  readonly tenantId: string;
  /** `tenant/NAME` for a tool of this tenant, `global/NAME` for a tool of all tenants. */
  readonly tool: string;
}

/** A stored value: JSON as text in UTF-8, or bytes. A store treats both as opaque. */
export interface KvValue {
  readonly kind: "json" | "bytes";
  readonly data: Uint8Array;
}

/** A stored value with its key and version. */
export interface KvEntry extends KvValue {
  readonly key: string;
  /** Opaque version of the value. A store never uses a version of a key again, not even after the entry is deleted. */
  readonly version: string;
  /** Time of expiry in ms since 1970. From then on, the store behaves as if the entry did not exist. */
  readonly expiresAt?: number | undefined;
}

/** Limits or usage of a space. The size of an entry is the length of its key in UTF-8 plus the length of its data. */
export interface KvQuota {
  /** Number of entries. */
  readonly keys: number;
  /** Total size of the entries. */
  readonly bytes: number;
}

/** A value to store, with the conditions for it. */
export interface KvWrite extends KvValue {
  /** Time of expiry in ms since 1970. */
  readonly expiresAt?: number | undefined;
  /** Stores the value only if the entry has this version; null stores it only if there is no entry. */
  readonly ifVersion?: string | null | undefined;
  /** Limits of the space. */
  readonly quota: KvQuota;
}

/** Result of `set`. */
export type KvSetOutcome =
  | { readonly status: "stored"; readonly version: string }
  /** The condition `ifVersion` failed. `version` is the current version; null if there is no entry. */
  | { readonly status: "conflict"; readonly version: string | null }
  /**
   * The entry would exceed a limit of the quota. `needed` is the usage with the entry. A write that does not increase the usage succeeds in
   * a full space too.
   */
  | { readonly status: "full"; readonly exceeded: keyof KvQuota; readonly needed: number };

/** Result of `delete`. */
export interface KvDeleteOutcome {
  readonly status: "deleted" | "missing" | "conflict";
}

/** Options of `list`. */
export interface KvListOptions {
  /** Lists only keys with this prefix; an empty prefix lists all keys. */
  readonly prefix: string;
  /** Lists only keys that sort after this one. */
  readonly after?: string | undefined;
  /** Largest number of entries of the page. */
  readonly limit: number;
  /** Largest size of the page, keys and data. A page has at least one entry, even if that entry is larger. */
  readonly bytes: number;
}

/** Result of `list`. */
export interface KvPage {
  /** Sorted by the code points of their keys, which is also the order of their bytes in UTF-8. */
  readonly entries: readonly KvEntry[];
  /** Whether there are more entries after this page. */
  readonly more: boolean;
}

/** An entry of a tenant, with the tool that stored it. */
export interface KvTenantEntry extends KvEntry {
  /** `tenant/NAME` or `global/NAME`, as in {@link KvSpace}. */
  readonly tool: string;
}

/** Number of keys and bytes that `deleteTenant` has removed, counted as in {@link KvQuota}. */
export type KvDeletion = KvQuota;

/**
 * A key-value store. Each operation is atomic, and durable once it has resolved, as far as the store guarantees durability. An operation that
 * rejects must not have stored anything. An operation fails if it throws, rejects, resolves to a value of another type, or does not settle
 * before the call ends: the tool receives TOOL_FAILED, and the operator receives the reason.
 */
export interface KvStore {
  /** Returns an entry; undefined if there is none or it has expired. */
  get(space: KvSpace, key: string): Promise<KvEntry | undefined>;
  /** Writes an entry if it has the version that the write expects. */
  set(space: KvSpace, key: string, write: KvWrite): Promise<KvSetOutcome>;
  /** Deletes an entry if it has this version. Without `ifVersion`, in any case. */
  delete(space: KvSpace, key: string, ifVersion?: string): Promise<KvDeleteOutcome>;
  /** Returns a page of entries in the order of their keys. */
  list(space: KvSpace, options: KvListOptions): Promise<KvPage>;
  /** Returns the usage of the space, which may include expired entries. */
  usage(space: KvSpace): Promise<KvQuota>;
  /**
   * Removes all entries of a tenant, in all of its spaces, and returns their number and size. Once it has resolved, the store's files must
   * not contain any key, value or id of the tenant, also not of entries that were overwritten, deleted or expired before. A second call
   * removes nothing. Without this method, `deleteTenant()` of a Glovebox fails before it removes anything.
   */
  deleteTenant?(tenantId: string): Promise<KvDeletion>;
  /**
   * Yields all entries of a tenant in any order, without expired ones. It must read lazily, so that a consumer that stops early leaves no
   * work behind. Entries that are written in the meantime may be missing. Without this method, `exportTenant()` fails.
   */
  entries?(tenantId: string): AsyncIterable<KvTenantEntry>;
  /** Called when the Glovebox is closed, if the Glovebox created the store itself. */
  [Symbol.asyncDispose]?(): Promise<void>;
}

/** Returns the size of an entry as {@link KvQuota} counts it. */
export const entryBytes = (key: string, data: Uint8Array): number => Buffer.byteLength(key) + data.byteLength;

/** Returns the first limit that a write would exceed; undefined if it exceeds none, or does not increase the usage. */
export function exceededQuota(
  before: KvQuota,
  after: KvQuota,
  quota: KvQuota,
): { readonly exceeded: keyof KvQuota; readonly needed: number } | undefined {
  for (const exceeded of ["keys", "bytes"] as const) {
    if (after[exceeded] > quota[exceeded] && after[exceeded] > before[exceeded]) {
      return { exceeded, needed: after[exceeded] };
    }
  }
  return undefined;
}
