// Stage 1: is this a call, of a tool there is, with arguments that fit? Nothing of the caller's own objects passes this stage.
import { type JsonValue, ToolError } from "../../sandbox/errors.ts";
import { LIMITS } from "../../sandbox/limits.ts";
import type { ValidationOutcome } from "../json-schema/compile-schema.ts";
import { checkJsonBytes, type JsonTextCodes, type JsonTextLimits, parseJsonText } from "../json-text.ts";
import type { RegisteredTool, ToolRegistry } from "../registry.ts";
import type { ToolContext } from "../tool-call.ts";

export const DEFAULT_TENANT = "default";
const MAX_ID_UNITS = 1_024;
const INPUT_CODES: JsonTextCodes = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" };

/** A call's envelope, read once from the caller's object. */
export interface CallEnvelope {
  readonly callId: string;
  readonly toolName: string;
  readonly arguments: unknown;
}

export interface ValidatedCall {
  readonly callId: string;
  readonly tenantId: string;
  readonly tool: RegisteredTool;
  readonly inputText: string;
  readonly input: JsonValue;
  readonly context: ToolContext;
}

const typeName = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "an array" : value === undefined ? "nothing" : `a ${typeof value}`;

function invalid(where: string, expected: string, got: unknown): ToolError {
  const text = typeof got === "string" || typeof got === "number" ? JSON.stringify(got).slice(0, 100) : typeName(got);
  return new ToolError("PARAM_INVALID", `${where}: expected ${expected}, got ${text}`, {
    details: { problems: [{ pointer: where, expected, got: text }] },
  });
}

function readText(value: unknown, where: string): string {
  if (typeof value !== "string" || value.length === 0 || value.length > MAX_ID_UNITS) {
    throw invalid(where, `text of 1 to ${MAX_ID_UNITS} characters`, value);
  }
  return value;
}

/**
 * Reads the call's three fields. The object may be anything at all, a proxy that throws included.
 * @throws {ToolError} PARAM_INVALID
 */
export function readEnvelope(toolCall: unknown): CallEnvelope {
  if (typeof toolCall !== "object" || toolCall === null) throw invalid("toolCall", "an object { id, toolName, arguments }", toolCall);
  try {
    const { id, toolName, arguments: args } = toolCall as { readonly [name: string]: unknown };
    return { callId: readText(id, "toolCall.id"), toolName: readText(toolName, "toolCall.toolName"), arguments: args };
  } catch (thrown) {
    if (thrown instanceof ToolError) throw thrown;
    throw new ToolError("PARAM_INVALID", "toolCall: expected a plain object, got one whose fields cannot be read", { cause: thrown });
  }
}

/** @throws {ToolError} PARAM_INVALID */
export function readContext(context: unknown): ToolContext & { readonly tenantId: string } {
  if (context === undefined || context === null) return { tenantId: DEFAULT_TENANT };
  if (typeof context !== "object") throw invalid("context", "an object { tenantId, signal, timeoutMs }", context);
  const { tenantId, signal, timeoutMs, onLog, onProgress } = context as ToolContext;
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid("context.signal", "an AbortSignal", signal);
  if (onLog !== undefined && typeof onLog !== "function") throw invalid("context.onLog", "a function", onLog);
  if (onProgress !== undefined && typeof onProgress !== "function") {
    throw invalid("context.onProgress", "a function", onProgress);
  }
  checkTimeout(timeoutMs, "context.timeoutMs");
  return { ...context, tenantId: tenantId === undefined ? DEFAULT_TENANT : readText(tenantId, "context.tenantId") };
}

/** @throws {ToolError} PARAM_INVALID */
export function checkTimeout(timeoutMs: unknown, where: string): asserts timeoutMs is number | undefined {
  if (timeoutMs === undefined) return;
  const { min, max } = LIMITS.timeoutMs;
  const fits = typeof timeoutMs === "number" && Number.isFinite(timeoutMs) && timeoutMs >= min && timeoutMs <= max;
  if (!fits) throw invalid(where, `a number of milliseconds from ${min} to ${max}`, timeoutMs);
}

function serializeArguments(args: unknown): string {
  if (args === undefined) return "{}";
  let text: string | undefined;
  try {
    text = JSON.stringify(args);
  } catch (cause) {
    const why = cause instanceof TypeError ? "a cycle or a BigInt" : "a value that cannot be read";
    throw new ToolError("PARAM_INVALID", `arguments: expected a JSON value, got ${why}`, {
      cause,
      details: { problems: [{ pointer: "", expected: "a JSON value", got: why }] },
    });
  }
  if (text === undefined) throw invalid("arguments", "a JSON value", args);
  return text;
}

/** How a schema's verdict becomes an error: the same for inputs and outputs. */
export function toSchemaError(
  code: "PARAM_INVALID" | "OUTPUT_INVALID",
  what: string,
  outcome: Exclude<ValidationOutcome, { valid: true }>,
): ToolError {
  if (outcome.stopped) return new ToolError(code, `${what}: ${outcome.message}`);
  const { problems, truncated } = outcome;
  const shown = problems.slice(0, 3).map(({ pointer, message }) => `${pointer === "" ? "at the top" : pointer}: ${message}`);
  const more = problems.length - shown.length;
  const rest = more > 0 || truncated ? `; and ${truncated ? "more" : `${more} more`}` : "";
  return new ToolError(code, `${what}: ${shown.join("; ")}${rest}`, { details: { problems, truncated } });
}

function unknownTool(toolName: string, tenantId: string, registry: ToolRegistry): ToolError {
  const known = registry.list(tenantId).map((tool) => tool.definition.name);
  const hint = known.length === 0 ? "no tools are registered" : `known are: ${known.slice(0, 20).join(", ")}`;
  return new ToolError("TOOL_UNAVAILABLE", `There is no tool named "${toolName.slice(0, 128)}"; ${hint}`, {
    details: { toolName: toolName.slice(0, 128), known: known.slice(0, 20) },
  });
}

/**
 * @param limits the host's bounds for arguments
 * @throws {ToolError} PARAM_INVALID, TOOL_UNAVAILABLE
 */
export function validateCall(
  envelope: CallEnvelope,
  context: ToolContext & { readonly tenantId: string },
  registry: ToolRegistry,
  limits: JsonTextLimits,
): ValidatedCall {
  const tool = registry.get(envelope.toolName, context.tenantId);
  if (tool === undefined) throw unknownTool(envelope.toolName, context.tenantId, registry);
  const inputText = serializeArguments(envelope.arguments);
  checkJsonBytes(inputText.length, limits, INPUT_CODES, "The arguments");
  const input = parseJsonText(inputText, limits, INPUT_CODES, "The arguments");
  const outcome = tool.inputSchema.validate(input);
  if (!outcome.valid) throw toSchemaError("PARAM_INVALID", `The arguments of ${envelope.toolName}`, outcome);
  return { callId: envelope.callId, tenantId: context.tenantId, tool, inputText, input, context };
}
