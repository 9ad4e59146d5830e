// kysely's Postgres dialect on the package `pg`, which is an optional peer dependency.
import { type Dialect, PostgresDialect } from "kysely";
import { ToolError } from "../../host/index.ts";

/** Maximum number of connections of one server process. */
const MAX_CONNECTIONS = 10;
/** Longest time in ms to get a connection. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Longest time in ms of one statement. Every statement of the server is short. */
const STATEMENT_TIMEOUT_MS = 30_000;
const INT8_OID = 20;

/** @throws {ToolError} PARAM_INVALID if the package `pg` is not installed */
async function importPg(): Promise<typeof import("pg")["default"]> {
  try {
    return (await import("pg")).default;
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", 'A Postgres database needs the package "pg". Install it: npm install pg', {
      cause,
    });
  }
}

/** The parts of pg's client that are used. Its own type would be in the declarations of the package, and `pg` may not be installed. */
export interface PgClient {
  /** Present once it connects. */
  readonly connection?: { readonly stream: { readonly localAddress?: string; destroy(): void } };
  connect(): Promise<unknown>;
  query(statement: string): Promise<unknown>;
  end(): Promise<void>;
  on(event: "error" | "end", listener: () => void): unknown;
  on(event: "notification", listener: (notification: { readonly payload?: string | undefined }) => void): unknown;
}

/**
 * Returns a client with a connection of its own, which is not open yet.
 * @throws {ToolError} PARAM_INVALID if the package `pg` is not installed
 */
export async function openPgClient(url: string): Promise<PgClient> {
  const { Client: OpenedClient } = await importPg();
  return new OpenedClient({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: "glovebox-bus",
    keepAlive: true,
  });
}

/**
 * @param onError receives errors of connections, which the pool replaces
 * @throws {ToolError} PARAM_INVALID if the package `pg` is not installed
 */
export async function createPostgresDialect(url: string, onError: (error: Error) => void): Promise<Dialect> {
  const { Pool, types } = await importPg();
  // Counters and times fit into a double: 2 ** 53 ms is the year 287396.
  const getTypeParser = (oid: number, format?: string): ((text: string) => unknown) =>
    oid === INT8_OID ? Number : types.getTypeParser(oid, format as "text");
  const pool = new Pool({
    connectionString: url,
    max: MAX_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    application_name: "glovebox",
    types: { getTypeParser: getTypeParser as typeof types.getTypeParser },
  });
  pool.on("error", onError);
  // The pool listens to its idle connections only. Without a listener, one that breaks in a transaction, between two statements, would end
  // the process.
  pool.on("connect", (client) => client.on("error", onError));
  return new PostgresDialect({ pool });
}
