// Reads a model's decision from its reply: one JSON object { "tool", "inputs" } anywhere in the text, which is untrusted.
import type { JsonValue } from "../../../sandbox/contract/errors.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { parseSmallJson } from "../../json/parse-json.ts";

/** The reply for "no tool fits". A tool of this name is not offered. */
export const NO_TOOL = "none";

/** The tool that the model has chosen for a request, and the inputs for it. */
export interface RoutingDecision {
  readonly tool: string;
  readonly inputs: { readonly [key: string]: JsonValue };
}

/** A decision, or the problem of the reply, worded so that the model can correct it. */
export type DecisionReading = { readonly decision: RoutingDecision } | { readonly problem: string };

/** The router's limit for small JSON. */
const MAX_REPLY_LENGTH = 128 * 1024;
/** Number of opening braces that are tried as the start of an object; prose has few. */
const MAX_TRIES = 64;
const BOUNDS = { bytes: 3 * MAX_REPLY_LENGTH, depth: 100, values: 100_000 } as const;
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const FORM = '{"tool": "NAME", "inputs": {…}}';

type JsonObject = { readonly [key: string]: JsonValue };

function parse(text: string): JsonValue | undefined {
  try {
    return parseSmallJson(text, BOUNDS, CODES, "The reply");
  } catch {
    return undefined;
  }
}

/** Returns the index where the object at `start` ends, counting braces outside of strings; -1 if it is not closed. */
function endOfObject(text: string, start: number): number {
  let depth = 0;
  let isString = false;
  for (let index = start; index < text.length; index += 1) {
    const unit = text[index];
    if (isString) {
      if (unit === "\\") index += 1;
      else if (unit === '"') isString = false;
    } else if (unit === '"') isString = true;
    else if (unit === "{") depth += 1;
    else if (unit === "}") {
      depth -= 1;
      if (depth === 0) return index;
    }
  }
  return -1;
}

/** Detects an object that was meant as the decision, even if it is malformed. */
const LOOKS_LIKE_DECISION = /["'`]tool["'`]\s*:/;

/**
 * Returns the outermost JSON objects of a text. An object inside another one's inputs is never a decision. Returns undefined if the outer
 * object looks like a decision but is cut off or invalid.
 */
function objectsIn(text: string): readonly JsonObject[] | undefined {
  const whole = parse(text);
  if (isJsonObject(whole)) return [whole];
  if (typeof whole === "string") return objectsIn(whole);
  const found: JsonObject[] = [];
  let start = text.indexOf("{");
  for (let tries = 0; start >= 0 && tries < MAX_TRIES; tries += 1) {
    const end = endOfObject(text, start);
    const span = text.slice(start, end < 0 ? undefined : end + 1);
    const value = end < 0 ? undefined : parse(span);
    if (isJsonObject(value)) found.push(value);
    else if (LOOKS_LIKE_DECISION.test(span)) return undefined;
    start = text.indexOf("{", isJsonObject(value) ? end + 1 : start + 1);
  }
  return found;
}

function readObject(object: JsonObject): DecisionReading {
  const { tool, inputs } = object;
  if (typeof tool !== "string" || tool === "")
    return { problem: `Expected ${FORM}: "tool" must be the name of a tool, as a string` };
  const others = Object.keys(object).filter((key) => key !== "tool" && key !== "inputs");
  if (inputs === undefined && others.length > 0 && tool !== NO_TOOL) {
    // Otherwise the tool would run with empty inputs.
    return { problem: `Expected ${FORM}: "inputs" is missing, got ${JSON.stringify(others[0]?.slice(0, 100))}` };
  }
  // Some models encode the inputs as a JSON string.
  const value = typeof inputs === "string" ? parse(inputs) : (inputs ?? {});
  if (tool !== NO_TOOL && !isJsonObject(value)) return { problem: `Expected ${FORM}: "inputs" must be an object` };
  return { decision: { tool, inputs: isJsonObject(value) ? value : {} } };
}

const isSame = (a: RoutingDecision, b: RoutingDecision): boolean =>
  a.tool === b.tool && JSON.stringify(a.inputs) === JSON.stringify(b.inputs);

/**
 * Reads a reply: bare JSON, JSON in a code fence, or JSON within prose. Two different decisions are rejected; objects without a `tool` are
 * ignored if another object has one. Never throws.
 */
export function readDecision(reply: string): DecisionReading {
  if (reply.length > MAX_REPLY_LENGTH)
    return { problem: `Expected ${FORM} and nothing else, got ${reply.length} characters` };
  const objects = objectsIn(reply);
  if (objects === undefined)
    return { problem: `Expected ${FORM} and nothing else, got an object that is not valid JSON` };
  const chosen = objects.filter((object) => Object.hasOwn(object, "tool"));
  const readings = (chosen.length === 0 ? objects : chosen).map(readObject);
  const decisions = readings.flatMap((reading) => ("decision" in reading ? [reading.decision] : []));
  const [first] = decisions;
  if (first === undefined) {
    const problem = readings.find((reading) => "problem" in reading);
    return problem ?? { problem: `Expected ${FORM} and nothing else, got no JSON object` };
  }
  if (decisions.some((other) => !isSame(first, other))) {
    return { problem: `Expected exactly one ${FORM}, got ${decisions.length} different ones: choose one tool` };
  }
  return { decision: first };
}

/** Reads a reply that is a tool call instead of text: its name and arguments are the decision. */
export function readCallAsDecision(toolName: string, args: unknown, argumentsText: string): DecisionReading {
  const value = args === undefined ? (argumentsText.trim() === "" ? {} : parse(argumentsText)) : args;
  // Adapters of models parse arguments from JSON.
  if (isJsonObject(value)) return { decision: { tool: toolName, inputs: value as JsonObject } };
  return { problem: `Expected ${FORM}: "inputs" must be an object` };
}
