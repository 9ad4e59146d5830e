// Creates stubs of capabilities for a tool's tests. Built-in capabilities exchange internal messages with a platform module in the guest.
// A stub translates these messages to terms that a tool's author knows: requests and responses, entries, names.
import { types } from "node:util";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import { type PlaceholderBytes, replaceBytes, restoreBytes } from "../json/binary-placeholders.ts";
import { type Capability, type CapabilityContext, type CapabilityOptions, defineCapability } from "./capability.ts";

/** A request of the tool, as a stub of `fetch` receives it. */
export interface StubbedRequest {
  readonly method: string;
  readonly url: string;
  /** By name in lower case. */
  readonly headers: { readonly [name: string]: string };
  /** As text; null for a request without a body. */
  readonly body: string | null;
}

/** One operation of `ctx.kv`, as a stub of `kv` receives it. */
export interface StubbedKvRequest {
  readonly op: "get" | "set" | "delete" | "list";
  /** Missing for `list`. */
  readonly key: string;
  /** For `set` only. */
  readonly value?: unknown;
  readonly ttlMs?: number;
  readonly ifVersion?: string | null;
  /** For `list` only, as are `cursor` and `limit`. */
  readonly prefix?: string;
  readonly cursor?: string;
  readonly limit?: number;
}

interface BuiltInInputs {
  readonly fetch: StubbedRequest;
  readonly kv: StubbedKvRequest;
  readonly secrets: string;
  readonly tools: { readonly name: string; readonly input: unknown };
}
/** Input of the stub of a capability: its own type for a built-in capability, unknown for others. */
export type StubInput<Name extends string> = Name extends keyof BuiltInInputs ? BuiltInInputs[Name] : unknown;

/** The function of the test that answers in the capability's place. */
type AnswerRequest = (input: unknown, context: CapabilityContext) => unknown;
/**
 * Answers the messages that a platform module in the guest writes. They are not parsed: the tool is that of the test's author.
 */
type Handler = (input: JsonValue, context: CapabilityContext) => unknown;
type Descriptor = Pick<CapabilityOptions<JsonSchema, JsonSchema>, "members" | "uncounted"> &
  Pick<Capability, "platformModule">;

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

function kvHandler(answer: AnswerRequest): Handler {
  return async (given, context) => {
    const request = given as unknown as StubbedKvRequest;
    const input = request.op === "set" ? { ...request, value: fromWireValue(request.value as WireValue) } : request;
    const result = (await answer(input, context)) ?? undefined;
    switch (request.op) {
      case "get":
        return result === undefined ? null : toWireEntry(result as StubbedEntry, request.key);
      case "set":
        return result ?? { ok: true, version: FIRST_VERSION };
      case "delete":
        return result ?? false;
      case "list": {
        const page = (result ?? { entries: [] }) as { readonly entries: readonly StubbedEntry[] };
        return { ...page, entries: page.entries.map((entry) => toWireEntry(entry, entry.key)) };
      }
    }
  };
}

function toolsHandler(answer: AnswerRequest): Handler {
  return async (given, context) => {
    const { name, input, bytes } = given as unknown as { name: string; input: JsonValue; bytes?: PlaceholderBytes };
    const value = bytes === undefined ? input : restoreBytes(input, bytes);
    return replaceBytes(((await answer({ name, input: value }, context)) ?? null) as ToolValue);
  };
}

function secretsHandler(answer: AnswerRequest): Handler {
  return async (given, context) => {
    const [name] = (given as unknown as { readonly args: readonly [string] }).args;
    return (await answer(name, context)) ?? `placeholder-of-${name}`;
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

/** One request of a stubbed `fetch`. Holds the request's body until it is complete, then the unread rest of the response's body. */
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
    answer: (request: StubbedRequest) => unknown,
  ): Promise<object> {
    if (body !== null && "base64" in body) this.write(body.base64);
    if (body !== null && "stream" in body) await this.#body.promise;
    const sent = body === null ? null : Buffer.concat(this.#sent).toString();
    const byName = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
    const response = toResponse(await answer({ method, url, headers: byName, body: sent }));
    this.#rest = response.body === null ? undefined : Buffer.from(await response.arrayBuffer());
    const { status, statusText, redirected } = response;
    const hasBody = this.#rest !== undefined;
    return { status, statusText, headers: [...response.headers], url: response.url || url, redirected, hasBody };
  }
  read(): object {
    const platformModule = this.#rest?.subarray(0, MAX_CHUNK_BYTES);
    if (platformModule === undefined || platformModule.length === 0) return { done: true };
    this.#rest = this.#rest?.subarray(platformModule.length);
    return { base64: platformModule.toString("base64") };
  }
}

const MAX_CHUNK_BYTES = 256 * 1024;

function toResponse(answer: unknown): Response {
  if (answer === undefined || answer === null) return new Response(null, { status: 404, statusText: "Not Found" });
  return isResponse(answer) ? answer : Response.json(answer);
}

/** Checks for the members of a Response. `instanceof` would reject the Response of a library or of another realm. */
function isResponse(answer: unknown): answer is Response {
  if (typeof answer !== "object" || answer === null) return false;
  const { status, headers, arrayBuffer } = answer as Partial<Response>;
  const isIterable = typeof headers === "object" && headers !== null && Symbol.iterator in headers;
  return typeof status === "number" && typeof arrayBuffer === "function" && isIterable;
}

function fetchHandler(answer: AnswerRequest): Handler {
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
            "A stub of fetch does not support WebSockets. Use a server on loopback instead",
          );
        }
        return await exchange.request(wire, (request) => answer(request, context));
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

/** The built-in capabilities, each with the descriptor that its platform module in the guest expects. */
const BUILT_IN: {
  readonly [Name in keyof BuiltInInputs]: {
    readonly descriptor: Descriptor;
    readonly handlerOf: (answer: AnswerRequest) => Handler;
  };
} = {
  fetch: {
    descriptor: { uncounted: ["write", "end", "read", "cancel", "send", "receive", "close"] },
    handlerOf: fetchHandler,
  },
  kv: { descriptor: { platformModule: "kv" }, handlerOf: kvHandler },
  secrets: { descriptor: { members: ["use"] }, handlerOf: secretsHandler },
  tools: { descriptor: { platformModule: "tools" }, handlerOf: toolsHandler },
};

/**
 * Creates the stub of a capability.
 * @param answer answers each request. If it returns undefined, the request gets a default: 404, no entry, a placeholder, or null.
 */
export function createCapabilityStub(name: string, answer: AnswerRequest): Capability {
  const builtIn = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name as keyof BuiltInInputs] : undefined;
  const plain: Handler = async (input, context) => (await answer(input, context)) ?? null;
  const { members, uncounted, platformModule } = builtIn?.descriptor ?? {};
  const handler = builtIn?.handlerOf(answer) ?? plain;
  const capability = defineCapability({ name, inputSchema: {}, outputSchema: {}, members, uncounted, handler });
  return { ...capability, platformModule, isStub: true };
}
