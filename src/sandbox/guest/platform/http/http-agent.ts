// Agent of node:http and node:https. The host pools the connections; an agent limits how many requests of the tool run at the same time.

import { EventEmitter } from "../events/node-events.ts";
import { unsupported } from "../shared/node-error.ts";

/** A request as an agent sees it. */
export interface AgentRequest {
  once(event: "close", listener: () => void): unknown;
  /** Starts the request. */
  onSocket(): void;
}

interface AgentOptions {
  readonly keepAlive?: boolean;
  readonly keepAliveMsecs?: number;
  readonly maxSockets?: number;
  readonly maxTotalSockets?: number;
  readonly maxFreeSockets?: number;
  readonly scheduling?: string;
  readonly timeout?: number;
  readonly host?: string;
  readonly port?: number | string;
  readonly localAddress?: string;
  readonly family?: number;
  readonly socketPath?: string;
}

export interface Agent {
  options: AgentOptions;
  requests: object;
  sockets: object;
  freeSockets: object;
  keepAlive: boolean;
  keepAliveMsecs: number;
  maxSockets: number;
  maxTotalSockets: number;
  maxFreeSockets: number;
  scheduling: string;
  totalSocketCount: number;
  defaultPort: number;
  protocol: string;
  /** Set by packages whose agents connect through a proxy. */
  readonly proxy?: unknown;
  addRequest(request: AgentRequest, options: AgentOptions): void;
  getName(options?: AgentOptions): string;
  destroy(): void;
}
interface AgentClass {
  (this: unknown, options?: AgentOptions): Agent | undefined;
  new (options?: AgentOptions): Agent;
  prototype: Agent;
}

/** The requests of an agent, by the name of their server. Kept outside of the agent, since old packages do not call its constructor. */
interface Queue {
  running: number;
  readonly waiting: AgentRequest[];
}
const queues = new WeakMap<object, Map<string, Queue>>();

function queueOf(agent: Agent, name: string): Queue {
  const byName = queues.get(agent) ?? new Map<string, Queue>();
  queues.set(agent, byName);
  const queue = byName.get(name) ?? { running: 0, waiting: [] };
  byName.set(name, queue);
  return queue;
}

function startNext(agent: Agent, name: string): void {
  const queue = queueOf(agent, name);
  while (queue.waiting.length > 0 && queue.running < (agent.maxSockets || Number.POSITIVE_INFINITY)) {
    const request = queue.waiting.shift() as AgentRequest;
    queue.running += 1;
    request.once("close", () => {
      queue.running -= 1;
      startNext(agent, name);
      if (queue.running === 0) queues.get(agent)?.delete(name);
    });
    request.onSocket();
  }
}

/** Tells whether an agent connects through a proxy. Agents of npm have an empty object without one. */
function hasProxy(proxy: unknown): boolean {
  if (typeof proxy !== "object" || proxy === null) return Boolean(proxy);
  const { href, host, hostname, url } = proxy as { readonly [name: string]: unknown };
  return Boolean(href ?? host ?? hostname ?? url);
}

const prototype: Omit<Agent, keyof typeof FIELDS | "options" | "proxy"> & { readonly [name: string]: unknown } = {
  addRequest(this: Agent, request: AgentRequest, options: AgentOptions): void {
    // A request that is meant for a proxy must not go to the server directly.
    if (hasProxy(this.proxy)) throw unsupported("http.Agent with a proxy", "only the host can use a proxy");
    const name = this.getName(options);
    queueOf(this, name).waiting.push(request);
    startNext(this, name);
  },
  getName({ host = "localhost", port = "", localAddress = "", family, socketPath }: AgentOptions = {}): string {
    const ofFamily = family === 4 || family === 6 ? `:${family}` : "";
    return `${host}:${port}:${localAddress}${ofFamily}${socketPath ? `:${socketPath}` : ""}`;
  },
  createConnection(): never {
    throw unsupported("http.Agent.createConnection()", "a tool has no sockets; use http.request or fetch");
  },
  createSocket(): never {
    throw unsupported("http.Agent.createSocket()", "a tool has no sockets; use http.request or fetch");
  },
  keepSocketAlive: (): boolean => true,
  reuseSocket(): void {},
  removeSocket(): void {},
  destroy(): void {},
};

const FIELDS = {
  keepAlive: false,
  keepAliveMsecs: 1_000,
  maxSockets: Number.POSITIVE_INFINITY,
  maxTotalSockets: Number.POSITIVE_INFINITY,
  maxFreeSockets: 256,
  scheduling: "lifo",
  totalSocketCount: 0,
  defaultPort: 80,
  protocol: "http:",
  requests: {},
  sockets: {},
  freeSockets: {},
};

function initialize(agent: Agent, given: AgentOptions, isSecure: boolean): void {
  const options = { __proto__: null, ...given } as AgentOptions;
  const { keepAlive, keepAliveMsecs, maxSockets, maxTotalSockets, maxFreeSockets, scheduling } = options;
  const own = { keepAlive, keepAliveMsecs, maxSockets, maxTotalSockets, maxFreeSockets, scheduling };
  const set = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined));
  const ofProtocol = isSecure ? { defaultPort: 443, protocol: "https:" } : {};
  Object.assign(agent, FIELDS, ofProtocol, set, { options, requests: {}, sockets: {}, freeSockets: {} });
}

/** Returns a class that can be called with and without `new`, applied to the caller's own object, and extended, as in Node. */
function agentClass(Parent: { prototype: object }, isSecure: boolean): AgentClass {
  function Agent(this: Agent | undefined, options: AgentOptions = {}): Agent | undefined {
    if (!(this instanceof Agent)) return new (Agent as unknown as AgentClass)(options);
    Reflect.apply(EventEmitter as unknown as () => void, this, []);
    initialize(this, options, isSecure);
    return undefined;
  }
  Object.setPrototypeOf(Agent, Parent);
  Agent.prototype = Object.create(Parent.prototype, {
    constructor: { value: Agent, writable: true, configurable: true },
  });
  return Agent as unknown as AgentClass;
}

export const HttpAgent: AgentClass = agentClass(EventEmitter, false);
Object.assign(HttpAgent.prototype, prototype);
export const HttpsAgent: AgentClass = agentClass(HttpAgent, true);
