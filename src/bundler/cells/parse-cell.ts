// Parses a session cell: replaces its types by blanks, and reads its statements. Both keep lines and columns.
// node:module is imported as a whole: a named import that an older Node lacks would fail before the version check can report that Node.
import nodeModule from "node:module";
import type { Comment, Node, Program } from "acorn";
import { BuildIssueError } from "../compile/child/build-messages.ts";
import { isSyntax, type Syntax } from "../compile/transforms/syntax.ts";

export type Range = Pick<Node, "start" | "end">;

/** The cell contains syntax that is neither JavaScript nor types, so a compiler must first turn it into JavaScript. */
export class CellSyntaxError extends BuildIssueError {}

const FUNCTION_BEFORE = "async function $() {";
const FUNCTION_AFTER = "\n}";

/** Replaces types by blanks in a cell with a `return` of its own, which Node's parser accepts inside a function only. */
function stripInFunction(source: string): string {
  const text = nodeModule.stripTypeScriptTypes(`${FUNCTION_BEFORE}${source}${FUNCTION_AFTER}`, { mode: "strip" });
  return text.slice(FUNCTION_BEFORE.length, -FUNCTION_AFTER.length);
}

function stripTypes(source: string): string {
  try {
    return nodeModule.stripTypeScriptTypes(source, { mode: "strip" });
  } catch (thrown) {
    if (!/return statement is not allowed/i.test((thrown as Error).message)) throw thrown;
    return stripInFunction(source);
  }
}

/** Replaces types by blanks. @throws {BuildIssueError} for a syntax error; {CellSyntaxError} for syntax other than types */
export function withoutTypes(source: string, file: string): string {
  try {
    return stripTypes(source);
  } catch (thrown) {
    const { message, code } = thrown as Error & { readonly code?: string };
    const [first = ""] = message.split("\n");
    const problem = { file, message: first.replace(/^\s*x\s*/, "").slice(0, 500) };
    throw new (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX" ? CellSyntaxError : BuildIssueError)(problem);
  }
}

/** @throws {BuildIssueError} for a syntax error; {CellSyntaxError} for a decorator */
export async function parseCell(source: string, file: string, comments: Comment[]): Promise<Program> {
  const { parse: parseModule } = await import("acorn");
  try {
    return parseModule(source, {
      ecmaVersion: "latest",
      sourceType: "module",
      allowAwaitOutsideFunction: true,
      allowReturnOutsideFunction: true,
      onComment: comments,
    });
  } catch (thrown) {
    const { loc, pos, message } = thrown as SyntaxError & {
      readonly loc?: { readonly line: number; readonly column: number };
      readonly pos?: number;
    };
    const location =
      loc === undefined ? {} : { line: loc.line, column: loc.column + 1, lineText: source.split("\n")[loc.line - 1] };
    const isDecorator = pos !== undefined && source[pos] === "@";
    const problem = { file, ...location, message: message.replace(/ \(\d+:\d+\)$/, "") };
    throw new (isDecorator ? CellSyntaxError : BuildIssueError)(problem);
  }
}

/** A cell `{ a: 1 }` is an object for a user who inspects a value, although a program would read it as a block. */
export async function findObjectLiteral(source: string, file: string): Promise<Range | undefined> {
  if (!/^\s*\{/.test(source)) return undefined;
  try {
    const [only] = (await parseCell(`(${source}\n)`, file, [])).body as unknown as readonly Syntax[];
    const value = only?.expression;
    return isSyntax(value) ? { start: value.start - 1, end: value.end - 1 } : undefined;
  } catch (error) {
    if (error instanceof BuildIssueError) return undefined;
    throw error;
  }
}
