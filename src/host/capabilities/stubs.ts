// What stands in for a capability in a tool's tests. Our own speak to a chunk in the guest in words of their own; here those are what an
// author knows: requests and responses, entries, names.
import { types } from "node:util";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import { type MarkedBytes, markBytes, unmarkBytes } from "../json/binary-placeholders.ts";
import { type Capability, type CapabilityContext, type CapabilityOptions, defineCapability } from "./capability.ts";

export interface StubbedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
  /** As text; null where there is none. */
  readonly body: string | null;
}

/** One operation of `ctx.kv`. */
export interface StubbedKvRequest {
  readonly op: "get" | "set" | "delete" | "list";
  /** Of all but `list`. */
  readonly key: string;
  /** Of `set`. */
  readonly value?: unknown;
  readonly ttlMs?: number;
  readonly ifVersion?: string | null;
  /** Of `list`. */
  readonly prefix?: string;
  readonly cursor?: string;
  readonly limit?: number;
}

interface OwnInputs {
  readonly fetch: StubbedRequest;
  readonly kv: StubbedKvRequest;
  readonly secrets: string;
  readonly tools: { readonly name: string; readonly input: unknown };
}
export type StubInput<Name extends string> = Name extends keyof OwnInputs ? OwnInputs[Name] : unknown;

type Ask = (input: unknown, context: CapabilityContext) => unknown;
type Handler = (input: JsonValue, context: CapabilityContext) => unknown;
type Shape = Pick<CapabilityOptions<JsonSchema, JsonSchema>, "members" | "uncounted"> & Pick<Capability, "chunk">;

type WireValue = { readonly json: string } | { readonly bytes: string };

const toWireValue = (value: unknown): WireValue =>
  types.isUint8Array(value) ? { bytes: Buffer.from(value).toString("base64") } : { json: JSON.stringify(value) };

function fromWireValue(wire: WireValue): unknown {
  return "json" in wire ? JSON.parse(wire.json) : new Uint8Array(Buffer.from(wire.bytes, "base64"));
}

interface StubbedEntry {
  readonly key?: string;
  readonly value: unknown;
  readonly version?: string;
  readonly expiresAt?: number;
}

const FIRST_VERSION = "1";

function toWireEntry({ value, ...entry }: StubbedEntry, key: string | undefined): object {
  return { key, version: FIRST_VERSION, ...entry, ...toWireValue(value) };
}

function kvHandler(ask: Ask): Handler {
  return async (given, context) => {
    const request = given as unknown as StubbedKvRequest;
    const input = request.op === "set" ? { ...request, value: fromWireValue(request.value as WireValue) } : request;
    const answer = (await ask(input, context)) ?? undefined;
    switch (request.op) {
      case "get":
        return answer === undefined ? null : toWireEntry(answer as StubbedEntry, request.key);
      case "set":
        return answer ?? { ok: true, version: FIRST_VERSION };
      case "delete":
        return answer ?? false;
      case "list": {
        const page = (answer ?? { entries: [] }) as { readonly entries: readonly StubbedEntry[] };
        return { ...page, entries: page.entries.map((entry) => toWireEntry(entry, entry.key)) };
      }
    }
  };
}

function toolsHandler(ask: Ask): Handler {
  return async (given, context) => {
    const { name, input, bytes } = given as unknown as { name: string; input: JsonValue; bytes?: MarkedBytes };
    const value = bytes === undefined ? input : unmarkBytes(input, bytes);
    return markBytes(((await ask({ name, input: value }, context)) ?? null) as ToolValue);
  };
}

function secretsHandler(ask: Ask): Handler {
  return async (given, context) => {
    const [name] = (given as unknown as { readonly args: readonly [string] }).args;
    return (await ask(name, context)) ?? `placeholder-of-${name}`;
  };
}

interface WireRequest {
  readonly op: "request" | "write" | "end" | "read" | "cancel" | "send" | "receive" | "close";
  readonly mode?: "websocket";
  readonly id: number;
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: { readonly base64: string } | { readonly stream: true } | null;
  readonly base64: string;
}

/** One request: its body, until that is whole; then what has not been read of the response. */
class StubbedExchange {
  readonly #sent: Buffer[] = [];
  readonly #body = Promise.withResolvers<void>();
  #rest: Buffer | undefined;

  write(base64: string): null {
    this.#sent.push(Buffer.from(base64, "base64"));
    return null;
  }
  end(): null {
    this.#body.resolve();
    return null;
  }
  async request(
    { method, url, headers, body }: WireRequest,
    ask: (request: StubbedRequest) => unknown,
  ): Promise<object> {
    if (body !== null && "base64" in body) this.write(body.base64);
    if (body !== null && "stream" in body) await this.#body.promise;
    const sent = body === null ? null : Buffer.concat(this.#sent).toString();
    const named = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
    const response = toResponse(await ask({ method, url, headers: named, body: sent }));
    this.#rest = response.body === null ? undefined : Buffer.from(await response.arrayBuffer());
    const { status, statusText, redirected } = response;
    const hasBody = this.#rest !== undefined;
    return { status, statusText, headers: [...response.headers], url: response.url || url, redirected, hasBody };
  }
  read(): object {
    const chunk = this.#rest?.subarray(0, MAX_CHUNK_BYTES);
    if (chunk === undefined || chunk.length === 0) return { done: true };
    this.#rest = this.#rest?.subarray(chunk.length);
    return { base64: chunk.toString("base64") };
  }
}

const MAX_CHUNK_BYTES = 256 * 1024;

function toResponse(answer: unknown): Response {
  if (answer === undefined || answer === null) return new Response(null, { status: 404, statusText: "Not Found" });
  return isResponse(answer) ? answer : Response.json(answer);
}

/** A test may answer with the Response of a library or of another realm, which is no instance of this Response. */
function isResponse(answer: unknown): answer is Response {
  if (typeof answer !== "object" || answer === null) return false;
  const { status, headers, arrayBuffer } = answer as Partial<Response>;
  const isIterable = typeof headers === "object" && headers !== null && Symbol.iterator in headers;
  return typeof status === "number" && typeof arrayBuffer === "function" && isIterable;
}

function fetchHandler(ask: Ask): Handler {
  const open = (): Map<number, StubbedExchange> => new Map();
  return async (given, context) => {
    const wire = given as unknown as WireRequest;
    const exchanges = context.perCall(open);
    const exchange = exchanges.get(wire.id) ?? new StubbedExchange();
    exchanges.set(wire.id, exchange);
    switch (wire.op) {
      case "request":
        if (wire.mode === "websocket") {
          throw new ToolError(
            "TOOL_FAILED",
            "A stub of fetch answers requests only: use a server on loopback for WebSockets",
          );
        }
        return await exchange.request(wire, (request) => ask(request, context));
      case "write":
        return exchange.write(wire.base64);
      case "end":
        return exchange.end();
      case "read":
        return exchange.read();
      default:
        return exchange.end();
    }
  };
}

/** As the tool's side of each of ours expects it. */
const OWN: {
  readonly [Name in keyof OwnInputs]: { readonly shape: Shape; readonly handlerOf: (ask: Ask) => Handler };
} = {
  fetch: {
    shape: { uncounted: ["write", "end", "read", "cancel", "send", "receive", "close"] },
    handlerOf: fetchHandler,
  },
  kv: { shape: { chunk: "kv" }, handlerOf: kvHandler },
  secrets: { shape: { members: ["use"] }, handlerOf: secretsHandler },
  tools: { shape: { chunk: "tools" }, handlerOf: toolsHandler },
};

/** @param ask undefined as its answer stands for what is there without one */
export function createStandIn(name: string, ask: Ask): Capability {
  const own = Object.hasOwn(OWN, name) ? OWN[name as keyof OwnInputs] : undefined;
  const plain: Handler = async (input, context) => (await ask(input, context)) ?? null;
  const { members, uncounted, chunk } = own?.shape ?? {};
  const handler = own?.handlerOf(ask) ?? plain;
  const capability = defineCapability({ name, inputSchema: {}, outputSchema: {}, members, uncounted, handler });
  return { ...capability, chunk, standsIn: true };
}
