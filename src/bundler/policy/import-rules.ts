// The rules of imports as a table of data: which specifiers are not allowed, and the issues that say so.
import type { OnResolveArgs } from "esbuild";
import { type BuildIssue, BuildIssueError } from "../compile/child/build-messages.ts";
import { type PackageStore, packageNameOf } from "../locate/package-store.ts";

/** The importing file: the tool's own, or a package's. Packages have slightly more rights, because the host chose the store. */
export type Importer = "tool" | "package";

interface SpecifierRule {
  readonly matches: RegExp;
  readonly importers: readonly Importer[];
  readonly reason: string;
}

const BOTH: readonly Importer[] = ["tool", "package"];
const TOOL_ONLY: readonly Importer[] = ["tool"];
export const UNKNOWN_BUILTIN = "Node has no built-in module of this name";

/** Specifiers that are not allowed. The first match wins. */
const SPECIFIER_RULES: readonly SpecifierRule[] = [
  { matches: /^$/, importers: BOTH, reason: "the path is empty" },
  { matches: /^.{1025}/s, importers: BOTH, reason: "the path is longer than 1024 characters" },
  { matches: /[\p{Cc}\u2028\u2029]/u, importers: BOTH, reason: "a path has no control characters" },
  { matches: /\\/, importers: BOTH, reason: "paths are written with forward slashes" },
  { matches: /^node:/i, importers: TOOL_ONLY, reason: UNKNOWN_BUILTIN },
  { matches: /^file:/i, importers: BOTH, reason: "the sandbox has no file system" },
  { matches: /^(?!node:)[a-z][a-z0-9+.-]*:/i, importers: BOTH, reason: "modules cannot be loaded from a URL" },
  { matches: /^\/\//, importers: BOTH, reason: "modules cannot be loaded from a URL" },
  { matches: /^\//, importers: BOTH, reason: "absolute paths cannot be imported" },
  { matches: /^~/, importers: TOOL_ONLY, reason: "path aliases and home folders (~) are not supported" },
  { matches: /^#/, importers: TOOL_ONLY, reason: "package imports (#name) work inside packages only" },
  { matches: /%[0-9a-f]{2}/i, importers: TOOL_ONLY, reason: "paths are not percent-decoded" },
  { matches: /^glovebox(?:$|\/)/, importers: TOOL_ONLY, reason: 'tools import "glovebox/tool" instead' },
];

export const ALLOWED_HINT =
  "a tool may import relative files, JSON files, Node's built-ins, and npm packages from its store";
function quotePath(specifier: string): string {
  return JSON.stringify(specifier.length > 120 ? `${specifier.slice(0, 120)}…` : specifier);
}

/** Returns the error of an import that is not allowed. */
export function denyImport(specifier: string, reason: string, hint: string = ALLOWED_HINT): BuildIssueError {
  return new BuildIssueError({ message: `Cannot import ${quotePath(specifier)}: ${reason}`, hint });
}

/** Explains why an allowed import cannot be resolved from the store. */
export function explainUnresolved(specifier: string, store: PackageStore): BuildIssue {
  const name = packageNameOf(specifier);
  if (name !== undefined && store.has(name)) {
    return denyImport(specifier, `the package ${name} has no such entry`, "see exports in its package.json").issue;
  }
  if (specifier.startsWith("node:")) return denyImport(specifier, UNKNOWN_BUILTIN).issue;
  if (name === undefined) return denyImport(specifier, "the package has no such file").issue;
  const install = `install ${name} into the package store (a node_modules folder)`;
  // In a workspace, packages are often in a node_modules above the folder that the host runs in.
  const elsewhere = `${install}, or name its folder with bundler.packagesDir or bundler.root`;
  if (store.nearest === undefined) return denyImport(specifier, "there is no package store", elsewhere).issue;
  return denyImport(specifier, `the store has no package ${name}`, install).issue;
}

/** Checks the rules that need only the import itself. */
export function checkForm(args: OnResolveArgs, importer: Importer): void {
  const rule = SPECIFIER_RULES.find((row) => row.importers.includes(importer) && row.matches.test(args.path));
  if (rule !== undefined) throw denyImport(args.path, rule.reason);
  for (const [key, value] of Object.entries(args.with)) {
    if (key === "type" && value === "json" && args.kind !== "require-call") continue;
    const attribute = `${quotePath(key)}: ${quotePath(value)}`;
    throw denyImport(args.path, `the import attribute ${attribute} is not supported`, '{ type: "json" } is');
  }
}

export function isRelative(specifier: string): boolean {
  return /^\.\.?(?:\/|$)/.test(specifier);
}
