// Finds uses of `eval`, `Function` and its siblings in a linked bundle, for an operator who reviews a tool before it runs. It only parses:
// uses under other names are missed, and the uses that are found may never run.
import { type Options, parse } from "acorn";
import type { TextFacts } from "../compile/child/text-facts.ts";
import { childrenOf, isSyntax, type Syntax } from "../compile/transforms/syntax.ts";

/** Text that does not match uses no dynamic code. This avoids parsing most modules. */
const MAY_USE =
  /\beval\b|\bFunction\b|\bconstructor\s*\.\s*constructor\b|\bgetPrototypeOf\s*\(\s*(?:async|function|\()|\}\s*\)?\s*\.\s*constructor\b/;
/** Longest text that is parsed. Longer text is searched instead: parsing the TypeScript compiler takes two seconds. */
const MAX_PARSED_LENGTH = 2 * 1024 * 1024;
const SEEMS_TO_USE = /(?<![\w$.])eval\(|(?<![\w$.])Function\((?!["']return this["']\))/;
/** Names of the global object, which has `eval` and `Function` as properties. */
const GLOBAL_OBJECTS: ReadonlySet<string> = new Set(["globalThis", "self", "window", "global"]);
const FUNCTION_METHODS: ReadonlySet<string> = new Set(["apply", "call", "bind"]);
/** Body of the function with which packages find the global object where `globalThis` is missing. A sandbox has `globalThis`. */
const FINDS_GLOBAL = /^\s*return this;?\s*$/;
/** Maximum depth of the walk, which is recursive. */
const MAX_DEPTH = 1_000;

/** Matches an identifier. esbuild adds a number to a local `Function`, such as lodash's. */
const isNamed = (node: unknown, name: string): boolean =>
  isSyntax(node) && node.type === "Identifier" && String(node.name).replace(/(?<=^Function)\d+$/, "") === name;

const propertyOf = (node: Syntax): string | undefined => {
  const property = node.property as Syntax;
  if (node.computed !== true) return String(property.name);
  return property.type === "Literal" ? String(property.value) : undefined;
};

/** Matches `eval` and `globalThis.eval`. */
function isGlobal(node: unknown, name: string): boolean {
  if (!isSyntax(node)) return false;
  if (isNamed(node, name)) return true;
  if (node.type === "ParenthesizedExpression" || node.type === "ChainExpression")
    return isGlobal(node.expression, name);
  if (node.type === "SequenceExpression") return isGlobal((node.expressions as readonly unknown[]).at(-1), name);
  if (node.type !== "MemberExpression" || propertyOf(node) !== name) return false;
  const object = node.object as Syntax;
  return object.type === "Identifier" && GLOBAL_OBJECTS.has(String(object.name));
}

const isFunctionLiteral = (node: Syntax): boolean =>
  node.type === "FunctionExpression" || node.type === "ArrowFunctionExpression";

/** Matches `Object.getPrototypeOf(async function () {})`, with which packages find the constructor of async functions. */
const isPrototypeOfFunction = (node: Syntax): boolean =>
  node.type === "CallExpression" &&
  isSyntax(node.callee) &&
  node.callee.type === "MemberExpression" &&
  propertyOf(node.callee) === "getPrototypeOf" &&
  (node.arguments as readonly Syntax[]).some(isFunctionLiteral);

/** Matches an expression whose value is `Function` or one of its siblings. */
function isFunctionConstructor(node: unknown): boolean {
  if (isGlobal(node, "Function")) return true;
  if (!isSyntax(node) || node.type !== "MemberExpression" || propertyOf(node) !== "constructor") return false;
  const object = node.object as Syntax;
  if (isFunctionLiteral(object) || isPrototypeOfFunction(object)) return true;
  if (object.type !== "MemberExpression") return false;
  const name = propertyOf(object);
  return name === "constructor" || (name === "prototype" && isGlobal(object.object, "Function"));
}

const findsGlobal = ({ arguments: given }: Syntax): boolean => {
  const [only, ...others] = given as readonly Syntax[];
  return others.length === 0 && only?.type === "Literal" && FINDS_GLOBAL.test(String(only.value));
};

function callsDynamicCode(node: Syntax): boolean {
  const callee = node.callee as Syntax;
  const given = node.arguments as readonly Syntax[];
  if (isGlobal(callee, "eval")) return given.length > 0;
  if (isFunctionConstructor(callee)) return !findsGlobal(node);
  if (callee.type !== "MemberExpression") return false;
  const method = propertyOf(callee) ?? "";
  if (isNamed(callee.object, "Reflect")) return given.length > 0 && isFunctionConstructor(given[0]);
  return FUNCTION_METHODS.has(method) && isFunctionConstructor(callee.object);
}

/** Tells whether this node itself uses dynamic code, or assigns `eval` or `Function` to another name. */
function usesDynamicCode(node: Syntax): boolean {
  switch (node.type) {
    case "CallExpression":
    case "NewExpression":
      return callsDynamicCode(node);
    case "VariableDeclarator":
      return isSyntax(node.init) && (isGlobal(node.init, "eval") || isFunctionConstructor(node.init));
    case "AssignmentExpression":
      return node.operator === "=" && (isGlobal(node.right, "eval") || isFunctionConstructor(node.right));
    case "ClassDeclaration":
    case "ClassExpression":
      return isFunctionConstructor(node.superClass);
    default:
      return false;
  }
}

function containsUse(node: Syntax, depth: number): boolean {
  if (usesDynamicCode(node)) return true;
  return depth < MAX_DEPTH && childrenOf(node).some((child) => containsUse(child, depth + 1));
}

const PARSE_OPTIONS: Options = {
  ecmaVersion: "latest",
  sourceType: "module",
  allowAwaitOutsideFunction: true,
  allowReturnOutsideFunction: true,
  allowHashBang: true,
};

function textUsesDynamicCode(text: string): boolean {
  if (text.length > MAX_PARSED_LENGTH) return SEEMS_TO_USE.test(text);
  for (const sourceType of ["module", "script"] as const) {
    try {
      return containsUse(parse(text, { ...PARSE_OPTIONS, sourceType }) as unknown as Syntax, 0);
    } catch {
      // Sloppy CommonJS fails as a module. Text that fails as both is nested too deeply, or newer than the parser.
    }
  }
  return SEEMS_TO_USE.test(text);
}

/** A part of a bundle that comes from one file. */
export interface LinkedModule {
  /** The package, or the file of the tool. */
  readonly label: string;
  readonly text: string;
}

/** esbuild prints a comment before each module with its name in the metafile. */
const MODULE_COMMENT = /^\/\/ (.+)$/gm;

/** Splits a linked bundle. `labelOf` maps the names that esbuild prints to labels. Modules without a label are generated and left out. */
export function splitModules(code: string, labelOf: ReadonlyMap<string, string | undefined>): readonly LinkedModule[] {
  const starts = [...code.matchAll(MODULE_COMMENT)].flatMap(({ index, 1: name = "" }) =>
    labelOf.has(name) ? [{ index, label: labelOf.get(name) }] : [],
  );
  return starts.flatMap(({ index, label }, at) =>
    label === undefined ? [] : [{ label, text: code.slice(index, starts[at + 1]?.index) }],
  );
}

/** Returns the labels of the modules that use dynamic code, sorted and without duplicates. */
export function findDynamicCode(modules: readonly LinkedModule[], facts: TextFacts): readonly string[] {
  const found = new Set<string>();
  for (const { label, text } of modules) {
    if (found.has(label) || !MAY_USE.test(text)) continue;
    if (facts.recall("dynamic code", text, () => textUsesDynamicCode(text))) found.add(label);
  }
  return [...found].sort();
}
