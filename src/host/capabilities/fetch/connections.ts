// The connections of one call: a name is resolved once, its addresses are checked, and the connection goes to those and no others.
// Nothing is shared with another call: no connection, no TLS session, no cookie, no proxy of the environment.

import type { Socket } from "node:net";
import type { buildConnector, Client } from "undici";
import type { CallMeter } from "../../tenants/call-meter.ts";
import { type AddressList, blockedRange } from "./address-guard.ts";
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { hostOf } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError } from "./network-errors.ts";
import { pinnedLookup, type Resolver, resolveChecked } from "./pinned-addresses.ts";

const CONNECT_MS = 10_000;
/** From the request's end to the response's head. */
const HEAD_MS = 60_000;
/** Between two parts of a response's body. */
const IDLE_MS = 30_000;
const HEAD_BYTES = 32 * 1024;
const KEEP_MS = 4_000;

export class Connections implements Disposable {
  readonly #policy: EgressPolicy;
  readonly #resolver: Resolver;
  readonly #idle = new Map<string, Client[]>();
  /** With the addresses that each may connect to. */
  readonly #clients = new Map<Client, readonly string[]>();
  readonly #sockets = new Set<Socket>();
  #isOver = false;

  readonly #meter: CallMeter | undefined;

  /**
   * @param resolver for where the host has stated none
   * @param meter counts the bytes of all connections
   */
  constructor(policy: EgressPolicy, resolver: Resolver, meter?: CallMeter) {
    this.#policy = policy;
    this.#resolver = resolver;
    this.#meter = meter;
  }

  /**
   * A connection of its own for one exchange: one that an earlier exchange with this origin has left, or a new one.
   * @param allowed addresses that this request may connect to although they are not public
   */
  async take(url: URL, allowed: AddressList, signal: AbortSignal): Promise<Client> {
    const left = this.#takeIdle(url.origin, allowed);
    if (left !== undefined) return left;
    const { resolve } = this.#policy;
    const resolver: Resolver = resolve === undefined ? this.#resolver : (host) => resolve(host);
    const addresses = await resolveChecked(hostOf(url), allowed, resolver, signal);
    if (this.#isOver) throw networkError("the tool's call is over");
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

  /** One whose addresses this request may connect to as well: another rule than this request's may have allowed them. */
  #takeIdle(origin: string, allowed: AddressList): Client | undefined {
    const idle = this.#idle.get(origin) ?? [];
    const fits = (client: Client): boolean =>
      (this.#clients.get(client) ?? []).every((address) => blockedRange(address, allowed) === undefined);
    const index = idle.findLastIndex(fits);
    return index < 0 ? undefined : idle.splice(index, 1)[0];
  }

  /** The exchange is over, and its connection can be used for another. */
  keep(url: URL, client: Client): void {
    if (this.#isOver || client.closed || client.destroyed) return;
    const idle = this.#idle.get(url.origin) ?? [];
    this.#idle.set(url.origin, idle);
    idle.push(client);
  }

  drop(client: Client): void {
    this.#clients.delete(client);
    client.destroy().catch(() => {});
  }

  #connector(addresses: readonly string[], allowed: AddressList): buildConnector.connector {
    const connector = loadHttpClient().buildConnector({
      timeout: Math.min(CONNECT_MS, this.#policy.timeoutMs),
      allowH2: false,
      maxCachedSessions: 0,
      // Whatever the environment says.
      rejectUnauthorized: true,
      lookup: pinnedLookup(addresses),
      autoSelectFamily: true,
    });
    return (options, callback) => {
      const connecting: unknown = connector(options, (...[error, socket]) => {
        if (error !== null) return callback(error, null);
        // Whatever the lookup was asked, this is where the connection goes.
        const range = blockedRange(socket.remoteAddress ?? "", allowed);
        if (range === undefined && !this.#isOver) {
          this.#meter?.count(socket);
          return callback(null, socket);
        }
        socket.destroy();
        callback(denied("address", `the connection went to an address that is not public (${range})`), null);
      });
      this.#hold(connecting as Socket);
    };
  }

  #hold(socket: Socket): void {
    if (this.#isOver) socket.destroy();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const client of this.#clients.keys()) this.drop(client);
    for (const socket of this.#sockets) socket.destroy();
    this.#idle.clear();
  }
}
