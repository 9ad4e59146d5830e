// Supports a tool that is a script in sloppy mode: `with`, implicit globals, octal literals and `return` at its top level. esbuild reads
// modules only, so the text of the script stays out of the build: it becomes a function at the end of the bundle, which the built entry
// calls.
import { createHash } from "node:crypto";
import { decodedMappings, encodedMappings, type SourceMapSegment, TraceMap } from "@jridgewell/trace-mapping";
import { parse } from "acorn";
import { type BuildIssue, BuildIssueError } from "./child/build-messages.ts";
import { childrenOf, FUNCTIONS, isSyntax, type Syntax } from "./transforms/syntax.ts";

/** Wraps the script as the body of a function. Its first line becomes the second. */
const BODY_START = "async function script(input, ctx) {\n";
const BODY_END = "\n}";

export interface Script {
  /** Source of the entry that is built instead of the script. */
  readonly module: string;
  /** Function to append to the bundle. */
  readonly text: string;
  readonly source: string;
}

interface Failure {
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

function isFailure(
  error: unknown,
): error is SyntaxError & { readonly loc: { readonly line: number; readonly column: number } } {
  return error instanceof SyntaxError && "loc" in error;
}

/** Returns the statements of a script, or the reason why it is not a script. */
function parseBody(source: string): readonly Syntax[] | Failure {
  // A hashbang is allowed at the start of a file only.
  const text = `${BODY_START}${source.replace(/^#!/, "//")}${BODY_END}`;
  try {
    const program = parse(text, { ecmaVersion: "latest", sourceType: "script" }) as unknown as Syntax;
    const [script, ...others] = program.body as readonly Syntax[];
    // An extra closing brace would end the function around the script.
    if (script?.type !== "FunctionDeclaration" || others.length > 0) {
      return { message: 'Unexpected "}"', line: 1, column: 1 };
    }
    return (script.body as Syntax & { readonly body: readonly Syntax[] }).body;
  } catch (error) {
    if (!isFailure(error)) throw error;
    const { line, column } = error.loc;
    return { message: error.message.replace(/ \(\d+:\d+\)$/, ""), line: line - 1, column: column + 1 };
  }
}

const isFailed = (parsed: readonly Syntax[] | Failure): parsed is Failure => "message" in parsed;

function collectRequires(node: Syntax, found: Set<string>): void {
  if (node.type === "CallExpression") {
    const { callee, arguments: given } = node as unknown as {
      readonly callee: Syntax;
      readonly arguments: readonly Syntax[];
    };
    const [only] = given;
    if (callee.type === "Identifier" && callee.name === "require" && typeof only?.value === "string")
      found.add(only.value);
  }
  for (const child of childrenOf(node)) collectRequires(child, found);
}

/** Fields of statements that contain others. */
interface Nested {
  readonly body?: Syntax | readonly Syntax[];
  readonly consequent?: Syntax;
  readonly alternate?: Syntax | null;
  readonly block?: Syntax;
  readonly handler?: { readonly body: Syntax } | null;
}

/** Statements without a value of their own, which may follow the last expression: a function declaration is hoisted. */
const isWithoutValue = ({ type }: Syntax): boolean => type === "EmptyStatement" || type === "FunctionDeclaration";

/** A case has a value if it ends with `break` or is the last one: otherwise the next case runs, which a `return` would skip. */
function lastOfCase(branch: Syntax, index: number, cases: readonly Syntax[]): readonly Syntax[] {
  const consequent = branch.consequent as unknown as readonly Syntax[];
  const [only] = consequent;
  const statements =
    consequent.length === 1 && only?.type === "BlockStatement" ? (only.body as readonly Syntax[]) : consequent;
  const last = statements.at(-1);
  if (last?.type === "BreakStatement" && !isSyntax(last.label)) return lastExpressions(statements.slice(0, -1));
  return index === cases.length - 1 ? lastExpressions(statements) : [];
}

/** Returns the expressions whose value a list of statements ends with: one for each branch. */
function lastExpressions(statements: readonly Syntax[]): readonly Syntax[] {
  const last = statements.findLast((statement) => !isWithoutValue(statement));
  if (last === undefined) return [];
  const { body, consequent, alternate, block, handler } = last as Syntax & Nested;
  const inside = (...parts: readonly (Syntax | null | undefined)[]): readonly Syntax[] =>
    parts.flatMap((part) => (part ? lastExpressions([part]) : []));
  switch (last.type) {
    case "ExpressionStatement":
      // A text alone is a directive for the parser, and the value of a script.
      return [last];
    case "BlockStatement":
      return lastExpressions(body as readonly Syntax[]);
    case "WithStatement":
    case "LabeledStatement":
      return inside(body as Syntax);
    case "IfStatement":
      return inside(consequent, alternate);
    case "TryStatement":
      return inside(block, handler?.body);
    case "SwitchStatement":
      return (last.cases as readonly Syntax[]).flatMap(lastOfCase);
    default:
      return [];
  }
}

/**
 * Inserts `return` before the last expression of each branch: its value is the output of a script that does not return. Replaces `import` of
 * `import()` by the name of a function, because the bundle has no modules.
 */
function rewrite(source: string, statements: readonly Syntax[], imports: readonly Syntax[], name: string): string {
  const edits = [
    ...lastExpressions(statements).map(({ start }) => ({ start, length: 0, text: "return " })),
    ...imports.map(({ start }) => ({ start, length: "import".length, text: name })),
  ];
  let text = source;
  // Of two edits at one offset, `return` comes first in the text, so it is inserted last.
  for (const { start, length, text: added } of edits.toSorted((a, b) => b.start - a.start || b.length - a.length)) {
    const at = start - BODY_START.length;
    text = `${text.slice(0, at)}${added}${text.slice(at + length)}`;
  }
  return text;
}

function collectImports(node: Syntax, found: Syntax[]): void {
  if (node.type === "ImportExpression") found.push(node);
  for (const child of childrenOf(node)) collectImports(child, found);
}

/** Matches `module.exports = …`, and `exports.x = …`, as a statement of its own. */
function assignsExports({ type, expression }: Syntax): boolean {
  if (type !== "ExpressionStatement" || !isSyntax(expression) || expression.type !== "AssignmentExpression")
    return false;
  let left = expression.left as Syntax;
  if (left.type !== "MemberExpression") return false;
  while (left.type === "MemberExpression") left = left.object as Syntax;
  return left.type === "Identifier" && (left.name === "module" || left.name === "exports");
}

const MODULE_HINT = 'leave mode: "script" out: this text is a module';

/** @throws {BuildIssueError} when the text is not a script */
export function toScript(source: string, file: string): Script {
  const parsed = parseBody(source);
  if (isFailed(parsed)) {
    const { message, line, column } = parsed;
    const lineText = source.split("\n")[line - 1]?.slice(0, 200);
    const isModule = /'import' and 'export'|'import\.meta'/.test(message);
    throw new BuildIssueError({
      file,
      line,
      column,
      message: isModule ? "A script has no import, export or import.meta" : message,
      ...(isModule ? { hint: MODULE_HINT } : {}),
      ...(lineText === undefined ? {} : { lineText }),
    });
  }
  if (parsed.some(assignsExports)) {
    throw new BuildIssueError({ file, message: "A script has no module.exports", hint: MODULE_HINT });
  }
  const requires = new Set<string>();
  const imports: Syntax[] = [];
  for (const statement of parsed) {
    collectRequires(statement, requires);
    collectImports(statement, imports);
  }
  const imported = new Set(
    imports.flatMap(({ source: id }) => (isSyntax(id) && typeof id.value === "string" ? [id.value] : [])),
  );
  const name = `__glovebox_script_${createHash("sha256").update(source).digest("hex").slice(0, 16)}`;
  const table = [...requires].map((id) => `[${JSON.stringify(id)}, () => require(${JSON.stringify(id)})]`);
  const lazy = [...imported].map((id) => `[${JSON.stringify(id)}, () => import(${JSON.stringify(id)})]`);
  const importName = `${name}_import`;
  const text = rewrite(source.replace(/^#!/, "//"), parsed, imports, importName);
  return {
    source,
    module: `const modules = new Map([${table.join(", ")}]);
const lazy = new Map([${lazy.join(", ")}]);
async function loadLater(id) {
  const make = lazy.get(id);
  if (make !== undefined) return make();
  throw Object.assign(new Error("Cannot find module '" + id + "': import() in a script takes a constant string"), { code: "MODULE_NOT_FOUND" });
}
function load(id) {
  const make = modules.get(id);
  if (make !== undefined) return make();
  throw Object.assign(new Error("Cannot find module '" + id + "': require() in a script takes a constant string"), { code: "MODULE_NOT_FOUND" });
}
module.exports = ${name}(load, loadLater);
`,
    text: `function ${name}(require, ${importName}) { return async function (input, ctx) {\n${text}\n}; }`,
  };
}

interface Output {
  readonly code: string;
  readonly sourceMap: string;
}

/** Inserts the function of the script before the end of the bundle, and adds its mappings to the source map. */
export function appendScript({ code, sourceMap }: Output, { text, source }: Script, file: string): Output {
  const end = code.lastIndexOf("\n})");
  const whole = `${code.slice(0, end)}\n${text}${code.slice(end)}`;
  const map = JSON.parse(sourceMap) as { sources: string[]; sourcesContent: (string | null)[]; names: string[] };
  const known = map.sources.indexOf(file);
  const index = known < 0 ? map.sources.length : known;
  // The built entry is generated, so only mappings to packages stay.
  const decoded = decodedMappings(new TraceMap(sourceMap)).map((segments) =>
    segments.filter((segment) => segment[1] !== index).map((segment): SourceMapSegment => [...segment]),
  );
  const mappings: SourceMapSegment[][] = decoded;
  const first = code.slice(0, end).split("\n").length + 1;
  while (mappings.length < first) mappings.push([]);
  for (const [line, own] of source.split("\n").entries()) {
    mappings.push(
      [...own.matchAll(/[\w$]+|[^\s\w$]/g)].map(({ index: at }): SourceMapSegment => [at, index, line, at]),
    );
  }
  const sources = known < 0 ? [...map.sources, file] : map.sources;
  const sourcesContent = sources.map((_, at) => (at === index ? source : (map.sourcesContent[at] ?? null)));
  const done = { version: 3 as const, sources, sourcesContent, names: map.names };
  const encoded = encodedMappings(new TraceMap({ ...done, mappings } as ConstructorParameters<typeof TraceMap>[0]));
  return { code: whole, sourceMap: JSON.stringify({ ...done, mappings: encoded }) };
}

const HAS_EXPORTS = /\b(?:module|exports)\b/;
/** A CommonJS module that does not match has no default export. */
const MAY_HAVE_DEFAULT = /\bmodule\b|\bexports\b[^;]*\bdefault\b/;

function returnsAtTop(node: Syntax): boolean {
  if (node.type === "ReturnStatement") return true;
  return !FUNCTIONS.has(node.type) && childrenOf(node).filter(isSyntax).some(returnsAtTop);
}

/** Hint for a text that is a script and not a module. */
export const SCRIPT_HINT =
  'if this is a script and not a module, set mode: "script" next to source, as in addTool({ source, mode: "script" })';
/** The same for a text that was given as a file. */
export const SCRIPT_FILE_HINT =
  'if this is a script and not a module, give its text as source, as in addTool({ source, mode: "script" })';

/** Tells whether a text that could not be built as a module is a script. */
export function isScript(source: string): boolean {
  return !isFailed(parseBody(source));
}

/** Finds a script that esbuild treats as a CommonJS module without exports. */
export function findScriptProblem(source: string, file: string, isCommonJs: boolean): BuildIssue | undefined {
  if (MAY_HAVE_DEFAULT.test(source)) return undefined;
  const mayReturn = /\breturn\b/.test(source);
  if (!isCommonJs && (HAS_EXPORTS.test(source) || !mayReturn)) return undefined;
  const parsed = parseBody(source);
  if (isFailed(parsed)) return undefined;
  const returns = mayReturn && parsed.some(returnsAtTop);
  if (!returns && !isCommonJs) return undefined;
  const message = `${file} has no default export${returns ? " and returns at its top level" : ""}`;
  return { file, line: 1, column: 1, message, hint: SCRIPT_HINT };
}
