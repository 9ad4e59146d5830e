// Faults of the chaos test. Each one begins, lasts, and is healed before it resolves.
import { setTimeout as sleep } from "node:timers/promises";
import { openTcpProxy, type TcpProxy } from "../../server/support/tcp-proxy.ts";
import type { Deployment, Member } from "../../support/deployment.ts";
import type { NatsServer } from "../../support/nats-server.ts";
import { type NetworkNamespace, openNetworkNamespace } from "../../support/network-namespace.ts";

/** Longer than the silence after which an executor's calls are lost. */
const SILENT_MS = 8_000;
/** Longer than a lease, so that other servers take over what a frozen server runs. */
const PAST_LEASE_MS = 17_000;

/** The links between processes, which faults can cut. */
export class Links implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly #proxies = new Map<string, TcpProxy>();
  readonly #namespaces = new Map<string, NetworkNamespace>();

  /** Opens a link by a proxy in this process. Returns its port. */
  async toPort(name: string, port: number): Promise<number> {
    const proxy = this.#stack.use(await openTcpProxy(port, this.#namespaces.get(name)?.hostAddress));
    this.#proxies.set(name, proxy);
    return proxy.port;
  }

  /** Gives a process a network of its own, with one link to this machine. */
  addNamespace(name: string): void {
    this.#namespaces.set(name, this.#stack.use(openNetworkNamespace(this.#namespaces.size)));
  }

  wrapperOf(name: string): readonly string[] {
    return this.#namespaces.get(name)?.wrapper ?? [];
  }

  addressOf(name: string): string {
    return this.#namespaces.get(name)?.hostAddress ?? "127.0.0.1";
  }

  /** Loses everything that a process sends and should receive over its link. */
  async partition(name: string, ms: number): Promise<void> {
    const namespace = this.#namespaces.get(name);
    const proxy = this.#proxies.get(name);
    if (namespace !== undefined) namespace.cut();
    else proxy?.freeze();
    await sleep(ms);
    if (namespace !== undefined) namespace.restore();
    else proxy?.thaw();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

export interface FaultContext {
  readonly deployment: Deployment;
  readonly links: Links;
  readonly restartPostgres: () => Promise<void>;
}

const pick = (members: readonly Member[]): Member => members[Math.floor(Math.random() * members.length)] as Member;

async function freeze({ process }: Member, ms: number): Promise<void> {
  process.signal("SIGSTOP");
  await sleep(ms);
  process.signal("SIGCONT");
}

export const FAULTS = {
  "kill a server": async ({ deployment }) => void (await pick(deployment.servers).restart("SIGKILL")),
  "kill an executor": async ({ deployment }) => void (await pick(deployment.executors).restart("SIGKILL")),
  "freeze a server": async ({ deployment }) => await freeze(pick(deployment.servers), PAST_LEASE_MS),
  "freeze an executor": async ({ deployment }) => await freeze(pick(deployment.executors), SILENT_MS),
  "partition an executor": async ({ deployment, links }) =>
    await links.partition(pick(deployment.executors).name, SILENT_MS),
  "partition a server from Postgres": async ({ deployment, links }) =>
    await links.partition(`${pick(deployment.servers).name} database`, PAST_LEASE_MS),
  "partition a server from NATS": async ({ deployment, links }) =>
    await links.partition(pick(deployment.servers).name, SILENT_MS),
  "restart NATS": async ({ deployment }) => await (deployment.nats as NatsServer).restart(),
  "restart Postgres": async ({ restartPostgres }) => await restartPostgres(),
} as const satisfies { readonly [name: string]: (context: FaultContext) => Promise<void> };

export type FaultName = keyof typeof FAULTS;
