// Rewrites a tool's imports so that esbuild can leave out the unused parts of a package: it imports a namespace that a package exports under
// a name (`import { z } from "zod"`) from the namespace's own module. esbuild drops unused exports of `import * as z`, and keeps all of them
// behind a re-export: 755 instead of 170 KB for a typical zod tool.
import type { ExportAllDeclaration, ImportDeclaration, Program } from "acorn";

/** A module of a package, by its path. */
export interface PackageModule {
  readonly path: string;
  /** False if the package declares that its modules can be left out. */
  readonly sideEffects: boolean;
}

export interface ModuleReader {
  /** Resolves an import of a tool's file, or of a package's module. Returns undefined if it is not allowed or finds no file. */
  readonly resolve: (specifier: string, importer: string | undefined) => Promise<PackageModule | undefined>;
  /** Returns the text of a module; undefined if it cannot be read. */
  readonly read: (path: string) => string | undefined;
}

/** Modules that only re-export are short. Longer ones are not parsed. */
const MAX_MODULE_LENGTH = 64 * 1024;
/** Maximum number of modules from a package's entry to the one that names the namespace. */
const MAX_DEPTH = 4;
const NAMESPACE_SYNTAX = /\*\s*as\b|\bexport\b/;

/** What a file may begin with before and between its imports. */
const BLANK = /(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y;
const DIRECTIVE = /(?:"[\w ]*"|'[\w ]*')[ \t]*;/y;
/** An import without comments and attributes that ends its line. */
const IMPORT = /import\b([\s\w$,{}*]*?)\bfrom\s*("[^"\\\n]*"|'[^'\\\n]*')[ \t]*;?[ \t]*(?=\r?\n|$)/y;
const BARE_IMPORT = /import\s*(?:"[^"\\\n]*"|'[^'\\\n]*')[ \t]*;?[ \t]*(?=\r?\n|$)/y;
/** A clause whose white space is reduced to single spaces. */
const CLAUSE = /^(?:([\w$]+) ?)?(?:(,?) ?\{([^{}*]*)\})?$/;
const SPECIFIER = /^([\w$]+)(?: as ([\w$]+))?$/;

/** An import at the beginning of a file. */
export interface LeadingImport {
  readonly start: number;
  readonly end: number;
  readonly specifier: string;
  /** The imported names, each with its local name. */
  readonly names: readonly { readonly imported: string; readonly local: string }[];
}

function match(pattern: RegExp, text: string, start: number): RegExpExecArray | null {
  pattern.lastIndex = start;
  return pattern.exec(text);
}

/** Returns the names of an import's clause; undefined for a form that is not rewritten, such as `import type`. */
function namesOf(clause: string): LeadingImport["names"] | undefined {
  const [isClause, main, comma, list] = CLAUSE.exec(clause.replace(/\s+/g, " ").trim()) ?? [];
  if (isClause === undefined || main === "type") return undefined;
  if (list !== undefined && (main !== undefined) !== (comma === ",")) return undefined;
  const names = main === undefined ? [] : [{ imported: "default", local: main }];
  const items = list === undefined ? [] : list.split(",").map((item) => item.trim());
  // A trailing comma leaves an empty item.
  if (items.at(-1) === "") items.pop();
  for (const item of items) {
    const [, imported, local] = SPECIFIER.exec(item) ?? [];
    if (imported === undefined || imported === "type") return undefined;
    names.push({ imported, local: local ?? imported });
  }
  return names;
}

/**
 * Finds the imports at the beginning of a file. Only comments, directives and imports come before them, so they are code and not part of a
 * literal, whatever the language. Stops at the first text that it does not recognize.
 */
export function findLeadingImports(text: string): readonly LeadingImport[] {
  const found: LeadingImport[] = [];
  for (let position = text.startsWith("\uFEFF") ? 1 : 0; ; ) {
    position += match(BLANK, text, position)?.[0].length ?? 0;
    const imported = match(IMPORT, text, position);
    const [whole] = imported ?? match(BARE_IMPORT, text, position) ?? match(DIRECTIVE, text, position) ?? [];
    if (whole === undefined) return found;
    const [, clause = "", quoted = ""] = imported ?? [];
    const names = imported === null ? undefined : namesOf(clause);
    // The clause keeps its space, so that `import from` is not read as one.
    if (names !== undefined && /^[\s{]/.test(clause)) {
      found.push({ start: position, end: position + whole.length, specifier: quoted.slice(1, -1), names });
    }
    position += whole.length;
  }
}

const nameOf = (node: { readonly type: string; readonly name?: unknown; readonly value?: unknown }): string =>
  String(node.type === "Identifier" ? node.name : node.value);

type Binding = { readonly source: string; readonly name: string | "*" };

/** Returns what a module's imports bind: a name of another module, or `"*"` for its namespace. */
function bindingsOf({ body }: Program): ReadonlyMap<string, Binding> {
  const bindings = new Map<string, Binding>();
  for (const statement of body) {
    if (statement.type !== "ImportDeclaration") continue;
    const source = String((statement as ImportDeclaration).source.value);
    for (const item of statement.specifiers) {
      const name =
        item.type === "ImportNamespaceSpecifier"
          ? "*"
          : item.type === "ImportSpecifier"
            ? nameOf(item.imported)
            : "default";
      bindings.set(item.local.name, { source, name });
    }
  }
  return bindings;
}

/** Returns where an export of a module comes from: another module's export, or its namespace. Undefined if it is the module's own. */
function originOf(program: Program, exported: string): Binding | undefined {
  const bindings = bindingsOf(program);
  const stars: ExportAllDeclaration[] = [];
  for (const statement of program.body) {
    if (statement.type === "ExportAllDeclaration") {
      if (statement.exported == null) stars.push(statement);
      else if (nameOf(statement.exported) === exported) return { source: String(statement.source.value), name: "*" };
    }
    if (statement.type === "ExportDefaultDeclaration" && exported === "default") {
      return statement.declaration.type === "Identifier" ? bindings.get(statement.declaration.name) : undefined;
    }
    if (statement.type !== "ExportNamedDeclaration") continue;
    const item = statement.specifiers.find((specifier) => nameOf(specifier.exported) === exported);
    if (item !== undefined) {
      const name = nameOf(item.local);
      return statement.source == null ? bindings.get(name) : { source: String(statement.source.value), name };
    }
    // The module's own declaration of this name hides those of `export *`. Declarations are rare in such modules.
    if (statement.declaration != null) return undefined;
  }
  // With several `export *`, the name could be ambiguous.
  const [star] = stars;
  if (star === undefined || stars.length > 1 || exported === "default") return undefined;
  return { source: String(star.source.value), name: exported };
}

async function parseModule(text: string): Promise<Program | undefined> {
  if (text.length > MAX_MODULE_LENGTH || !NAMESPACE_SYNTAX.test(text)) return undefined;
  const { parse } = await import("acorn");
  try {
    return parse(text, { ecmaVersion: "latest", sourceType: "module" });
  } catch {
    return undefined;
  }
}

/** Finds the modules whose namespaces a package exports. Reads each module once. */
class NamespaceFinder {
  readonly #reader: ModuleReader;
  readonly #programs = new Map<string, Promise<Program | undefined>>();
  readonly #resolved = new Map<string, Promise<PackageModule | undefined>>();

  constructor(reader: ModuleReader) {
    this.#reader = reader;
  }

  resolve(specifier: string, importer: string | undefined): Promise<PackageModule | undefined> {
    const key = JSON.stringify([specifier, importer]);
    const found = this.#resolved.get(key) ?? this.#reader.resolve(specifier, importer);
    this.#resolved.set(key, found);
    return found;
  }

  #parse(path: string): Promise<Program | undefined> {
    const text = this.#programs.has(path) ? undefined : this.#reader.read(path);
    const program = this.#programs.get(path) ?? (text === undefined ? Promise.resolve(undefined) : parseModule(text));
    this.#programs.set(path, program);
    return program;
  }

  /** Follows re-exports to the module whose namespace is exported under this name. All modules on the way must be free of side effects. */
  async find(module: PackageModule, exported: string, depth = 0): Promise<PackageModule | undefined> {
    if (module.sideEffects || depth > MAX_DEPTH) return undefined;
    const program = await this.#parse(module.path);
    const origin = program === undefined ? undefined : originOf(program, exported);
    if (origin === undefined || !/^\.\.?\//.test(origin.source)) return undefined;
    const next = await this.resolve(origin.source, module.path);
    if (next === undefined || next.sideEffects) return undefined;
    return origin.name === "*" ? next : await this.find(next, origin.name, depth + 1);
  }
}

const isPackage = (specifier: string): boolean => /^[@\w]/.test(specifier) && !specifier.includes(":");

/** Names an import, in the form that an `import` declaration has. */
const formatName = ({ imported, local }: LeadingImport["names"][number]): string =>
  imported === local ? local : `${imported} as ${local}`;

/**
 * Returns the text of a tool's file with its imports of namespaces rewritten. The lines stay where they are.
 * @param specifierOf returns the specifier that stands for a module of a package in the rewritten text
 */
export async function rewriteNamespaceImports(
  text: string,
  reader: ModuleReader,
  specifierOf: (module: PackageModule) => string,
): Promise<string> {
  const finder = new NamespaceFinder(reader);
  let rewritten = "";
  let end = 0;
  for (const item of findLeadingImports(text)) {
    if (item.names.length === 0 || !isPackage(item.specifier)) continue;
    const entry = await finder.resolve(item.specifier, undefined);
    if (entry === undefined) continue;
    const kept: string[] = [];
    const statements: string[] = [];
    for (const name of item.names) {
      const namespace = await finder.find(entry, name.imported);
      if (namespace === undefined) kept.push(formatName(name));
      else statements.push(`import * as ${name.local} from ${JSON.stringify(specifierOf(namespace))};`);
    }
    if (statements.length === 0) continue;
    if (kept.length > 0) statements.push(`import { ${kept.join(", ")} } from ${JSON.stringify(item.specifier)};`);
    const lines = text.slice(item.start, item.end).split("\n").length - 1;
    rewritten += text.slice(end, item.start) + statements.join(" ") + "\n".repeat(lines);
    end = item.end;
  }
  return rewritten + text.slice(end);
}
