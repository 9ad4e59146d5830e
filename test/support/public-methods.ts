// The functions, constructors and methods that the package's entry points export, with their arguments, read from the sources: what a table that
// must have each of them is compared with.
import { dirname, join } from "node:path";
import { type ESTree, parseSync } from "vite";
import { ENTRIES, read } from "./documentation.ts";

type Statement = ESTree.Program["body"][number];
type Declared = ESTree.Class | ESTree.TSInterfaceDeclaration | ESTree.Function | ESTree.ArrowFunctionExpression;
type Comment = ReturnType<typeof parseSync>["comments"][number];

interface Module {
  readonly path: string;
  readonly body: readonly Statement[];
  readonly source: string;
  readonly comments: readonly Comment[];
}

const modules = new Map<string, Module>();

function parse(path: string): Module {
  const known = modules.get(path);
  if (known !== undefined) return known;
  const source = read(path);
  const { program, comments } = parseSync(path, source);
  const parsed = { path, body: program.body, source, comments };
  modules.set(path, parsed);
  return parsed;
}

const nameOf = (node: { readonly name: string } | { readonly value: string }): string =>
  "value" in node ? node.value : node.name;

/** Returns the declaration that a statement has of a name: a class, an interface or a function. */
function declarationOf(node: Statement, name: string): Declared | undefined {
  const declaration = node.type === "ExportNamedDeclaration" ? node.declaration : node;
  switch (declaration?.type) {
    case "ClassDeclaration":
    case "TSInterfaceDeclaration":
    case "FunctionDeclaration":
    case "TSDeclareFunction":
      return declaration.id?.name === name ? declaration : undefined;
    case "VariableDeclaration":
      for (const { id, init } of declaration.declarations)
        if (id.type === "Identifier" && id.name === name && init?.type === "ArrowFunctionExpression") return init;
      return undefined;
    default:
      return undefined;
  }
}

/** Returns the declaration of a name, in this module or in the one that the name comes from; undefined for anything else. */
function find(path: string, name: string): { readonly module: Module; readonly node: Declared } | undefined {
  const module = parse(path);
  for (const node of module.body) {
    if (node.type === "ExportNamedDeclaration" || node.type === "ImportDeclaration") {
      for (const specifier of node.specifiers) {
        if (specifier.type !== "ExportSpecifier" && specifier.type !== "ImportSpecifier") continue;
        const isExport = specifier.type === "ExportSpecifier";
        if (nameOf(isExport ? specifier.exported : specifier.local) !== name) continue;
        const original = nameOf(isExport ? specifier.local : specifier.imported);
        if (node.source === null) return find(path, original);
        return node.source.value.startsWith(".") ? find(join(dirname(path), node.source.value), original) : undefined;
      }
    }
    const declared = declarationOf(node, name);
    if (declared !== undefined) return { module, node: declared };
  }
  return undefined;
}

/** Whether the comment directly before a member says that it is not for users. */
function isInternal({ comments, source }: Module, start: number): boolean {
  return comments.some(
    ({ end, value }) => end <= start && source.slice(end, start).trim() === "" && /^\*[\s\S]*@internal\b/.test(value),
  );
}

/** An argument of a method. Plain ones are text, numbers or booleans. */
export interface MethodArgument {
  readonly name: string;
  readonly isPlain: boolean;
}

/** A method with its arguments in order. */
export interface PublicMethod {
  readonly name: string;
  readonly parameters: readonly MethodArgument[];
}

const SIMPLE: ReadonlySet<string> = new Set([
  ...["TSStringKeyword", "TSNumberKeyword", "TSBooleanKeyword", "TSUndefinedKeyword", "TSNullKeyword", "TSLiteralType"],
]);

/** Whether values of a type are text, numbers or booleans. */
const isSimple = (type: ESTree.TSType | undefined): boolean =>
  type !== undefined && (SIMPLE.has(type.type) || (type.type === "TSUnionType" && type.types.every(isSimple)));

function argumentsOf(params: readonly ESTree.ParamPattern[]): readonly MethodArgument[] {
  return params.map((param, index) => {
    const inner = param.type === "AssignmentPattern" ? param.left : param;
    if (inner.type !== "Identifier") return { name: `argument ${index + 1}`, isPlain: false };
    const type = inner.typeAnnotation?.typeAnnotation;
    const isText = param.type === "AssignmentPattern" && type === undefined && param.right.type === "Literal";
    return { name: inner.name, isPlain: isText || isSimple(type) };
  });
}

/** The methods that a class or interface declares itself. */
function ownMethods(module: Module, node: ESTree.Class | ESTree.TSInterfaceDeclaration): readonly PublicMethod[] {
  const members = node.body.body as readonly (ESTree.ClassElement | ESTree.TSSignature)[];
  return members.flatMap((member): readonly PublicMethod[] => {
    if (member.type === "StaticBlock" || isInternal(module, member.start)) return [];
    if (!("key" in member) || member.computed || member.key.type !== "Identifier") return [];
    const { name } = member.key;
    if (member.type === "MethodDefinition")
      return member.kind === "method" ? [{ name, parameters: argumentsOf(member.value.params) }] : [];
    if (member.type === "TSMethodSignature") return [{ name, parameters: argumentsOf(member.params) }];
    const type = "typeAnnotation" in member ? member.typeAnnotation?.typeAnnotation : undefined;
    return type?.type === "TSFunctionType" ? [{ name, parameters: argumentsOf(type.params) }] : [];
  });
}

function methodsOf(path: string, name: string): readonly PublicMethod[] {
  const found = find(path, name);
  if (found === undefined) return [];
  const { module, node } = found;
  if (node.type !== "ClassDeclaration" && node.type !== "TSInterfaceDeclaration") return [];
  const superClass = node.type === "ClassDeclaration" ? [node.superClass] : [];
  const parents =
    node.type === "TSInterfaceDeclaration" ? node.extends.map(({ expression }) => expression) : superClass;
  const inherited = parents.flatMap((parent) =>
    parent?.type === "Identifier" ? methodsOf(module.path, parent.name) : [],
  );
  const own = ownMethods(module, node);
  return [...inherited.filter((method) => own.every((other) => other.name !== method.name)), ...own];
}

/** Returns the arguments of a function, or those of a class's constructor, unless it is internal. */
function callableOf(path: string, name: string): readonly PublicMethod[] {
  const found = find(path, name);
  if (found === undefined || found.node.type === "TSInterfaceDeclaration") return [];
  const { module, node } = found;
  if (!("body" in node) || node.body?.type !== "ClassBody")
    return "params" in node ? [{ name, parameters: argumentsOf(node.params) }] : [];
  for (const member of node.body.body) {
    if (member.type !== "MethodDefinition" || member.kind !== "constructor") continue;
    if (isInternal(module, member.start)) return [];
    return [{ name: `new ${name}`, parameters: argumentsOf(member.value.params) }];
  }
  const { superClass } = node as ESTree.Class;
  const inherited = superClass?.type === "Identifier" ? callableOf(module.path, superClass.name) : [];
  return inherited.map(({ parameters }) => ({ name: `new ${name}`, parameters }));
}

/** The names that an entry point exports. */
const exportsOf = (path: string): readonly string[] =>
  parse(path).body.flatMap((node) => {
    if (node.type !== "ExportNamedDeclaration") return [];
    const names = node.specifiers.map(({ exported }) => nameOf(exported));
    const { declaration } = node;
    if (declaration !== null && "id" in declaration && declaration.id?.type === "Identifier")
      names.push(declaration.id.name);
    return names;
  });

/** One of each name: an entry point may export what another one does. */
const unique = (all: readonly PublicMethod[]): readonly PublicMethod[] => [
  ...new Map(all.map((each) => [each.name, each])).values(),
];

/** Returns the functions that the entry points export, and as `new Name` the constructors of classes. */
export function listPublicFunctions(): readonly PublicMethod[] {
  return unique(ENTRIES.flatMap(([, path]) => exportsOf(path).flatMap((name) => callableOf(path, name))));
}

/** Returns `Name.method` for each method of the classes and interfaces that the entry points export, inherited ones included. */
export function listPublicMethods(): readonly PublicMethod[] {
  const all = ENTRIES.flatMap(([, path]) =>
    exportsOf(path).flatMap((name) =>
      methodsOf(path, name).map(({ name: method, parameters }) => ({ name: `${name}.${method}`, parameters })),
    ),
  );
  return unique(all);
}
