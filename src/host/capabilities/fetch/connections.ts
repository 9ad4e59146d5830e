// The connections of one call. A host name is resolved once, its addresses are checked, and the connection is pinned to them. Calls share
// no connections, TLS sessions or cookies, and proxies of the environment are not used.

import type { Socket } from "node:net";
import type { buildConnector, Client } from "undici";
import type { CallMeter } from "../../tenants/call-meter.ts";
import { type AddressList, blockedRange } from "./address-guard.ts";
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { hostOf } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError } from "./network-errors.ts";
import { pinnedLookup, type Resolver, resolveChecked } from "./pinned-addresses.ts";

/** Longest time to open a connection. */
const CONNECT_MS = 10_000;
/** Longest time from the end of the request to the head of the response. */
const HEAD_MS = 60_000;
/** Longest time between two parts of a response body. */
const IDLE_MS = 30_000;
const HEAD_BYTES = 32 * 1024;
/** Time for which an idle connection is kept. */
const KEEP_MS = 4_000;

/** The connection pool of one call. Disposing it closes all connections. */
export class Connections implements Disposable {
  readonly #policy: EgressPolicy;
  readonly #resolver: Resolver;
  readonly #idle = new Map<string, Client[]>();
  /** All clients, each with the addresses that it may connect to. */
  readonly #clients = new Map<Client, readonly string[]>();
  readonly #sockets = new Set<Socket>();
  #isDisposed = false;

  readonly #meter: CallMeter | undefined;

  /**
   * @param resolver used if the policy has no resolver
   * @param meter counts the bytes of all connections
   */
  constructor(policy: EgressPolicy, resolver: Resolver, meter?: CallMeter) {
    this.#policy = policy;
    this.#resolver = resolver;
    this.#meter = meter;
  }

  /**
   * Returns a connection for exclusive use by one exchange: an idle one to the same origin, or a new one. The caller passes it to
   * {@link keep} or {@link drop} afterwards.
   * @param allowed addresses that this request may connect to although they are not public
   */
  async take(url: URL, allowed: AddressList, signal: AbortSignal): Promise<Client> {
    const idle = this.#takeIdle(url.origin, allowed);
    if (idle !== undefined) return idle;
    const { resolve } = this.#policy;
    const resolver: Resolver = resolve === undefined ? this.#resolver : (host) => resolve(host);
    const addresses = await resolveChecked(hostOf(url), allowed, resolver, signal);
    if (this.#isDisposed) throw networkError("the tool call has ended");
    const { Client } = loadHttpClient();
    const client = new Client(url.origin, {
      connect: this.#connector(addresses, allowed),
      allowH2: false,
      headersTimeout: Math.min(HEAD_MS, this.#policy.timeoutMs),
      bodyTimeout: Math.min(IDLE_MS, this.#policy.timeoutMs),
      keepAliveTimeout: KEEP_MS,
      keepAliveMaxTimeout: KEEP_MS,
      maxHeaderSize: HEAD_BYTES,
      pipelining: 1,
    });
    this.#clients.set(client, addresses);
    return client;
  }

  /**
   * Returns an idle connection that this request may use. Its addresses are checked again, since the rule that allowed them for an earlier
   * request may not allow this one.
   */
  #takeIdle(origin: string, allowed: AddressList): Client | undefined {
    const idle = this.#idle.get(origin) ?? [];
    const fits = (client: Client): boolean =>
      (this.#clients.get(client) ?? []).every((address) => blockedRange(address, allowed) === undefined);
    const index = idle.findLastIndex(fits);
    return index < 0 ? undefined : idle.splice(index, 1)[0];
  }

  /** Keeps the connection of a completed exchange for the next one. */
  keep(url: URL, client: Client): void {
    if (this.#isDisposed || client.closed || client.destroyed) return;
    const idle = this.#idle.get(url.origin) ?? [];
    this.#idle.set(url.origin, idle);
    idle.push(client);
  }

  /** Closes the connection of an exchange. */
  drop(client: Client): void {
    this.#clients.delete(client);
    client.destroy().catch(() => {});
  }

  #connector(addresses: readonly string[], allowed: AddressList): buildConnector.connector {
    const connector = loadHttpClient().buildConnector({
      timeout: Math.min(CONNECT_MS, this.#policy.timeoutMs),
      allowH2: false,
      maxCachedSessions: 0,
      // Overrides NODE_TLS_REJECT_UNAUTHORIZED of the host's environment.
      rejectUnauthorized: true,
      lookup: pinnedLookup(addresses),
      autoSelectFamily: true,
    });
    return (options, callback) => {
      const connecting: unknown = connector(options, (...[error, socket]) => {
        if (error !== null) return callback(error, null);
        // Checks the address of the open connection too, so that no way around the lookup reaches a blocked address.
        const range = blockedRange(socket.remoteAddress ?? "", allowed);
        if (range === undefined && !this.#isDisposed) {
          this.#meter?.count(socket);
          return callback(null, socket);
        }
        socket.destroy();
        callback(denied("address", `the connection went to an address that is not public (${range})`), null);
      });
      this.#track(connecting as Socket);
    };
  }

  #track(socket: Socket): void {
    if (this.#isDisposed) socket.destroy();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    for (const client of this.#clients.keys()) this.drop(client);
    for (const socket of this.#sockets) socket.destroy();
    this.#idle.clear();
  }
}
