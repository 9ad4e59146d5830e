// Stage 4: converts the outcome of an execution to a ToolResult. The output is untrusted text until this stage parses and validates it.
import type { ContentPart } from "../../sandbox/contract/content.ts";
import { type ErrorDetails, toToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { parseContent } from "../contract/content-parts.ts";
import { type NestedCall, NO_USAGE, type ToolResult, type ToolUsage } from "../contract/tool-call.ts";
import { sizeOfBytes, type ToolValue } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";
import { checkJsonBytes, isSmallJson } from "../json/parse-json.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import type { LogEntry } from "../observability/call-log.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import type { Coercion } from "./coercion.ts";
import { readLargeValue, readSmallValue, readValueWithBytes, type ValueText } from "./read-value.ts";

const OUTPUT_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;

/** Metadata of a call that is known when its result is created. */
export interface ResultMetadata {
  readonly callId: string;
  readonly toolName: string;
  readonly toolVersion?: string | undefined;
  readonly started: number;
  readonly usage?: ToolUsage;
  readonly logs?: readonly LogEntry[];
  readonly calls?: readonly NestedCall[] | undefined;
  readonly coercions?: readonly Coercion[] | undefined;
}

type Successful = Extract<ToolResult, { success: true }>;

function toBase(metadata: ResultMetadata): Omit<Successful, "success" | "output" | "content"> {
  const { callId, toolName, started, usage = NO_USAGE, logs = [], calls, coercions, toolVersion } = metadata;
  const durationMs = performance.now() - started;
  const base = { callId, toolName, durationMs, usage, logs, ...(calls === undefined ? {} : { calls: [...calls] }) };
  if (coercions === undefined && toolVersion === undefined) return base;
  return {
    ...base,
    ...(toolVersion === undefined ? {} : { toolVersion }),
    ...(coercions === undefined ? {} : { coercions }),
  };
}

/** Keeps only the JSON parts of error details, because a host function may put any value into them. */
function toPlainDetails(details: ErrorDetails | undefined): ErrorDetails | undefined {
  if (details === undefined) return undefined;
  try {
    return JSON.parse(JSON.stringify(details)) as ErrorDetails;
  } catch {
    return undefined;
  }
}

/** Converts a thrown value to a failed result. Never throws. */
export function toFailure(metadata: ResultMetadata, thrown: unknown): ToolResult {
  const { details, ...error } = toToolError(thrown).toData(metadata.toolName);
  const plain = toPlainDetails(details);
  return {
    ...toBase(metadata),
    success: false,
    error: { ...error, ...(plain === undefined ? {} : { details: plain }) },
  };
}

/** Returns the result of a call that failed before it began, or outside of the router. Never throws. */
export function failedResultOf(call: Pick<ResultMetadata, "callId" | "toolName">, thrown: unknown): ToolResult {
  return { ...toFailure({ ...call, started: performance.now() }, thrown), durationMs: 0 };
}

/** Dependencies and limits of the normalization. */
export interface NormalizeOptions {
  readonly tool: RegisteredTool;
  readonly limits: Limits;
  readonly thread: SchemaThread;
  /** Signal of the call: a large output is read within the call's time limit. */
  readonly signal: AbortSignal;
  /** Bytes of `outputBytes` that chunks have already used. */
  readonly streamedBytes?: number;
}

/** Returns the result of an execution; synchronously, unless the output is large. Never throws and never rejects. */
export function normalize(
  metadata: ResultMetadata,
  execution: Execution,
  options: NormalizeOptions,
): ToolResult | Promise<ToolResult> {
  if ("error" in execution) return toFailure(metadata, execution.error);
  const { tool, limits, thread, signal, streamedBytes = 0 } = options;
  const { outputText: text, outputBytes, content, cpuAccount, isStreamed } = execution;
  const toSuccess = (output: ToolValue): ToolResult => ({ ...toBase(metadata), success: true, output });
  try {
    const what = `The output of ${tool.definition.name}`;
    const bounds = { bytes: limits.outputBytes - streamedBytes, depth: limits.jsonDepth, values: limits.jsonValues };
    if (typeof text !== "string") checkJsonBytes(text.length, bounds, OUTPUT_CODES, what);
    const schema = isStreamed ? undefined : tool.outputSchema;
    const read = { text, bounds, codes: OUTPUT_CODES, what, schema, cpuAccount };
    if (outputBytes !== undefined || content !== undefined) {
      return readRich(read, execution, options).then(
        (rich) => ({ ...toBase(metadata), success: true, ...rich }),
        (thrown: unknown) => toFailure(metadata, thrown),
      );
    }
    if (isSmallJson(text)) return toSuccess(readSmallValue(read));
    return readLargeValue(read, thread, signal).then(toSuccess, (thrown: unknown) => toFailure(metadata, thrown));
  } catch (thrown) {
    return toFailure(metadata, thrown);
  }
}

/** Reads an output with bytes or content. Their sizes count together against the output limit. */
async function readRich(
  read: ValueText,
  { outputBytes, content }: Extract<Execution, { outputText: unknown }>,
  { tool, thread, signal }: NormalizeOptions,
): Promise<{ readonly output: ToolValue; readonly content?: readonly ContentPart[] }> {
  const what = `The content of ${tool.definition.name}`;
  const attachments = await outputBytes?.();
  const contentAttachments = await content?.bytes?.();
  const size =
    lengthOf(read.text) + sizeOfBytes(attachments) + lengthOf(content?.text ?? "") + sizeOfBytes(contentAttachments);
  checkJsonBytes(size, read.bounds, OUTPUT_CODES, read.what);
  const output = await readValueWithBytes(read, attachments, thread, signal);
  if (content === undefined) return { output };
  const contentRead = { ...read, text: content.text, what, schema: undefined };
  return {
    output,
    content: parseContent(await readValueWithBytes(contentRead, contentAttachments, thread, signal), what),
  };
}

const lengthOf = (text: string | Buffer): number => (typeof text === "string" ? Buffer.byteLength(text) : text.length);
