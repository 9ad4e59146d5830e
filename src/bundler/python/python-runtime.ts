// Builds the Python runtime as a bundle: Glovebox's own TypeScript and Python, and both halves of Pyodide's JavaScript, in one script.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Plugin } from "esbuild";
import { type ToolError, unavailable } from "../../sandbox/contract/errors.ts";

/** Replacements for the globals by which Pyodide detects a browser or Node: exports of guest/python/shell.ts. */
const SHELL = {
  read: "__read",
  load: "__read",
  readbuffer: "__readBuffer",
  console: "__console",
  setTimeout: "__setTimeout",
  clearTimeout: "__clearTimeout",
  MessageChannel: "__TaskChannel",
  "globalThis.MessageChannel": "__TaskChannel",
  "globalThis.WorkerGlobalScope": "__WorkerScope",
  process: "undefined",
  "globalThis.process": "undefined",
  "import.meta.url": '"glovebox:///python.js"',
} as const;

/**
 * Returns the folder of the installed package, which is an optional peer.
 * @throws {ToolError} TOOL_UNAVAILABLE if it is not installed
 */
export function pyodideFolder(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve("pyodide/package.json"));
  } catch (cause) {
    throw missingPyodide("is not installed", PYODIDE_VERSION, cause);
  }
}

function missingPyodide(problem: string, version: string, cause?: unknown): ToolError {
  const message = `Python tools need the package "pyodide", which ${problem}. Install it: npm install pyodide@${version}`;
  return unavailable("unsupported", message, { cause });
}

/** The version that this version of Glovebox is tested with. */
export const PYODIDE_VERSION = "314.0.7";
/** The first line of the runtime. It names the version whose JavaScript is in the runtime. */
const VERSION_LINE = /^\/\/ pyodide (\S+)\n/;

async function versionOf(folder: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as { readonly version?: unknown };
  return String(manifest.version);
}

/**
 * Checks that the installed package has the version whose JavaScript is in the runtime: its WebAssembly belongs to no other.
 * @returns the version
 * @throws {ToolError} TOOL_UNAVAILABLE
 */
export async function checkPyodideVersion(runtime: string, folder: string): Promise<string> {
  const built = VERSION_LINE.exec(runtime)?.[1];
  const installed = await versionOf(folder);
  if (built === installed) return installed;
  throw missingPyodide(`is installed in the version ${installed}`, built ?? PYODIDE_VERSION);
}

/** Resolves both files of Pyodide by path, because the package exports no name for the second one. */
const pyodideFiles: Plugin = {
  name: "pyodide-files",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^pyodide\/pyodide\.asm\.mjs$/ }, () => ({ path: join(pyodideFolder(), "pyodide.asm.mjs") }));
    onResolve({ filter: /^pyodide$/ }, () => ({ path: join(pyodideFolder(), "pyodide.mjs") }));
  },
};

const EXPORT = /\bexport\s*\{\s*([\w$]+) as default\s*\};?\s*$/;

/** @param folder path of src/sandbox/guest/python */
export async function buildPythonRuntime(folder: string): Promise<string> {
  const { build } = await import("esbuild");
  const lock = JSON.parse(await readFile(join(pyodideFolder(), "pyodide-lock.json"), "utf8")) as {
    readonly info: object;
  };
  const { outputFiles } = await build({
    entryPoints: [join(folder, "runtime.ts")],
    bundle: true,
    write: false,
    target: "node24",
    platform: "neutral",
    format: "esm",
    logLevel: "warning",
    legalComments: "none",
    minifyWhitespace: true,
    loader: { ".py": "text" },
    define: { ...SHELL, __PYODIDE_INFO__: JSON.stringify(lock.info) },
    inject: [join(folder, "shell.ts")],
    // Imported only by the parts of Pyodide that run in Node.
    external: ["node:*", "ws"],
    plugins: [pyodideFiles],
  });
  const code = outputFiles[0]?.text ?? "";
  if (!EXPORT.test(code)) throw new Error("Expected the Python runtime to have one export, its default");
  return `// pyodide ${await versionOf(pyodideFolder())}\n(async (register, useBuiltin) => {"use strict";\n${code.replace(EXPORT, "register({__proto__:null,default:$1});")}\n})`;
}
