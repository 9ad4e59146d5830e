// glovebox mcp: serves tools to MCP clients over stdio or HTTP, until the client disconnects or the command is stopped.
import type { AddressInfo } from "node:net";
import { BUILTIN_TOOL_NAMES, type BuiltinToolName } from "../../bundler/artifacts/builtin-bundles.ts";
import type { CodeMode } from "../../host/code-mode/code-mode.ts";
import type { ToolWarning } from "../../host/config/glovebox-options.ts";
import { createGlovebox } from "../../host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import type { McpServerStatus } from "../../host/mcp/client/upstream-server.ts";
import type { McpHost } from "../../host/mcp/server/tools/call-tool.ts";
import type { RunsOptions } from "../../host/runs/run-options.ts";
import type { Runs } from "../../host/runs/runs.ts";
import type { SqliteRunStore } from "../../host/runs/sqlite-run-store.ts";
import { ignoreOutcome } from "../../host/util/host-callback.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type CallFlags, readCallOptions } from "../shared/call-options.ts";
import { openGlovebox } from "../shared/open-glovebox.ts";
import { printWarnings } from "../shared/print.ts";
import { findPackages } from "../shared/project-root.ts";
import { readUpstreamServers } from "../shared/upstream-servers.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, OutputError, UsageError } from "../usage.ts";

interface ServeRequest extends Omit<CallFlags, "input" | "logSourceLocations"> {
  readonly paths: readonly string[];
  readonly builtinTools: readonly BuiltinToolName[];
  readonly servers: ReturnType<typeof readUpstreamServers>;
  readonly codeMode: { readonly typeCheck: boolean } | undefined;
  /** File of the store of durable runs. */
  readonly runsPath: string | undefined;
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
  const { input: _none, logSourceLocations: _neither, ...options } = readCallOptions(given, env);
  const servers = readUpstreamServers(given, env, options.tenant.scope.tenantId);
  if (given.positionals.length + builtinTools.length + Object.keys(servers).length === 0) {
    throw new UsageError("Expected the PATH of a tool, --tool NAME or --mcp NAME=COMMAND_OR_URL, got nothing");
  }
  const isCodeMode = given.values["code-mode"] === true;
  const isUnchecked = given.values["no-type-check"] === true;
  if (isUnchecked && !isCodeMode) throw new UsageError("--no-type-check: expected --code-mode as well");
  const codeMode = isCodeMode ? { typeCheck: !isUnchecked } : undefined;
  const runsPath = given.values.runs as string | undefined;
  return { ...options, paths: given.positionals, builtinTools, servers, codeMode, runsPath, http: readHttp(given) };
}

/** What a server serves, and the durable runs that are its tasks. */
interface ServedTools {
  readonly host: McpHost;
  readonly runs: Runs | undefined;
}

/** Resolves when the command is stopped. */
function untilStopped({ stop }: Io): Promise<void> {
  if (stop.aborted) return Promise.resolve();
  return new Promise((resolve) => stop.addEventListener("abort", () => resolve(), { once: true }));
}

/** @throws {UsageError} for a file that is not a store of runs */
async function openStore(path: string): Promise<SqliteRunStore> {
  const { SqliteRunStore } = await import("../../host/runs/sqlite-run-store.ts");
  try {
    return new SqliteRunStore({ path });
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    throw new UsageError(`--runs: expected a file that Glovebox has created, or can create, got "${path}"`);
  }
}

async function openRuns(glovebox: Glovebox, store: SqliteRunStore): Promise<Runs> {
  const { createRuns } = await import("../../host/runs/runs.ts");
  return createRuns(glovebox, { store });
}

/** @throws {UsageError} if code cannot be type-checked */
async function openCodeMode(
  glovebox: Glovebox,
  options: { readonly typeCheck: boolean; readonly runs?: RunsOptions },
): Promise<CodeMode> {
  const { createCodeMode } = await import("../../host/code-mode/code-mode.ts");
  try {
    return createCodeMode(glovebox, { ...options, language: ["typescript", "javascript", "python"] });
  } catch (thrown) {
    if (!(thrown instanceof ToolError) || thrown.code !== "TOOL_UNAVAILABLE") throw thrown;
    throw new UsageError(`--code-mode: ${thrown.message.replace("typeCheck: false", "--no-type-check")}`);
  }
}

async function serveHttp(
  { host, runs }: ServedTools,
  {
    tenant: { scope },
    http: { port, hostname, allowedHosts },
  }: ServeRequest & { readonly http: NonNullable<ServeRequest["http"]> },
  stopped: Promise<void>,
  io: Io,
): Promise<void> {
  const [{ createMcpHandler }, { serve }] = await Promise.all([
    import("../../host/mcp/server/http/handler.ts"),
    import("@hono/node-server"),
  ]);
  await using handler = createMcpHandler(host, {
    allowedHosts,
    runs,
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

async function serveStdio(
  { host, runs }: ServedTools,
  { tenant }: ServeRequest,
  stopped: Promise<void>,
  io: Io,
): Promise<void> {
  const { serveMcpStdio } = await import("../../host/mcp/server/stdio.ts");
  const stdout = io.stdout.takeStream();
  const failed = Promise.withResolvers<never>();
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    // EPIPE means that the client has disconnected, like the end of stdin.
    if (error.code !== "EPIPE") failed.reject(new OutputError(`Cannot write to stdout: ${error.message}`));
  });
  await using server = serveMcpStdio(host, { ...tenant.scope, runs, stdin: io.stdin, stdout });
  await Promise.race([server.closed, stopped, failed.promise]);
}

/** Omitted tools of a server that are named. */
const MAX_OMITTED = 10;

/** Reports tools that a server has and that are not served. A client cannot tell them from tools that do not exist. */
function reportOmitted({ server, tools, omittedTools, listIssue }: McpServerStatus, io: Io): void {
  if (listIssue !== undefined) {
    const advice = listIssue.includes("maxTools") ? ". Serve fewer tools, or split the server" : "";
    io.stderr.print(
      `glovebox: the list of tools of the MCP server ${server} is cut to ${tools}: ${toVisibleLine(listIssue)}${advice}\n`,
    );
  }
  for (const { toolName, problem } of omittedTools.slice(0, MAX_OMITTED)) {
    const name = toolName === "" ? "a tool" : `the tool ${JSON.stringify(toolName)}`;
    io.stderr.print(
      `glovebox: ${toVisibleLine(name)} of the MCP server ${server} is not served: ${toVisibleLine(problem)}\n`,
    );
  }
  const more = omittedTools.length - MAX_OMITTED;
  if (more > 0) io.stderr.print(`glovebox: ${more} more tools of the MCP server ${server} are not served\n`);
  if (omittedTools.length > 0)
    io.stderr.print(`glovebox: the other tools of ${server} are served. Correct the definitions in that server\n`);
}

/** Reports the servers that do not answer, and tools that are not served. The tools of the others are served. */
async function reportServers(glovebox: Glovebox, { tenant }: ServeRequest, io: Io): Promise<void> {
  await glovebox.listTools(tenant.scope);
  for (const status of glovebox.mcp.servers()) {
    const { server, state, lastError } = status;
    if (state === "connected") {
      reportOmitted(status, io);
      continue;
    }
    const why = lastError === undefined ? "" : `: ${toVisibleLine(lastError.message)}`;
    io.stderr.print(`glovebox: the MCP server ${server} is not available${why}\n`);
  }
}

/** Exits with 0 when its client disconnects, or when SIGINT or SIGTERM stops it while it serves. */
export async function mcpCommand(given: Arguments, io: Io): Promise<number> {
  const request = readRequest(given, io.env);
  const { limits, egress, tenant, grant, paths, builtinTools, servers, codeMode, runsPath, http } = request;
  const tools = { enabled: true, builtinTools };
  const onWarning = ({ toolName, message }: ToolWarning): void => printWarnings([`${toolName}: ${message}`], io.stderr);
  const options = {
    ...findPackages(paths, given),
    limits,
    ...tenant.host,
    ...egress.host,
    workers: { warmProcesses: 1 },
    shutdown: false,
    mcp: { servers },
    tools,
    onWarning,
  } as const;
  await using glovebox = await openGlovebox(io, () => createGlovebox(options));
  for (const path of paths) await glovebox.addTool({ path }, { ...tenant.scope, grant });
  io.stop.throwIfAborted();
  const stopped = untilStopped(io);
  if (Object.keys(servers).length > 0) ignoreOutcome(() => reportServers(glovebox, request, io));
  using store = runsPath === undefined ? undefined : await openStore(runsPath);
  // Code that waits does so inside run_code, so that its calls are not tasks.
  await using runs = store === undefined || codeMode !== undefined ? undefined : await openRuns(glovebox, store);
  const codeRuns = store === undefined ? {} : { runs: { store } };
  const own = codeMode && (await openCodeMode(glovebox, { ...tenant.scope, ...codeMode, ...codeRuns }));
  try {
    const served = { host: own ?? glovebox, runs };
    if (http === undefined) await serveStdio(served, request, stopped, io);
    else await serveHttp(served, { ...request, http }, stopped, io);
  } finally {
    await own?.close();
  }
  return 0;
}
