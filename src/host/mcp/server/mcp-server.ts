// Makes an MCP server of the SDK that serves the tools of a Glovebox, for one connection or one request, in either era of the protocol.
import { McpServer, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import * as z from "zod";
import { packageVersion } from "../../config/package-version.ts";
import { notifySafely, runCallback } from "../../util/host-callback.ts";
import { callServerTool, type McpCallContext, type McpHost } from "./call-tool.ts";
import type { McpCaller } from "./caller.ts";
import { toInputSchema } from "./tool-arguments.ts";
import { toToolPage } from "./tool-list.ts";
import type { WaitingCalls } from "./waiting-calls.ts";

/** The presentation and the content of an MCP server. */
export interface McpServerOptions {
  /** Shown to clients. Default: `glovebox`, with the version of the package. */
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly title?: string | undefined;
  /** Tells a model how to use the tools. */
  readonly instructions?: string | undefined;
  /** Part of the context of every call: `timeoutMs`, `executionId` … */
  readonly context?: McpCallContext | undefined;
  /**
   * Registers resources, prompts and completions with the SDK's own methods. Called for each connection or
   * request. If it throws, rejects or takes more than 5 s, the request is answered with an internal error.
   */
  readonly register?: ((server: McpServer, caller: McpCaller) => void | Promise<void>) | undefined;
  /** Receives errors that clients do not receive. Errors of the listener itself are ignored. */
  readonly onError?: ((error: unknown) => unknown) | undefined;
}

interface CreateServerOptions extends McpServerOptions {
  readonly onError: (error: unknown) => void;
}

const REGISTER_TIMEOUT_MS = 5_000;

/** Without it, the SDK answers a cursor that is not text with an internal error. */
const ListParamsSchema = z.looseObject({ cursor: z.string().optional() });

/**
 * @param waiting of all requests of the same endpoint
 * @throws {Error} as a rejection, if `register` fails
 */
export async function createServer(
  host: McpHost,
  caller: McpCaller,
  waiting: WaitingCalls,
  options: CreateServerOptions,
): Promise<McpServer> {
  const { name = "glovebox", version = packageVersion(), title, instructions, context, register, onError } = options;
  const info = { name, version, ...(title === undefined ? {} : { title }) };
  const mcp = new McpServer(info, {
    capabilities: { tools: { listChanged: true }, logging: {} },
    ...(instructions === undefined ? {} : { instructions }),
    requestState: { verify: (state, ctx) => waiting.codec.verify(state, ctx) },
  });
  const { server } = mcp;
  const { tenantId } = caller;
  server.setRequestHandler("tools/list", { params: ListParamsSchema }, ({ cursor }) =>
    withoutInternals(
      async () => toToolPage(await host.listTools(host.router.tenancy.optionOf(tenantId)), cursor),
      onError,
    ),
  );
  server.setRequestHandler("tools/call", ({ params }, ctx) =>
    withoutInternals(() => callServerTool({ host, caller, waiting, server, context }, params, ctx), onError),
  );
  // Used before a call over HTTP: headers that a tool declares for its arguments (x-mcp-header) must equal the arguments.
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
    const what = outcome.failed === "threw" ? "failed" : `did not end within ${REGISTER_TIMEOUT_MS} ms`;
    throw new Error(`options.register ${what}`, { cause: outcome.cause });
  }
  // The SDK calls these listeners where nothing catches what they throw.
  const { server } = mcp;
  const { onerror, onclose, oninitialized } = server;
  if (onerror !== undefined) server.onerror = (error) => notifySafely(onerror, error);
  if (onclose !== undefined) server.onclose = () => notifySafely(onclose);
  if (oninitialized !== undefined) server.oninitialized = () => notifySafely(oninitialized);
}

/** Runs code that answers a client. The SDK sends the message of whatever it throws; only that of a protocol error is for clients. */
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
