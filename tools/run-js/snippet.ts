// Compiles a snippet to the body of an async function that returns its last expression, as a notebook does.
import { Parser, type Program } from "acorn";

/** Appears in stacks; see error.ts. */
export const SNIPPET_NAME = "snippet.js";
/** Lines that `AsyncFunction` puts before the body it is given. */
export const LINES_BEFORE = 2;
/** Prefix that is inserted before the last expression. Columns after it on its line are larger by its length. */
export const RETURN = "return (";

type Snippet = (input: unknown, console: object) => Promise<unknown>;

const AsyncFunction = (async () => undefined).constructor as new (...parts: string[]) => Snippet;

/** A syntax error with its location. */
export class SnippetSyntaxError extends SyntaxError {
  readonly line: number;
  readonly column: number;

  constructor(message: string, line: number, column: number) {
    super(message);
    this.line = line;
    this.column = column;
  }
}

/** Where the last expression begins and ends; undefined where the snippet ends with another statement. */
export function findLastExpression(code: string): { readonly start: number; readonly end: number } | undefined {
  const statements = parse(code);
  const last = statements.findLast(({ type }) => type !== "EmptyStatement");
  return last?.type === "ExpressionStatement" ? last.expression : undefined;
}

function parse(code: string): Program["body"] {
  try {
    // The parentheses around an expression are a part of what is returned.
    const options = {
      allowAwaitOutsideFunction: true,
      allowReturnOutsideFunction: true,
      preserveParens: true,
    } as const;
    return Parser.parse(code, { ...options, ecmaVersion: "latest", sourceType: "script" }).body;
  } catch (thrown) {
    const { message, loc } = thrown as {
      readonly message: string;
      readonly loc?: { readonly line: number; readonly column: number };
    };
    const isImport = /'import' and 'export' may appear only/.test(message);
    const text = isImport
      ? "A snippet imports and exports nothing: write what it needs into it"
      : message.replace(/ \(\d+:\d+\)$/, "");
    throw new SnippetSyntaxError(text, loc?.line ?? 1, (loc?.column ?? 0) + 1);
  }
}

/** @throws {SnippetSyntaxError} */
export function compileSnippet(code: string): Snippet {
  const last = findLastExpression(code);
  const body =
    last === undefined
      ? code
      : `${code.slice(0, last.start)}${RETURN}${code.slice(last.start, last.end)})${code.slice(last.end)}`;
  return new AsyncFunction("input", "console", `${body}\n//# sourceURL=${SNIPPET_NAME}`);
}
