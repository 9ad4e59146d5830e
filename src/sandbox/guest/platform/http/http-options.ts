// Reads the arguments of http.request(): `url`, `options` and `callback`, by Node's rules.

import { invalidArgument, nodeError, unsupported } from "../shared/node-error.ts";
import type { builtins as urlBuiltins } from "../url/node-url.ts";
import type { Agent } from "./http-agent.ts";
import { validateToken } from "./http-headers.ts";
import type { HttpServer } from "./restated-headers.ts";

/** Options of a request. Only own properties count, so that changes of `Object.prototype` have no effect. */
export interface RequestOptions {
  readonly __proto__?: null;
  readonly agent?: Agent | false | null;
  readonly auth?: unknown;
  readonly createConnection?: unknown;
  readonly defaultPort?: unknown;
  readonly headers?: unknown;
  readonly highWaterMark?: unknown;
  readonly host?: unknown;
  readonly hostname?: unknown;
  readonly joinDuplicateHeaders?: unknown;
  readonly method?: unknown;
  readonly path?: unknown;
  readonly port?: unknown;
  readonly protocol?: unknown;
  readonly setDefaultHeaders?: unknown;
  readonly setHost?: unknown;
  readonly signal?: unknown;
  readonly socketPath?: unknown;
  readonly timeout?: unknown;
}

export type ResponseListener = (response: unknown) => void;

interface UrlLike {
  readonly href: string;
}
declare const URL: new (text: string) => UrlLike;
declare function require(file: "../url/node-url.ts"): { readonly builtins: typeof urlBuiltins };
const toOptions = (url: UrlLike): object =>
  require("../url/node-url.ts").builtins.url.urlToHttpOptions(url as never) as object;

const isUrl = (value: unknown): value is UrlLike =>
  typeof value === "object" &&
  value !== null &&
  Boolean((value as { href?: unknown }).href && (value as { protocol?: unknown }).protocol) &&
  (value as { auth?: unknown }).auth === undefined &&
  (value as { path?: unknown }).path === undefined;

function parseUrl(input: string): UrlLike {
  try {
    return new URL(input);
  } catch {
    throw Object.assign(nodeError(TypeError, "ERR_INVALID_URL", "Invalid URL"), { input });
  }
}

/** Separates the arguments of `http.request`. @throws {TypeError} ERR_INVALID_URL */
export function readArguments(args: readonly unknown[]): {
  readonly options: RequestOptions;
  readonly callback: ResponseListener | undefined;
} {
  const [input] = args;
  const url = typeof input === "string" ? parseUrl(input) : isUrl(input) ? input : undefined;
  const [given, last] = url === undefined ? args : args.slice(1);
  const hasOptions = typeof given !== "function";
  const callback = hasOptions ? last : given;
  return {
    options: Object.assign(Object.create(null), url && toOptions(url), hasOptions ? given : undefined),
    callback: typeof callback === "function" ? (callback as ResponseListener) : undefined,
  };
}

/** Chooses the agent; undefined if the request has its own way to connect. @throws {TypeError} ERR_INVALID_ARG_TYPE */
export function chooseAgent({ agent, createConnection }: RequestOptions, defaultAgent: Agent): Agent {
  // Node would use a socket of the tool, which cannot have any.
  if (typeof createConnection === "function") {
    throw unsupported("http.request() with createConnection", "a tool has no sockets; omit the option");
  }
  if (agent === false) return new (defaultAgent.constructor as new () => Agent)();
  if (agent === undefined || agent === null) return defaultAgent;
  if (typeof agent.addRequest === "function") return agent;
  throw invalidArgument("options.agent", "one of Agent-like Object, undefined, or false", agent);
}

/** Agents of the package agent-base derive their protocol from Node's stack traces. */
const hasOwnProtocol = (agent: Agent): boolean =>
  typeof (agent as { readonly isSecureEndpoint?: unknown }).isSecureEndpoint !== "function";

/** @throws {TypeError} ERR_INVALID_PROTOCOL */
export function readProtocol(options: RequestOptions, agent: Agent, defaultAgent: Agent): string {
  const protocol = (options.protocol || defaultAgent.protocol) as string;
  const expected = (hasOwnProtocol(agent) && agent.protocol) || defaultAgent.protocol;
  if (protocol === expected) return protocol;
  const message = `Protocol "${protocol}" not supported. Expected "${expected}"`;
  throw nodeError(TypeError, "ERR_INVALID_PROTOCOL", message);
}

function readHost(value: unknown, name: string): string | undefined {
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return undefined;
  throw invalidArgument(`options.${name}`, "of type string or one of undefined or null", value);
}

function readPort(options: RequestOptions, agent: Agent, protocol: string): number {
  const ofAgent = hasOwnProtocol(agent) ? agent.defaultPort : protocol === "https:" ? 443 : 80;
  const given = options.port || options.defaultPort || ofAgent || 80;
  const port = Number(given);
  if (Number.isInteger(port) && port >= 0 && port < 65_536) return port;
  const shown = typeof given === "string" ? `type string ('${given}')` : `type ${typeof given} (${String(given)})`;
  throw nodeError(RangeError, "ERR_SOCKET_BAD_PORT", `Port should be >= 0 and < 65536. Received ${shown}.`);
}

export interface RequestServer extends HttpServer {
  /** Host as it was given. */
  readonly name: string;
}

/** @throws {TypeError | RangeError} for a host or port of a wrong type or range */
export function readServer(options: RequestOptions, agent: Agent, protocol: string): RequestServer {
  if (options.socketPath !== undefined && options.socketPath !== null) {
    throw unsupported("http.request() with socketPath", "a tool has no sockets; use a URL");
  }
  const name = readHost(options.hostname, "hostname") || readHost(options.host, "host") || "localhost";
  const isAddress = name.includes(":", name.indexOf(":") + 1) && !name.startsWith("[");
  return { protocol, name, host: isAddress ? `[${name}]` : name, port: readPort(options, agent, protocol) };
}

/** Characters that would change what the URL of a request means. Node looks up such a name, and does not find it. */
const NO_HOST = /[/?#@\\%\s]|^[^[]*:/;
export const isHostName = (host: string): boolean => !NO_HOST.test(host);

/** @throws {TypeError} ERR_INVALID_HTTP_TOKEN, ERR_SANDBOX_UNSUPPORTED */
export function readMethod({ method }: RequestOptions): string {
  if (method === undefined || method === null || method === "") return "GET";
  if (typeof method !== "string") throw invalidArgument("options.method", "of type string", method);
  validateToken("Method", method);
  if (method.toUpperCase() === "CONNECT") throw unsupported("The method CONNECT", "a tool has no sockets; use fetch");
  return method.toUpperCase();
}

const INVALID_PATH = /[^\u0021-\u00ff]/;

/** @throws {TypeError} ERR_UNESCAPED_CHARACTERS */
export function checkPath(path: string): string {
  if (!INVALID_PATH.test(path)) return path;
  throw nodeError(TypeError, "ERR_UNESCAPED_CHARACTERS", "Request path contains unescaped characters");
}

/** Returns the URL of a request. @throws {Error} ERR_SANDBOX_UNSUPPORTED for a path that is not one of the server */
export function urlOf({ protocol, host, port }: HttpServer, path: string): string {
  const own = path.startsWith("?") ? `/${path}` : path;
  if (!own.startsWith("/")) {
    throw unsupported(`http.request() with the path ${JSON.stringify(path.slice(0, 100))}`, "a path begins with /");
  }
  const isDefault = port === (protocol === "https:" ? 443 : 80);
  return `${protocol}//${host}${isDefault ? "" : `:${port}`}${own}`;
}
