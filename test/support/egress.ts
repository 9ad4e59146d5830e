// A call's fetch and secrets without a sandbox: the capabilities as the broker calls them, against servers on this machine.
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { CapabilityBroker } from "../../src/host/capabilities/broker.ts";
import { CallScope } from "../../src/host/capabilities/call-scope.ts";
import { createEgress } from "../../src/host/capabilities/fetch/egress-capabilities.ts";
import {
  type EgressAllow,
  type EgressOptions,
  EgressSchema,
  type Secrets,
  SecretsSchema,
} from "../../src/host/capabilities/fetch/egress-policy.ts";
import { Redactor } from "../../src/host/observability/redaction/call-redactor.ts";
import type { CapabilityRequests } from "../../src/sandbox/contract/capability-requests.ts";
import type { JsonValue } from "../../src/sandbox/contract/errors.ts";
import { DEFAULT_LIMITS } from "../../src/sandbox/contract/limits.ts";

export interface TestServer {
  readonly port: number;
  readonly origin: string;
  /** Connections that are open now. */
  readonly open: () => number;
  readonly requests: IncomingMessage[];
  readonly server: Server;
}

/** Closed when the test is over. */
export async function serve(listener: RequestListener, host = "127.0.0.1"): Promise<TestServer> {
  const requests: IncomingMessage[] = [];
  const sockets = new Set<unknown>();
  const server = createServer((request, response) => {
    requests.push(request);
    listener(request, response);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, origin: `http://${host}:${port}`, open: () => sockets.size, requests, server };
}

export interface Rejection {
  readonly code: string;
  readonly message: string;
}

export interface Head {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly url: string;
  readonly redirected: boolean;
  readonly hasBody: boolean;
}

export interface RequestOptions {
  readonly id?: number;
  readonly method?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string | "stream" | null;
  readonly redirect?: "follow" | "error" | "manual";
}

/** Starts one call of a tool, which ends with the test. */
export class TestCall implements Disposable {
  readonly scope: CallScope;
  readonly redactor = new Redactor();
  readonly #broker: CapabilityBroker;
  #lastId = 0;

  constructor(egress: EgressOptions, secrets: Secrets = {}, requested: CapabilityRequests = {}) {
    const policies = { egress: EgressSchema.parse(egress), secrets: SecretsSchema.parse(secrets) };
    const granted = new Map(createEgress(() => policies).map((one) => [one.name, one]));
    const { redactor } = this;
    const facts = { callId: "c1", tenantId: "acme", toolName: "probe", log: () => {} };
    this.scope = new CallScope({ ...facts, requested, redactor });
    this.#broker = new CapabilityBroker({ granted, limits: DEFAULT_LIMITS, context: this.scope.context });
    onTestFinished(() => this[Symbol.dispose]());
  }

  async ask<Answer = JsonValue>(name: string, input: unknown): Promise<Answer> {
    const envelope = JSON.parse(await this.#broker.answer(name, JSON.stringify(input)));
    if (envelope.ok) return envelope.value as Answer;
    throw Object.assign(new Error(envelope.message), { code: envelope.code });
  }

  use(name: string): Promise<string> {
    return this.ask("secrets", { op: "use", args: [name] });
  }

  request(url: string, options: RequestOptions = {}): Promise<Head> {
    this.#lastId += 1;
    const { id = this.#lastId, method = "GET", headers = [], body = null, redirect = "follow" } = options;
    const sent =
      body === null ? null : body === "stream" ? { stream: true } : { base64: Buffer.from(body).toString("base64") };
    return this.ask("fetch", { op: "request", id, method, url, headers, body: sent, redirect });
  }

  write(id: number, text: string | Buffer): Promise<null> {
    return this.ask("fetch", { op: "write", id, base64: Buffer.from(text).toString("base64") });
  }
  end(id: number): Promise<null> {
    return this.ask("fetch", { op: "end", id });
  }
  cancel(id: number): Promise<null> {
    return this.ask("fetch", { op: "cancel", id });
  }

  async read(id: number): Promise<Buffer | undefined> {
    const part = await this.ask<{ readonly base64?: string }>("fetch", { op: "read", id });
    return part.base64 === undefined ? undefined : Buffer.from(part.base64, "base64");
  }

  async body(id: number): Promise<string> {
    const parts: Buffer[] = [];
    for (let part = await this.read(id); part !== undefined; part = await this.read(id)) parts.push(part);
    return Buffer.concat(parts).toString();
  }

  /** Status and body of a request that must succeed. */
  async fetch(url: string, options: RequestOptions = {}): Promise<Head & { readonly text: string }> {
    const head = await this.request(url, options);
    return { ...head, text: await this.body(options.id ?? this.#lastId) };
  }

  [Symbol.dispose](): void {
    this.scope[Symbol.dispose]();
  }
}

/** Returns the error that a promise rejects with. Fails if the promise fulfills. */
export async function rejectionOf(promise: Promise<unknown>): Promise<Rejection> {
  const thrown: unknown = await promise.then(
    (value) => new Error(`Expected a rejection, got ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  const { code, message } = thrown as Rejection;
  if (typeof code !== "string") throw thrown;
  return { code, message };
}

/** Addresses of servers of the tests. */
export const LOOPBACK = ["127.0.0.0/8", "::1"];

/** Rules whose hosts may be on this machine. */
export const onLoopback = (...rules: readonly string[]): readonly EgressAllow[] =>
  rules.map((to) => ({ to, addresses: LOOPBACK }));
