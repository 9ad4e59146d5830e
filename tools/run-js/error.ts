// Describes the error of a snippet, with its location in the snippet.
import { inspect } from "node:util";
import { findLastExpression, LINES_BEFORE, RETURN, SNIPPET_NAME, SnippetSyntaxError } from "./snippet.ts";

const MAX_MESSAGE = 4_000;
const PLACE = new RegExp(`${SNIPPET_NAME.replace(".", "\\.")}:(\\d+):(\\d+)`);

interface ShownError {
  readonly name: string;
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
}

export function showError(thrown: unknown, code: string): ShownError {
  if (thrown instanceof SnippetSyntaxError) {
    return { name: "SyntaxError", message: thrown.message, line: thrown.line, column: thrown.column };
  }
  if (!(thrown instanceof Error)) return { name: "Error", message: `Thrown: ${inspect(thrown)}`.slice(0, MAX_MESSAGE) };
  return { name: String(thrown.name), message: String(thrown.message).slice(0, MAX_MESSAGE), ...placeOf(thrown, code) };
}

function placeOf({ stack }: Error, code: string): { readonly line?: number; readonly column?: number } {
  const [, line, column] = PLACE.exec(String(stack)) ?? [];
  if (line === undefined) return {};
  const ownLine = Number(line) - LINES_BEFORE;
  return { line: ownLine, column: toOwnColumn(ownLine, Number(column), code) };
}

/** Corrects the column of errors on the line of the last expression, where a prefix was inserted. */
function toOwnColumn(line: number, column: number, code: string): number {
  const last = findLastExpression(code);
  const before = last === undefined ? [] : code.slice(0, last.start).split("\n");
  const begin = (before.at(-1)?.length ?? 0) + 1;
  return before.length === line && column > begin ? Math.max(begin, column - RETURN.length) : column;
}
