// The connections of one call: a name is resolved once, its addresses are checked, and the connection goes to those and no others.
// Nothing is shared with another call: no connection, no TLS session, no cookie, no proxy of the environment.

import { isIP, type LookupFunction, type Socket } from "node:net";
import type { buildConnector, Client } from "undici";
import { ToolError } from "../../sandbox/errors.ts";
import { untilAborted } from "../until-aborted.ts";
import { blockedRange } from "./address-guard.ts";
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { hostOf } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError } from "./network-errors.ts";

const CONNECT_MS = 10_000;
/** From the request's end to the response's head. */
const HEAD_MS = 60_000;
/** Between two parts of a response's body. */
const IDLE_MS = 30_000;
const HEAD_BYTES = 32 * 1024;
const KEEP_MS = 4_000;
const MAX_ADDRESSES = 16;

/** Answers with what was checked, whatever it is asked. */
const pinned =
  (addresses: readonly string[]): LookupFunction =>
  (_hostname, { all }, callback) => {
    const answers = addresses.map((address) => ({ address, family: isIP(address) }));
    const [first = { address: "", family: 0 }] = answers;
    if (all) callback(null, answers);
    else callback(null, first.address, first.family);
  };

/** A name's addresses, as the operating system gives them. */
export type Resolver = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;

export class Connections implements Disposable {
  readonly #policy: EgressPolicy;
  readonly #resolver: Resolver;
  readonly #idle = new Map<string, Client[]>();
  readonly #clients = new Set<Client>();
  readonly #sockets = new Set<Socket>();
  #isOver = false;

  /** @param resolver for where the host has stated none */
  constructor(policy: EgressPolicy, resolver: Resolver) {
    this.#policy = policy;
    this.#resolver = resolver;
  }

  /** A connection of its own for one exchange: one that an earlier exchange with this origin has left, or a new one. */
  async take(url: URL, signal: AbortSignal): Promise<Client> {
    const left = this.#idle.get(url.origin)?.pop();
    if (left !== undefined) return left;
    const addresses = await this.#addressesOf(hostOf(url), signal);
    if (this.#isOver) throw networkError("the tool's call is over");
    const { Client } = loadHttpClient();
    const client = new Client(url.origin, {
      connect: this.#connector(addresses),
      allowH2: false,
      headersTimeout: Math.min(HEAD_MS, this.#policy.timeoutMs),
      bodyTimeout: Math.min(IDLE_MS, this.#policy.timeoutMs),
      keepAliveTimeout: KEEP_MS,
      keepAliveMaxTimeout: KEEP_MS,
      maxHeaderSize: HEAD_BYTES,
      pipelining: 1,
    });
    this.#clients.add(client);
    return client;
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

  /** All addresses of a name are checked: one that may not be connected to is enough to refuse it. */
  async #addressesOf(host: string, signal: AbortSignal): Promise<readonly string[]> {
    const addresses = isIP(host) === 0 ? await this.#resolve(host, signal) : [host];
    for (const address of addresses) {
      const range = blockedRange(address, this.#policy.allowAddresses);
      if (range === undefined) continue;
      const what = isIP(host) === 0 ? `${JSON.stringify(host)} resolves to an address` : `${host} is an address`;
      throw denied("address", `${what} that is not public (${range})`);
    }
    return addresses;
  }

  async #resolve(host: string, signal: AbortSignal): Promise<readonly string[]> {
    const { resolve } = this.#policy;
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)]);
    const asking = Promise.resolve().then(() => (resolve === undefined ? this.#resolver(host, inTime) : resolve(host)));
    const answer: unknown = await untilAborted(asking, inTime).catch((cause: unknown) => {
      if (signal.aborted) throw signal.reason;
      throw new ToolError("TOOL_FAILED", "The exchange failed: the host's name could not be resolved", { cause });
    });
    if (!Array.isArray(answer) || answer.length === 0) throw networkError("the host's name could not be resolved");
    return answer.slice(0, MAX_ADDRESSES).map(String);
  }

  #connector(addresses: readonly string[]): buildConnector.connector {
    const connector = loadHttpClient().buildConnector({
      timeout: Math.min(CONNECT_MS, this.#policy.timeoutMs),
      allowH2: false,
      maxCachedSessions: 0,
      // Whatever the environment says.
      rejectUnauthorized: true,
      lookup: pinned(addresses),
      autoSelectFamily: true,
    });
    return (options, callback) => {
      const connecting: unknown = connector(options, (...[error, socket]) => {
        if (error !== null) return callback(error, null);
        // Whatever the lookup was asked, this is where the connection goes.
        const range = blockedRange(socket.remoteAddress ?? "", this.#policy.allowAddresses);
        if (range === undefined && !this.#isOver) return callback(null, socket);
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
    for (const client of this.#clients) this.drop(client);
    for (const socket of this.#sockets) socket.destroy();
    this.#idle.clear();
  }
}
