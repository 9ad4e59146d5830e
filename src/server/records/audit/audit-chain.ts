// The hash chain of the audit log. Each hash covers the entry before it and, through a salted hash, the texts of its own entry. So the texts of a
// deleted tenant and their salts can be removed, and the chain is still verified.
import { createHash, type Hash, randomBytes } from "node:crypto";
import type { Db } from "../../database/open-database.ts";
import type { AuditTable } from "../../database/tables/tenant-tables.ts";

/** Action of the entry of a deleted tenant. What follows it in the log belongs to a later tenant with the same id. */
export const TENANT_DELETED = "tenant.deleted";
/** Action of the entry that erases what an earlier release has kept of a deleted tenant. */
export const AUDIT_ERASED = "audit.erased";

const FIRST_HASH = "0".repeat(64);
const SALT_BYTES = 32;
/** 1: the hash covers all columns. 2: it covers `content_hash` instead of the texts. */
const HASH_VERSION = 2;
const PAGE = 1_000;

/** The columns of an entry that can hold text of a tenant, as they are after an erasure. */
export const ERASED_TEXTS = { actor: "", target: "", ip: null, request_id: null, details: "{}" } as const;

type Texts = Pick<AuditTable, keyof typeof ERASED_TEXTS>;
type Facts = Pick<AuditTable, "sequence" | "at" | "tenant_id" | "action" | "previous_hash">;

const sha256 = (values: readonly unknown[]): string =>
  createHash("sha256").update(JSON.stringify(values)).digest("hex");

const contentHashOf = (salt: string | null, { actor, target, ip, request_id, details }: Texts): string =>
  sha256([salt, actor, target, ip, request_id, details]);

const hashOf = (row: Facts & Pick<AuditTable, "content_hash">): string =>
  sha256([HASH_VERSION, row.sequence, row.at, row.tenant_id, row.action, row.content_hash, row.previous_hash]);

/** Returns the last entry of the log, which the next one refers to. */
export async function lastOfChain(db: Db): Promise<{ readonly sequence: number; readonly hash: string }> {
  const last = await db
    .selectFrom("audit")
    .select(["sequence", "hash"])
    .orderBy("sequence", "desc")
    .limit(1)
    .executeTakeFirst();
  return last ?? { sequence: 0, hash: FIRST_HASH };
}

/** Returns the row of an entry with a new salt and its hashes. */
export function toChainedRow(facts: Facts, texts: Texts): AuditTable {
  const salt = randomBytes(SALT_BYTES).toString("hex");
  const content_hash = contentHashOf(salt, texts);
  const hash = hashOf({ ...facts, content_hash });
  return { ...facts, ...texts, salt, content_hash, hash, hash_version: HASH_VERSION, erased_by: null };
}

/** What the entry of an erasure says about the entries that it erased. */
export interface AuditErasure {
  readonly entries: number;
  /** SHA-256 of what is left of them. An entry cannot be marked as erased later, because it is not part of this. */
  readonly digest: string;
}

class ErasureDigest {
  readonly tenantId: string | null;
  readonly first: number;
  readonly #hash: Hash = createHash("sha256");
  #entries = 0;

  constructor({ tenant_id, sequence }: Facts) {
    this.tenantId = tenant_id;
    this.first = sequence;
  }

  add({ sequence, at, tenant_id, action, previous_hash, hash }: AuditTable): void {
    this.#entries += 1;
    this.#hash.update(JSON.stringify([sequence, at, tenant_id, action, previous_hash, hash]));
  }

  /** Ends the digest. */
  toErasure(): AuditErasure {
    return { entries: this.#entries, digest: this.#hash.digest("hex") };
  }
}

/**
 * Erases the texts of a tenant's entries. Append an entry that says so in the same transaction: {@link TENANT_DELETED} or {@link AUDIT_ERASED},
 * with the result as `details.erased`.
 * @param db a transaction of `changeExclusively`
 * @param before erases the entries before this one; undefined for all
 * @returns undefined if there was nothing to erase
 */
export async function eraseAuditTexts(db: Db, tenantId: string, before?: number): Promise<AuditErasure | undefined> {
  const erasedBy = (await lastOfChain(db)).sequence + 1;
  const end = before ?? erasedBy;
  let digest: ErasureDigest | undefined;
  for (let after = 0; ; ) {
    const rows = await db
      .selectFrom("audit")
      .selectAll()
      .where("tenant_id", "=", tenantId)
      .where("sequence", ">", after)
      .where("sequence", "<", end)
      .where("erased_by", "is", null)
      .where("action", "!=", TENANT_DELETED)
      .orderBy("sequence")
      .limit(PAGE)
      .execute();
    for (const row of rows) {
      digest ??= new ErasureDigest(row);
      digest.add(row);
    }
    const last = rows.at(-1);
    if (last === undefined) break;
    // A page at a time: one statement for all of them can take longer than Postgres allows.
    await db
      .updateTable("audit")
      .set({ ...ERASED_TEXTS, salt: null, erased_by: erasedBy })
      .where("tenant_id", "=", tenantId)
      .where("sequence", ">", after)
      .where("sequence", "<=", last.sequence)
      .where("erased_by", "is", null)
      .where("action", "!=", TENANT_DELETED)
      .execute();
    if (rows.length < PAGE) break;
    after = last.sequence;
  }
  return digest?.toErasure();
}

export interface AuditVerification {
  /** Sequence number of the first entry that does not match the chain; undefined for an intact log. */
  readonly brokenAt: number | undefined;
  /** How many entries were erased, with their tenants. */
  readonly erased: number;
}

const isErased = (row: AuditTable): boolean =>
  row.salt === null && Object.entries(ERASED_TEXTS).every(([name, value]) => row[name as keyof Texts] === value);

function hasOwnHash(row: AuditTable): boolean {
  if (row.hash_version !== HASH_VERSION) {
    const { sequence, at, actor, tenant_id, action, target, ip, request_id, details, previous_hash } = row;
    // Its hash covers texts that are gone. The digest of the erasure covers the hash.
    if (row.erased_by !== null) return row.hash_version === 1;
    return (
      row.hash_version === 1 &&
      row.hash === sha256([sequence, at, actor, tenant_id, action, target, ip, request_id, details, previous_hash])
    );
  }
  return row.hash === hashOf(row) && (row.erased_by !== null || row.content_hash === contentHashOf(row.salt, row));
}

/** Returns whether an entry says of an erasure what the erased entries before it amount to. */
function confirms(row: AuditTable, digest: ErasureDigest): boolean {
  const owner = row.action === AUDIT_ERASED ? row.target : row.tenant_id;
  if (row.erased_by !== null || (row.action !== TENANT_DELETED && row.action !== AUDIT_ERASED)) return false;
  const { erased } = JSON.parse(row.details) as { readonly erased?: Partial<AuditErasure> };
  const { entries, digest: hash } = digest.toErasure();
  return owner === digest.tenantId && erased?.entries === entries && erased.digest === hash;
}

/** Verifies the chain and its erasures. */
export async function verifyAudit(db: Db): Promise<AuditVerification> {
  let before = { sequence: 0, hash: FIRST_HASH };
  let erased = 0;
  /** Erased entries whose erasure follows, by its number. */
  const pending = new Map<number, ErasureDigest>();
  for (;;) {
    const rows = await db
      .selectFrom("audit")
      .selectAll()
      .where("sequence", ">", before.sequence)
      .orderBy("sequence")
      .limit(PAGE)
      .execute();
    if (rows.length === 0) break;
    for (const row of rows) {
      const { sequence, hash, erased_by: erasedBy } = row;
      const isNext = sequence === before.sequence + 1 && row.previous_hash === before.hash;
      if (!isNext || !hasOwnHash(row)) return { brokenAt: sequence, erased };
      const digest = pending.get(sequence);
      if (digest !== undefined && !confirms(row, digest)) return { brokenAt: digest.first, erased };
      pending.delete(sequence);
      if (erasedBy !== null) {
        if (erasedBy <= sequence || !isErased(row)) return { brokenAt: sequence, erased };
        const group = pending.get(erasedBy) ?? new ErasureDigest(row);
        if (group.tenantId !== row.tenant_id) return { brokenAt: sequence, erased };
        group.add(row);
        pending.set(erasedBy, group);
        erased += 1;
      }
      before = { sequence, hash };
    }
  }
  const [left] = pending.values();
  return { brokenAt: left?.first, erased };
}
