// glovebox mcp: serves tools to MCP clients, over stdin and stdout or over HTTP, until the client goes or it is told to stop.
import type { AddressInfo } from "node:net";
import { BUILTIN_TOOL_NAMES, type BuiltinToolName } from "../../bundler/builtin-bundles.ts";
import { createGlovebox, type Glovebox } from "../runtime.ts";
import { CALL_OPTIONS, type CallOptions, readCallOptions } from "./call-options.ts";
import { type Arguments, type Io, readArguments, UsageError } from "./usage.ts";

const { input: _input, "input-file": _file, "log-places": _places, ...SHARED_OPTIONS } = CALL_OPTIONS;
const OPTIONS = {
  ...SHARED_OPTIONS,
  tool: { type: "string", multiple: true },
  http: { type: "string" },
  host: { type: "string" },
  "allow-host": { type: "string", multiple: true },
} as const;

interface ServeRequest extends Omit<CallOptions, "input" | "logPlaces"> {
  readonly paths: readonly string[];
  readonly builtinTools: readonly BuiltinToolName[];
  /** Undefined over stdin and stdout. */
  readonly http:
    | { readonly port: number; readonly hostname: string; readonly allowedHosts?: readonly string[] }
    | undefined;
}

/**
 * Limits of the HTTP server's connections, in ms and in number: an MCP handler sees only requests whose headers have arrived. The limits of
 * the handler apply to what comes after.
 */
const SERVER_OPTIONS = { headersTimeout: 10_000, requestTimeout: 60_000, connectionsCheckingInterval: 5_000 } as const;
const MAX_CONNECTIONS = 2_048;

const isBuiltin = (name: string): name is BuiltinToolName => (BUILTIN_TOOL_NAMES as readonly string[]).includes(name);
const LOOPBACK = ["localhost", "127.0.0.1", "::1"];

function readHttp({ values }: Arguments): ServeRequest["http"] {
  const http = values.http as string | undefined;
  const { host: hostname = "127.0.0.1" } = values as { readonly host?: string };
  const allowedHosts = values["allow-host"] as readonly string[] | undefined;
  if (http === undefined) {
    if (values.host === undefined && allowedHosts === undefined) return undefined;
    throw new UsageError("--host and --allow-host: expected --http PORT beside them");
  }
  if (!/^\d{1,5}$/.test(http) || Number(http) > 65_535) {
    throw new UsageError(`--http: expected a port from 0 to 65535, got "${http}"`);
  }
  if (!LOOPBACK.includes(hostname) && allowedHosts === undefined) {
    throw new UsageError(
      `--host ${hostname}: expected an --allow-host beside it, for each name that clients call it by`,
    );
  }
  return { port: Number(http), hostname, ...(allowedHosts === undefined ? {} : { allowedHosts }) };
}

function readRequest(args: readonly string[], env: NodeJS.ProcessEnv): ServeRequest {
  const given = readArguments(args, OPTIONS);
  const builtinTools = ((given.values.tool as readonly string[] | undefined) ?? []).map((name) => {
    if (isBuiltin(name)) return name;
    throw new UsageError(`--tool: expected one of ${BUILTIN_TOOL_NAMES.join(", ")}, got "${name}"`);
  });
  if (given.positionals.length + builtinTools.length === 0) {
    throw new UsageError("Expected the PATH of a tool, or --tool NAME, got nothing");
  }
  const { input: _none, logPlaces: _neither, ...options } = readCallOptions(given, env);
  return { ...options, paths: given.positionals, builtinTools, http: readHttp(given) };
}

/** Resolves when it is told to stop. */
function untilStopped(io: Io): { readonly stopped: Promise<void>; readonly forget: () => void } {
  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  io.on("SIGINT", stop).on("SIGTERM", stop);
  return { stopped, forget: () => void io.off("SIGINT", stop).off("SIGTERM", stop) };
}

async function serveHttp(
  box: Glovebox,
  {
    tenantId,
    http: { port, hostname, allowedHosts },
  }: ServeRequest & { readonly http: NonNullable<ServeRequest["http"]> },
  stopped: Promise<void>,
  io: Io,
): Promise<void> {
  const [{ createMcpHandler }, { serve }] = await Promise.all([
    import("../mcp/server/handler.ts"),
    import("@hono/node-server"),
  ]);
  await using handler = createMcpHandler(box, { allowedHosts, tenantOf: () => tenantId });
  const server = serve({ fetch: handler.fetch, port, hostname, serverOptions: SERVER_OPTIONS });
  server.maxConnections = MAX_CONNECTIONS;
  const failed = new Promise<never>((_resolve, reject) => {
    server.once("error", ({ code }: NodeJS.ErrnoException) =>
      reject(new UsageError(`--http: port ${port} ${code === "EADDRINUSE" ? "is in use" : `cannot be had: ${code}`}`)),
    );
  });
  await Promise.race([new Promise<void>((resolve) => server.once("listening", resolve)), failed]);
  const shown = hostname.includes(":") ? `[${hostname}]` : hostname;
  io.stderr.write(`MCP at http://${shown}:${(server.address() as AddressInfo).port}/mcp\n`);
  await stopped;
  await handler.close();
  if ("closeAllConnections" in server) server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

async function serveStdio(box: Glovebox, { tenantId }: ServeRequest, stopped: Promise<void>, io: Io): Promise<void> {
  const { serveMcpStdio } = await import("../mcp/server/stdio.ts");
  await using server = serveMcpStdio(box, { tenantId, stdin: io.stdin, stdout: io.stdout });
  await Promise.race([server.closed, stopped]);
}

/** Ends with 0 when its client has gone, or it is told to stop: by SIGINT or SIGTERM. */
export async function mcpCommand(args: readonly string[], io: Io): Promise<number> {
  const request = readRequest(args, io.env);
  const { limits, egress, tenantId, grant, paths, builtinTools, http } = request;
  await using box = await createGlovebox({
    limits,
    ...egress.host,
    workers: { spares: 1 },
    shutdown: false,
    tools: { enabled: true, builtinTools },
  });
  const { stopped, forget } = untilStopped(io);
  try {
    for (const path of paths) await box.addTool({ path }, { tenantId, grant });
    if (http === undefined) await serveStdio(box, request, stopped, io);
    else await serveHttp(box, { ...request, http }, stopped, io);
  } finally {
    forget();
  }
  return 0;
}
