// How an upstream server is reached: a program's stdin and stdout, or HTTP.
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { GuardedStdioTransport, GuardedTransport } from "./guarded-transport.ts";
import { createMessageFetch } from "./http/message-fetch.ts";
import { MessageStubs } from "./http/message-stubs.ts";
import type { McpAuthProvider, McpServerConfig } from "./mcp-options.ts";
import { type ServerDiagnostics, ServerProcess } from "./server-process.ts";

/** A stream that broke off is asked for again, where it can be: soon, and not for long, since a call waits for it. */
const RECONNECTION = {
  initialReconnectionDelay: 250,
  maxReconnectionDelay: 2_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
} as const;
/** Bounds for the delay that a server asks for: without the first, a stream that always ends would be opened again all the time. */
const MIN_RECONNECTION_MS = 250;
const MAX_RECONNECTION_MS = 30_000;

/** What one tenant's connection has that another's has not. */
export interface Credentials {
  readonly headers: { readonly [name: string]: string };
  readonly env: { readonly [name: string]: string };
  readonly authProvider?: McpAuthProvider | undefined;
}

export interface OpenedTransport {
  readonly transport: GuardedTransport;
  /** For OAuth, whose flow ends where it began. */
  readonly http?: StreamableHTTPClientTransport;
  /** Of a program. */
  readonly diagnostics?: () => ServerDiagnostics;
}

export function openTransport(
  config: McpServerConfig,
  { headers, env, authProvider }: Credentials,
  environment: NodeJS.ProcessEnv,
): OpenedTransport {
  const { maxMessageBytes } = config;
  if ("url" in config) {
    const stubs = new MessageStubs();
    const http = new StreamableHTTPClientTransport(config.url, {
      fetch: createMessageFetch({
        ...{ endpoint: config.url, maxBytes: maxMessageBytes, stubs },
        headers: { ...config.headers, ...headers },
      }),
      redirectPolicy: "same-origin",
      reconnectionOptions: RECONNECTION,
      reconnectionScheduler: (reconnect, delayMs) => {
        const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, MIN_RECONNECTION_MS), MAX_RECONNECTION_MS));
        return () => clearTimeout(timer);
      },
      ...(authProvider === undefined ? {} : { authProvider }),
    });
    return { transport: new GuardedTransport(http, stubs), http };
  }
  const { command, args, cwd, sandbox } = config;
  const program = new ServerProcess({
    ...{ command, args, cwd, sandbox, environment, maxMessageBytes },
    env: { ...chosenEnvironment(config.env, environment), ...env },
  });
  const transport = new GuardedStdioTransport(program, () => program.pid ?? undefined);
  return { transport, diagnostics: () => program.diagnostics };
}

function chosenEnvironment(
  env: readonly string[] | { readonly [name: string]: string },
  environment: NodeJS.ProcessEnv,
): { readonly [name: string]: string } {
  if (!Array.isArray(env)) return env as { readonly [name: string]: string };
  const chosen = (env as readonly string[]).map((name) => [name, environment[name]] as const);
  return Object.fromEntries(chosen.filter((entry): entry is [string, string] => entry[1] !== undefined));
}
