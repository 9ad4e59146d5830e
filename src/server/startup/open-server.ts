// Opens a server stage by stage, and closes it: first it accepts nothing new, then its calls end, then everything is closed.
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { pino } from "pino";
import { packageVersion } from "../../host/config/package-version.ts";
import { createFirstAdminKey } from "../auth/admin-key.ts";
import type { NewApiKey } from "../auth/api-key.ts";
import type { ServerConfig } from "../config/server-options.ts";
import { expireDirectCalls } from "../records/calls/call-claims.ts";
import { findOwnUrl } from "../replicas/peers/own-url.ts";
import { type CallParts, openCalls } from "./open-calls.ts";
import { type OpenHttp, openHttp } from "./open-http.ts";
import { openServices, type Services } from "./open-services.ts";
import { openStorage } from "./open-storage.ts";
import type { ServerState, Startup } from "./startup.ts";

/** Longest time in ms until other replicas have the results of their calls when the server stops. */
const PEERS_MS = 1_000;
/** Longest time in ms that a stopping server gives accepted calls to get a slot. */
const ADMISSION_MS = 5_000;

export interface OpenServer {
  readonly url: string;
  /** Undefined if there was a key of the platform. */
  readonly adminKey: string | undefined;
  /**
   * @param drainMs longest time in ms to wait for calls that run
   * @param delayMs time in ms for which the server accepts calls although it is not ready any more
   */
  close(drainMs: number, delayMs: number): Promise<void>;
}

interface ClosingParts {
  readonly state: ServerState;
  readonly log: pino.Logger;
  readonly parts: CallParts;
  readonly services: Services;
  readonly http: OpenHttp;
  readonly resources: AsyncDisposableStack;
}

async function closeServer(
  { state, log, parts, services, http, resources }: ClosingParts,
  drainMs: number,
  delayMs: number,
): Promise<void> {
  const { calls, slots, glovebox } = parts;
  const { runs, scheduler, mcp, codeMode, peerServer } = services;
  const { server, forwarding } = http;
  // Readiness fails first, so that a load balancer sends nothing new.
  state.isOpen = false;
  log.info({ drainMs, delayMs }, "draining");
  if (delayMs > 0) await sleep(delayMs);
  state.acceptsCalls = false;
  // One after the other, all of them have this time: the process is ended when it is over.
  const until = performance.now() + drainMs;
  const leftMs = (): number => Math.max(0, Math.round(until - performance.now()));
  await calls.releaseSessions();
  const stopped = new Promise((resolve) => server.close(resolve));
  await scheduler[Symbol.asyncDispose]();
  // Calls that were accepted before take their slots first, such as those of sessions that other replicas have passed on.
  await calls.begun(Math.min(ADMISSION_MS, drainMs));
  slots.stop();
  // Before the Glovebox, which accepts no calls while it closes.
  await runs.close(leftMs());
  await Promise.all([calls.drain(leftMs()), glovebox.close({ drainMs: leftMs() })]);
  forwarding[Symbol.dispose]();
  await Promise.all([mcp.close(), codeMode.close()]);
  // Their last messages are sent, and one that has not begun does not hold up the end.
  await Promise.race([peerServer.settled(), sleep(PEERS_MS, undefined, { ref: false })]);
  if ("closeAllConnections" in server) server.closeAllConnections();
  await stopped;
  await resources.disposeAsync();
  log.info("stopped");
}

/**
 * Opens a server. If it fails, everything that was opened is closed.
 * @param newKey becomes the first key of the platform if there is none
 */
export async function openServer(config: ServerConfig, log: pino.Logger, newKey: NewApiKey): Promise<OpenServer> {
  await using resources = new AsyncDisposableStack();
  const state: ServerState = { isOpen: true, acceptsCalls: true };
  const startup: Startup = { config, log, version: packageVersion(), state, resources };
  const storage = await openStorage(startup);
  // The lock of the data folder ensures that the server before has ended. Without this, the call of an idempotency key would run on for minutes.
  if (storage.database.kind === "sqlite") await expireDirectCalls(storage.database.db);
  const parts = await openCalls(startup, storage);
  const services = await openServices(startup, storage, parts);
  const http = await openHttp(startup, storage, parts, services);
  const { port } = http.server.address() as AddressInfo;
  const ownUrl = await findOwnUrl(config, port);
  if (ownUrl !== undefined) await storage.bus.setUrl(ownUrl);
  // Nothing fails between here and the caller, who shows the key: it exists nowhere else.
  const adminKey = await createFirstAdminKey(storage.database, newKey);
  parts.calls.start();
  services.runs.start();
  services.deliveries.start();
  services.scheduler.start();
  const shownHost = config.host.includes(":") ? `[${config.host}]` : config.host;
  const url = `http://${shownHost}:${port}`;
  log.info({ url, database: storage.database.kind }, "listening");
  const opened = resources.move();
  return {
    url,
    adminKey,
    close: async (drainMs, delayMs) =>
      await closeServer({ state, log, parts, services, http, resources: opened }, drainMs, delayMs),
  };
}
