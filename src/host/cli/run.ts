// glovebox run: one tool, one call, its output on stdout and everything else on stderr.
import { ToolError } from "../../sandbox/errors.ts";
import { createGlovebox, type Glovebox, type ToolInspection } from "../runtime.ts";
import { NO_USAGE, type ToolResult } from "../tool-call.ts";
import { type InputChoice, readInput } from "./input.ts";
import { printError, printLog, printOutput, printTimes, toPrintableJson } from "./print.ts";
import { createShowCode } from "./source-lines.ts";
import { type Arguments, type Io, onePositional, readArguments, readLimit, UsageError } from "./usage.ts";

const OPTIONS = {
  input: { type: "string" },
  "input-file": { type: "string" },
  tenant: { type: "string" },
  "timeout-ms": { type: "string" },
  "cpu-ms": { type: "string" },
  "memory-mib": { type: "string" },
  "log-places": { type: "boolean" },
  time: { type: "boolean" },
  json: { type: "boolean" },
} as const;

const CALL_ID = "cli";
/** What a shell shows for a command that SIGINT ended. */
const EXIT_INTERRUPTED = 130;

interface RunRequest {
  readonly path: string;
  readonly input: InputChoice;
  readonly tenantId: string;
  readonly limits: { readonly timeoutMs?: number; readonly cpuMs?: number; readonly memoryMiB?: number };
  readonly logPlaces: boolean;
  readonly showTimes: boolean;
  readonly asJson: boolean;
}

function readRequest({ values, positionals }: Arguments): RunRequest {
  const stdin = positionals.includes("-");
  const text = (name: string): string | undefined => values[name] as string | undefined;
  const timeoutMs = readLimit("timeout-ms", values["timeout-ms"], "timeoutMs");
  const cpuMs = readLimit("cpu-ms", values["cpu-ms"], "cpuMs");
  const memoryMiB = readLimit("memory-mib", values["memory-mib"], "memoryMiB");
  const tenantId = text("tenant") ?? "default";
  if (tenantId === "") throw new UsageError("--tenant: expected an id, got an empty text");
  return {
    path: onePositional(
      positionals.filter((positional) => positional !== "-"),
      "PATH of a tool",
    ),
    input: { json: text("input"), file: text("input-file"), stdin },
    tenantId,
    limits: {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(cpuMs === undefined ? {} : { cpuMs }),
      ...(memoryMiB === undefined ? {} : { memoryMiB }),
    },
    logPlaces: values["log-places"] === true,
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

async function call(box: Glovebox, tool: ToolInspection, request: RunRequest, io: Io): Promise<ToolResult> {
  const { path, tenantId } = request;
  const args = await readInput(request.input, tool.definition.inputSchema, io);
  const { name } = await box.addTool({ path, name: tool.definition.name }, { tenantId });
  const interrupt = new AbortController();
  const onInterrupt = (): void => interrupt.abort();
  io.on("SIGINT", onInterrupt);
  try {
    return await box.execute(
      { id: CALL_ID, toolName: name, arguments: args },
      {
        tenantId,
        signal: interrupt.signal,
        logPlaces: request.logPlaces,
        ...(request.asJson ? {} : { onLog: (entry) => printLog(entry, io.stderr) }),
      },
    );
  } finally {
    io.off("SIGINT", onInterrupt);
  }
}

function report(result: ToolResult, tool: ToolInspection | undefined, request: RunRequest, io: Io): void {
  if (request.asJson) {
    io.stdout.write(`${toPrintableJson(result)}\n`);
  } else if (result.success) {
    printOutput(result.output, io.stdout);
  } else {
    printError(result.error, io.stderr, createShowCode(request.path, tool?.bundle.sourceMap));
  }
  if (!request.asJson && result.usage.logsDropped > 0) {
    io.stderr.write(`${result.usage.logsDropped} log lines were dropped: the call's log was full\n`);
  }
  if (request.showTimes && tool !== undefined) printTimes(result, tool, io.stderr);
}

export async function runCommand(args: readonly string[], io: Io): Promise<number> {
  const request = readRequest(readArguments(args, OPTIONS));
  const started = performance.now();
  await using box = await createGlovebox({ limits: request.limits, workers: { spares: 1 } });
  let tool: ToolInspection | undefined;
  let result: ToolResult;
  // Here the call is what the tool is built for, so its building is part of what the call cost.
  try {
    tool = await box.inspectTool({ path: request.path }, { tenantId: request.tenantId });
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
