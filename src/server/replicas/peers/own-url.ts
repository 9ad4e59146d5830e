// Finds out where other replicas reach this one.
import { isIPv6 } from "node:net";
import type { ServerConfig } from "../../config/server-options.ts";
import { openPgClient } from "../../database/postgres-dialect.ts";

/** Addresses that stand for all addresses of a machine. */
const WILDCARDS: ReadonlySet<string> = new Set(["0.0.0.0", "::", "::0"]);

const toOrigin = (host: string, port: number): string => `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;

/** Returns the address of this machine on the way to Postgres; undefined for a Unix socket. */
async function addressTowards(database: string): Promise<string | undefined> {
  const client = await openPgClient(database);
  client.on("error", () => {});
  try {
    await client.connect();
    return client.connection?.stream.localAddress?.replace(/^::ffff:/, "");
  } finally {
    await client.end();
  }
}

/**
 * Returns the origin under which other replicas reach this one: as configured, or the address that it listens on, or for a wildcard that from which
 * it connects to Postgres.
 * @param port on which it listens
 * @returns undefined if there is none
 */
export async function findOwnUrl(
  { replicaUrl, host, database }: Pick<ServerConfig, "replicaUrl" | "host" | "database">,
  port: number,
): Promise<string | undefined> {
  if (database === undefined) return undefined;
  if (replicaUrl !== undefined) return new URL(replicaUrl).origin;
  if (!WILDCARDS.has(host)) return toOrigin(host, port);
  const address = await addressTowards(database);
  // Without IPv6, nothing listens there.
  if (address === undefined || (host === "0.0.0.0" && isIPv6(address))) return undefined;
  return toOrigin(address, port);
}
