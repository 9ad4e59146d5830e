// Checks lists of tool definitions that a host passes to the adapters: a promise or an unawaited list would count as "no tools".

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import { unknownOptionError } from "../config/option-errors.ts";

const FIELDS: { readonly [Field in keyof Required<ToolDefinition>]: true } = {
  name: true,
  description: true,
  inputSchema: true,
  outputSchema: true,
  annotations: true,
  capabilities: true,
  limits: true,
  durable: true,
  prewarm: true,
  origin: true,
};
/** Keys of a definition. `metadata` is present in definitions that `listTools()` returned. */
const KNOWN: readonly string[] = [...Object.keys(FIELDS), "metadata"];

/** Definitions are registered once and passed with every request of a model. */
const checked = new WeakSet<object>();

const invalid = (what: string, expected: string, got: unknown): ToolError =>
  new ToolError("PARAM_INVALID", `${what}: Expected ${expected}, got ${describeKind(got)}`);

/** @throws {ToolError} PARAM_INVALID for anything but a ToolDefinition, naming the path */
export function checkDefinition(value: unknown, what: string): ToolDefinition {
  if (!isPlainObject(value)) throw invalid(what, "a tool definition, as listTools() returns it", value);
  if (checked.has(value)) return value as unknown as ToolDefinition;
  const unknown = Object.keys(value).find((key) => !KNOWN.includes(key));
  if (unknown !== undefined) throw unknownOptionError(what, unknown, KNOWN);
  const { name, description, inputSchema, outputSchema } = value;
  if (typeof name !== "string" || !TOOL_NAME_PATTERN.test(name)) {
    throw invalid(`${what}.name`, `a tool name of ${TOOL_NAME_RULE}`, name);
  }
  if (typeof description !== "string") throw invalid(`${what}.description`, "a string", description);
  if (!isPlainObject(inputSchema)) throw invalid(`${what}.inputSchema`, "a JSON Schema object", inputSchema);
  if (outputSchema !== undefined && !isPlainObject(outputSchema)) {
    throw invalid(`${what}.outputSchema`, "a JSON Schema object", outputSchema);
  }
  checked.add(value);
  return value as unknown as ToolDefinition;
}

/** @throws {ToolError} PARAM_INVALID for anything but an array of tool definitions, naming the path */
export function checkDefinitions(value: unknown, what: string): readonly ToolDefinition[] {
  if (!Array.isArray(value)) throw invalid(what, "an array of tool definitions", value);
  return Array.from(value as readonly unknown[], (one, index) => checkDefinition(one, `${what}[${index}]`));
}
