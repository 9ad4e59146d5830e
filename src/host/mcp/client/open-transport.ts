// Creates the transport to an upstream server: the stdin and stdout of a program, or Streamable HTTP.
import { type FetchLike, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { TenantCredentials } from "./credentials.ts";
import { GuardedStdioTransport, GuardedTransport } from "./guarded-transport.ts";
import { createMessageFetch } from "./http/message-fetch.ts";
import { MessageStubs } from "./http/message-stubs.ts";
import type { McpServerConfig } from "./mcp-options.ts";
import { guardProvider } from "./oauth/guarded-provider.ts";
import { createOAuthFetch } from "./oauth/oauth-fetch.ts";
import { OAuthPolicy } from "./oauth/oauth-policy.ts";
import type { ServerDiagnostics } from "./server-diagnostics.ts";
import { ServerProcess } from "./server-process.ts";

/** Whether a request is one of the protocol: it accepts an event stream, or ends a session. The others are those of OAuth. */
function isProtocolRequest(init: RequestInit | undefined): boolean {
  if (init?.method?.toUpperCase() === "DELETE") return true;
  return new Headers(init?.headers).get("accept")?.includes("text/event-stream") === true;
}

/**
 * Creates the fetch function of the SDK's transport, which sends the requests of the protocol and those of OAuth. Both functions check the
 * target of a request, so one that was classified wrongly is denied.
 */
const createHttpFetch =
  (fetchMessage: FetchLike, fetchOAuth: FetchLike): FetchLike =>
  (input, init) =>
    isProtocolRequest(init) ? fetchMessage(input, init) : fetchOAuth(input, init);

/** Reopening of a lost stream. The delays are short because a call waits for the stream. */
const RECONNECTION = {
  initialReconnectionDelay: 250,
  maxReconnectionDelay: 2_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
} as const;
/** Limits of the delay that a server requests. Without the lower one, a stream that always ends would be reopened continuously. */
const MIN_RECONNECTION_MS = 250;
const MAX_RECONNECTION_MS = 30_000;

export interface OpenedTransport {
  readonly transport: GuardedTransport;
  /** The SDK's HTTP transport, which holds the id of the session. */
  readonly http?: StreamableHTTPClientTransport;
  /** Returns the diagnostics of a program. */
  readonly diagnostics?: () => ServerDiagnostics;
}

export function openTransport(
  config: McpServerConfig,
  { headers, env, authProvider }: TenantCredentials,
  environment: NodeJS.ProcessEnv,
): OpenedTransport {
  const { maxMessageBytes } = config;
  if ("url" in config) {
    const stubs = new MessageStubs();
    const policy = new OAuthPolicy(config.url, config.oauth);
    const http = new StreamableHTTPClientTransport(config.url, {
      fetch: createHttpFetch(
        createMessageFetch({
          endpoint: config.url,
          maxBytes: maxMessageBytes,
          stubs,
          headers: { ...config.headers, ...headers },
        }),
        createOAuthFetch(policy),
      ),
      redirectPolicy: "same-origin",
      reconnectionOptions: RECONNECTION,
      reconnectionScheduler: (reconnect, delayMs) => {
        const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, MIN_RECONNECTION_MS), MAX_RECONNECTION_MS));
        return () => clearTimeout(timer);
      },
      ...(authProvider === undefined
        ? {}
        : { authProvider: guardProvider(authProvider, policy, config.connectTimeoutMs) }),
    });
    return { transport: new GuardedTransport(http, stubs), http };
  }
  const { command, args, cwd, sandbox } = config;
  const program = new ServerProcess({
    command,
    args,
    cwd,
    sandbox,
    environment,
    maxMessageBytes,
    env: { ...selectEnvironment(config.env, environment), ...env },
  });
  const transport = new GuardedStdioTransport(program, () => program.pid ?? undefined);
  return { transport, diagnostics: () => program.diagnostics };
}

function selectEnvironment(
  env: readonly string[] | { readonly [name: string]: string },
  environment: NodeJS.ProcessEnv,
): { readonly [name: string]: string } {
  if (!Array.isArray(env)) return env as { readonly [name: string]: string };
  const selected = (env as readonly string[]).map((name) => [name, environment[name]] as const);
  return Object.fromEntries(selected.filter((entry): entry is [string, string] => entry[1] !== undefined));
}
