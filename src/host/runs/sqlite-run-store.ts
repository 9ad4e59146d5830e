// Keeps durable runs in a SQLite file (node:sqlite), so that they survive the process. Processes of one machine can share the file.
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import type { DatabaseSync, SQLOutputValue, StatementSync } from "node:sqlite";
import * as z from "zod";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { makePrivateFileSync, namesFile } from "../util/make-private-file.ts";
import { oldNodeMessage } from "../util/node-version.ts";
import type {
  DueFilter,
  NewRun,
  RunClaim,
  RunFilter,
  RunKey,
  RunLease,
  RunRecord,
  RunRelease,
  RunState,
  RunStore,
} from "./run-store.ts";
import type { RunWait } from "./run-wait.ts";

/** Marks the file as one of this class (the ASCII codes of "GlbR"). */
const APPLICATION_ID = 0x47_6c_62_52;
const FORMAT = 2;
/** Longest wait in ms for the lock of another process. Transactions take milliseconds. */
const BUSY_MS = 5_000;

const TABLES = `
  CREATE TABLE runs (
    tenant_id TEXT NOT NULL, id TEXT NOT NULL, tool_name TEXT NOT NULL, tool_version TEXT, input TEXT NOT NULL,
    state TEXT NOT NULL, fence INTEGER NOT NULL, lease_until INTEGER NOT NULL, wake_at INTEGER, waits TEXT NOT NULL,
    result TEXT, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
    journal_length INTEGER NOT NULL, entries INTEGER NOT NULL, kind TEXT NOT NULL,
    PRIMARY KEY (tenant_id, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX runs_open ON runs (state, tenant_id) WHERE state IN ('running', 'suspended');
  CREATE TABLE entries (
    tenant_id TEXT NOT NULL, run_id TEXT NOT NULL, position INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, position)
  ) STRICT, WITHOUT ROWID;
  PRAGMA user_version = ${FORMAT};
  PRAGMA application_id = ${APPLICATION_ID};
`;
/** Format 1 has no kinds: the name of the tool tells them apart. */
const FROM_FORMAT_1 = `
  ALTER TABLE runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'tool';
  UPDATE runs SET kind = CASE tool_name WHEN 'run_code' THEN 'code' ELSE 'agent' END WHERE tool_name IN ('run_code', 'agent');
  PRAGMA user_version = ${FORMAT};
`;
const IS_OPEN = "state IN ('running', 'suspended')";
const OF_RUN = "tenant_id = ? AND id = ?";
const CLAIMED = `${OF_RUN} AND fence = ? AND state = 'running'`;

const OptionsSchema = strictObject({
  path: z
    .string()
    .min(1)
    .max(4_096)
    .refine(namesFile, "Expected the path of a file. For a store in memory use MemoryRunStore"),
});

interface Row {
  readonly [column: string]: SQLOutputValue;
}

const toRecord = (row: Row): RunRecord => ({
  id: String(row.id),
  tenantId: String(row.tenant_id),
  kind: String(row.kind),
  toolName: String(row.tool_name),
  input: String(row.input),
  ...(row.tool_version === null ? {} : { toolVersion: String(row.tool_version) }),
  state: row.state as RunState,
  fence: Number(row.fence),
  leaseUntil: Number(row.lease_until),
  ...(row.wake_at === null ? {} : { wakeAt: Number(row.wake_at) }),
  waits: JSON.parse(String(row.waits)) as readonly RunWait[],
  ...(row.result === null ? {} : { result: JSON.parse(String(row.result)) as ToolResult }),
  createdAt: Number(row.created_at),
  expiresAt: Number(row.expires_at),
  journalLength: Number(row.journal_length),
  entries: Number(row.entries),
});

/** @throws {ToolError} PARAM_INVALID for a file that cannot be opened, or has other content */
function openDatabase(path: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    makePrivateFileSync(path);
    // Loaded with the first store: an import of the package must not need it, nor wait for it.
    const sqlite = process.getBuiltinModule("node:sqlite");
    database = new sqlite.DatabaseSync(path, { timeout: BUSY_MS });
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;");
    database.exec("BEGIN IMMEDIATE");
    const read = (name: string): number => Number(Object.values(database?.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
    const { tables } = database.prepare("SELECT count(*) AS tables FROM sqlite_schema").get() as Row;
    const format = tables !== 0 && read("application_id") === APPLICATION_ID ? read("user_version") : undefined;
    if (tables === 0) database.exec(TABLES);
    else if (format === 1) database.exec(FROM_FORMAT_1);
    else if (format !== FORMAT) throw new Error("Unsupported file format");
    database.exec("COMMIT");
    return database;
  } catch (cause) {
    database?.close();
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `options.path: Cannot open the run store ${JSON.stringify(path)}: ${reason}`;
    throw new ToolError("PARAM_INVALID", message, { cause });
  }
}

/**
 * A {@link RunStore} in a SQLite file. Its statements run on the thread of the caller and are short. Close the runs before the store.
 * @example
 * ```typescript
 * import { createGlovebox, createRuns, SqliteRunStore } from "glovebox";
 *
 * await using glovebox = await createGlovebox();
 * using store = new SqliteRunStore({ path: "./data/runs.sqlite" });
 * await using runs = createRuns(glovebox, { store });
 * ```
 */
export class SqliteRunStore implements RunStore, Disposable {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #isClosed = false;

  /**
   * Opens the file, or creates it with its folder.
   * @throws {ToolError} PARAM_INVALID for invalid options, and for a file that cannot be opened or has other content; TOOL_UNAVAILABLE on a
   *   version of Node that is too old
   */
  constructor(options: { readonly path: string }) {
    const oldNode = oldNodeMessage();
    if (oldNode !== undefined) throw unavailable("unsupported", oldNode);
    this.#database = openDatabase(parseOptions(OptionsSchema, options, "options").path);
  }

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #row(sql: string, ...values: readonly (string | number | null)[]): Row | undefined {
    return this.#statement(sql).get(...values) as Row | undefined;
  }

  #rows(sql: string, ...values: readonly (string | number | null)[]): readonly Row[] {
    return this.#statement(sql).all(...values) as unknown as readonly Row[];
  }

  #change(sql: string, ...values: readonly (string | number | null)[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  /** Runs a function in one transaction: what it wrote before it throws is undone. */
  #atomically<Result>(run: () => Result): Result {
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const result = run();
      this.#database.exec("COMMIT");
      return result;
    } catch (thrown) {
      // On a full disk, SQLite has ended it.
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw thrown;
    }
  }

  async create(run: NewRun, maxOpen: number): Promise<"created" | "taken" | "full"> {
    return this.#atomically(() => {
      if (this.#row(`SELECT 1 FROM runs WHERE ${OF_RUN}`, run.tenantId, run.id) !== undefined) return "taken";
      const { tenantId, id, kind, toolName, toolVersion = null, input, leaseUntil, createdAt, expiresAt } = run;
      const counting = `SELECT count(*) AS open FROM runs WHERE tenant_id = ? AND kind = ? AND ${IS_OPEN}`;
      if (Number(this.#row(counting, tenantId, kind)?.open) >= maxOpen) return "full";
      this.#change(
        `INSERT INTO runs VALUES (?, ?, ?, ?, ?, 'running', 1, ?, NULL, '[]', NULL, ?, ?, 0, 0, ?)`,
        ...[tenantId, id, toolName, toolVersion, input, leaseUntil, createdAt, expiresAt, kind],
      );
      return "created";
    });
  }

  async find({ tenantId, id }: RunKey): Promise<RunRecord | undefined> {
    const row = this.#row(`SELECT * FROM runs WHERE ${OF_RUN}`, tenantId, id);
    return row && toRecord(row);
  }

  async journal({ tenantId, id }: RunKey): Promise<readonly string[]> {
    const sql = "SELECT text FROM entries WHERE tenant_id = ? AND run_id = ? ORDER BY position";
    return this.#rows(sql, tenantId, id).map(({ text }) => String(text));
  }

  async list(tenantId: string, { state, before, limit }: RunFilter): Promise<readonly RunRecord[]> {
    const sql = `SELECT * FROM runs WHERE tenant_id = ? AND (? IS NULL OR state = ?) AND (? IS NULL OR id < ?)
      ORDER BY id DESC LIMIT ?`;
    const [ofState, last] = [state ?? null, before ?? null];
    return this.#rows(sql, tenantId, ofState, ofState, last, last, limit).map(toRecord);
  }

  async claim({ tenantId, id }: RunKey, { kind, now, until }: RunLease): Promise<number | undefined> {
    const sql = `UPDATE runs SET state = 'running', fence = fence + 1, lease_until = ? WHERE ${OF_RUN} AND kind = ?
      AND (state = 'suspended' OR (state = 'running' AND lease_until < ?)) RETURNING fence`;
    const claimed = this.#row(sql, until, tenantId, id, kind, now);
    return claimed === undefined ? undefined : Number(claimed.fence);
  }

  async renew({ tenantId, id, fence }: RunClaim, until: number): Promise<boolean> {
    return this.#change(`UPDATE runs SET lease_until = ? WHERE ${CLAIMED}`, until, tenantId, id, fence) > 0;
  }

  /** Adds entries to a run that was counted. */
  #insert({ tenantId, id }: RunKey, texts: readonly string[], entries: number): void {
    const insert = "INSERT INTO entries VALUES (?, ?, ?, ?)";
    for (const [index, text] of texts.entries())
      this.#change(insert, tenantId, id, entries - texts.length + index, text);
  }

  async append({ tenantId, id, fence }: RunClaim, texts: readonly string[]): Promise<boolean> {
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    const sql = `UPDATE runs SET entries = entries + ?, journal_length = journal_length + ? WHERE ${CLAIMED}
      RETURNING entries`;
    return this.#atomically(() => {
      const counted = this.#row(sql, texts.length, length, tenantId, id, fence);
      if (counted !== undefined) this.#insert({ tenantId, id }, texts, Number(counted.entries));
      return counted !== undefined;
    });
  }

  async appendEvent({ tenantId, id }: RunKey, text: string): Promise<RunState | undefined> {
    const sql = `UPDATE runs SET entries = entries + 1, journal_length = journal_length + ?
      WHERE ${OF_RUN} AND ${IS_OPEN} RETURNING state, entries`;
    return this.#atomically(() => {
      const counted = this.#row(sql, text.length, tenantId, id);
      if (counted !== undefined) this.#insert({ tenantId, id }, [text], Number(counted.entries));
      return counted?.state as RunState | undefined;
    });
  }

  async release(
    { tenantId, id, fence }: RunClaim,
    release: RunRelease,
    entries: number,
  ): Promise<"released" | "changed" | "lost"> {
    const isSuspended = release.state === "suspended";
    const [waits, wakeAt] = isSuspended ? [release.waits, release.wakeAt ?? null] : [[], null];
    const result = isSuspended ? null : JSON.stringify(release.result);
    const sql = `UPDATE runs SET state = ?, waits = ?, wake_at = ?, result = coalesce(?, result) WHERE ${CLAIMED}`;
    return this.#atomically(() => {
      const claimed = this.#row(`SELECT entries FROM runs WHERE ${CLAIMED}`, tenantId, id, fence);
      if (claimed === undefined) return "lost";
      if (isSuspended && Number(claimed.entries) !== entries) return "changed";
      this.#change(sql, release.state, JSON.stringify(waits), wakeAt, result, tenantId, id, fence);
      return "released";
    });
  }

  async due(now: number, { kind, tenantId, except = [], perTenant, limit }: DueFilter): Promise<readonly RunKey[]> {
    const owner = tenantId ?? null;
    const sql = `SELECT tenant_id, id FROM (
        SELECT tenant_id, id, row_number() OVER (PARTITION BY tenant_id ORDER BY id) AS rank FROM runs
        WHERE ((state = 'running' AND lease_until < ?)
          OR (state = 'suspended' AND min(coalesce(wake_at, expires_at), expires_at) <= ?))
        AND kind = ? AND (? IS NULL OR tenant_id = ?) AND tenant_id NOT IN (SELECT value FROM json_each(?))
      ) WHERE rank <= ? ORDER BY rank, id LIMIT ?`;
    const values = [now, now, kind, owner, owner, JSON.stringify(except), perTenant, limit];
    return this.#rows(sql, ...values).map((row) => ({ tenantId: String(row.tenant_id), id: String(row.id) }));
  }

  /**
   * Deletes all runs of a tenant, and their remains in the file: VACUUM rewrites all pages, whose free space may contain what was deleted
   * before, and the checkpoint empties the write-ahead log. This takes as long as copying the file.
   * @throws {Error} also if the log cannot be emptied because another process keeps reading the file
   */
  async deleteTenant(tenantId: string): Promise<number> {
    const deleted = this.#atomically(() => {
      this.#change("DELETE FROM entries WHERE tenant_id = ?", tenantId);
      return this.#change("DELETE FROM runs WHERE tenant_id = ?", tenantId);
    });
    // Necessary even if no run was found: an earlier attempt may have failed at this point.
    this.#database.exec("VACUUM");
    const { busy } = this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as Row;
    if (busy !== 0) throw new Error("The log of the file could not be emptied: another process is reading the file");
    return deleted;
  }

  /** Closes the file. A second call has no effect. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#database.close();
  }
}
