// A KvStore in memory, for tests, and for hosts that need no values to outlive the process.
import {
  entryBytes,
  exceededQuota,
  type KvDeleteOutcome,
  type KvDeletion,
  type KvEntry,
  type KvListOptions,
  type KvPage,
  type KvQuota,
  type KvSetOutcome,
  type KvSpace,
  type KvStore,
  type KvTenantEntry,
  type KvWrite,
} from "./kv-store.ts";

const isExpired = ({ expiresAt }: KvEntry): boolean => expiresAt !== undefined && expiresAt <= Date.now();

/** The entries of one tenant for one tool. */
class Space {
  readonly #entries = new Map<string, KvEntry>();
  /** Keys in UTF-8, sorted. */
  readonly #order: Buffer[] = [];
  #bytes = 0;
  #lastVersion = 0;

  get usage(): KvQuota {
    return { keys: this.#entries.size, bytes: this.#bytes };
  }

  get(key: string): KvEntry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || !isExpired(entry)) return entry;
    this.#remove(entry);
    return undefined;
  }

  set(key: string, { kind, data, expiresAt, ifVersion, quota }: KvWrite): KvSetOutcome {
    const known = this.get(key);
    const current = known?.version ?? null;
    if (ifVersion !== undefined && ifVersion !== current) return { status: "conflict", version: current };
    const excess = this.#excess(key, data, known, quota);
    if (excess !== undefined) return { status: "full", ...excess };
    if (known !== undefined) this.#bytes -= entryBytes(key, known.data);
    else this.#order.splice(this.#indexOf(Buffer.from(key)), 0, Buffer.from(key));
    this.#bytes += entryBytes(key, data);
    this.#lastVersion += 1;
    const version = String(this.#lastVersion);
    // Copies the data: Buffer.slice would return a view.
    const entry = {
      key,
      kind,
      data: Uint8Array.from(data),
      version,
      ...(expiresAt === undefined ? {} : { expiresAt }),
    };
    this.#entries.set(key, entry);
    return { status: "stored", version };
  }

  delete(key: string, ifVersion: string | undefined): KvDeleteOutcome {
    const known = this.get(key);
    if (known === undefined) return { status: "missing" };
    if (ifVersion !== undefined && ifVersion !== known.version) return { status: "conflict" };
    this.#remove(known);
    return { status: "deleted" };
  }

  list({ prefix, after, limit, bytes }: KvListOptions): KvPage {
    const entries: KvEntry[] = [];
    let left = bytes;
    const begin = this.#indexOf(Buffer.from(prefix));
    const next = after === undefined ? 0 : this.#indexAfter(Buffer.from(after));
    for (let index = Math.max(begin, next); index < this.#order.length; index += 1) {
      const key = (this.#order[index] as Buffer).toString();
      if (!key.startsWith(prefix)) break;
      const entry = this.#entries.get(key);
      if (entry === undefined || isExpired(entry)) continue;
      left -= entryBytes(key, entry.data);
      if (entries.length === limit || (left < 0 && entries.length > 0)) return { entries, more: true };
      entries.push(entry);
    }
    return { entries, more: false };
  }

  /** Returns how the entry would exceed the quota, after removing expired entries if that is necessary. */
  #excess(key: string, data: Uint8Array, known: KvEntry | undefined, quota: KvQuota) {
    const needed = (): KvQuota => ({
      keys: this.#entries.size + (known === undefined ? 1 : 0),
      bytes: this.#bytes + entryBytes(key, data) - (known === undefined ? 0 : entryBytes(key, known.data)),
    });
    if (exceededQuota(this.usage, needed(), quota) === undefined) return undefined;
    for (const entry of [...this.#entries.values()]) if (isExpired(entry)) this.#remove(entry);
    return exceededQuota(this.usage, needed(), quota);
  }

  #remove({ key, data }: KvEntry): void {
    this.#entries.delete(key);
    this.#order.splice(this.#indexOf(Buffer.from(key)), 1);
    this.#bytes -= entryBytes(key, data);
  }

  /** Returns the index of the first key that does not sort before `key`. */
  #indexOf(key: Buffer): number {
    let low = 0;
    for (let high = this.#order.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if (Buffer.compare(this.#order[middle] as Buffer, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #indexAfter(key: Buffer): number {
    const index = this.#indexOf(key);
    return this.#order[index]?.equals(key) ? index + 1 : index;
  }
}

/** Size of one page of an export. */
const EXPORT_PAGE = { prefix: "", limit: 100, bytes: 1024 * 1024 } as const;

export class MemoryKvStore implements KvStore {
  /** Spaces by tenant and tool. */
  readonly #tenants = new Map<string, Map<string, Space>>();

  #of({ tenantId, tool }: KvSpace): Space {
    const spaces = this.#tenants.get(tenantId) ?? new Map<string, Space>();
    this.#tenants.set(tenantId, spaces);
    const space = spaces.get(tool) ?? new Space();
    spaces.set(tool, space);
    return space;
  }

  async get(space: KvSpace, key: string): Promise<KvEntry | undefined> {
    return this.#of(space).get(key);
  }

  async set(space: KvSpace, key: string, write: KvWrite): Promise<KvSetOutcome> {
    return this.#of(space).set(key, write);
  }

  async delete(space: KvSpace, key: string, ifVersion?: string): Promise<KvDeleteOutcome> {
    return this.#of(space).delete(key, ifVersion);
  }

  async list(space: KvSpace, options: KvListOptions): Promise<KvPage> {
    return this.#of(space).list(options);
  }

  async usage(space: KvSpace): Promise<KvQuota> {
    return this.#of(space).usage;
  }

  async deleteTenant(tenantId: string): Promise<KvDeletion> {
    const spaces = [...(this.#tenants.get(tenantId)?.values() ?? [])];
    this.#tenants.delete(tenantId);
    return spaces.reduce<KvDeletion>(
      (sum, { usage }) => ({ keys: sum.keys + usage.keys, bytes: sum.bytes + usage.bytes }),
      { keys: 0, bytes: 0 },
    );
  }

  async *entries(tenantId: string): AsyncGenerator<KvTenantEntry, void> {
    for (const [tool, space] of this.#tenants.get(tenantId) ?? []) {
      for (let after: string | undefined, more = true; more; ) {
        const page = space.list({ ...EXPORT_PAGE, after });
        for (const entry of page.entries) yield { ...entry, tool };
        more = page.more;
        after = page.entries.at(-1)?.key;
      }
    }
  }
}
