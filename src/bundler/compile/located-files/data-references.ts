// Finds the files that a module reads relative to its own location. It follows `__dirname`, `__filename` and `import.meta` through variables,
// properties, path functions and URLs, without running the code. data-files.ts decides which of these files are bundled.
import { posix } from "node:path";
import { childrenOf, FUNCTIONS, isSyntax, type Syntax } from "../transforms/syntax.ts";
import { LocationValues } from "./location-values.ts";
import { ModuleNames, nameOf } from "./module-names.ts";
import { parseModule } from "./parse-module.ts";

/** A path that code builds from its own location. */
export interface DataReference {
  /** Absolute. */
  readonly path: string;
  /** True if the code appends a part that is known only at run time. */
  readonly isPrefix: boolean;
  /**
   * True if a call gets the path itself, or `require.resolve()` names it in a module that reads files, so that the file may contain code: uglify-js
   * evaluates the text of its own modules.
   */
  readonly isExact: boolean;
}

const MENTIONS_PLACE = /\b__(?:dirname|filename)\b|\bimport\s*\.\s*meta\b|\brequire\s*\.\s*resolve\b/;
const READS_FILES = /\breadFile(?:Sync)?\b/;

/** Functions that get a path or a URL, and read no data from it. */
const READS_NOTHING: ReadonlySet<string> = new Set([
  ...["require", "createRequire", "register", "Worker", "SharedWorker"],
  ...["fork", "spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "chdir"],
  ...["basename", "extname", "relative", "isAbsolute", "parse"],
  ...["log", "info", "warn", "error", "debug", "trace", "Error", "TypeError", "RangeError"],
]);
/** Functions that read the file that they are given, so that a module may read its own text with them. */
const READS = /^(?:read|open|create)/;

/** Parts of a node: those whose value the code keeps or passes on, and those whose value it only inspects or assigns to a variable. */
interface Parts {
  readonly used?: readonly unknown[];
  readonly skipped?: readonly unknown[];
}

/** Exported variables are used by other modules. */
function exportedParts({ declaration, specifiers, source }: Syntax): Parts {
  if (isSyntax(declaration)) {
    if (declaration.type !== "VariableDeclaration") return { skipped: [declaration] };
    return { used: (declaration.declarations as readonly Syntax[]).map(({ init }) => init) };
  }
  return isSyntax(source) ? {} : { used: (specifiers as readonly Syntax[]).map(({ local }) => local) };
}

const PARTS: { readonly [type: string]: (node: Syntax) => Parts } = {
  VariableDeclarator: ({ init }) => ({ skipped: [init] }),
  AssignmentPattern: ({ right }) => ({ skipped: [right] }),
  AssignmentExpression: ({ left, right }) =>
    (left as Syntax).type === "MemberExpression" ? { used: [right] } : { skipped: [right] },
  // A comparison, or a path in the middle of a text, such as a message.
  BinaryExpression: ({ left, right }) => ({ skipped: [left, right] }),
  TemplateLiteral: ({ expressions }) => ({ skipped: expressions as readonly unknown[] }),
  LogicalExpression: ({ operator, left, right }) =>
    operator === "&&" ? { skipped: [left], used: [right] } : { used: [left, right] },
  SequenceExpression: ({ expressions }) => ({ skipped: expressions as readonly unknown[] }),
  UnaryExpression: ({ argument }) => ({ skipped: [argument] }),
  ExpressionStatement: ({ expression }) => ({ skipped: [expression] }),
  IfStatement: ({ test, consequent, alternate }) => ({ skipped: [test, consequent, alternate] }),
  ConditionalExpression: ({ test, consequent, alternate }) => ({ skipped: [test], used: [consequent, alternate] }),
  MemberExpression: ({ object, property, computed }) => ({
    skipped: computed === true ? [object, property] : [object],
  }),
  ImportExpression: ({ source }) => ({ skipped: [source] }),
  Property: ({ value }) => ({ used: [value] }),
  PropertyDefinition: ({ value }) => ({ used: [value] }),
  MethodDefinition: ({ value }) => ({ used: [value] }),
  ExportNamedDeclaration: exportedParts,
};

function partsOf(node: Syntax): Parts {
  const find = Object.hasOwn(PARTS, node.type) ? PARTS[node.type] : undefined;
  if (find !== undefined) return find(node);
  if (!FUNCTIONS.has(node.type)) return { used: childrenOf(node) };
  const parameters = (node.params as readonly Syntax[]).filter(({ type }) => type !== "Identifier");
  return { skipped: parameters, used: [node.body] };
}

/** Finds where a module uses a path that it has built. */
class UseFinder {
  readonly #references: DataReference[] = [];
  readonly #module: string;
  readonly #evaluator: LocationValues;
  readonly #readsFiles: boolean;

  constructor(module: string, evaluator: LocationValues, readsFiles: boolean) {
    this.#module = module;
    this.#evaluator = evaluator;
    this.#readsFiles = readsFiles;
  }

  find(program: Syntax): readonly DataReference[] {
    this.#visit(program);
    return this.#references;
  }

  /** @param reader the function that gets the value of this node */
  #use(node: unknown, reader?: string): void {
    if (!isSyntax(node)) return;
    const value = node.type === "SpreadElement" ? (node.argument as Syntax) : node;
    const places = this.#evaluator.placesOf(value);
    if (places.length === 0) this.#visit(value);
    const isResolved = this.#isResolved(value);
    if (isResolved && !this.#readsFiles) return;
    for (const { path, isPrefix } of places) {
      // Only a function that reads files means the module's own text with the module's path.
      if (path === this.#module && !isPrefix && !READS.test(reader ?? "")) continue;
      this.#references.push({ path, isPrefix, isExact: !isPrefix && (isResolved || reader !== undefined) });
    }
  }

  /** Matches `require.resolve("./x")`, which often names a module that something else loads. */
  #isResolved(node: Syntax): boolean {
    const callee = node.type === "CallExpression" ? (node.callee as Syntax) : undefined;
    return (
      callee?.type === "MemberExpression" &&
      nameOf(callee.property) === "resolve" &&
      nameOf(callee.object) === "require"
    );
  }

  /** Visits a node whose own value is not used, or is not known. */
  #visit(node: Syntax): void {
    if (node.type === "CallExpression" || node.type === "NewExpression") {
      this.#visitCall(node);
      return;
    }
    const { skipped = [], used = [] } = partsOf(node);
    for (const part of skipped) this.#skipPlace(part);
    for (const part of used) this.#use(part);
  }

  /** Visits a node without regarding its own value as used. */
  #skipPlace(node: unknown): void {
    if (!isSyntax(node)) return;
    const isMore = node.type === "AssignmentExpression" || node.type === "SequenceExpression";
    if (isMore || this.#evaluator.placesOf(node).length === 0) this.#visit(node);
  }

  #visitCall(node: Syntax): void {
    const callee = node.callee as Syntax;
    const given = node.arguments as readonly Syntax[];
    const name = this.#evaluator.nameOfFunction(callee);
    const isRequire = this.#evaluator.valuesOf(callee).some(({ kind }) => kind === "require");
    this.#skipPlace(callee);
    for (const part of given) {
      if (isRequire || READS_NOTHING.has(name ?? "")) this.#skipPlace(part);
      else this.#use(part, name ?? "");
    }
    if (isRequire) this.#addRequired(callee, given[0]);
  }

  /** A JSON file that a module loads through its own `require` is read when the tool runs. esbuild bundles what `require` names itself. */
  #addRequired(callee: Syntax, specifier: Syntax | undefined): void {
    const path = specifier?.type === "Literal" ? String(specifier.value) : "";
    if (nameOf(callee) === "require" || !/^\.\.?\/.*\.json$/.test(path)) return;
    this.#references.push({ path: posix.join(posix.dirname(this.#module), path), isPrefix: false, isExact: true });
  }
}

/** Finds the WebAssembly module that Emscripten's code reads from its own folder. */
function* findWasm(text: string, folder: string): Generator<DataReference> {
  const pattern = /\b(?:wasmBinaryFile\s*=\s*|locateFile\(\s*)["'`]([\w.-]+\.wasm)["'`]/g;
  for (const [, name = ""] of text.matchAll(pattern))
    yield { path: posix.join(folder, name), isPrefix: false, isExact: false };
}

/**
 * Returns the data files that a module names.
 * @param text JavaScript
 * @param module the module's absolute path
 */
export function findDataReferences(text: string, module: string): readonly DataReference[] {
  const wasm = [...findWasm(text, posix.dirname(module))];
  if (!MENTIONS_PLACE.test(text)) return wasm;
  const program = parseModule(text);
  if (program === undefined) return wasm;
  try {
    const evaluator = new LocationValues(module, new ModuleNames(program));
    const found = new UseFinder(module, evaluator, READS_FILES.test(text)).find(program);
    const references = new Map([...wasm, ...found].map((reference) => [JSON.stringify(reference), reference]));
    return [...references.values()];
  } catch (error) {
    // The walk is recursive, and generated code may be nested too deeply for the stack.
    if (error instanceof RangeError) return wasm;
    throw error;
  }
}
