// glovebox mcp: serves tools to MCP clients over stdio or HTTP, until the client disconnects or the command is stopped.
import type { AddressInfo } from "node:net";
import { BUILTIN_TOOL_NAMES, type BuiltinToolName } from "../../bundler/artifacts/builtin-bundles.ts";
import type { ToolWarning } from "../../host/config/options.ts";
import { createGlovebox } from "../../host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import { type CallOptions, readCallOptions } from "../shared/call-options.ts";
import { openBox } from "../shared/open-glovebox.ts";
import { printWarnings } from "../shared/print.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, OutputError, UsageError } from "../usage.ts";

interface ServeRequest extends Omit<CallOptions, "input" | "logSourceLocations"> {
  readonly paths: readonly string[];
  readonly builtinTools: readonly BuiltinToolName[];
  /** Undefined for stdio. */
  readonly http:
    | { readonly port: number; readonly hostname: string; readonly allowedHosts?: readonly string[] }
    | undefined;
}

/**
 * Limits of the HTTP server's connections, in ms and in number. The limits of the MCP handler apply only to requests whose headers have
 * arrived.
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
    throw new UsageError("--host and --allow-host: expected --http PORT as well");
  }
  if (!LOOPBACK.includes(hostname) && allowedHosts === undefined) {
    throw new UsageError(`--host ${hostname}: expected --allow-host as well, for each name by which clients reach it`);
  }
  return { port: Number(http), hostname, ...(allowedHosts === undefined ? {} : { allowedHosts }) };
}

function readRequest(given: Arguments, env: NodeJS.ProcessEnv): ServeRequest {
  const builtinTools = ((given.values.tool as readonly string[] | undefined) ?? []).map((name) => {
    if (isBuiltin(name)) return name;
    throw new UsageError(`--tool: expected one of ${BUILTIN_TOOL_NAMES.join(", ")}, got "${name}"`);
  });
  if (given.positionals.length + builtinTools.length === 0) {
    throw new UsageError("Expected the PATH of a tool, or --tool NAME, got nothing");
  }
  const { input: _none, logSourceLocations: _neither, ...options } = readCallOptions(given, env);
  return { ...options, paths: given.positionals, builtinTools, http: readHttp(given) };
}

/** Resolves when the command is stopped. */
function untilStopped({ stop }: Io): Promise<void> {
  if (stop.aborted) return Promise.resolve();
  return new Promise((resolve) => stop.addEventListener("abort", () => resolve(), { once: true }));
}

async function serveHttp(
  box: Glovebox,
  {
    tenant: { scope },
    http: { port, hostname, allowedHosts },
  }: ServeRequest & { readonly http: NonNullable<ServeRequest["http"]> },
  stopped: Promise<void>,
  io: Io,
): Promise<void> {
  const [{ createMcpHandler }, { serve }] = await Promise.all([
    import("../../host/mcp/server/handler.ts"),
    import("@hono/node-server"),
  ]);
  await using handler = createMcpHandler(box, {
    allowedHosts,
    ...(scope.tenantId === undefined ? {} : { tenantOf: () => scope.tenantId }),
  });
  const server = serve({ fetch: handler.fetch, port, hostname, serverOptions: SERVER_OPTIONS });
  server.maxConnections = MAX_CONNECTIONS;
  const failed = new Promise<never>((_resolve, reject) => {
    server.once("error", ({ code }: NodeJS.ErrnoException) =>
      reject(
        new UsageError(`--http: port ${port} ${code === "EADDRINUSE" ? "is in use" : `is not available: ${code}`}`),
      ),
    );
  });
  await Promise.race([new Promise<void>((resolve) => server.once("listening", resolve)), failed]);
  const shown = hostname.includes(":") ? `[${hostname}]` : hostname;
  io.stderr.print(`MCP at http://${shown}:${(server.address() as AddressInfo).port}/mcp\n`);
  await stopped;
  await handler.close();
  if ("closeAllConnections" in server) server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

async function serveStdio(box: Glovebox, { tenant }: ServeRequest, stopped: Promise<void>, io: Io): Promise<void> {
  const { serveMcpStdio } = await import("../../host/mcp/server/stdio.ts");
  const stdout = io.stdout.takeStream();
  const failed = Promise.withResolvers<never>();
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    // EPIPE means that the client has disconnected, like the end of stdin.
    if (error.code !== "EPIPE") failed.reject(new OutputError(`Cannot write to stdout: ${error.message}`));
  });
  await using server = serveMcpStdio(box, { ...tenant.scope, stdin: io.stdin, stdout });
  await Promise.race([server.closed, stopped, failed.promise]);
}

/** Exits with 0 when its client disconnects, or when SIGINT or SIGTERM stops it while it serves. */
export async function mcpCommand(given: Arguments, io: Io): Promise<number> {
  const request = readRequest(given, io.env);
  const { limits, egress, tenant, grant, paths, builtinTools, http } = request;
  const tools = { enabled: true, builtinTools };
  const onWarning = ({ toolName, message }: ToolWarning): void => printWarnings([`${toolName}: ${message}`], io.stderr);
  const options = {
    limits,
    ...tenant.host,
    ...egress.host,
    workers: { warmProcesses: 1 },
    shutdown: false,
    tools,
    onWarning,
  } as const;
  await using box = await openBox(io, () => createGlovebox(options));
  for (const path of paths) await box.addTool({ path }, { ...tenant.scope, grant });
  io.stop.throwIfAborted();
  const stopped = untilStopped(io);
  if (http === undefined) await serveStdio(box, request, stopped, io);
  else await serveHttp(box, { ...request, http }, stopped, io);
  return 0;
}
