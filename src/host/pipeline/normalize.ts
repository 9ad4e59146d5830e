// Stage 4: whatever an execution left becomes a ToolResult. The output is hostile text until it has passed here.
import { type ErrorDetails, type JsonValue, toToolError } from "../../sandbox/errors.ts";
import type { Limits } from "../../sandbox/limits.ts";
import type { Execution } from "../executors/executor.ts";
import { checkJsonBytes, type JsonTextCodes, parseJsonText } from "../json-text.ts";
import type { LogEntry } from "../logs.ts";
import type { RegisteredTool } from "../registry.ts";
import { NO_USAGE, type ToolResult, type ToolUsage } from "../tool-call.ts";
import { schemaBudgetMs, toSchemaError } from "./validate.ts";

const OUTPUT_CODES: JsonTextCodes = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" };

/**
 * The output as a value that fits the tool's output schema.
 * @throws {ToolError} OUTPUT_TOO_LARGE, OUTPUT_INVALID
 */
export function parseOutput(output: string | Buffer, tool: RegisteredTool, limits: Limits): JsonValue {
  const { name } = tool.definition;
  const bounds = { bytes: limits.outputBytes, depth: limits.jsonDepth };
  const what = `The output of ${name}`;
  if (typeof output !== "string") checkJsonBytes(output.length, bounds, OUTPUT_CODES, what);
  const value = parseJsonText(output.toString(), bounds, OUTPUT_CODES, what);
  const outcome = tool.outputSchema?.validate(value, { budgetMs: schemaBudgetMs(output.length) }) ?? { valid: true };
  if (!outcome.valid) throw toSchemaError("OUTPUT_INVALID", what, outcome);
  return value;
}

/** What is known of a call by the time its result is made. */
export interface ResultFacts {
  readonly callId: string;
  readonly toolName: string;
  readonly started: number;
  readonly usage?: ToolUsage;
  readonly logs?: readonly LogEntry[];
}

function base(facts: ResultFacts): Omit<ToolResult, "success" | "output" | "error"> {
  const { callId, toolName, started, usage = NO_USAGE, logs = [] } = facts;
  return { callId, toolName, durationMs: performance.now() - started, usage, logs };
}

/** A host function may put anything into its error's details: what has no JSON stays out. */
function toPlainDetails(details: ErrorDetails | undefined): ErrorDetails | undefined {
  if (details === undefined) return undefined;
  try {
    return JSON.parse(JSON.stringify(details)) as ErrorDetails;
  } catch {
    return undefined;
  }
}

export function toFailure(facts: ResultFacts, thrown: unknown): ToolResult {
  const { details, ...error } = toToolError(thrown).toData(facts.toolName);
  const plain = toPlainDetails(details);
  return { ...base(facts), success: false, error: { ...error, ...(plain === undefined ? {} : { details: plain }) } };
}

/** Never throws. */
export function normalize(facts: ResultFacts, execution: Execution, tool: RegisteredTool, limits: Limits): ToolResult {
  if ("error" in execution) return toFailure(facts, execution.error);
  try {
    const output = parseOutput(execution.outputText, tool, limits);
    return { ...base(facts), success: true, output };
  } catch (thrown) {
    return toFailure(facts, thrown);
  }
}
