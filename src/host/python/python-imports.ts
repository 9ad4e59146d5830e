// Finds which of a tool's own files a Python file imports, by scanning its text, so that unrelated files of the same
// folder are not included. Dynamic imports (importlib) are not found.
import { posix } from "node:path";

/**
 * `from ..a.b import c, d` and `import a.b, c`; names in parentheses may go over lines. Neighbouring parts match different characters, since
 * trying each division of a long run is quadratic.
 */
const FROM =
  /^[ \t]*from[ \t]+(?=[.\p{ID_Continue}])(\.*)((?:\p{ID_Continue}[\p{ID_Continue}.]*)?)[ \t]+import[ \t]*(\([^)]{0,4000}\)|[^\n#;]*)/gmu;
const IMPORT = /^[ \t]*import[ \t]+([^\n#;]+)/gmu;
const NAME = /^[\p{ID_Continue}]{1,200}$/u;
/** Deepest package nesting that is followed. */
const MAX_DEPTH = 16;
/** Maximum number of imports of one file. Each one costs a file lookup. */
const MAX_IMPORTS = 1_000;

/** Returns the imported names of a list, without aliases (`a` of `a as b`). */
const namesOf = (list: string): readonly string[] =>
  list
    .replace(/[()\\]/g, " ")
    .split(",")
    .flatMap((part) => part.trim().split(/\s+/, 1))
    .filter((name) => name !== "");

function* take<Item>(items: Iterable<Item>, count: number): Generator<Item> {
  let left = count;
  for (const item of items) {
    if (left <= 0) return;
    left -= 1;
    yield item;
  }
}

/**
 * Returns candidate files of a module. Parent packages run as well: `a.b` is `a/__init__.py` and `a/b.py`, or
 * `a/b/__init__.py`.
 */
function filesOf(folder: string, module: readonly string[]): readonly string[] {
  const files: string[] = [];
  let path = folder;
  for (const name of module.slice(0, MAX_DEPTH)) {
    if (!NAME.test(name)) break;
    path = posix.join(path, name);
    files.push(`${path}.py`, posix.join(path, "__init__.py"));
  }
  return files;
}

function parentFolder(folder: string, levels: number): string | undefined {
  let current = folder;
  for (let level = 1; level < levels; level += 1) {
    if (current === ".") return undefined;
    current = posix.dirname(current);
  }
  return current;
}

/**
 * Returns the relative paths of files that may be imported; they need not exist.
 * @param importer the file's own path, relative to the folder in which modules are looked up
 */
export function importedFiles(importer: string, code: string): ReadonlySet<string> {
  const files = new Set<string>();
  const add = (folder: string, module: readonly string[]): void => {
    for (const file of filesOf(folder, module)) files.add(file);
  };
  for (const [, dots = "", path = "", list = ""] of take(code.matchAll(FROM), MAX_IMPORTS)) {
    const folder = dots === "" ? "." : parentFolder(posix.dirname(importer), dots.length);
    if (folder === undefined) continue;
    const module = path === "" ? [] : path.split(".", MAX_DEPTH);
    add(folder, module);
    for (const name of namesOf(list).slice(0, MAX_IMPORTS)) add(folder, [...module, name]);
  }
  for (const [, list = ""] of take(code.matchAll(IMPORT), MAX_IMPORTS)) {
    for (const name of namesOf(list).slice(0, MAX_IMPORTS)) add(".", name.split(".", MAX_DEPTH));
  }
  return files;
}
