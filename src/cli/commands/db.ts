// glovebox db: migrates, checks, backs up and restores the server's database, changes its master key, and replaces a lost admin key.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { SQLITE_FILE } from "../../server/config/data-files.ts";
import type { ServerConfig } from "../../server/config/server-options.ts";
import type { OpenDatabase } from "../../server/database/open-database.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, OutputError, UsageError } from "../usage.ts";
import { readConfig } from "./serve.ts";

const totalOf = (counts: { readonly [table: string]: number }): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

interface DbCall {
  readonly database: OpenDatabase;
  readonly config: ServerConfig;
  /** Path that follows the action; empty for an action without a file. */
  readonly file: string;
  readonly io: Io;
}

interface DbAction {
  /** Description of the file that the action needs. */
  readonly file: string | undefined;
  /** Whether no server may use the database meanwhile. */
  readonly isExclusive?: boolean;
  readonly run: (call: DbCall) => Promise<number>;
}

/** @throws {UsageError} if a replica runs */
async function checkStopped({ db, kind }: OpenDatabase): Promise<void> {
  // With SQLite, the data folder is locked.
  if (kind === "sqlite") return;
  const { countReplicas } = await import("../../server/replicas/liveness.ts");
  const count = await countReplicas(db);
  if (count === 0) return;
  const which = count === 1 ? "A server uses" : `${count} servers use`;
  throw new UsageError(`${which} the database. Stop all servers first; one that was killed counts for some seconds`);
}

const ACTIONS: { readonly [name: string]: DbAction } = {
  migrate: {
    file: undefined,
    run: async ({ database: { migrated }, io }) => {
      io.stdout.print(migrated.length === 0 ? "The schema is current\n" : `Migrated: ${migrated.join(", ")}\n`);
      return 0;
    },
  },
  check: {
    file: undefined,
    run: async ({ database, io }) => {
      const { checkDatabase } = await import("../../server/transfer/check.ts");
      const { problems, erased } = await checkDatabase(database);
      for (const problem of problems) io.stdout.print(`${problem}\n`);
      if (erased > 0) io.stdout.print(`${erased} entries of the audit log were erased with their tenants\n`);
      if (problems.length === 0) io.stdout.print("The database is intact\n");
      return problems.length === 0 ? 0 : 1;
    },
  },
  backup: {
    file: "the file to write",
    run: async ({ database, file, io }) => {
      const { writeBackup } = await import("../../server/transfer/backup.ts");
      const counts = await writeBackup(database, file);
      io.stdout.print(`Wrote ${totalOf(counts)} rows to ${file}. It does not contain the master key: keep that too\n`);
      return 0;
    },
  },
  restore: {
    file: "a backup",
    run: async ({ database, file, io }) => {
      const { restoreBackup } = await import("../../server/transfer/backup.ts");
      io.stdout.print(`Restored ${totalOf(await restoreBackup(database, file))} rows\n`);
      return 0;
    },
  },
  "admin-key": {
    file: undefined,
    run: async ({ database, io }) => {
      const { createAdminKey } = await import("../../server/auth/admin-key.ts");
      io.stdout.print(`New admin key, shown only now: ${await createAdminKey(database)}\n`);
      return 0;
    },
  },
  "rotate-key": {
    file: "the file of the new master key",
    // A server would go on with the key that it has read, and store secrets that nobody can decrypt later.
    isExclusive: true,
    run: async ({ database: { db }, config, file, io }) => {
      const { openMasterKey, readMasterKeyFile } = await import("../../server/secrets/master-key.ts");
      const { rotateMasterKey } = await import("../../server/secrets/rotate-master-key.ts");
      const next = readMasterKeyFile(file, "FILE");
      const count = await rotateMasterKey(db, await openMasterKey(db, config), next);
      io.stdout.print(`Encrypted ${count} values with the new master key. Start the server with it\n`);
      return 0;
    },
  },
};

/** Exits with 1 if `check` finds something wrong. */
export async function dbCommand(given: Arguments, io: Io): Promise<number> {
  const [name = "", file] = given.positionals;
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  if (action === undefined) throw new UsageError(`db: expected ${Object.keys(ACTIONS).join(", ")}, got "${name}"`);
  if ((action.file === undefined) !== (file === undefined))
    throw new UsageError(`db ${name}: expected ${action.file === undefined ? "no FILE" : `FILE, ${action.file}`}`);
  const config = await readConfig(given, io);
  const isNew = config.database === undefined && !existsSync(join(config.dataDir, SQLITE_FILE));
  if (isNew && name !== "migrate" && name !== "restore")
    throw new UsageError(`There is no database in ${config.dataDir}. Name its folder with --data-dir`);
  const { openDatabase } = await import("../../server/database/open-database.ts");
  await using database = await openDatabase({
    url: config.database,
    dataDir: config.dataDir,
    onError() {},
    // What only reads a database must not change it.
    migrates: name === "migrate" || name === "restore",
    ...(action.isExclusive === true ? { lock: { waitMs: 0 } } : {}),
  });
  try {
    if (action.isExclusive === true) await checkStopped(database);
    return await action.run({ database, config, file: file ?? "", io });
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (file !== undefined && typeof code === "string" && /^E[A-Z]+$/.test(code))
      throw new OutputError(`${file}: ${code}`);
    throw thrown;
  }
}
