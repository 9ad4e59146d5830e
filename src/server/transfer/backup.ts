// Writes a backup of the database and restores it, also into a database of the other kind: compressed lines of JSON, with a hash at the end.
import { createHash, type Hash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { sql } from "kysely";
import * as z from "zod";
import { ToolError } from "../../host/index.ts";
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { recountStoredBytes, setCounting } from "../records/tenants/stored-bytes.ts";
import { readRows, TABLES, type TableName, type TableRow } from "./table-rows.ts";

const FORMAT = "glovebox-backup";
const FORMAT_VERSION = 1;

const HeaderSchema = z.strictObject({
  format: z.literal(FORMAT),
  version: z.literal(FORMAT_VERSION),
  migrations: z.array(z.string()),
  createdAt: z.int(),
});
const BytesSchema = z.strictObject({ bytes: z.base64() });
const RowSchema = z.strictObject({
  table: z.enum(TABLES as readonly [TableName, ...TableName[]]),
  row: z.record(z.string(), z.union([z.string(), z.number(), z.null(), BytesSchema])),
});
const EndSchema = z.strictObject({ end: z.record(z.string(), z.int()), sha256: z.string() });

export type RowCounts = { readonly [table: string]: number };

const encode = (row: TableRow): object =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? { bytes: Buffer.from(value).toString("base64") } : value,
    ]),
  );

async function migrationsOf(db: Db): Promise<readonly string[]> {
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  return rows.map(({ name }) => name);
}

/** Runs a function with one state of the database, whatever others write meanwhile. */
async function withSnapshot<Value>({ db, kind }: OpenDatabase, read: (snapshot: Db) => Promise<Value>): Promise<Value> {
  if (kind === "sqlite") return await db.transaction().execute(read);
  return await db.transaction().setIsolationLevel("repeatable read").setAccessMode("read only").execute(read);
}

async function* linesOf(db: Db, counts: Record<string, number>, hash: Hash): AsyncGenerator<string, void> {
  const line = (value: object): string => {
    const text = `${JSON.stringify(value)}\n`;
    hash.update(text);
    return text;
  };
  yield line({ format: FORMAT, version: FORMAT_VERSION, migrations: await migrationsOf(db), createdAt: Date.now() });
  for (const table of TABLES) {
    counts[table] = 0;
    for await (const row of readRows(db, table)) {
      counts[table] += 1;
      yield line({ table, row: encode(row) });
    }
  }
  yield `${JSON.stringify({ end: counts, sha256: hash.digest("hex") })}\n`;
}

/**
 * Writes a backup to a file, which exists only when it is complete. Secrets in it are encrypted under the master key, which it does not
 * contain.
 * @returns how many rows of each table it has
 */
export async function writeBackup(database: OpenDatabase, path: string): Promise<RowCounts> {
  const counts: Record<string, number> = {};
  const partial = `${path}.partial`;
  try {
    await withSnapshot(database, async (snapshot) => {
      const lines = linesOf(snapshot, counts, createHash("sha256"));
      await pipeline(lines, createGzip(), createWriteStream(partial, { mode: 0o600, flush: true }));
    });
    await rename(partial, path);
  } catch (thrown) {
    await rm(partial, { force: true });
    throw thrown;
  }
  return counts;
}

const invalid = (why: string, cause?: unknown): ToolError =>
  new ToolError("PARAM_INVALID", `The backup cannot be restored: ${why}`, { cause });

async function* parsedLines(path: string): AsyncGenerator<{ readonly text: string; readonly value: unknown }, void> {
  const input = createReadStream(path);
  const unzipped = input.pipe(createGunzip());
  input.on("error", (error) => unzipped.destroy(error));
  const lines = createInterface({ input: unzipped, crlfDelay: Number.POSITIVE_INFINITY });
  const failed = once(unzipped, "error").then(([error]) => error as Error);
  failed.catch(() => {});
  let isEnded = false;
  unzipped.once("end", () => {
    isEnded = true;
  });
  try {
    for await (const text of lines) {
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch (cause) {
        throw invalid("it is damaged", cause);
      }
      yield { text, value };
    }
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "Z_DATA_ERROR") throw invalid("it is damaged, or not a backup of Glovebox", thrown);
    throw code === "Z_BUF_ERROR" ? invalid("it cannot be read to its end", thrown) : thrown;
  }
  // readline ends without an error when its input fails.
  if (!isEnded) throw invalid("it cannot be read to its end", unzipped.errored);
}

/** @throws {ToolError} PARAM_INVALID for a database that contains anything */
async function checkEmpty(db: Db): Promise<void> {
  for (const table of TABLES) {
    for await (const _row of readRows(db, table))
      throw new ToolError("PARAM_INVALID", `The database is not empty (${table}). Restore into a new one`);
  }
}

const decode = (row: z.output<typeof RowSchema>["row"]): TableRow =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "object" && value !== null ? Buffer.from(value.bytes, "base64") : value,
    ]),
  );

/**
 * Restores a backup into an empty database, all of it or nothing.
 * @returns how many rows of each table were restored
 * @throws {ToolError} PARAM_INVALID for a file that is not a complete backup of this schema, or a database that is not empty
 */
export async function restoreBackup({ db, kind }: OpenDatabase, path: string): Promise<RowCounts> {
  const known = await migrationsOf(db);
  return await db.transaction().execute(async (transaction) => {
    // The count of what was restored is one statement, which takes as long as the database is large.
    if (kind === "postgres") await sql`set local statement_timeout = 0`.execute(transaction);
    await checkEmpty(transaction);
    await setCounting(transaction, kind, "disable");
    const counts: Record<string, number> = {};
    const hash = createHash("sha256");
    let isFirst = true;
    let end: z.output<typeof EndSchema> | undefined;
    for await (const { text, value } of parsedLines(path)) {
      if (end !== undefined) throw invalid("it has lines after its end");
      if (isFirst) {
        isFirst = false;
        const header = HeaderSchema.safeParse(value);
        if (!header.success) throw invalid("it is not a backup of Glovebox");
        const unknown = header.data.migrations.find((name) => !known.includes(name));
        if (unknown !== undefined) throw invalid(`it was made by a later version (${unknown})`);
        // Some migrations change rows, such as the scopes of keys. Those of the backup come too late for them.
        const missing = known.find((name) => !header.data.migrations.includes(name));
        if (missing !== undefined)
          throw invalid(
            `it was made by an earlier version (without ${missing}). Restore it with that version, and then start this one with the restored database`,
          );
      } else if (typeof value === "object" && value !== null && "end" in value) {
        const parsed = EndSchema.safeParse(value);
        if (!parsed.success) throw invalid("it is damaged", parsed.error);
        end = parsed.data;
        continue;
      } else {
        const parsed = RowSchema.safeParse(value);
        if (!parsed.success) throw invalid("it is damaged", parsed.error);
        const { table, row } = parsed.data;
        // The original goes on with its own queue in NATS, from which a copy must not take calls.
        if (table !== "settings" || row.name !== "queue_id") {
          await transaction
            .insertInto(table)
            .values(decode(row) as never)
            .execute();
          counts[table] = (counts[table] ?? 0) + 1;
        }
      }
      hash.update(`${text}\n`);
    }
    if (end === undefined) throw invalid("it is incomplete");
    if (end.sha256 !== hash.digest("hex")) throw invalid("it is damaged");
    await setCounting(transaction, kind, "enable");
    await recountStoredBytes(transaction);
    return counts;
  });
}
