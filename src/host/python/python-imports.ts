// Which of a tool's own files a Python file may import: read from its text, so that nobody sends along what merely lies beside it. What
// it says in another way (importlib) it does not find.
import { posix } from "node:path";

/** `from ..a.b import c, d` and `import a.b, c`; names in parentheses may go over lines. */
const FROM = /^[ \t]*from[ \t]+(\.*)([\p{ID_Continue}.]*)[ \t]+import[ \t]*(\([^)]{0,4000}\)|[^\n#;]*)/gmu;
const IMPORT = /^[ \t]*import[ \t]+([^\n#;]+)/gmu;
const NAME = /^[\p{ID_Continue}]{1,200}$/u;
/** Packages in each other: a path of more is none that somebody made. */
const MAX_DEPTH = 16;
/** A file that imports more is none that somebody wrote; and each costs a look. */
const MAX_IMPORTS = 1_000;

/** `a as b` without the second name, of a list. */
const namesOf = (list: string): readonly string[] =>
  list
    .replace(/[()\\]/g, " ")
    .split(",")
    .flatMap((part) => part.trim().split(/\s+/, 1))
    .filter((name) => name !== "");

function* firstOf<Item>(items: Iterable<Item>, count: number): Generator<Item> {
  let left = count;
  for (const item of items) {
    if (left <= 0) return;
    left -= 1;
    yield item;
  }
}

/** The packages on the way are run too: `a.b` is `a/__init__.py` and `a/b.py`, or `a/b/__init__.py`. */
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

function upwards(folder: string, levels: number): string | undefined {
  let at = folder;
  for (let level = 1; level < levels; level += 1) {
    if (at === ".") return undefined;
    at = posix.dirname(at);
  }
  return at;
}

/**
 * Relative paths of files that there may be.
 * @param importer the file's own path, relative to the folder that modules are looked for in
 */
export function importedFiles(importer: string, code: string): ReadonlySet<string> {
  const files = new Set<string>();
  const add = (folder: string, module: readonly string[]): void => {
    for (const file of filesOf(folder, module)) files.add(file);
  };
  for (const [, dots = "", path = "", list = ""] of firstOf(code.matchAll(FROM), MAX_IMPORTS)) {
    const folder = dots === "" ? "." : upwards(posix.dirname(importer), dots.length);
    if (folder === undefined) continue;
    const module = path === "" ? [] : path.split(".", MAX_DEPTH);
    add(folder, module);
    for (const name of namesOf(list).slice(0, MAX_IMPORTS)) add(folder, [...module, name]);
  }
  for (const [, list = ""] of firstOf(code.matchAll(IMPORT), MAX_IMPORTS)) {
    for (const name of namesOf(list).slice(0, MAX_IMPORTS)) add(".", name.split(".", MAX_DEPTH));
  }
  return files;
}
