// Capability fetch: sends a tool's HTTP requests and opens its WebSockets, to the hosts that the egress rules allow. The comments of the
// input schema describe the answer to each operation.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { cpuAccountOf, isContinuedRun, meterOf, observerOf, traceOf, useOf } from "../call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "../capability.ts";
import type { CallExchanges } from "./call-exchanges.ts";
import { Connections } from "./connections.ts";
import { type EgressPolicy, parseRequestedHosts } from "./egress-policy.ts";
import type { Resolver } from "./pinned-addresses.ts";
import type { RedirectGuard } from "./redirects.ts";
import { type HeaderList, traceHeaders } from "./request-headers.ts";
import type { CallSecrets } from "./secrets.ts";
import { systemResolver } from "./system-resolver.ts";

const MAX_HEADERS = 500;
const MAX_URL_LENGTH = 64 * 1024;
/** Bytes of a close frame's reason in UTF-8 (RFC 6455, 5.5). */
const MAX_REASON_BYTES = 123;

const id = z.int().min(0);
const base64 = z.string();
const closeCode = z.union([z.literal(1_000), z.int().min(3_000).max(4_999)]);
const headers = z.array(z.tuple([z.string(), z.string()])).max(MAX_HEADERS);

/** Answered with a ResponseHead when it has arrived. */
const RequestSchema = z.strictObject({
  op: z.literal("request"),
  id,
  method: z.string().max(32),
  url: z.string().max(MAX_URL_LENGTH),
  headers,
  body: z.union([z.strictObject({ base64 }), z.strictObject({ stream: z.literal(true) })]).nullable(),
  redirect: z.enum(["follow", "error", "manual"]),
  /** A WebSocket handshake, as in the fetch standard: `GET`, no body, `redirect: "error"`. Answered with the chosen protocol. */
  mode: z.literal("websocket").optional(),
});
/** A redirected request as a hook may return it. Its URL has no length limit, since it comes from the server. */
const RedirectSchema = RequestSchema.omit({ mode: true }).extend({
  url: z.string(),
  redirectedFrom: z.string().optional(),
});

const InputSchema = z.discriminatedUnion("op", [
  RequestSchema,
  /** A part of a streamed body; answered with null when the network has accepted it. */
  z.strictObject({ op: z.literal("write"), id, base64 }),
  z.strictObject({ op: z.literal("end"), id }),
  /** Answered with `{ base64 }`, 1 byte to 256 KiB, or `{ done: true }`. */
  z.strictObject({ op: z.literal("read"), id }),
  z.strictObject({ op: z.literal("cancel"), id }),
  /** A part of a message to a WebSocket's server; answered with null when the network can accept more. */
  z.strictObject({
    op: z.literal("send"),
    id,
    data: z.union([z.strictObject({ text: z.string() }), z.strictObject({ base64 })]),
    isLast: z.boolean(),
  }),
  /** Answered with the messages that a WebSocket has received, as soon as there are any, or with its close code and reason. */
  z.strictObject({ op: z.literal("receive"), id }),
  /** Starts the timeout of a WebSocket's closing, while earlier messages are still being sent and before `close`; answered with null. */
  z.strictObject({ op: z.literal("closing"), id }),
  /** Starts a WebSocket's closing handshake; answered with null. */
  z.strictObject({
    op: z.literal("close"),
    id,
    code: closeCode.optional(),
    reason: z.string().refine((text) => Buffer.byteLength(text) <= MAX_REASON_BYTES),
  }),
]);
type Input = z.infer<typeof InputSchema>;

export interface FetchDependencies {
  readonly policyOf: (context: CapabilityContext) => EgressPolicy;
  /** The secrets of a call, the same for each of its capabilities. */
  readonly secretsOf: (context: CapabilityContext) => CallSecrets;
}

export function createFetchCapability({ policyOf, secretsOf }: FetchDependencies): Capability {
  const open = async (context: CapabilityContext): Promise<CallExchanges> => {
    const policy = policyOf(context);
    const requested = parseRequestedHosts(context.requested);
    const secrets = secretsOf(context);
    const resolve: Resolver = (host, signal) => systemResolver.resolve(host, `tenant ${context.tenantId}`, signal);
    const connections = new Connections(policy, resolve, meterOf(context));
    // Most programs send no requests, and what sends one is a twentieth of what an import would load.
    const [{ CallExchanges }] = await Promise.all([import("./call-exchanges.ts"), secrets.registerAll()]);
    const dependencies = { policy, requested, secrets, connections, cpuAccount: cpuAccountOf(context) };
    return new CallExchanges(dependencies, isContinuedRun(context));
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
      const use = useOf(context);
      use?.describe({ operation: input.method, target: toTarget(input.url) });
      if (use !== undefined) exchanges.uses.set(input.id, use);
      if (use !== undefined && input.body !== null && "base64" in input.body)
        use.addBytes("bytesOut", Buffer.byteLength(input.body.base64, "base64"));
      const headersTo = (url: URL): HeaderList => traceHeaders(traceOf(context, url));
      if (input.mode === "websocket") {
        checkHandshake(input);
        return await exchanges.beginWebSocket(input.id).open({ ...input, headersTo });
      }
      const guard = guardOf(input.id, context);
      const head = await exchanges.begin(input.id).request({ ...input, headersTo, guard });
      use?.responded(head.status);
      return head;
    }
    case "write":
      exchanges.uses.get(input.id)?.addBytes("bytesOut", Buffer.byteLength(input.base64, "base64"));
      return await exchanges.get(input.id).write(input.base64);
    case "end":
      return await exchanges.get(input.id).end();
    case "read":
      return await readPart(input.id, exchanges);
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

async function readPart(id: number, exchanges: CallExchanges): Promise<unknown> {
  const part = await exchanges.get(id).read();
  const use = exchanges.uses.get(id);
  if (use !== undefined && "base64" in part) use.addBytes("bytesIn", Buffer.byteLength(part.base64, "base64"));
  use?.ended("ok");
  return part;
}

/** Returns a URL without its query and password, which may be secret. */
function toTarget(text: string): string {
  const url = URL.parse(text);
  return url === null ? "" : `${url.origin}${url.pathname}`;
}

/** @throws {ToolError} PARAM_INVALID for a handshake that a hook has changed to an ordinary request */
function checkHandshake({ method, body, redirect }: z.infer<typeof RequestSchema>): void {
  if (method === "GET" && body === null && redirect === "error") return;
  throw new ToolError(
    "PARAM_INVALID",
    'A WebSocket handshake must have the method GET, no body, and redirect: "error"',
  );
}

/** Returns a guard that runs the host's hooks for each redirect, as for the first request; undefined without such hooks. */
function guardOf(id: number, context: CapabilityContext): RedirectGuard | undefined {
  const observer = observerOf(context);
  if (observer?.hasHook("capability") !== true) return undefined;
  return async (request) => {
    const shown = { op: "request", id, ...request };
    const { input } = await observer.callCapabilityHooks("fetch", shown);
    if (input === shown) return request;
    const modified = RedirectSchema.safeParse(input);
    if (!modified.success || modified.data.id !== id) {
      const message = "A hook returned an invalid request for a redirect of fetch. Expected a request with the same id";
      throw new ToolError("PARAM_INVALID", message, { cause: modified.error });
    }
    return modified.data;
  };
}
