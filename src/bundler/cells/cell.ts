// A cell of a session as a tool's module: its statements are the tool's `execute`, what it declares stays for later cells as properties
// of the global object, and its last expression is its value. Lines and, but where something had to be put in, columns stay what they were.
// By its module, not by name: an import of a name that an older Node lacks would fail before that Node can be reported.

import nodeModule from "node:module";
import type { Comment, Node, Program } from "acorn";
import { BuildIssueError } from "../compile/build-messages.ts";
import { isSyntax, type Syntax } from "../compile/syntax.ts";
import type { CellLanguage } from "../tool-bundle.ts";

/** Part of what a bundle is cached under: to be raised whenever the same cell becomes something else. */
export const CELL_VERSION = 3;

/** Put in where `start` is `end`; else it takes the place of text that is as long, so that nothing moves. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A place in the cell, both counted from 0. */
export interface CellLocation {
  readonly line: number;
  readonly column: number;
}

export interface CellModule {
  readonly text: string;
  /** Where the author has what is at a place of the module; `undefined` for what is ours. */
  toOwnPlace(place: CellLocation): CellLocation | undefined;
  /** Nothing in it needs to be looked for elsewhere. */
  readonly standsAlone: boolean;
}

/** The cell as it is read. */
interface CellText {
  readonly source: string;
  readonly file: string;
  readonly comments: readonly Comment[];
}

/** What is found at the cell's top level. */
interface Findings {
  /** Declared, so kept. */
  readonly names: Set<string>;
  /** Given a value without a declaration, which a notebook takes for one. */
  readonly assigned: Set<string>;
  readonly functions: string[];
  readonly imports: { readonly start: number; readonly text: string }[];
  readonly imported: string[];
  readonly edits: Edit[];
}

/** Names of ours in the module; no cell's own begins so. */
const OWN = "$cell_";
const blank = (text: string): string => text.replaceAll(/[^\r\n]/g, " ");

type Range = Pick<Node, "start" | "end">;

/** The text of a node without these parts of it. */
function blankOut(source: string, { start, end }: Range, parts: readonly Range[]): string {
  const pieces: string[] = [];
  let from = start;
  for (const part of parts) {
    pieces.push(source.slice(from, part.start), blank(source.slice(part.start, part.end)));
    from = part.end;
  }
  return [...pieces, source.slice(from, end)].join("");
}

/** A cell's own statements are its body. */
export const CELL_MAIN = `${OWN}main`;
/** Names that we give the author's functions; apart from ours, whatever he calls them. */
const OWN_FUNCTION = "$cellfn_";

/** What is ours on the global object can be told from what an author has declared: no loop over its properties finds it. */
const RUNTIME = [
  `const ${OWN}name = (fn, name) => { const known = Object.getOwnPropertyDescriptor(fn, "name");`,
  // A class may have a static member of that name.
  'return known === undefined || known.writable !== false ? fn : Object.defineProperty(fn, "name", { value: name, configurable: true }); };',
  `const ${OWN}own = (name) => Object.getOwnPropertyDescriptor(globalThis, name);`,
  `const ${OWN}set = (name, value, enumerable) =>`,
  "Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable });",
  `const ${OWN}declare = (name) => { const known = ${OWN}own(name);`,
  `if (known === undefined || !("value" in known) || !known.writable) ${OWN}set(name, undefined, true);`,
  `else if (!known.enumerable) ${OWN}set(name, known.value, true); };`,
  `const ${OWN}give = (name, value) => { if (${OWN}own(name)?.enumerable !== true) ${OWN}set(name, value, false); };`,
  `const ${OWN}value = (value) => typeof value === "function" ? "[Function: " + (value.name || "anonymous") + "]"`,
  ': typeof value === "symbol" || typeof value === "bigint" || value instanceof RegExp || Error.isError(value) ? String(value)',
  ": value instanceof Map || value instanceof Set ? [...value] : value;",
].join(" ");

function refuse(source: string, { start }: Node, file: string, message: string, hint: string): never {
  const before = source.slice(0, start).split("\n");
  const line = before.length;
  const lineText = source.split("\n")[line - 1];
  throw new BuildIssueError({ file, line, column: (before.at(-1) ?? "").length + 1, message, hint, lineText });
}

/** The names that a pattern binds, and no others that stand in it. */
function addNames(pattern: Syntax | null, names: Set<string>): void {
  if (pattern === null || pattern.type === "MemberExpression") return;
  const { type } = pattern;
  if (type === "Identifier") names.add(String(pattern.name));
  else if (type === "RestElement") addNames(pattern.argument as Syntax, names);
  else if (type === "AssignmentPattern") addNames(pattern.left as Syntax, names);
  else if (type === "Property") addNames(pattern.value as Syntax, names);
  else for (const part of (pattern.properties ?? pattern.elements) as readonly (Syntax | null)[]) addNames(part, names);
}

/** `const x = 1` as `x = 1`, in as many characters. */
function editDeclaration(node: Syntax, source: string, isHead: boolean, { edits, names }: Findings): void {
  for (const { id } of node.declarations as readonly { readonly id: Syntax }[]) addNames(id, names);
  const [first] = node.declarations as readonly Syntax[];
  const kindEnd = node.start + String(node.kind).length;
  const isPattern = (first as Syntax & { readonly id: Syntax }).id.type !== "Identifier";
  // A line that begins with a bracket or a brace would go on with the one before it, or be a block.
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

/** `var` in blocks, loops and the like is the cell's own, too; so is what is only assigned to. */
function takeNested(node: Syntax, source: string, findings: Findings): void {
  for (const [key, value] of Object.entries(node)) {
    for (const child of (Array.isArray(value) ? value : [value]).filter(isSyntax)) {
      if (/Function|^Class/.test(child.type)) continue;
      const isHead = key === "left" && /^For/.test(node.type);
      if (child.type === "VariableDeclaration") {
        if (child.kind === "var") editDeclaration(child, source, isHead, findings);
      } else if (isHead || (key === "left" && node.type === "AssignmentExpression" && node.operator === "=")) {
        addNames(child, findings.assigned);
      }
      takeNested(child, source, findings);
    }
  }
}

/** In one line: what was a line's comment would be one of all that follows it. */
function takeImport(node: Syntax, { source, comments }: CellText, findings: Findings): void {
  const { imports, imported, names, edits } = findings;
  const own = comments.filter(({ start, end }) => start >= node.start && end <= node.end);
  const text = blankOut(source, node, own).replaceAll(/[\r\n\u2028\u2029]/g, " ");
  imports.push({ start: node.start, text: text.replace(/;?$/, ";") });
  // Without it the statement before would go on with the one behind.
  edits.push({ start: node.start, end: node.end, text: `;${blank(source.slice(node.start + 1, node.end))}` });
  for (const { local } of node.specifiers as readonly { readonly local: { readonly name: string } }[]) {
    imported.push(local.name);
    names.add(local.name);
  }
}

function takeFunction(node: Syntax, { functions, names, edits }: Findings): void {
  const id = node.id as Syntax;
  functions.push(String(id.name));
  names.add(String(id.name));
  edits.push({ start: id.start, end: id.start, text: OWN_FUNCTION });
}

function takeClass(node: Syntax, { names, edits }: Findings): void {
  const { name } = node.id as unknown as { readonly name: string };
  names.add(name);
  edits.push(
    // esbuild renames a class whose name is a global's.
    { start: node.start, end: node.start, text: `;${name} = ${OWN}name(` },
    { start: node.end, end: node.end, text: `, ${JSON.stringify(name)});` },
  );
}

/** An expression's own place leaves out the parentheses around it, a statement's does not. */
function takeValue({ start, end }: Range, source: string, { edits }: Findings): void {
  const last = source[end - 1] === ";" ? end - 1 : end;
  edits.push({ start, end: start, text: `return ${OWN}value(await (` }, { start: last, end: last, text: "))" });
}

/** @returns the declaration that is exported, its `export` taken away; or, of an expression, where it is */
function withoutExport(node: Syntax, { source, file }: CellText, { edits }: Findings): Syntax | Range {
  const inner = node.declaration as Syntax | null | undefined;
  if (!isSyntax(inner)) {
    const hint = "what a cell declares is there for the next ones anyway";
    refuse(source, node, file, "A cell of a session exports nothing", hint);
  }
  const isNamed = inner.type === "VariableDeclaration" || isSyntax(inner.id);
  const isDeclaration = isNamed && /^(Function|Class|Variable)Declaration$/.test(inner.type);
  const words = /^export(?:\s+default\b)?/.exec(source.slice(node.start, node.end))?.[0] ?? "";
  const start = isDeclaration ? inner.start : node.start + words.length;
  edits.push({ start: node.start, end: start, text: blank(source.slice(node.start, start)) });
  return isDeclaration ? inner : { start, end: node.end };
}

function takeStatement(statement: Syntax, isLast: boolean, cell: CellText, findings: Findings): void {
  const { source } = cell;
  const node = statement.type.startsWith("Export") ? withoutExport(statement, cell, findings) : statement;
  if (!isSyntax(node)) {
    if (isLast) takeValue(node, source, findings);
    else findings.edits.push({ start: node.start, end: node.start, text: "void " });
  } else if (node.type === "ImportDeclaration") takeImport(node, cell, findings);
  else if (node.type === "FunctionDeclaration") takeFunction(node, findings);
  else if (node.type === "ClassDeclaration") takeClass(node, findings);
  else if (node.type === "VariableDeclaration" && !String(node.kind).includes("using")) {
    editDeclaration(node, source, false, findings);
  } else if (node.type === "ExpressionStatement" && isLast) takeValue(node, source, findings);
  if (isSyntax(node) && !isFunctionOrClass(node)) takeNested(node, source, findings);
}

const isFunctionOrClass = ({ type }: Syntax): boolean => /^(?:Function|Class)/.test(type);

const inOrder = (edits: readonly Edit[]): readonly Edit[] =>
  [...edits].sort((a, b) => a.start - b.start || a.end - b.end);

function apply(source: string, edits: readonly Edit[]): string {
  const pieces: string[] = [];
  let from = 0;
  for (const { start, end, text } of inOrder(edits)) {
    pieces.push(source.slice(from, start), text);
    from = end;
  }
  return [...pieces, source.slice(from)].join("");
}

/** What a bundler finds for a module, or puts in the place of a name. */
const NEEDS_BUNDLER = /\b(?:import|require|process|global|__dirname|__filename|async_hooks|SharedArrayBuffer)\b/;

/** Some of its syntax is neither JavaScript nor types: a compiler has to make JavaScript of it first. */
export class CellSyntaxError extends BuildIssueError {}

/** Types become blanks. @throws {BuildIssueError} for a syntax error; {CellSyntaxError} for what is more than types */
function withoutTypes(source: string, file: string): string {
  try {
    return nodeModule.stripTypeScriptTypes(source, { mode: "strip" });
  } catch (thrown) {
    const { message, code } = thrown as Error & { readonly code?: string };
    const [first = ""] = message.split("\n");
    const problem = { file, message: first.replace(/^\s*x\s*/, "").slice(0, 500) };
    throw new (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX" ? CellSyntaxError : BuildIssueError)(problem);
  }
}

async function parse(source: string, file: string, comments: Comment[]): Promise<Program> {
  const { parse: parseModule } = await import("acorn");
  try {
    return parseModule(source, {
      ecmaVersion: "latest",
      sourceType: "module",
      allowAwaitOutsideFunction: true,
      onComment: comments,
    });
  } catch (thrown) {
    const { loc, pos, message } = thrown as SyntaxError & {
      readonly loc?: { readonly line: number; readonly column: number };
      readonly pos?: number;
    };
    const place =
      loc === undefined ? {} : { line: loc.line, column: loc.column + 1, lineText: source.split("\n")[loc.line - 1] };
    const isDecorator = pos !== undefined && source[pos] === "@";
    const problem = { file, ...place, message: message.replace(/ \(\d+:\d+\)$/, "") };
    throw new (isDecorator ? CellSyntaxError : BuildIssueError)(problem);
  }
}

/** `{ a: 1 }` is an object to whoever looks at a value, and a block to whoever reads a program. */
async function objectIn(source: string, file: string): Promise<Range | undefined> {
  if (!/^\s*\{/.test(source)) return undefined;
  try {
    const [only] = (await parse(`(${source}\n)`, file, [])).body as unknown as readonly Syntax[];
    const value = only?.expression;
    return isSyntax(value) ? { start: value.start - 1, end: value.end - 1 } : undefined;
  } catch (error) {
    if (error instanceof BuildIssueError) return undefined;
    throw error;
  }
}

/** Counts the lines of a text as the engine does. */
function lineStartsOf(text: string): readonly number[] {
  return [0, ...[...text.matchAll(/\r\n|[\n\r\u2028\u2029]/g)].map(({ 0: { length }, index }) => index + length)];
}

function locationOf(offset: number, lineStarts: readonly number[]): CellLocation {
  const line = lineStarts.findLastIndex((start) => start <= offset);
  return { line, column: offset - (lineStarts[line] ?? 0) };
}

/** Backwards through what was put in: a place in it is where it was put in. */
function createPlaceMapper(source: string, { edits, imports }: Findings): CellModule["toOwnPlace"] {
  const lineStarts = lineStartsOf(source);
  const heads = imports.map(({ start }) => locationOf(start, lineStarts));
  const insertions = inOrder(edits)
    .filter(({ start, end }) => start === end)
    .map(({ start, text: { length } }) => ({ ...locationOf(start, lineStarts), length }));
  return ({ line: moduleLine, column: moduleColumn }) => {
    const head = heads[moduleLine];
    if (head !== undefined) return { line: head.line, column: head.column + moduleColumn };
    const line = moduleLine - heads.length - 1;
    if (line < 0 || line >= lineStarts.length) return undefined;
    let column = moduleColumn;
    for (const insertion of insertions) {
      if (insertion.line !== line || insertion.column > column) continue;
      column = Math.max(insertion.column, column - insertion.length);
    }
    return { line, column };
  };
}

/**
 * The cell's text as a module: its imports, a line each, a line of ours, then its own lines.
 * @throws {BuildIssueError} for a syntax error, and what no cell may have; {CellSyntaxError} for what a compiler must take away first
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
  const object = await objectIn(source, file);
  if (object !== undefined) takeValue(object, source, findings);
  else {
    const body = (await parse(source, file, comments)).body as unknown as readonly Syntax[];
    const last = body.findLast(({ type }) => type !== "EmptyStatement");
    for (const statement of body) takeStatement(statement, statement === last, { source, file, comments }, findings);
  }
  const { names, assigned, functions, imports, imported, edits } = findings;
  const kept = [...imported.map((name) => `globalThis.${name} = ${name};`), ...functions.map(hoist)].join(" ");
  const prefix = [
    `${RUNTIME} export default async function ${CELL_MAIN}(${OWN}told, ${OWN}ctx) {`,
    `${JSON.stringify([...names])}.forEach(${OWN}declare);`,
    `${JSON.stringify([...assigned])}.forEach((name) => { if (!(name in globalThis)) ${OWN}declare(name); });`,
    `if ("input" in ${OWN}told) ${OWN}set("input", ${OWN}told.input, ${OWN}own("input")?.enumerable === true);`,
    `else if (!("input" in globalThis)) ${OWN}set("input", null, false); ${OWN}give("ctx", ${OWN}ctx); ${kept}`,
  ].join(" ");
  const lines = [...imports.map((one) => one.text), prefix, apply(source, edits), "}"];
  const standsAlone = !NEEDS_BUNDLER.test(source);
  return { text: lines.join("\n"), toOwnPlace: createPlaceMapper(source, findings), standsAlone };
}

/** A function is there before the cell's first line; its name is the author's. */
const hoist = (name: string): string =>
  `globalThis.${name} = ${OWN}name(${OWN_FUNCTION}${name}, ${JSON.stringify(name)});`;
