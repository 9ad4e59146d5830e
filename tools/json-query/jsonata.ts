// JSONata: a query and transformation language. Its errors are plain objects with a code and a position; here they become Errors.
import jsonata from "jsonata";
import { describePosition } from "./query-position.ts";

/** Timeout in ms, shorter than the default timeout of a call, so that an endless query fails with a specific message. */
const TIMEOUT_MS = 3_000;
/** JSONata recurses on the JavaScript stack: deeper than this overflows it in an isolate. */
const STACK_DEPTH = 500;
/** Items of one sequence, e.g. [1..1000000]. */
const SEQUENCE_ITEMS = 1_000_000;

interface JsonataError {
  readonly code: string;
  readonly message: string;
  readonly position?: number;
  readonly token?: string;
}

/**
 * @returns the result as plain JSON, or undefined when nothing matched
 * @throws {Error} saying where the query is wrong
 */
export async function queryJsonata(
  query: string,
  data: unknown,
  variables: Record<string, unknown> = {},
): Promise<unknown> {
  try {
    const expression = jsonata(query, { timeout: TIMEOUT_MS, stack: STACK_DEPTH, sequence: SEQUENCE_ITEMS });
    return toPlainJson(await expression.evaluate(data, variables));
  } catch (thrown) {
    throw isJsonataError(thrown) ? toQueryError(query, thrown) : thrown;
  }
}

function isJsonataError(thrown: unknown): thrown is JsonataError {
  return typeof thrown === "object" && thrown !== null && "code" in thrown && "message" in thrown;
}

function toQueryError(query: string, { code, message, position, token }: JsonataError): Error {
  const kind = code.startsWith("S") ? "The JSONata query is not valid" : "The JSONata query failed";
  const where = position === undefined ? "" : ` at ${describePosition(query, startOf(query, position, token))}`;
  return new Error(`${kind}${where}: ${message} (${code})`);
}

/** JSONata reports the end of a token; a reader needs its start. */
function startOf(query: string, end: number, token: string | undefined): number {
  const length = typeof token === "string" ? token.length : 0;
  return length > 0 && query.slice(end - length, end) === token ? end - length : end;
}

/** Returns a copy without the properties that JSONata adds to arrays. Functions are values in JSONata, but not in JSON. */
function toPlainJson(result: unknown): unknown {
  if (result === undefined) return undefined;
  const text = JSON.stringify(result, (_key, value: unknown) => {
    if (isFunction(value)) throw new Error("The JSONata query gives a function: call it, e.g. $sum(items), not $sum");
    return value;
  });
  return text === undefined ? undefined : JSON.parse(text);
}

function isFunction(value: unknown): boolean {
  if (typeof value === "function") return true;
  if (typeof value !== "object" || value === null) return false;
  return "_jsonata_function" in value || "_jsonata_lambda" in value;
}
