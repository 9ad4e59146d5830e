// The SQL of the embedded store. Synchronous: it runs in a thread of its own (kv-thread-entry.ts), where it may wait for the disk and for
// other processes that use the same file.
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { dirname } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { makeFolderSync } from "../../../bundler/locate/make-folder.ts";
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
  type KvWrite,
} from "./kv-store.ts";
import { afterPrefix } from "./space-names.ts";

/** One operation as it crosses to the thread. `space` is its name, made by `spaceName`. */
export type KvRequest =
  | { readonly op: "get"; readonly space: string; readonly key: string }
  | { readonly op: "set"; readonly space: string; readonly key: string; readonly write: KvWrite }
  | { readonly op: "delete"; readonly space: string; readonly key: string; readonly ifVersion: string | undefined }
  | { readonly op: "list"; readonly space: string; readonly options: KvListOptions }
  | { readonly op: "usage"; readonly space: string }
  /** Names of spaces that begin with it and come after another one; `prefix` is made by `tenantPrefix`. */
  | { readonly op: "spaces"; readonly prefix: string; readonly after: string | undefined }
  /** Asked alone: it cannot share a transaction. */
  | { readonly op: "deleteTenant"; readonly prefix: string };

/** Names of spaces, at most {@link SPACES_PAGE}. */
export interface KvSpaces {
  readonly spaces: readonly string[];
}

export type KvAnswer = KvEntry | undefined | KvSetOutcome | KvDeleteOutcome | KvPage | KvQuota | KvSpaces;

export const SPACES_PAGE = 100;

/** What the host takes in at once: more would hold up its event loop. */
const MAX_REPLY_BYTES = 2 * 1024 * 1024;

const FORMAT = 1;
/** Another process's transaction is over in milliseconds; so long only where its disk stalls. */
const BUSY_MS = 5_000;
const PURGE_EVERY_MS = 30_000;
const MAX_PURGED = 500;

/** Keys are bytes: SQLite compares them by memcmp, which is the order of code points, and a NUL is one like any other. */
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
  PRAGMA user_version = ${FORMAT};
`;

interface SpaceRow extends KvQuota {
  readonly id: number;
}

/** What is needed of an entry that is to be replaced or removed: not its value. */
interface EntryHead {
  readonly id: number;
  readonly space: number;
  readonly version: number;
  readonly expires: number | null;
  /** Of key and data. */
  readonly bytes: number;
}

interface EntryRow extends Pick<EntryHead, "version" | "expires"> {
  readonly key: Uint8Array;
  readonly kind: KvEntry["kind"];
  readonly data: Uint8Array;
}

const HEAD = "SELECT id, space, version, expires, length(key) + length(data) AS bytes FROM entries";
const ROW = "SELECT key, kind, data, version, expires FROM entries";

/** The shortest bytes that come after all that begin with `prefix`: no byte of UTF-8 is 255. */
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

/** A file that nobody else may read, in a folder that is made if there is none. */
function openFile(path: string): DatabaseSync {
  makeFolderSync(dirname(path));
  // To open a pipe would wait for somebody at its other end, and no thread can be ended while it waits in the kernel.
  const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;
  const descriptor = openSync(path, O_APPEND | O_CREAT | O_WRONLY | (O_NONBLOCK ?? 0), 0o600);
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error("Expected the path of the kv store to be that of a file");
  } finally {
    closeSync(descriptor);
  }
  return new DatabaseSync(path);
}

export class KvDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #purgedAt = 0;

  /** @throws {Error} when the file cannot be opened, is no database, or is a later Glovebox's */
  constructor(path: string) {
    this.#database = openFile(path);
    this.#database.exec(
      `PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;`,
    );
    const { user_version: format } = this.#query("PRAGMA user_version").get() as { readonly user_version: number };
    if (format > FORMAT) throw new Error(`The kv file has format ${format}; this Glovebox knows ${FORMAT}`);
    if (format < FORMAT) this.#atomically(() => this.#database.exec(TABLES));
  }

  /**
   * All that are answered, or none: what writes shares one transaction, and so one wait for the disk. The last ones have no answer where
   * the first ones' are large: they are to be asked again.
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
    if (request.op === "deleteTenant") throw new Error("A tenant is deleted in a batch of its own");
    if (request.op === "spaces") return this.#spaces(request.prefix, request.after);
    const space = this.#space(request.space);
    switch (request.op) {
      case "get": {
        const row = space === undefined ? undefined : this.#row(space.id, request.key);
        return row === undefined || isOver(row, now) ? undefined : toEntry(row);
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
   * Removes a tenant's entries and spaces, and then what they have left behind: in free pages and in the slack of used ones, which VACUUM
   * writes anew, and in the write-ahead log, which is emptied. Takes as long as to copy the file.
   * @throws {Error} also if another process reads the file for so long that the log cannot be emptied
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
    // Also where nothing was found: the tenant may have deleted its values itself, or an earlier attempt may have ended here.
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
    const known = row === undefined || isOver(row, now) ? undefined : row;
    const current = known === undefined ? null : String(known.version);
    if (ifVersion !== undefined && ifVersion !== current) return { status: "conflict", version: current };
    // In a row's place, expired or not.
    const keys = row === undefined ? 1 : 0;
    const bytes = entryBytes(key, data) - (row?.bytes ?? 0);
    const wanted = (before: KvQuota): KvQuota => ({ keys: before.keys + keys, bytes: before.bytes + bytes });
    let full = exceededQuota(space, wanted(space), quota);
    if (full !== undefined && this.#expire(space.id, row?.id ?? 0, now) > 0) {
      const swept = this.#query("SELECT id, keys, bytes FROM spaces WHERE id = ?").get(space.id) as unknown as SpaceRow;
      full = exceededQuota(swept, wanted(swept), quota);
    }
    if (full !== undefined) return { status: "full", ...full };
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
    if (row === undefined || isOver(row, now)) return "missing";
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

  /** Takes what has expired out of a space, but for one row; says how much that was. */
  #expire(space: number, exceptId: number, now: number): number {
    const over = this.#query(`${HEAD} WHERE space = ? AND expires <= ? AND id <> ?`);
    const rows = over.all(space, now, exceptId) as unknown as EntryHead[];
    for (const row of rows) this.#remove(row);
    return rows.length;
  }

  /** What has expired in spaces that nobody writes to goes too, a little at a time. */
  #purge(now: number): void {
    if (now - this.#purgedAt < PURGE_EVERY_MS) return;
    this.#purgedAt = now;
    const over = this.#query(`${HEAD} WHERE expires <= ? LIMIT ?`);
    for (const row of over.all(now, MAX_PURGED) as unknown as EntryHead[]) this.#remove(row);
  }
}

function sizeOf(answer: KvAnswer): number {
  if (answer === undefined) return 0;
  if ("data" in answer) return answer.data.byteLength;
  return "entries" in answer ? answer.entries.reduce((sum, { data }) => sum + data.byteLength, 0) : 0;
}

const isOver = ({ expires }: Pick<EntryHead, "expires">, now: number): boolean => expires !== null && expires <= now;
const toBytes = (key: string | undefined): Buffer | null => (key === undefined ? null : Buffer.from(key));
const twice = <Value>(value: Value): [Value, Value] => [value, value];
