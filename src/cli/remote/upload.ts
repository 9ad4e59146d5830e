// Prepares a tool for a deployment: bundles it with the packages of the author's folder into one module, which the server then builds again in
// its own bundler. Node's built-in modules stay imports, because the sandbox provides them.
import { existsSync, statSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, dirname, extname, join, resolve } from "node:path";
import { build, type Message, type Plugin } from "esbuild";
import { DEFAULT_BUNDLE_LIMITS } from "../../bundler/tool-bundle.ts";
import { locatePythonTool } from "../../host/python/python-source.ts";
import { UsageError } from "../usage.ts";

const ENTRIES = ["tool.ts", "tool.js", "index.ts", "index.js"];
/** File names that say nothing about the tool, which is then named after its folder. */
const GENERIC_NAMES: ReadonlySet<string> = new Set(["tool", "index", "main"]);
const BUILTIN = new RegExp(`^(?:node:.+|(?:${builtinModules.join("|").replaceAll("/", "\\/")}))$`);

export type Upload =
  | { readonly name: string; readonly source: string }
  | { readonly name: string; readonly files: { readonly [path: string]: string }; readonly entry: string };

function entryOf(path: string): string {
  const absolute = resolve(path);
  if (!existsSync(absolute)) throw new UsageError(`${path} does not exist`);
  if (statSync(absolute).isFile()) return absolute;
  const found = ENTRIES.map((name) => join(absolute, name)).find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new UsageError(`${path} contains no tool: expected one of ${ENTRIES.join(", ")}`);
}

function nameOf(path: string, entry: string): string {
  const file = basename(entry, extname(entry));
  const name = GENERIC_NAMES.has(file) ? basename(dirname(resolve(entry))) : file;
  const clean = name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-");
  if (/[A-Za-z0-9]/.test(clean)) return clean;
  throw new UsageError(`${path} gives the tool no name: rename the file or its folder`);
}

/** Turns `require("fs")` of a CommonJS package into an import, which the server's bundler resolves. */
const builtinsAsImports: Plugin = {
  name: "builtins",
  setup(bundler) {
    bundler.onResolve({ filter: BUILTIN }, ({ path, kind, namespace }) => {
      const name = path.startsWith("node:") ? path : `node:${path}`;
      if (kind !== "require-call" || namespace === "builtin") return { path: name, external: true };
      return { path: name, namespace: "builtin" };
    });
    bundler.onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({
      contents: `export * from ${JSON.stringify(path)}; export { default } from ${JSON.stringify(path)};`,
    }));
  },
};

const lineOf = ({ text, location }: Message): string =>
  location === null ? text : `${location.file}:${location.line}:${location.column + 1}: ${text}`;

/** @throws {UsageError} for a path without a tool, or a tool that does not build, with file and line */
export async function prepareUpload(path: string): Promise<Upload> {
  const python = existsSync(resolve(path))
    ? locatePythonTool({ path }, undefined, DEFAULT_BUNDLE_LIMITS.sourceBytes)
    : undefined;
  if (python !== undefined) {
    const { entry, code, files } = python;
    return { name: nameOf(path, join(resolve(path), entry)), files: { ...files, [entry]: code }, entry };
  }
  const entry = entryOf(path);
  try {
    const { outputFiles } = await build({
      ...{ entryPoints: [entry], bundle: true, write: false, format: "esm", platform: "neutral", logLevel: "silent" },
      ...{ target: "es2024", mainFields: ["module", "main"], conditions: ["import", "module", "default"] },
      external: ["glovebox/tool"],
      plugins: [builtinsAsImports],
      absWorkingDir: dirname(entry),
    });
    const [output] = outputFiles;
    return { name: nameOf(path, entry), source: output?.text ?? "" };
  } catch (thrown) {
    const { errors } = thrown as { readonly errors?: readonly Message[] };
    if (errors === undefined) throw thrown;
    throw new UsageError(errors.slice(0, 5).map(lineOf).join("; "));
  }
}
