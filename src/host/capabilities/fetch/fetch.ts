// fetch: requests and WebSockets of a tool, sent by the host to where its egress rules allow. The schema's comments state each answer.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { meterOf, payerOf, traceOf, watchOf } from "../call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "../capability.ts";
import { Traffic, WebSocketConnection } from "../websocket/connection.ts";
import { Connections } from "./connections.ts";
import { type EgressPolicy, readAskedHosts } from "./egress-policy.ts";
import { type ExchangeParts, HttpExchange } from "./exchange.ts";
import type { Resolver } from "./pinned-addresses.ts";
import type { RedirectGuard } from "./redirects.ts";
import { type HeaderList, traceHeaders } from "./request-headers.ts";
import type { CallSecrets } from "./secrets.ts";
import { SystemResolver } from "./system-resolver.ts";

/** Of one call at one time: each has a connection, and a response that is not read keeps it. */
const EXCHANGES_AT_ONCE = 50;
const MAX_HEADERS = 500;
const MAX_URL_UNITS = 64 * 1024;
/** Of the reason that a close frame holds, in bytes as UTF-8. */
const MAX_REASON_BYTES = 123;

const id = z.int().min(0);
const base64 = z.string();
const closeCode = z.union([z.literal(1_000), z.int().min(3_000).max(4_999)]);
const headers = z.array(z.tuple([z.string(), z.string()])).max(MAX_HEADERS);

/** Answered with a ResponseHead when that has come. */
const RequestSchema = z.strictObject({
  op: z.literal("request"),
  id,
  method: z.string().max(32),
  url: z.string().max(MAX_URL_UNITS),
  headers,
  body: z.union([z.strictObject({ base64 }), z.strictObject({ stream: z.literal(true) })]).nullable(),
  redirect: z.enum(["follow", "error", "manual"]),
  /** A WebSocket's handshake, as the fetch standard has it: `GET`, no body, `redirect: "error"`. Answered with its protocol. */
  mode: z.literal("websocket").optional(),
});
/** A redirect as a hook may amend it. Its URL may be longer than a tool's: it is the server's. */
const RedirectSchema = RequestSchema.omit({ mode: true }).extend({
  url: z.string(),
  redirectedFrom: z.string().optional(),
});

const InputSchema = z.discriminatedUnion("op", [
  RequestSchema,
  /** A part of a body that is a stream; answered with null once it is taken. */
  z.strictObject({ op: z.literal("write"), id, base64 }),
  z.strictObject({ op: z.literal("end"), id }),
  /** Answered with `{ base64 }`, 1 byte to 256 KiB, or `{ done: true }`. */
  z.strictObject({ op: z.literal("read"), id }),
  z.strictObject({ op: z.literal("cancel"), id }),
  /** A part of a message to a WebSocket's server; answered with null once the network has room for more. */
  z.strictObject({
    op: z.literal("send"),
    id,
    data: z.union([z.strictObject({ text: z.string() }), z.strictObject({ base64 })]),
    isLast: z.boolean(),
  }),
  /** Answered with what a WebSocket has received, as soon as that is something, or with how it was closed. */
  z.strictObject({ op: z.literal("receive"), id }),
  /** Begins the time that a WebSocket has left, before all that was sent is taken and `close` follows; answered with null. */
  z.strictObject({ op: z.literal("closing"), id }),
  /** Begins a WebSocket's closing handshake; answered with null. */
  z.strictObject({
    op: z.literal("close"),
    id,
    code: closeCode.optional(),
    reason: z.string().refine((text) => Buffer.byteLength(text) <= MAX_REASON_BYTES),
  }),
]);
type Input = z.infer<typeof InputSchema>;

/** All exchanges of one call. Disposed of, nothing of them is left. */
class CallExchanges implements Disposable {
  readonly #parts: ExchangeParts;
  readonly #traffic: Traffic;
  /** By number, also those that are over: what comes late is told how they ended. */
  readonly #exchanges = new Map<number, HttpExchange | WebSocketConnection>();
  #open = 0;
  #isOver = false;

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    this.#traffic = new Traffic(parts.policy.webSocketBytes);
  }

  begin(number: number): HttpExchange {
    return this.#add(number, (onOver) => new HttpExchange(this.#parts, onOver));
  }

  beginWebSocket(number: number): WebSocketConnection {
    return this.#add(number, (onOver) => new WebSocketConnection(this.#parts, this.#traffic, onOver));
  }

  #add<Kind extends HttpExchange | WebSocketConnection>(number: number, make: (onOver: () => void) => Kind): Kind {
    if (this.#isOver) throw new ToolError("CANCELLED", "The tool's call is over");
    if (this.#exchanges.has(number)) throw new ToolError("PARAM_INVALID", `There is an exchange ${number} already`);
    if (this.#open >= EXCHANGES_AT_ONCE) {
      const hint = "read or cancel the bodies of their responses, and close WebSockets";
      throw new ToolError("QUOTA_EXCEEDED", `${EXCHANGES_AT_ONCE} exchanges are open already: ${hint}`);
    }
    this.#open += 1;
    const exchange = make(() => {
      this.#open -= 1;
    });
    this.#exchanges.set(number, exchange);
    return exchange;
  }

  get(number: number): HttpExchange {
    const exchange = this.#exchanges.get(number);
    if (exchange instanceof HttpExchange) return exchange;
    throw new ToolError("PARAM_INVALID", `There is no exchange ${number}`);
  }

  webSocket(number: number): WebSocketConnection {
    const exchange = this.#exchanges.get(number);
    if (exchange instanceof WebSocketConnection) return exchange;
    throw new ToolError("PARAM_INVALID", `There is no WebSocket ${number}`);
  }

  cancel(number: number): null {
    this.#exchanges.get(number)?.cancel();
    return null;
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const exchange of this.#exchanges.values()) exchange.cancel();
    this.#parts.connections[Symbol.dispose]();
  }
}

export interface FetchParts {
  readonly policyOf: (context: CapabilityContext) => EgressPolicy;
  /** The secrets of a call, the same for each of its capabilities. */
  readonly secretsOf: (context: CapabilityContext) => CallSecrets;
}

export function createFetchCapability({ policyOf, secretsOf }: FetchParts): Capability {
  const resolver = new SystemResolver();
  const open = async (context: CapabilityContext): Promise<CallExchanges> => {
    const policy = policyOf(context);
    const asked = readAskedHosts(Object.hasOwn(context.asked, "fetch") ? context.asked.fetch : undefined);
    const secrets = secretsOf(context);
    const resolve: Resolver = (host, signal) => resolver.resolve(host, context.tenantId, signal);
    const connections = new Connections(policy, resolve, meterOf(context));
    await secrets.concealAll();
    return new CallExchanges({ policy, asked, secrets, connections, payer: payerOf(context) });
  };
  return defineCapability({
    name: "fetch",
    description: "HTTP requests and WebSockets to the hosts that the egress rules allow",
    uncounted: ["write", "end", "read", "cancel", "send", "receive", "closing", "close"],
    inputSchema: InputSchema,
    outputSchema: z.unknown(),
    handler: async (input, context) => await answer(input, await context.perCall(open), context),
  });
}

async function answer(input: Input, exchanges: CallExchanges, context: CapabilityContext): Promise<unknown> {
  switch (input.op) {
    case "request": {
      const headersTo = (url: URL): HeaderList => traceHeaders(traceOf(context, url));
      if (input.mode === "websocket") {
        checkHandshake(input);
        return await exchanges.beginWebSocket(input.id).open({ ...input, headersTo });
      }
      return await exchanges.begin(input.id).request({ ...input, headersTo, guard: guardOf(input.id, context) });
    }
    case "write":
      return await exchanges.get(input.id).write(input.base64);
    case "end":
      return await exchanges.get(input.id).end();
    case "read":
      return await exchanges.get(input.id).read();
    case "cancel":
      return exchanges.cancel(input.id);
    case "send":
      return await exchanges.webSocket(input.id).send(input);
    case "receive":
      return await exchanges.webSocket(input.id).receive();
    case "closing":
      return exchanges.webSocket(input.id).closing();
    case "close":
      return await exchanges.webSocket(input.id).close(input.code, input.reason);
  }
}

/** @throws {ToolError} PARAM_INVALID for a handshake that a hook has amended to something else */
function checkHandshake({ method, body, redirect }: z.infer<typeof RequestSchema>): void {
  if (method === "GET" && body === null && redirect === "error") return;
  throw new ToolError("PARAM_INVALID", 'A WebSocket\'s handshake has the method GET, no body, and redirect: "error"');
}

/** Asks the host's hooks for each redirect as they were asked for the first request; undefined where there is none to ask. */
function guardOf(id: number, context: CapabilityContext): RedirectGuard | undefined {
  const watch = watchOf(context);
  if (watch?.asks("capability") !== true) return undefined;
  return async (request) => {
    const shown = { op: "request", id, ...request };
    const { input: given } = await watch.askCapability("fetch", shown);
    if (given === shown) return request;
    const amended = RedirectSchema.safeParse(given);
    if (!amended.success || amended.data.id !== id) {
      const what = "A hook amended a redirect of fetch to something that is not a request of the same exchange";
      throw new ToolError("PARAM_INVALID", what, { cause: amended.error });
    }
    return amended.data;
  };
}
