// The SQL of the embedded store. It is synchronous: it runs in its own thread (kv-thread-entry.ts), where it may wait for the disk and for
// other processes that use the same file.
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { makePrivateFileSync } from "../../util/make-private-file.ts";
import {
  entryBytes,
  exceededQuota,
  KV_FILE_FORMAT,
  type KvDeleteOutcome,
  type KvDeletion,
  type KvEntry,
  type KvListOptions,
  type KvPage,
  type KvQuota,
  type KvSetOutcome,
  type KvWrite,
} from "./kv-store.ts";
import { afterPrefix } from "./space-names.ts";

/** One operation as it is sent to the thread. `space` is a name returned by `spaceName`. */
export type KvRequest =
  | { readonly op: "get"; readonly space: string; readonly key: string }
  | { readonly op: "set"; readonly space: string; readonly key: string; readonly write: KvWrite }
  | { readonly op: "delete"; readonly space: string; readonly key: string; readonly ifVersion: string | undefined }
  | { readonly op: "list"; readonly space: string; readonly options: KvListOptions }
  | { readonly op: "usage"; readonly space: string }
  /** Lists names of spaces that start with `prefix` (from `tenantPrefix`) and sort after `after`. */
  | { readonly op: "spaces"; readonly prefix: string; readonly after: string | undefined }
  /** Must be the only request of its batch, since it cannot share a transaction. */
  | { readonly op: "deleteTenant"; readonly prefix: string };

/** A page of at most {@link SPACES_PAGE} names of spaces. */
export interface KvSpaces {
  readonly spaces: readonly string[];
}

export type KvAnswer = KvEntry | undefined | KvSetOutcome | KvDeleteOutcome | KvPage | KvQuota | KvSpaces;

export const SPACES_PAGE = 100;

/** Bytes after which a reply ends. Receiving a larger one would block the host's event loop. */
const MAX_REPLY_BYTES = 2 * 1024 * 1024;

/** Longest wait for the lock. Transactions of other processes take milliseconds, unless their disk stalls. */
const BUSY_MS = 5_000;
const PURGE_EVERY_MS = 30_000;
const MAX_PURGED = 500;

/** Keys are BLOBs: SQLite compares them with memcmp, which gives the order of code points, and keys may contain NUL characters. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS spaces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    keys INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY,
    space INTEGER NOT NULL,
    key BLOB NOT NULL,
    kind TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    expires INTEGER,
    UNIQUE (space, key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS entries_expiring ON entries (expires, space) WHERE expires IS NOT NULL;
  PRAGMA user_version = ${KV_FILE_FORMAT};
`;

interface SpaceRow extends KvQuota {
  readonly id: number;
}

/** An entry without its value, for replacing and removing it. */
interface EntryHead {
  readonly id: number;
  readonly space: number;
  readonly version: number;
  readonly expires: number | null;
  /** Length of key and data. */
  readonly bytes: number;
}

interface EntryRow extends Pick<EntryHead, "version" | "expires"> {
  readonly key: Uint8Array;
  readonly kind: KvEntry["kind"];
  readonly data: Uint8Array;
}

const HEAD = "SELECT id, space, version, expires, length(key) + length(data) AS bytes FROM entries";
const ROW = "SELECT key, kind, data, version, expires FROM entries";

/** Returns the shortest bytes that sort after all keys with the prefix. UTF-8 contains no byte 255, so adding 1 cannot overflow. */
function endOf(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix);
  const last = end.length - 1;
  end[last] = (end[last] as number) + 1;
  return end;
}

function toEntry({ key, kind, data, version, expires }: EntryRow): KvEntry {
  return {
    key: Buffer.from(key).toString(),
    kind,
    data,
    version: String(version),
    ...(expires === null ? {} : { expiresAt: expires }),
  };
}

export class KvDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #purgedAt = 0;

  /** @throws {Error} when the file cannot be opened, is not a database, or has the format of a later version of Glovebox */
  constructor(path: string) {
    makePrivateFileSync(path);
    this.#database = new DatabaseSync(path);
    this.#database.exec(
      `PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;`,
    );
    const { user_version: format } = this.#query("PRAGMA user_version").get() as { readonly user_version: number };
    if (format > KV_FILE_FORMAT)
      throw new Error(`The kv file has format ${format}, but this version supports up to ${KV_FILE_FORMAT}`);
    if (format < KV_FILE_FORMAT) this.#atomically(() => this.#database.exec(TABLES));
  }

  /**
   * Runs a batch of requests. If the batch writes, all requests share one transaction, and so one wait for the disk. If the first answers
   * are large, the last requests get no answer, and the caller sends them again.
   */
  run(requests: readonly KvRequest[]): KvAnswer[] {
    const [first] = requests;
    if (first?.op === "deleteTenant") return [this.#deleteTenant(first.prefix)];
    const writes = requests.some(({ op }) => op === "set" || op === "delete");
    if (!writes) return this.#answerAll(requests, Date.now());
    return this.#atomically(() => {
      const now = Date.now();
      this.#purge(now);
      return this.#answerAll(requests, now);
    });
  }

  #answerAll(requests: readonly KvRequest[], now: number): KvAnswer[] {
    const answers: KvAnswer[] = [];
    let bytes = 0;
    for (const request of requests) {
      if (bytes > MAX_REPLY_BYTES) break;
      const answer = this.#answer(request, now);
      answers.push(answer);
      bytes += sizeOf(answer);
    }
    return answers;
  }

  close(): void {
    this.#database.close();
  }

  #atomically<Result>(work: () => Result): Result {
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#database.exec("COMMIT");
      return result;
    } catch (thrown) {
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw thrown;
    }
  }

  #query(sql: string): StatementSync {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #answer(request: KvRequest, now: number): KvAnswer {
    if (request.op === "deleteTenant") throw new Error("deleteTenant must be the only request of its batch");
    if (request.op === "spaces") return this.#spaces(request.prefix, request.after);
    const space = this.#space(request.space);
    switch (request.op) {
      case "get": {
        const row = space === undefined ? undefined : this.#row(space.id, request.key);
        return row === undefined || isExpired(row, now) ? undefined : toEntry(row);
      }
      case "set":
        return this.#set(space ?? this.#addSpace(request.space), request.key, request.write, now);
      case "delete":
        return { status: space === undefined ? "missing" : this.#delete(space.id, request, now) };
      case "list":
        return space === undefined ? { entries: [], more: false } : this.#list(space.id, request.options, now);
      case "usage":
        return { keys: space?.keys ?? 0, bytes: space?.bytes ?? 0 };
    }
  }

  #spaces(prefix: string, after: string | undefined): KvSpaces {
    const rows = this.#query(
      `SELECT name FROM spaces WHERE name >= ? AND name < ? AND (? IS NULL OR name > ?) ORDER BY name LIMIT ${SPACES_PAGE}`,
    ).all(prefix, afterPrefix(prefix), ...twice(after ?? null)) as unknown as { readonly name: string }[];
    return { spaces: rows.map(({ name }) => name) };
  }

  /**
   * Removes a tenant's entries and spaces, and then their remains in the file. VACUUM rewrites all pages, whose free space may contain
   * deleted data, and the checkpoint empties the write-ahead log. This takes as long as copying the file.
   * @throws {Error} also if the log cannot be emptied because another process keeps reading the file
   */
  #deleteTenant(prefix: string): KvDeletion {
    const end = afterPrefix(prefix);
    const removed = this.#atomically(() => {
      const of = "SELECT id FROM spaces WHERE name >= ? AND name < ?";
      const counted = this.#query(
        `SELECT count(*) AS keys, coalesce(sum(length(key) + length(data)), 0) AS bytes FROM entries WHERE space IN (${of})`,
      ).get(prefix, end) as unknown as KvDeletion;
      this.#query(`DELETE FROM entries WHERE space IN (${of})`).run(prefix, end);
      this.#query("DELETE FROM spaces WHERE name >= ? AND name < ?").run(prefix, end);
      return { keys: counted.keys, bytes: counted.bytes };
    });
    // Necessary even if no entry was found: the tenant may have deleted its values, or an earlier attempt may have failed at this point.
    this.#database.exec("VACUUM");
    const { busy } = this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as { readonly busy: number };
    if (busy !== 0) throw new Error("The log of the kv file could not be emptied: another process is reading the file");
    return removed;
  }

  #space(name: string): SpaceRow | undefined {
    return this.#query("SELECT id, keys, bytes FROM spaces WHERE name = ?").get(name) as SpaceRow | undefined;
  }

  #addSpace(name: string): SpaceRow {
    const { lastInsertRowid } = this.#query("INSERT INTO spaces (name) VALUES (?)").run(name);
    return { id: Number(lastInsertRowid), keys: 0, bytes: 0 };
  }

  #row(space: number, key: string): EntryRow | undefined {
    return this.#query(`${ROW} WHERE space = ? AND key = ?`).get(space, Buffer.from(key)) as EntryRow | undefined;
  }

  #head(space: number, key: string): EntryHead | undefined {
    return this.#query(`${HEAD} WHERE space = ? AND key = ?`).get(space, Buffer.from(key)) as EntryHead | undefined;
  }

  #set(space: SpaceRow, key: string, write: KvWrite, now: number): KvSetOutcome {
    const { kind, data, expiresAt = null, ifVersion, quota } = write;
    const row = this.#head(space.id, key);
    const known = row === undefined || isExpired(row, now) ? undefined : row;
    const current = known === undefined ? null : String(known.version);
    if (ifVersion !== undefined && ifVersion !== current) return { status: "conflict", version: current };
    // The new entry replaces the row, even an expired one.
    const keys = row === undefined ? 1 : 0;
    const bytes = entryBytes(key, data) - (row?.bytes ?? 0);
    const usageAfter = (before: KvQuota): KvQuota => ({ keys: before.keys + keys, bytes: before.bytes + bytes });
    let excess = exceededQuota(space, usageAfter(space), quota);
    if (excess !== undefined && this.#removeExpired(space.id, row?.id ?? 0, now) > 0) {
      const swept = this.#query("SELECT id, keys, bytes FROM spaces WHERE id = ?").get(space.id) as unknown as SpaceRow;
      excess = exceededQuota(swept, usageAfter(swept), quota);
    }
    if (excess !== undefined) return { status: "full", ...excess };
    const { version } = this.#query(
      "UPDATE spaces SET version = version + 1, keys = keys + ?, bytes = bytes + ? WHERE id = ? RETURNING version",
    ).get(keys, bytes, space.id) as { readonly version: number };
    this.#query(
      `INSERT INTO entries (space, key, kind, data, version, expires) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (space, key) DO UPDATE SET
         kind = excluded.kind, data = excluded.data, version = excluded.version, expires = excluded.expires`,
    ).run(space.id, Buffer.from(key), kind, data, version, expiresAt);
    return { status: "stored", version: String(version) };
  }

  #delete(
    space: number,
    { key, ifVersion }: Extract<KvRequest, { readonly op: "delete" }>,
    now: number,
  ): KvDeleteOutcome["status"] {
    const row = this.#head(space, key);
    if (row === undefined || isExpired(row, now)) return "missing";
    if (ifVersion !== undefined && ifVersion !== String(row.version)) return "conflict";
    this.#remove(row);
    return "deleted";
  }

  #list(space: number, { prefix, after, limit, bytes }: KvListOptions, now: number): KvPage {
    const start = Buffer.from(prefix);
    const rows = this.#query(
      `${ROW} WHERE space = ? AND key >= ? AND (? IS NULL OR key < ?) AND (? IS NULL OR key > ?)
         AND (expires IS NULL OR expires > ?) ORDER BY key`,
    ).iterate(space, start, ...twice(prefix === "" ? null : endOf(start)), ...twice(toBytes(after)), now);
    const entries: KvEntry[] = [];
    let left = bytes;
    for (const row of rows as unknown as Iterable<EntryRow>) {
      const entry = toEntry(row);
      left -= entryBytes(entry.key, entry.data);
      if (entries.length === limit || (left < 0 && entries.length > 0)) return { entries, more: true };
      entries.push(entry);
    }
    return { entries, more: false };
  }

  #remove({ id, space, bytes }: EntryHead): void {
    this.#query("DELETE FROM entries WHERE id = ?").run(id);
    this.#query("UPDATE spaces SET keys = keys - 1, bytes = bytes - ? WHERE id = ?").run(bytes, space);
  }

  /** Removes the expired entries of a space except one, and returns their number. */
  #removeExpired(space: number, exceptId: number, now: number): number {
    const expired = this.#query(`${HEAD} WHERE space = ? AND expires <= ? AND id <> ?`);
    const rows = expired.all(space, now, exceptId) as unknown as EntryHead[];
    for (const row of rows) this.#remove(row);
    return rows.length;
  }

  /** Removes expired entries of all spaces, a limited number at a time, so that those of unused spaces are removed too. */
  #purge(now: number): void {
    if (now - this.#purgedAt < PURGE_EVERY_MS) return;
    this.#purgedAt = now;
    const expired = this.#query(`${HEAD} WHERE expires <= ? LIMIT ?`);
    for (const row of expired.all(now, MAX_PURGED) as unknown as EntryHead[]) this.#remove(row);
  }
}

function sizeOf(answer: KvAnswer): number {
  if (answer === undefined) return 0;
  if ("data" in answer) return answer.data.byteLength;
  return "entries" in answer ? answer.entries.reduce((sum, { data }) => sum + data.byteLength, 0) : 0;
}

const isExpired = ({ expires }: Pick<EntryHead, "expires">, now: number): boolean => expires !== null && expires <= now;
const toBytes = (key: string | undefined): Buffer | null => (key === undefined ? null : Buffer.from(key));
const twice = <Value>(value: Value): [Value, Value] => [value, value];
