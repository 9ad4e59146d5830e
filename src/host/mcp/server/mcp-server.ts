// Creates an MCP server of the SDK that serves the tools of a Glovebox: one for each connection, or for each request of protocol revision
// 2026-07-28.
import { McpServer, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import * as z from "zod";
import { packageVersion } from "../../config/package-version.ts";
import { Runs } from "../../runs/runs.ts";
import { notifySafely, runCallback } from "../../util/host-callback.ts";
import type { McpCaller } from "./authorization/caller.ts";
import { addTaskMethods } from "./tasks/task-methods.ts";
import { type McpTaskRuns, TASKS_EXTENSION, toTaskRuns } from "./tasks/task-runs.ts";
import { callServerTool, type McpCallContext, type McpHost } from "./tools/call-tool.ts";
import type { CallsAwaitingInput } from "./tools/calls-awaiting-input.ts";
import { toInputSchema } from "./tools/tool-arguments.ts";
import { listToolPage } from "./tools/tool-list.ts";

/** Name, instructions and additional content of an MCP server. */
export interface McpServerOptions {
  /**
   * Name of the server that clients receive.
   * @default "glovebox"
   */
  readonly name?: string | undefined;
  /** Version of the server that clients receive. Default: the version of this package. */
  readonly version?: string | undefined;
  /** Name of the server that clients show to people. */
  readonly title?: string | undefined;
  /** Instructions for the client's model on how to use the tools. */
  readonly instructions?: string | undefined;
  /** Context of every call, such as `timeoutMs` and `executionId`. */
  readonly context?: McpCallContext | undefined;
  /**
   * Registers resources, prompts and completions with the SDK's own methods. Called for each connection or
   * request. If it throws, rejects or takes more than 5 s, the request is answered with an internal error.
   */
  readonly register?: ((server: McpServer, caller: McpCaller) => void | Promise<void>) | undefined;
  /**
   * Durable runs: calls of tools that are durable or request `waitFor` become tasks for clients that support them (extension
   * `io.modelcontextprotocol/tasks`, revision 2026-07-28). Default: calls are not tasks.
   */
  readonly runs?: Runs | McpTaskRuns | undefined;
  /** Receives the errors that clients see as internal errors only. Errors of the listener itself are ignored. */
  readonly onError?: ((error: unknown) => unknown) | undefined;
}

interface CreateServerOptions extends McpServerOptions {
  readonly onError: (error: unknown) => void;
}

const REGISTER_TIMEOUT_MS = 5_000;

/** Rejects a cursor that is not a string. The SDK would answer it with an internal error. */
const ListParamsSchema = z.looseObject({ cursor: z.string().optional() });

/**
 * Creates a server with handlers for `tools/list` and `tools/call`, and with what `register` adds.
 * @param waiting the waiting calls of all requests to the same endpoint
 * @throws {Error} as a rejection, if `register` fails
 */
export async function createServer(
  host: McpHost,
  caller: McpCaller,
  waiting: CallsAwaitingInput,
  options: CreateServerOptions,
): Promise<McpServer> {
  const {
    name = "glovebox",
    version = packageVersion(),
    title,
    instructions,
    context,
    register,
    runs: given,
    onError,
  } = options;
  const runs = given instanceof Runs ? toTaskRuns(given) : given;
  const info = { name, version, ...(title === undefined ? {} : { title }) };
  const mcp = new McpServer(info, {
    capabilities: {
      tools: { listChanged: true },
      logging: {},
      ...(runs === undefined ? {} : { extensions: { [TASKS_EXTENSION]: {} } }),
    },
    ...(instructions === undefined ? {} : { instructions }),
    requestState: { verify: (state, ctx) => waiting.codec.verify(state, ctx) },
  });
  const { server } = mcp;
  const { tenantId } = caller;
  server.setRequestHandler("tools/list", { params: ListParamsSchema }, ({ cursor }) =>
    withoutInternals(() => listToolPage(host, cursor, host.router.tenancy.optionOf(tenantId)), onError),
  );
  server.setRequestHandler("tools/call", ({ params }, ctx) =>
    withoutInternals(() => callServerTool({ host, caller, waiting, server, context, runs }, params, ctx), onError),
  );
  if (runs !== undefined) addTaskMethods({ host, caller, server, runs }, (run) => withoutInternals(run, onError));
  // The SDK reads the schema before a call over HTTP: a header that a tool declares for an argument (x-mcp-header) must equal the argument.
  mcp.toolInputSchemaJson = (toolName) => {
    const tool = host.router.registry.get(toolName, tenantId);
    return tool && toInputSchema(tool.definition.inputSchema);
  };
  if (register !== undefined) await registerMore(mcp, () => register(mcp, caller));
  return mcp;
}

async function registerMore(mcp: McpServer, register: () => unknown): Promise<void> {
  const outcome = await runCallback(register, { timeoutMs: REGISTER_TIMEOUT_MS });
  if ("failed" in outcome) {
    const failure = outcome.failed === "threw" ? "failed" : `timed out after ${REGISTER_TIMEOUT_MS} ms`;
    throw new Error(`options.register ${failure}`, { cause: outcome.cause });
  }
  // The SDK does not catch the errors of these listeners.
  const { server } = mcp;
  const { onerror, onclose, oninitialized } = server;
  if (onerror !== undefined) server.onerror = (error) => notifySafely(onerror, error);
  if (onclose !== undefined) server.onclose = () => notifySafely(onclose);
  if (oninitialized !== undefined) server.oninitialized = () => notifySafely(oninitialized);
}

/** Runs code that answers a client. The SDK sends the message of any error to the client; only protocol errors are meant for it. */
async function withoutInternals<Result>(
  run: () => Promise<Result>,
  onError: (error: unknown) => void,
): Promise<Result> {
  try {
    return await run();
  } catch (thrown) {
    if (Error.isError(thrown) && thrown instanceof ProtocolError) throw thrown;
    onError(thrown);
    throw new ProtocolError(ProtocolErrorCode.InternalError, "Internal error");
  }
}
