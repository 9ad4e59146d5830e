// Reads the upstream MCP servers of `glovebox mcp`: --mcp NAME=COMMAND_OR_URL, and the variables and headers that a server gets from the
// environment. Nothing is passed to a shell.
import type { UpstreamServerOptions } from "../../host/mcp/client/mcp-options.ts";
import { type Arguments, UsageError } from "../usage.ts";

const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const HEADER = /^[!#$%&'*+.^_`|~A-Za-z0-9-]{1,256}$/;

const list = (value: Arguments["values"][string]): readonly string[] => (value as readonly string[] | undefined) ?? [];

/** Splits NAME=REST. @throws {UsageError} */
function splitName(option: string, text: string, expected: string): readonly [name: string, rest: string] {
  const at = text.indexOf("=");
  const name = text.slice(0, Math.max(0, at));
  const rest = text.slice(at + 1).trim();
  if (at > 0 && NAME.test(name) && rest !== "") return [name, rest];
  throw new UsageError(`${option}: expected NAME=${expected}, with a NAME out of A-Z a-z 0-9 _ - ., got "${text}"`);
}

/**
 * Splits a command line into words, as a POSIX shell does with quotes and backslashes. Variables, globs and operators have no meaning.
 * @throws {UsageError} for a quote that is not closed
 */
export function splitCommand(text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charAt(index);
    const next = text.charAt(index + 1);
    if (unit === quote) {
      quote = undefined;
    } else if (unit === "\\" && quote !== "'" && next !== "" && (quote === undefined || /["\\]/.test(next))) {
      word = (word ?? "") + next;
      index += 1;
    } else if (quote === undefined && (unit === '"' || unit === "'")) {
      quote = unit;
      word ??= "";
    } else if (quote === undefined && /\s/.test(unit)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? "") + unit;
  }
  if (quote !== undefined) throw new UsageError(`--mcp: expected a closing ${quote} in ${text}`);
  return word === undefined ? words : [...words, word];
}

/** Returns the value of a variable. @throws {UsageError} if it is not set */
function variable(option: string, name: string, env: NodeJS.ProcessEnv): string {
  const value = VARIABLE.test(name) ? env[name] : undefined;
  if (value !== undefined && value !== "") return value;
  throw new UsageError(`${option}: expected the name of an environment variable that is set, got "${name}"`);
}

interface Upstream {
  readonly target: string;
  readonly env: Record<string, string>;
  readonly headers: Record<string, string>;
}

function toOptions(
  name: string,
  { target, env, headers }: Upstream,
  tenants: readonly string[] | undefined,
): UpstreamServerOptions {
  const shared = { ...(tenants === undefined ? {} : { tenants }), timeoutMs: 60_000 };
  if (/^https?:\/\//i.test(target)) {
    const [variableName] = Object.keys(env);
    if (variableName !== undefined) {
      throw new UsageError(`--mcp-env ${name}=${variableName}: the server ${name} has a URL; expected --mcp-header`);
    }
    return { url: target, headers, ...shared };
  }
  const [headerName] = Object.keys(headers);
  if (headerName !== undefined) {
    throw new UsageError(`--mcp-header ${name}=${headerName}: the server ${name} is a command; expected --mcp-env`);
  }
  const [command, ...args] = splitCommand(target);
  if (command === undefined || command === "") throw new UsageError(`--mcp ${name}: expected a command or a URL`);
  return { command, args, env, ...shared };
}

/**
 * Reads the servers, by name.
 * @param tenantId the tenant that may use them; undefined for a Glovebox with one tenant
 * @throws {UsageError} for a malformed or repeated server, and for a missing environment variable
 */
export function readUpstreamServers(
  { values }: Pick<Arguments, "values">,
  env: NodeJS.ProcessEnv,
  tenantId: string | undefined,
): { readonly [name: string]: UpstreamServerOptions } {
  const servers = new Map<string, Upstream>();
  for (const text of list(values.mcp)) {
    const [name, target] = splitName("--mcp", text, "COMMAND_OR_URL");
    if (servers.has(name)) throw new UsageError(`--mcp: expected each name at most once, got "${name}" several times`);
    servers.set(name, { target, env: {}, headers: {} });
  }
  const find = (option: string, name: string): Upstream => {
    const server = servers.get(name);
    if (server !== undefined) return server;
    throw new UsageError(`${option}: there is no server "${name}"; expected --mcp ${name}=COMMAND_OR_URL as well`);
  };
  for (const text of list(values["mcp-env"])) {
    const [name, variableName] = splitName("--mcp-env", text, "VARIABLE");
    find("--mcp-env", name).env[variableName] = variable("--mcp-env", variableName, env);
  }
  for (const text of list(values["mcp-header"])) {
    const [name, rest] = splitName("--mcp-header", text, "HEADER:VARIABLE");
    const [header = "", variableName = ""] = rest.split(":", 2);
    if (!HEADER.test(header)) throw new UsageError(`--mcp-header: expected NAME=HEADER:VARIABLE, got "${text}"`);
    find("--mcp-header", name).headers[header] = variable("--mcp-header", variableName, env);
  }
  for (const text of list(values["mcp-token"])) {
    const [name, variableName] = splitName("--mcp-token", text, "VARIABLE");
    find("--mcp-token", name).headers.Authorization = `Bearer ${variable("--mcp-token", variableName, env)}`;
  }
  const tenants = tenantId === undefined ? undefined : [tenantId];
  return Object.fromEntries([...servers].map(([name, server]) => [name, toOptions(name, server, tenants)]));
}
