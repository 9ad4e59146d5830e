// Turns a session cell into a tool module. Its statements become the tool's `execute`, its declarations become properties of the global
// object for later cells, and its last expression becomes its value. Lines stay the same, and columns too except where text was inserted.
import type { Comment, Node } from "acorn";
import { BuildIssueError } from "../compile/child/build-messages.ts";
import { isSyntax, type Syntax } from "../compile/transforms/syntax.ts";
import type { CellLanguage } from "../tool-bundle.ts";
import { applyEdits, type CellLocation, createLocationMapper, type Edit } from "./cell-edits.ts";
import { findObjectLiteral, parseCell, type Range, withoutTypes } from "./parse-cell.ts";

/** Part of the cache key of a bundle. Increment when the same cell compiles to something else. */
export const CELL_VERSION = 5;

export interface CellModule {
  readonly text: string;
  /** Maps a location of the module to the cell. Returns `undefined` for generated text. */
  toCellLocation(location: CellLocation): CellLocation | undefined;
  /** True if the cell imports nothing and uses no name that the bundler replaces. */
  readonly isSelfContained: boolean;
}

/** The source of a cell and its comments. */
interface CellText {
  readonly source: string;
  readonly file: string;
  readonly comments: readonly Comment[];
}

/** Contents of the top level of a cell. */
interface Findings {
  /** Declared names, which are kept for later cells. */
  readonly names: Set<string>;
  /** Names that are assigned without a declaration. A notebook treats this as a declaration. */
  readonly assigned: Set<string>;
  readonly functions: string[];
  readonly imports: { readonly start: number; readonly text: string }[];
  readonly imported: string[];
  readonly edits: Edit[];
}

/** Prefix of generated names in the module. No name of a cell starts with it. */
const PREFIX = "$cell_";
const blank = (text: string): string => text.replaceAll(/[^\r\n]/g, " ");

/** Returns the text of a node with some of its parts replaced by blanks. */
function blankOut(source: string, { start, end }: Range, parts: readonly Range[]): string {
  const pieces: string[] = [];
  let from = start;
  for (const part of parts) {
    pieces.push(source.slice(from, part.start), blank(source.slice(part.start, part.end)));
    from = part.end;
  }
  return [...pieces, source.slice(from, end)].join("");
}

/** Name of the function that contains the cell's own statements. */
export const CELL_MAIN = `${PREFIX}main`;
/** Prefix of the names that replace the author's function names. It differs from the prefix of generated names. */
const FUNCTION_PREFIX = "$cellfn_";

/** Members of ctx that a cell can also use by their name alone, unless it has a variable of that name. */
const GIVEN_MEMBERS: readonly string[] = ["tools", "result"];

/** Helpers of the module. Generated globals are not enumerable, so no loop over the global object's properties finds them. */
const RUNTIME = [
  `const ${PREFIX}name = (fn, name) => { const known = Object.getOwnPropertyDescriptor(fn, "name");`,
  // A class may have a static member that is called `name`.
  'return known === undefined || known.writable !== false ? fn : Object.defineProperty(fn, "name", { value: name, configurable: true }); };',
  `const ${PREFIX}own = (name) => Object.getOwnPropertyDescriptor(globalThis, name);`,
  `const ${PREFIX}set = (name, value, enumerable) =>`,
  "Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable });",
  `const ${PREFIX}declare = (name) => { const known = ${PREFIX}own(name);`,
  `if (known === undefined || !("value" in known) || !known.writable) ${PREFIX}set(name, undefined, true);`,
  `else if (!known.enumerable) ${PREFIX}set(name, known.value, true); };`,
  `const ${PREFIX}give = (name, value) => { if (${PREFIX}own(name)?.enumerable !== true) ${PREFIX}set(name, value, false); };`,
  `const ${PREFIX}value = (value) => typeof value === "function" ? "[Function: " + (value.name || "anonymous") + "]"`,
  ': typeof value === "symbol" || typeof value === "bigint" || value instanceof RegExp || Error.isError(value) ? String(value)',
  ": value instanceof Map || value instanceof Set ? [...value] : value;",
].join(" ");

function throwIssue(source: string, { start }: Node, file: string, message: string, hint: string): never {
  const before = source.slice(0, start).split("\n");
  const line = before.length;
  const lineText = source.split("\n")[line - 1];
  throw new BuildIssueError({ file, line, column: (before.at(-1) ?? "").length + 1, message, hint, lineText });
}

/** Adds the names that a pattern binds. Other names in the pattern, such as property keys, are not added. */
function addNames(pattern: Syntax | null, names: Set<string>): void {
  if (pattern === null || pattern.type === "MemberExpression") return;
  const { type } = pattern;
  if (type === "Identifier") names.add(String(pattern.name));
  else if (type === "RestElement") addNames(pattern.argument as Syntax, names);
  else if (type === "AssignmentPattern") addNames(pattern.left as Syntax, names);
  else if (type === "Property") addNames(pattern.value as Syntax, names);
  else for (const part of (pattern.properties ?? pattern.elements) as readonly (Syntax | null)[]) addNames(part, names);
}

/** Replaces `const x = 1` by `x = 1`, padded to the same length. */
function editDeclaration(node: Syntax, source: string, isHead: boolean, { edits, names }: Findings): void {
  for (const { id } of node.declarations as readonly { readonly id: Syntax }[]) addNames(id, names);
  const [first] = node.declarations as readonly Syntax[];
  const kindEnd = node.start + String(node.kind).length;
  const isPattern = (first as Syntax & { readonly id: Syntax }).id.type !== "Identifier";
  // A line that starts with a bracket or a brace would continue the previous line, or be a block.
  const filler = isPattern && !isHead ? "0," : "";
  edits.push({
    start: node.start,
    end: kindEnd,
    text: filler + blank(source.slice(node.start + filler.length, kindEnd)),
  });
  if (isHead || node.kind === "var") return;
  for (const { id, init, end } of node.declarations as readonly (Syntax & { readonly id: Syntax })[]) {
    if (init === null && id.type === "Identifier") edits.push({ start: end, end, text: " = void 0" });
  }
}

/** Makes the value of the cell's own `return` what the value of its last expression would be. */
function convertReturn({ argument }: Syntax, { edits }: Findings): void {
  if (!isSyntax(argument)) return;
  edits.push(
    { start: argument.start, end: argument.start, text: `${PREFIX}value(await (` },
    { start: argument.end, end: argument.end, text: "))" },
  );
}

/**
 * Finds `var` declarations in blocks and loops, which belong to the cell, names that are only assigned, and the cell's own `return`
 * statements.
 */
function convertNested(node: Syntax, source: string, findings: Findings): void {
  if (node.type === "ReturnStatement") convertReturn(node, findings);
  for (const [key, value] of Object.entries(node)) {
    for (const child of (Array.isArray(value) ? value : [value]).filter(isSyntax)) {
      if (/Function|^Class/.test(child.type)) continue;
      const isHead = key === "left" && /^For/.test(node.type);
      if (child.type === "VariableDeclaration") {
        if (child.kind === "var") editDeclaration(child, source, isHead, findings);
      } else if (isHead || (key === "left" && node.type === "AssignmentExpression" && node.operator === "=")) {
        addNames(child, findings.assigned);
      }
      convertNested(child, source, findings);
    }
  }
}

/** Moves an import to a line of its own. Its comments are removed: a line comment would comment out the rest of that line. */
function convertImport(node: Syntax, { source, comments }: CellText, findings: Findings): void {
  const { imports, imported, names, edits } = findings;
  const own = comments.filter(({ start, end }) => start >= node.start && end <= node.end);
  const text = blankOut(source, node, own).replaceAll(/[\r\n\u2028\u2029]/g, " ");
  imports.push({ start: node.start, text: text.replace(/;?$/, ";") });
  // The semicolon keeps the statement before from continuing with the one after.
  edits.push({ start: node.start, end: node.end, text: `;${blank(source.slice(node.start + 1, node.end))}` });
  for (const { local } of node.specifiers as readonly { readonly local: { readonly name: string } }[]) {
    imported.push(local.name);
    names.add(local.name);
  }
}

function convertFunction(node: Syntax, { functions, names, edits }: Findings): void {
  const id = node.id as Syntax;
  functions.push(String(id.name));
  names.add(String(id.name));
  edits.push({ start: id.start, end: id.start, text: FUNCTION_PREFIX });
}

function convertClass(node: Syntax, { names, edits }: Findings): void {
  const { name } = node.id as unknown as { readonly name: string };
  names.add(name);
  edits.push(
    // esbuild renames a class whose name is that of a global.
    { start: node.start, end: node.start, text: `;${name} = ${PREFIX}name(` },
    { start: node.end, end: node.end, text: `, ${JSON.stringify(name)});` },
  );
}

/** Returns the value of an expression. The range of an expression excludes the parentheses around it, that of a statement includes them. */
function convertValue({ start, end }: Range, source: string, { edits }: Findings): void {
  const last = source[end - 1] === ";" ? end - 1 : end;
  edits.push({ start, end: start, text: `return ${PREFIX}value(await (` }, { start: last, end: last, text: "))" });
}

/** Returns the exported declaration with its `export` removed or, for an expression, its range. */
function withoutExport(node: Syntax, { source, file }: CellText, { edits }: Findings): Syntax | Range {
  const inner = node.declaration as Syntax | null | undefined;
  if (!isSyntax(inner)) {
    const hint = "later cells see everything that a cell declares";
    throwIssue(source, node, file, "A session cell cannot use export", hint);
  }
  const isNamed = inner.type === "VariableDeclaration" || isSyntax(inner.id);
  const isDeclaration = isNamed && /^(Function|Class|Variable)Declaration$/.test(inner.type);
  const keywords = /^export(?:\s+default\b)?/.exec(source.slice(node.start, node.end))?.[0] ?? "";
  const start = isDeclaration ? inner.start : node.start + keywords.length;
  edits.push({ start: node.start, end: start, text: blank(source.slice(node.start, start)) });
  return isDeclaration ? inner : { start, end: node.end };
}

function convertStatement(statement: Syntax, isLast: boolean, cell: CellText, findings: Findings): void {
  const { source } = cell;
  const node = statement.type.startsWith("Export") ? withoutExport(statement, cell, findings) : statement;
  if (!isSyntax(node)) {
    if (isLast) convertValue(node, source, findings);
    else findings.edits.push({ start: node.start, end: node.start, text: "void " });
  } else if (node.type === "ImportDeclaration") convertImport(node, cell, findings);
  else if (node.type === "FunctionDeclaration") convertFunction(node, findings);
  else if (node.type === "ClassDeclaration") convertClass(node, findings);
  else if (node.type === "VariableDeclaration" && !String(node.kind).includes("using")) {
    editDeclaration(node, source, false, findings);
  } else if (node.type === "ExpressionStatement" && isLast) convertValue(node, source, findings);
  if (isSyntax(node) && !isFunctionOrClass(node)) convertNested(node, source, findings);
}

const isFunctionOrClass = ({ type }: Syntax): boolean => /^(?:Function|Class)/.test(type);

/** Names that need the bundler: it resolves a module for them, or replaces them. */
const NEEDS_BUNDLER = /\b(?:import|require|process|global|__dirname|__filename|async_hooks|SharedArrayBuffer)\b/;

/**
 * Turns the cell's text into a module: one line per import, one generated line, then the cell's own lines.
 * @throws {BuildIssueError} for a syntax error or an export; {CellSyntaxError} for syntax that a compiler must first lower
 */
export async function toCellModule(text: string, file: string, language: CellLanguage): Promise<CellModule> {
  const source = (language === "typescript" ? withoutTypes(text, file) : text).replace(/^#!/, "//");
  const comments: Comment[] = [];
  const findings: Findings = {
    names: new Set(),
    assigned: new Set(),
    functions: [],
    imports: [],
    imported: [],
    edits: [],
  };
  const object = await findObjectLiteral(source, file);
  if (object !== undefined) convertValue(object, source, findings);
  else {
    const body = (await parseCell(source, file, comments)).body as unknown as readonly Syntax[];
    const last = body.findLast(({ type }) => type !== "EmptyStatement");
    for (const statement of body) convertStatement(statement, statement === last, { source, file, comments }, findings);
  }
  const { names, assigned, functions, imports, imported, edits } = findings;
  const kept = [...imported.map((name) => `globalThis.${name} = ${name};`), ...functions.map(hoist)].join(" ");
  const prefix = [
    `${RUNTIME} export default async function ${CELL_MAIN}(${PREFIX}args, ${PREFIX}ctx) {`,
    `${JSON.stringify([...names])}.forEach(${PREFIX}declare);`,
    `${JSON.stringify([...assigned])}.forEach((name) => { if (!(name in globalThis)) ${PREFIX}declare(name); });`,
    `if ("input" in ${PREFIX}args) ${PREFIX}set("input", ${PREFIX}args.input, ${PREFIX}own("input")?.enumerable === true);`,
    `else if (!("input" in globalThis)) ${PREFIX}set("input", null, false); ${PREFIX}give("ctx", ${PREFIX}ctx);`,
    `for (const name of ${JSON.stringify(GIVEN_MEMBERS)}) if (Object.hasOwn(${PREFIX}ctx, name)) ${PREFIX}give(name, ${PREFIX}ctx[name]); ${kept}`,
  ].join(" ");
  const lines = [...imports.map((one) => one.text), prefix, applyEdits(source, edits), "}"];
  const isSelfContained = !NEEDS_BUNDLER.test(source);
  return { text: lines.join("\n"), toCellLocation: createLocationMapper(source, findings), isSelfContained };
}

/** Makes a function available before the cell's first line, under the name that the author gave it. */
const hoist = (name: string): string =>
  `globalThis.${name} = ${PREFIX}name(${FUNCTION_PREFIX}${name}, ${JSON.stringify(name)});`;
