// What a model has chosen, read out of what it wrote: one JSON object { "tool", "inputs" }, wherever in the reply it stands. Hostile text.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { parseSmallJson } from "../json/parse-json.ts";

/** The word for "no tool fits". A tool that has this name is not offered. */
export const NO_TOOL = "none";

export interface RoutingDecision {
  readonly tool: string;
  readonly inputs: { readonly [key: string]: JsonValue };
}

/** A decision, or what is wrong with the reply, in words that its model can mend it by. */
export type DecisionReading = { readonly decision: RoutingDecision } | { readonly problem: string };

/** As the router has it for small JSON. */
const MAX_REPLY_UNITS = 128 * 1024;
/** Braces that are tried as the beginning of an object: prose has few. */
const MAX_TRIES = 64;
const BOUNDS = { bytes: 3 * MAX_REPLY_UNITS, depth: 100, values: 100_000 } as const;
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const SHAPE = '{"tool": "NAME", "inputs": {…}}';

type JsonObject = { readonly [key: string]: JsonValue };
const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function parse(text: string): JsonValue | undefined {
  try {
    return parseSmallJson(text, BOUNDS, CODES, "The reply");
  } catch {
    return undefined;
  }
}

/** Where the object that begins at `start` ends, by braces outside of strings; -1 where it does not. */
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

/** An object that was to be the decision, whatever became of it. */
const LOOKS_CHOSEN = /["'`]tool["'`]\s*:/;

/**
 * The JSON objects in a text, outermost ones only: an object in another one's inputs is no decision, not even where the outer one cannot
 * be parsed or was cut off. Undefined then.
 */
function objectsIn(text: string): readonly JsonObject[] | undefined {
  const whole = parse(text);
  if (isObject(whole)) return [whole];
  if (typeof whole === "string") return objectsIn(whole);
  const found: JsonObject[] = [];
  let start = text.indexOf("{");
  for (let tries = 0; start >= 0 && tries < MAX_TRIES; tries += 1) {
    const end = endOfObject(text, start);
    const span = text.slice(start, end < 0 ? undefined : end + 1);
    const value = end < 0 ? undefined : parse(span);
    if (isObject(value)) found.push(value);
    else if (LOOKS_CHOSEN.test(span)) return undefined;
    start = text.indexOf("{", isObject(value) ? end + 1 : start + 1);
  }
  return found;
}

function readObject(object: JsonObject): DecisionReading {
  const { tool, inputs } = object;
  if (typeof tool !== "string" || tool === "")
    return { problem: `Expected ${SHAPE}: "tool" must be the name of a tool, as text` };
  const others = Object.keys(object).filter((key) => key !== "tool" && key !== "inputs");
  if (inputs === undefined && others.length > 0 && tool !== NO_TOOL) {
    // Read as no inputs at all, the tool would run on nothing.
    return { problem: `Expected ${SHAPE}: there is no "inputs", but ${JSON.stringify(others[0]?.slice(0, 100))}` };
  }
  // Some models write JSON into JSON.
  const value = typeof inputs === "string" ? parse(inputs) : (inputs ?? {});
  if (tool !== NO_TOOL && !isObject(value)) return { problem: `Expected ${SHAPE}: "inputs" must be an object` };
  return { decision: { tool, inputs: isObject(value) ? value : {} } };
}

const isSame = (a: RoutingDecision, b: RoutingDecision): boolean =>
  a.tool === b.tool && JSON.stringify(a.inputs) === JSON.stringify(b.inputs);

/**
 * Reads a reply: bare JSON, JSON in a fence, with prose around it. Two objects that choose differently are no choice; objects without
 * a `tool` are taken for prose. Never throws.
 */
export function readDecision(reply: string): DecisionReading {
  if (reply.length > MAX_REPLY_UNITS)
    return { problem: `Expected ${SHAPE} and nothing else, got ${reply.length} characters` };
  const objects = objectsIn(reply);
  if (objects === undefined)
    return { problem: `Expected ${SHAPE} and nothing else, got an object that is not valid JSON` };
  const chosen = objects.filter((object) => Object.hasOwn(object, "tool"));
  const readings = (chosen.length === 0 ? objects : chosen).map(readObject);
  const decisions = readings.flatMap((reading) => ("decision" in reading ? [reading.decision] : []));
  const [first] = decisions;
  if (first === undefined) {
    const problem = readings.find((reading) => "problem" in reading);
    return problem ?? { problem: `Expected ${SHAPE} and nothing else, got no JSON object` };
  }
  if (decisions.some((other) => !isSame(first, other))) {
    return { problem: `Expected exactly one ${SHAPE}, got ${decisions.length} that differ: choose one tool` };
  }
  return { decision: first };
}

/** A reply that is a tool call, though none was asked for: it says the same. */
export function readCallAsDecision(toolName: string, args: unknown, argumentsText: string): DecisionReading {
  const value = args === undefined ? (argumentsText.trim() === "" ? {} : parse(argumentsText)) : args;
  if (isObject(value)) return { decision: { tool: toolName, inputs: value } };
  return { problem: `Expected ${SHAPE}: "inputs" must be an object` };
}
