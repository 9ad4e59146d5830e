// The server: hosts the tools of many tenants behind an HTTP API. `createServer` opens its database and its Glovebox, and listens.
/// <reference types="node" preserve="true" />
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { parseOptions } from "../host/config/option-errors.ts";
import { packageVersion } from "../host/config/package-version.ts";
import { unavailable } from "../host/index.ts";
import { oldNodeMessage } from "../host/util/node-version.ts";
import { strictObject } from "../sandbox/contract/plain-object.ts";
import { createApiKey } from "./auth/api-key.ts";
import {
  parseServerOptions,
  type ServerConfig,
  type ServerOptions,
  ServerOptionsSchema,
} from "./config/server-options.ts";
import { isLostConnection, RETRY_MS, STARTUP_WAIT_MS } from "./database/open-database.ts";
import { type OpenServer, openServer } from "./startup/open-server.ts";

export type { ServerConfig, ServerOptions } from "./config/server-options.ts";

const CloseOptionsSchema = strictObject({ drainMs: ServerOptionsSchema.shape.drainMs.unwrap().optional() });

/** A server that listens. Disposing it closes it at once; `close` lets calls finish. */
export interface Server extends AsyncDisposable {
  /** `http://127.0.0.1:7070` */
  readonly url: string;
  /** The key of the platform that was created because there was none. Shown once: only its hash is stored. */
  readonly adminKey: string | undefined;
  readonly config: ServerConfig;
  /**
   * Stops accepting calls, waits up to `drainMs` for those that run, and closes everything.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an unknown option or a wrong value: nothing is closed then
   */
  close(options?: { readonly drainMs?: number }): Promise<void>;
}

function toServer({ url, adminKey, close }: OpenServer, config: ServerConfig): Server {
  let closing: Promise<void> | undefined;
  return {
    url,
    adminKey,
    config,
    close: async (given = {}) => {
      const { drainMs } = parseOptions(CloseOptionsSchema, given, "options");
      // One that need not drain need not wait for load balancers either.
      closing ??= close(drainMs ?? config.drainMs, drainMs === 0 ? 0 : config.stopDelayMs);
      await closing;
    },
    [Symbol.asyncDispose]: () => (closing ??= close(0, 0)),
  };
}

/**
 * Opens a server.
 * @throws {ToolError} PARAM_INVALID for invalid options, a port that is in use, or a missing package; TOOL_UNAVAILABLE on a version of Node
 *   that is too old; otherwise what the database throws
 * @example
 * ```typescript
 * import { createServer } from "glovebox/server";
 *
 * const server = await createServer({ port: 7_070, dataDir: "./data" });
 * console.log(server.url, server.adminKey);
 * process.once("SIGTERM", () => server.close({ drainMs: 10_000 }));
 * ```
 */
export async function createServer(options: ServerOptions = {}): Promise<Server> {
  const oldNode = oldNodeMessage();
  if (oldNode !== undefined) throw unavailable("unsupported", oldNode);
  const config = parseServerOptions(options);
  const log = pino({ level: config.logLevel, base: null }, pino.destination(2));
  log.info({ version: packageVersion(), node: process.version }, "starting");
  const newKey = createApiKey();
  const until = performance.now() + STARTUP_WAIT_MS;
  for (;;) {
    try {
      return toServer(await openServer(config, log, newKey), config);
    } catch (thrown) {
      // Postgres restarts while the server starts.
      if (!isLostConnection(thrown) || performance.now() > until) throw thrown;
      log.warn({ err: thrown }, "database");
      await sleep(RETRY_MS);
    }
  }
}
