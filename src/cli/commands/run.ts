// glovebox run: calls one tool once. Its output goes to stdout, everything else to stderr.

import { packageVersion } from "../../host/config/package-version.ts";
import type { ToolInspection } from "../../host/config/tool-options.ts";
import { NO_USAGE, type ToolResult } from "../../host/contract/tool-call.ts";
import type { ToolStream } from "../../host/contract/tool-stream.ts";
import { createGloveboxFor } from "../../host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { ServerTelemetry } from "../../server/operation/telemetry.ts";
import { type CallFlags, readCallOptions } from "../shared/call-options.ts";
import { readInput } from "../shared/input.ts";
import { openGlovebox } from "../shared/open-glovebox.ts";
import {
  printChunk,
  printError,
  printJson,
  printLog,
  printOutput,
  printTimes,
  printWarnings,
} from "../shared/print.ts";
import { findPackages } from "../shared/project-root.ts";
import { createShowCode } from "../shared/source-lines.ts";
import { type Io, stopCodeOf } from "../terminal/process-io.ts";
import { type Arguments, TERMINAL_TIMEOUT_MS } from "../usage.ts";

const CALL_ID = "cli";
/** Warnings are ignored here, because the inspection has printed them. */
const IGNORE_WARNING = (): void => {};

interface RunRequest extends CallFlags {
  readonly path: string;
  readonly showTimes: boolean;
  readonly asJson: boolean;
  /** File for the page of the call. */
  readonly traceFile: string | undefined;
  /** Whether spans are sent over OTLP. */
  readonly isExported: boolean;
}

function readRequest(given: Arguments, env: NodeJS.ProcessEnv): RunRequest {
  const {
    values,
    positionals: [path = ""],
  } = given;
  return {
    ...readCallOptions(given, env, TERMINAL_TIMEOUT_MS),
    path,
    showTimes: values.time === true,
    asJson: values.json === true,
    traceFile: values.trace as string | undefined,
    isExported: values.otel === true,
  };
}

/** Converts an error of adding the tool to a failed result, so that --json always prints a ToolResult. */
function toResult(error: ToolError, path: string, started: number): ToolResult {
  return {
    callId: CALL_ID,
    toolName: path,
    durationMs: performance.now() - started,
    usage: NO_USAGE,
    logs: [],
    success: false,
    error: error.toData(path),
  };
}

/** Returns 2 for a tool that cannot be bundled, and 1 for any other failure, including one of its top level. */
const exitCodeOf = ({ error }: Extract<ToolResult, { success: false }>): number =>
  error.code === "BUNDLE_FAILED" ? 2 : 1;

/** Prints the chunks of a stream as they arrive, then the output, unless the tool returned nothing after its chunks. */
async function printStream(stream: ToolStream, io: Io): Promise<ToolResult> {
  let chunks = 0;
  for await (const item of stream) {
    if (item.type === "chunk") {
      printChunk(item.value, io.stdout);
      chunks += 1;
      // Waits, so that a slow reader slows the tool down instead of filling this process's memory.
      await io.stdout.drained();
      continue;
    }
    const { type: _type, ...result } = item;
    if (result.success && (chunks === 0 || result.output !== null || result.content !== undefined)) {
      printOutput(result, io.stdout);
    }
    return result;
  }
  throw new ToolError("INTERNAL", "The stream ended without a result");
}

async function call(
  glovebox: Glovebox,
  tool: ToolInspection,
  request: RunRequest,
  io: Io,
): Promise<{ readonly input: unknown; readonly startedAt: number; readonly result: ToolResult }> {
  const { path, tenant } = request;
  const args = await readInput(request.input, tool.definition.inputSchema, io, io.stop);
  const { name } = await glovebox.addTool(
    { path, name: tool.definition.name },
    { ...tenant.scope, grant: request.grant },
  );
  const toolCall = { id: CALL_ID, toolName: name, arguments: args };
  const isTraced = request.traceFile !== undefined;
  const context = {
    ...tenant.scope,
    signal: io.stop,
    logSourceLocations: request.logSourceLocations || isTraced,
    ...(isTraced ? { timeline: true } : {}),
  };
  const startedAt = Date.now();
  const result = request.asJson
    ? await glovebox.execute(toolCall, context)
    : await printStream(glovebox.stream(toolCall, { ...context, onLog: (entry) => printLog(entry, io.stderr) }), io);
  return { input: args, startedAt, result };
}

function report(result: ToolResult, tool: ToolInspection | undefined, request: RunRequest, io: Io): void {
  if (request.asJson) {
    printJson(result, io.stdout);
  } else if (!result.success && !io.stop.aborted) {
    printError(result.error, io.stderr, createShowCode(request.path, tool?.bundle.sourceMap));
  }
  if (!request.asJson && result.usage.logsDropped > 0) {
    io.stderr.print(`${result.usage.logsDropped} log lines were dropped: the call's log was full\n`);
  }
  if (request.showTimes && tool !== undefined) printTimes(result, tool, io.stderr);
}

/** @throws {ToolError} PARAM_INVALID if a package of the SDK is missing */
async function openExporter(): Promise<ServerTelemetry> {
  const { openTelemetry } = await import("../../server/operation/telemetry.ts");
  return await openTelemetry(packageVersion());
}

export async function runCommand(given: Arguments, io: Io): Promise<number> {
  const request = readRequest(given, io.env);
  const { limits, egress, tenant } = request;
  const started = performance.now();
  // Closed after the Glovebox, whose last spans it sends.
  await using telemetry = request.isExported ? await openExporter() : undefined;
  const options = {
    ...findPackages([request.path], given),
    limits,
    ...tenant.host,
    ...egress.host,
    // The first process starts while the tool is bundled. There is no second call for which an interpreter could be loaded.
    workers: { warmProcesses: 1, warmPythonProcesses: 0 },
    shutdown: false,
    onWarning: IGNORE_WARNING,
    ...(telemetry === undefined ? {} : { telemetry: telemetry.options }),
  } as const;
  await using glovebox = await openGlovebox(io, () =>
    createGloveboxFor({ path: request.path }, options, tenant.scope.tenantId),
  );
  let tool: ToolInspection | undefined;
  let result: ToolResult;
  // The tool is built only for this call, so the build time counts as part of the call.
  try {
    tool = await glovebox.inspectTool({ path: request.path }, { ...request.tenant.scope, grant: request.grant });
    printWarnings(tool.warnings, io.stderr);
    const called = await call(glovebox, tool, request, io);
    result = { ...called.result, usage: { ...called.result.usage, bundleMs: tool.bundleMs } };
    if (request.traceFile !== undefined) {
      const { writeTracePage } = await import("../shared/trace-page.ts");
      writeTracePage(request.traceFile, { ...called, result });
      io.stderr.print(`The timeline is in ${request.traceFile}: open it in a browser\n`);
    }
  } catch (thrown) {
    const error = io.stop.aborted ? new ToolError("CANCELLED", (io.stop.reason as Error).message) : thrown;
    if (!(error instanceof ToolError)) throw thrown;
    result = toResult(error, request.path, started);
  }
  report(result, tool, request, io);
  return result.success ? 0 : (stopCodeOf(io) ?? exitCodeOf(result));
}
