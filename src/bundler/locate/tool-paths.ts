// Pure rules for the paths of a tool's own files: which are valid, which file a relative import names, and which loader reads it.
import { posix } from "node:path";

export type FileLoader = "ts" | "tsx" | "js" | "jsx" | "json";

/** Loaders by extension. All other files (.node, .wasm, .css, .txt …) are rejected. Imports without an extension try them in this order. */
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

/** TypeScript allows an import to name the compiled file. */
const COMPILED_FROM: { readonly [extension: string]: readonly string[] } = {
  ".js": [".ts", ".tsx"],
  ".jsx": [".tsx"],
  ".mjs": [".mts"],
  ".cjs": [".cts"],
};

/** Names of entries. The first one that exists is the entry of a folder. */
export const ENTRY_NAMES: readonly string[] = ["tool", "index"].flatMap((stem) =>
  [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"].map((extension) => stem + extension),
);

/** Names of entries in Python, for a folder that has none of {@link ENTRY_NAMES}. */
export const PYTHON_ENTRY_NAMES: readonly string[] = ["tool.py", "main.py"];

const MAX_PATH_LENGTH = 1024;
const NOT_IN_A_PATH = /[\\:\p{Cc}\u2028\u2029]/u;

export function loaderOf(path: string): FileLoader | undefined {
  const extension = posix.extname(path).toLowerCase();
  return Object.hasOwn(FILE_LOADERS, extension) ? FILE_LOADERS[extension] : undefined;
}

/** Returns why a relative path is not allowed as a tool's file, or `undefined` if it is allowed. */
export function toolPathIssue(path: string): string | undefined {
  if (path === "" || path.length > MAX_PATH_LENGTH) return `a path has 1 to ${MAX_PATH_LENGTH} characters`;
  if (NOT_IN_A_PATH.test(path) || !path.isWellFormed())
    return "a path has no backslashes, colons or control characters";
  for (const segment of path.split("/")) {
    if (segment === "" || segment === ".") return "a path is relative and has no empty segments";
    if (segment === "..") return "it leaves the tool's folder";
    if (segment === "node_modules") return "a package is imported by its name, never by its path";
    // A tool that is a single file shares its folder with other files: .env.json, .npmrc, .ssh.
    if (segment.startsWith(".")) return "hidden files cannot be imported";
  }
  return undefined;
}

export type RelativeResolution =
  | { readonly ok: true; readonly path: string }
  | { readonly ok: false; readonly reason: string };

/** Resolves a relative import (`./x`, `../x`, `.`, `..`) of `importer` within the tool, by text only. */
export function resolveRelative(importer: string, specifier: string): RelativeResolution {
  if (specifier.startsWith("/")) return { ok: false, reason: "absolute paths cannot be imported" };
  const path = posix.join(posix.dirname(importer), specifier).replace(/\/+$/, "");
  if (path === "." || path === "") return { ok: true, path: "." };
  const reason = toolPathIssue(path);
  return reason === undefined ? { ok: true, path } : { ok: false, reason };
}

/** Returns the files that an import of `path` may mean, best first: itself, its TypeScript source, with an extension, a folder's index. */
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
