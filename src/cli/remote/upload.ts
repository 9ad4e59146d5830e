// Prepares a tool for a deployment: bundles it with the packages of the author's folder into one module, which the server then builds again in
// its own bundler. Node's built-in modules stay imports, because the sandbox provides them.
import { existsSync, statSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, dirname, extname, join, resolve } from "node:path";
import { build, type Message, type Plugin } from "esbuild";
import { DEFAULT_BUNDLE_LIMITS } from "../../bundler/tool-bundle.ts";
import { locatePythonTool } from "../../host/python/python-source.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { UsageError } from "../usage.ts";

const ENTRIES = ["tool.ts", "tool.js", "index.ts", "index.js"];
/** File names that say nothing about the tool, which is then named after its folder. */
const GENERIC_NAMES: ReadonlySet<string> = new Set(["tool", "index", "main"]);
const BUILTIN = new RegExp(`^(?:node:.+|(?:${builtinModules.join("|").replaceAll("/", "\\/")}))$`);

export type ToolUpload =
  | { readonly defaultName: string; readonly source: string; readonly sourceMap?: string }
  | { readonly defaultName: string; readonly files: { readonly [path: string]: string }; readonly entry: string };

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

/** Largest map that the server takes, with room for escapes. */
const MAX_MAP_LENGTH = 4_000_000;
const PACKAGES = "node_modules/";

/** Returns the name of a file for the server: no path of this machine above the tool's folder. */
function shownName(source: string): string {
  if (source.startsWith("builtin:")) return "glovebox/builtin.js";
  const packages = source.lastIndexOf(PACKAGES);
  if (packages >= 0) return source.slice(packages);
  return source.startsWith("../") || /^[a-z]+:|^\//i.test(source) ? basename(source) : source;
}

interface BuiltMap {
  readonly sources: readonly string[];
  readonly sourcesContent?: readonly (string | null)[];
  readonly mappings: string;
}

/** Returns a bundle's map with the texts of the author's own files. Undefined for one that is too large. */
function toUploadedMap(json: string): string | undefined {
  const { sources, sourcesContent = [], mappings } = JSON.parse(json) as BuiltMap;
  const names = sources.map(shownName);
  const isOwn = (name: string): boolean => !name.startsWith(PACKAGES) && !name.startsWith("glovebox/");
  const texts = names.map((name, index) => (isOwn(name) ? (sourcesContent[index] ?? null) : null));
  const map = JSON.stringify({ version: 3, sources: names, sourcesContent: texts, mappings });
  return map.length > MAX_MAP_LENGTH ? undefined : map;
}

/**
 * @throws {UsageError} for a path without a tool
 * @throws {ToolError} BUNDLE_FAILED for a tool that does not build, with file and line
 */
export async function prepareUpload(path: string): Promise<ToolUpload> {
  const python = existsSync(resolve(path))
    ? locatePythonTool({ path }, undefined, DEFAULT_BUNDLE_LIMITS.sourceBytes)
    : undefined;
  if (python !== undefined) {
    const { entry, code, files } = python;
    return { defaultName: nameOf(path, join(resolve(path), entry)), files: { ...files, [entry]: code }, entry };
  }
  const entry = entryOf(path);
  try {
    const { outputFiles, metafile } = await build({
      entryPoints: [entry],
      bundle: true,
      write: false,
      format: "esm",
      platform: "neutral",
      logLevel: "silent",
      target: "es2024",
      mainFields: ["module", "main"],
      conditions: ["import", "module", "default"],
      external: ["glovebox/tool"],
      plugins: [builtinsAsImports],
      // The map's paths are relative to the folder of the output, which is not written.
      absWorkingDir: dirname(entry),
      outfile: join(dirname(entry), "tool.out.js"),
      sourcemap: "external",
      metafile: true,
    });
    // The server would name the file of the bundle, which the author does not have.
    if (!Object.values(metafile.outputs).some(({ exports }) => exports.includes("default"))) {
      const hint = "write export default defineTool({ … }), or export default a function";
      throw new ToolError("BUNDLE_FAILED", `BUNDLE_FAILED: ${basename(entry)} has no default export; ${hint}`);
    }
    const textOf = (end: string): string => outputFiles.find((file) => file.path.endsWith(end))?.text ?? "";
    const sourceMap = toUploadedMap(textOf(".js.map"));
    return {
      defaultName: nameOf(path, entry),
      source: textOf(".js"),
      ...(sourceMap === undefined ? {} : { sourceMap }),
    };
  } catch (thrown) {
    const { errors } = thrown as { readonly errors?: readonly Message[] };
    if (errors === undefined) throw thrown;
    throw new ToolError("BUNDLE_FAILED", `BUNDLE_FAILED: ${errors.slice(0, 5).map(lineOf).join("; ")}`);
  }
}
