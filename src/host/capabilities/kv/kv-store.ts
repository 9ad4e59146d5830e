// What a store behind `ctx.kv` is: a host may hand in its own. test/host/capabilities/kv-store-conformance.ts holds for each.

/** Whose entries: nothing that is done in one space is seen in another. */
export interface KvSpace {
  readonly tenantId: string;
  /** `tenant/NAME` for a tool of the tenant's own, `global/NAME` for one that is everybody's. */
  readonly tool: string;
}

/** What is kept under a key: JSON as text in UTF-8, or bytes. A store looks into neither. */
export interface KvValue {
  readonly kind: "json" | "bytes";
  readonly data: Uint8Array;
}

export interface KvEntry extends KvValue {
  readonly key: string;
  /** Of this value of this key: no later one has the same, not after a deletion either. To be compared, and nothing else. */
  readonly version: string;
  /** Milliseconds since 1970; from then on there is no such entry. */
  readonly expiresAt?: number | undefined;
}

/** What a space may hold. An entry counts as the bytes of its key in UTF-8 and of its data. */
export interface KvQuota {
  readonly keys: number;
  readonly bytes: number;
}

export interface KvWrite extends KvValue {
  readonly expiresAt?: number | undefined;
  /** Only if the key has this version; null: only if there is no entry. */
  readonly ifVersion?: string | null | undefined;
  readonly quota: KvQuota;
}

export type KvSetOutcome =
  | { readonly status: "stored"; readonly version: string }
  /** `version`: the one that it has; null where there is no entry. */
  | { readonly status: "conflict"; readonly version: string | null }
  /** What there would have been of it. An entry that does not grow is stored in a full space too. */
  | { readonly status: "full"; readonly exceeded: keyof KvQuota; readonly needed: number };

export interface KvDeleteOutcome {
  readonly status: "deleted" | "missing" | "conflict";
}

export interface KvListOptions {
  /** Keys that begin with it; all where it is empty. */
  readonly prefix: string;
  /** Keys that come after it only. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** A page ends before the entry with which its keys and data would pass this, but has one entry at least. */
  readonly bytes: number;
}

export interface KvPage {
  /** Ordered by the code points of their keys, which is the order of their UTF-8. */
  readonly entries: readonly KvEntry[];
  /** Whether there are further ones. */
  readonly more: boolean;
}

/** An entry of a tenant, and which tool keeps it. */
export interface KvTenantEntry extends KvEntry {
  /** As in {@link KvSpace}: `tenant/NAME` or `global/NAME`. */
  readonly tool: string;
}

/** What a store has removed of a tenant: keys and values, counted as {@link KvQuota} counts them. */
export type KvDeletion = KvQuota;

/**
 * Each operation is atomic, and durable when it has resolved, as far as the store promises that. One that rejects has stored nothing. An
 * operation that throws, rejects, resolves to another form than its type, or does not settle before the call ends fails: the tool gets
 * TOOL_FAILED, the operator the reason.
 */
export interface KvStore {
  get(space: KvSpace, key: string): Promise<KvEntry | undefined>;
  set(space: KvSpace, key: string, write: KvWrite): Promise<KvSetOutcome>;
  delete(space: KvSpace, key: string, ifVersion?: string): Promise<KvDeleteOutcome>;
  list(space: KvSpace, options: KvListOptions): Promise<KvPage>;
  /** What the space holds; entries that have expired may still count. */
  usage(space: KvSpace): Promise<KvQuota>;
  /**
   * Removes all entries of a tenant, in all of its spaces, and returns how much that was. When it has resolved, no key, value or tenant id of
   * it is left in what the store writes, also of entries that were overwritten, deleted or expired before. A second time it removes nothing.
   * Without this method, `deleteTenant()` of a Glovebox fails before it removes anything.
   */
  deleteTenant?(tenantId: string): Promise<KvDeletion>;
  /**
   * Gives all entries of a tenant, in any order, without those that have expired. It reads as it is asked, so that a consumer that stops
   * early leaves nothing behind; entries that are written meanwhile may be missing. Without this method, `exportTenant()` fails.
   */
  entries?(tenantId: string): AsyncIterable<KvTenantEntry>;
  /** Called when the box is closed, of a store that it has made itself. */
  [Symbol.asyncDispose]?(): Promise<void>;
}

/** What an entry counts as. */
export const entryBytes = (key: string, data: Uint8Array): number => Buffer.byteLength(key) + data.byteLength;

/** Of the bounds of a space the first that would be passed; what shrinks or stays is always let in. */
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
