// Pure rules for the paths of a tool's own files: which are well formed, which a relative import may name, which loader reads each.
import { posix } from "node:path";

export type FileLoader = "ts" | "tsx" | "js" | "jsx" | "json";

/** What may be loaded, by extension; everything else (.node, .wasm, .css, .txt …) is refused. Order is the order of guessing. */
export const FILE_LOADERS: { readonly [extension: string]: FileLoader } = {
  ".ts": "ts",
  ".tsx": "tsx",
  ".mts": "ts",
  ".cts": "ts",
  ".js": "js",
  ".jsx": "jsx",
  ".mjs": "js",
  ".cjs": "js",
  ".json": "json",
};

/** TypeScript lets an import name the file that its compiler would write. */
const COMPILED_FROM: { readonly [extension: string]: readonly string[] } = {
  ".js": [".ts", ".tsx"],
  ".jsx": [".tsx"],
  ".mjs": [".mts"],
  ".cjs": [".cts"],
};

/** A folder's entry is the first of these that exists. */
export const ENTRY_NAMES: readonly string[] = ["tool", "index"].flatMap((stem) =>
  [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"].map((extension) => stem + extension),
);

/** The same of a tool in Python, where a folder has none of those. */
export const PYTHON_ENTRY_NAMES: readonly string[] = ["tool.py", "main.py"];

const MAX_PATH_LENGTH = 1024;
const NOT_IN_A_PATH = /[\\:\p{Cc}\u2028\u2029]/u;

export function loaderOf(path: string): FileLoader | undefined {
  const extension = posix.extname(path).toLowerCase();
  return Object.hasOwn(FILE_LOADERS, extension) ? FILE_LOADERS[extension] : undefined;
}

/** Why a relative path may not be a tool's file, or `undefined` when it may. */
export function faultOfToolPath(path: string): string | undefined {
  if (path === "" || path.length > MAX_PATH_LENGTH) return `a path has 1 to ${MAX_PATH_LENGTH} characters`;
  if (NOT_IN_A_PATH.test(path) || !path.isWellFormed())
    return "a path has no backslashes, colons or control characters";
  for (const segment of path.split("/")) {
    if (segment === "" || segment === ".") return "a path is relative and has no empty segments";
    if (segment === "..") return "it leaves the tool's folder";
    if (segment === "node_modules") return "a package is imported by its name, never by its path";
    // A tool that is one file shares its folder with whatever lies there: .env.json, .npmrc, .ssh.
    if (segment.startsWith(".")) return "hidden files cannot be imported";
  }
  return undefined;
}

export type RelativeResolution =
  | { readonly ok: true; readonly path: string }
  | { readonly ok: false; readonly reason: string };

/** Where a relative import (`./x`, `../x`, `.`, `..`) of `importer` points within the tool; purely textual. */
export function resolveRelative(importer: string, specifier: string): RelativeResolution {
  if (specifier.startsWith("/")) return { ok: false, reason: "absolute paths cannot be imported" };
  const path = posix.join(posix.dirname(importer), specifier).replace(/\/+$/, "");
  if (path === "." || path === "") return { ok: true, path: "." };
  const reason = faultOfToolPath(path);
  return reason === undefined ? { ok: true, path } : { ok: false, reason };
}

/** The files that an import of `path` may mean, best first: itself, its TypeScript source, a guessed extension, a folder's index. */
export function candidatesOf(path: string): readonly string[] {
  const indexes = Object.keys(FILE_LOADERS).map((extension) => posix.join(path, `index${extension}`));
  if (path === ".") return indexes;
  const extension = posix.extname(path);
  const stem = path.slice(0, path.length - extension.length);
  const sources = Object.hasOwn(COMPILED_FROM, extension) ? (COMPILED_FROM[extension] ?? []) : [];
  return [
    ...(loaderOf(path) === undefined ? [] : [path]),
    ...sources.map((source) => stem + source),
    ...Object.keys(FILE_LOADERS).map((guess) => path + guess),
    ...indexes,
  ];
}
