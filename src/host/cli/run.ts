// glovebox run: one tool, one call, its output on stdout and everything else on stderr.
import { ToolError } from "../../sandbox/errors.ts";
import { createGlovebox, type Glovebox, type ToolInspection } from "../runtime.ts";
import { NO_USAGE, type ToolResult } from "../tool-call.ts";
import type { ToolStream } from "../tool-stream.ts";
import { CALL_OPTIONS, type CallOptions, readCallOptions } from "./call-options.ts";
import { readInput } from "./input.ts";
import { printChunk, printError, printLog, printOutput, printTimes, toPrintableJson } from "./print.ts";
import { createShowCode } from "./source-lines.ts";
import { type Arguments, type Io, onePositional, readArguments } from "./usage.ts";

const OPTIONS = { ...CALL_OPTIONS, time: { type: "boolean" }, json: { type: "boolean" } } as const;

const CALL_ID = "cli";
/** What a shell shows for a command that SIGINT ended. */
const EXIT_INTERRUPTED = 130;

interface RunRequest extends CallOptions {
  readonly path: string;
  readonly stdin: boolean;
  readonly showTimes: boolean;
  readonly asJson: boolean;
}

function readRequest(given: Arguments, env: NodeJS.ProcessEnv): RunRequest {
  const { values, positionals } = given;
  const paths = positionals.filter((positional) => positional !== "-");
  return {
    ...readCallOptions(given, env),
    path: onePositional(paths, "PATH of a tool"),
    stdin: positionals.includes("-"),
    showTimes: values.time === true,
    asJson: values.json === true,
  };
}

/** A tool that cannot be added ends like a call that failed, so that --json always prints a ToolResult. */
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

/** A tool that cannot be built is a bundle error; one whose top level fails has failed as a tool. */
const exitCodeOf = (result: ToolResult): number => {
  if (result.success) return 0;
  return result.error.code === "BUNDLE_FAILED" ? 2 : 1;
};

/** Prints what a tool yields as it comes; and its output, unless the chunks were all it had to say. */
async function showStream(stream: ToolStream, io: Io): Promise<ToolResult> {
  let chunks = 0;
  for await (const item of stream) {
    if (item.type === "chunk") {
      printChunk(item.value, io.stdout);
      chunks += 1;
      continue;
    }
    const { type: _type, ...result } = item;
    if (result.success && (chunks === 0 || result.output !== null || result.content !== undefined)) {
      printOutput(result, io.stdout);
    }
    return result;
  }
  throw new ToolError("INTERNAL", "Expected a stream to end with its result");
}

async function call(box: Glovebox, tool: ToolInspection, request: RunRequest, io: Io): Promise<ToolResult> {
  const { path, tenantId } = request;
  const args = await readInput({ ...request.input, stdin: request.stdin }, tool.definition.inputSchema, io);
  const { name } = await box.addTool({ path, name: tool.definition.name }, { tenantId, grant: request.grant });
  const interrupt = new AbortController();
  const onInterrupt = (): void => interrupt.abort();
  const toolCall = { id: CALL_ID, toolName: name, arguments: args };
  const context = { tenantId, signal: interrupt.signal, logPlaces: request.logPlaces };
  io.on("SIGINT", onInterrupt);
  try {
    if (request.asJson) return await box.execute(toolCall, context);
    return await showStream(box.stream(toolCall, { ...context, onLog: (entry) => printLog(entry, io.stderr) }), io);
  } finally {
    io.off("SIGINT", onInterrupt);
  }
}

function report(result: ToolResult, tool: ToolInspection | undefined, request: RunRequest, io: Io): void {
  if (request.asJson) {
    io.stdout.write(`${toPrintableJson(result)}\n`);
  } else if (!result.success) {
    printError(result.error, io.stderr, createShowCode(request.path, tool?.bundle.sourceMap));
  }
  if (!request.asJson && result.usage.logsDropped > 0) {
    io.stderr.write(`${result.usage.logsDropped} log lines were dropped: the call's log was full\n`);
  }
  if (request.showTimes && tool !== undefined) printTimes(result, tool, io.stderr);
}

export async function runCommand(args: readonly string[], io: Io): Promise<number> {
  const request = readRequest(readArguments(args, OPTIONS), io.env);
  const started = performance.now();
  await using box = await createGlovebox({ limits: request.limits, ...request.egress.host, workers: { spares: 1 } });
  let tool: ToolInspection | undefined;
  let result: ToolResult;
  // Here the call is what the tool is built for, so its building is part of what the call cost.
  try {
    tool = await box.inspectTool({ path: request.path }, { tenantId: request.tenantId, grant: request.grant });
    const called = await call(box, tool, request, io);
    result = { ...called, usage: { ...called.usage, bundleMs: tool.bundleMs } };
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    result = toResult(thrown, request.path, started);
  }
  report(result, tool, request, io);
  if (!result.success && result.error.code === "CANCELLED") return EXIT_INTERRUPTED;
  return exitCodeOf(result);
}
