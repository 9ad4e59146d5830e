// Builds and loads the files of the sandbox: the worker script, the prelude, one script per platform module, the Python runtime, and the
// script of the bundler's child process. The published package contains them. A source checkout builds them once per content into
// node_modules/.cache.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { PRELUDE_SCRIPT_NAME } from "../../sandbox/protocol/guest-messages.ts";
import {
  isPlatformModuleName,
  ON_DEMAND_FILE,
  PLATFORM_MODULE_NAMES,
  type PlatformModuleName,
  platformModuleFile,
  type ReadPlatformModule,
} from "../../sandbox/protocol/platform-modules.ts";
import { buildPythonRuntime } from "../python/python-runtime.ts";
import { intrinsicsBanner } from "./needed-intrinsics.ts";

export interface SandboxArtifacts {
  /** Absolute path of the worker's script. */
  readonly workerPath: string;
  /** Script that runs with a worker's restrictions and attempts what no worker is allowed to do. */
  readonly probePath: string;
  /** Script of the bundler's child process (child-main.ts). */
  readonly buildChildPath: string;
  readonly preludeSource: string;
  /** Reads a platform module. The worker reads them without the host. */
  readonly readPlatformModule: ReadPlatformModule;
  readonly chunks: ChunkMetadata;
  /** Reads the Python runtime (1.5 MB) when the first Python tool is added. */
  readonly readPythonRuntime: () => Promise<string>;
}

/** Facts about all platform modules together. Their code caches are stored under the hash. */
export interface ChunkMetadata {
  readonly sha256: string;
  /** Length of the text in UTF-16 code units. */
  readonly units: number;
}

/** `src`, or `dist` in the published package. */
const SOURCE_ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const RUNS_FROM_SOURCE = import.meta.url.endsWith(".ts");
const FILES = {
  worker: "worker.cjs",
  probe: "probe.mjs",
  buildChild: "build-child.cjs",
  prelude: "prelude.js",
  chunks: "chunks.json",
  python: "python.js",
} as const;

async function readArtifacts(folder: string): Promise<SandboxArtifacts> {
  const [preludeSource, chunks, workerPath] = await Promise.all([
    readFile(join(folder, FILES.prelude), "utf8"),
    readFile(join(folder, FILES.chunks), "utf8"),
    // The real path: a worker is allowed to read its own folder only, not the symlinks that lead to it.
    realpath(join(folder, FILES.worker)),
  ]);
  const readPlatformModule: ReadPlatformModule = (name) => readFileSync(join(folder, platformModuleFile(name)), "utf8");
  return {
    workerPath,
    probePath: join(dirname(workerPath), FILES.probe),
    buildChildPath: join(folder, FILES.buildChild),
    preludeSource,
    readPlatformModule,
    chunks: JSON.parse(chunks) as ChunkMetadata,
    readPythonRuntime: () => readFile(join(folder, FILES.python), "utf8"),
  };
}

/** An import of another platform module or of a module of the prelude. All other imports are bundled. */
const IMPORT = /\bimport\s*(?:\*\s*as\s+([\w$]+)|\{([^{}]*)\})\s*from\s*"((?:prelude:)?[\w-]+)";/g;
const EXPORT = /\bexport\s*\{([^{}]*)\};?\s*$/;

/** Turns `a, b as c` into the members of a destructuring pattern or of an object literal. */
const toMembers = (names: string, renamed: "$1:$2" | "$2:$1"): string =>
  names.replace(/([\w$]+)\s+as\s+([\w$]+)/g, renamed);

/**
 * Turns a module into a script whose completion value is a function of `require`, so that nothing is left on the global object. Each import
 * and export becomes one property access here. esbuild's own CommonJS output defines them as getters, with functions that a guest may have
 * replaced by the time a platform module is evaluated.
 */
function asFunction(module: string, banner = ""): string {
  let imports = "";
  const code = module.replace(IMPORT, (_, namespace: string | undefined, names: string | undefined, path: string) => {
    imports += `const ${namespace ?? `{${toMembers(names ?? "", "$1:$2")}}`}=require("${path}");`;
    return "";
  });
  const body = code.replace(EXPORT, (_, names: string) => `return{__proto__:null,${toMembers(names, "$2:$1")}};`);
  return `(function (require) { "use strict";${banner}${imports}\n${body}\n})`;
}

/** Gives the script the name of the prelude, whose frames are removed from stacks. */
const asChunk = (name: PlatformModuleName, module: string): string =>
  `${asFunction(module, bannerOf(name))}\n//# sourceURL=${PRELUDE_SCRIPT_NAME}`;

const CHUNKS = join(SOURCE_ROOT, "sandbox", "guest", "platform");

/** Files of the platform modules and of their shims, by name. Read only by the build, since nothing else has the sources. */
let chunkFiles: ReadonlyMap<string, string> | undefined;

/** Returns the source file of a platform module or of a shim. Names are unique, whatever folder a file is in. */
function findChunk(name: string): string {
  chunkFiles ??= new Map(
    readdirSync(CHUNKS, { recursive: true, encoding: "utf8" }).map((file) => [
      basename(file, ".ts"),
      join(CHUNKS, file),
    ]),
  );
  const file = chunkFiles.get(name);
  if (file === undefined) throw new Error(`No file implements the platform module ${name}`);
  return file;
}

/** Shims that platform modules get instead of npm packages. The header of each file says why. */
const SHIMS: ReadonlyMap<string, string> = new Map([
  ["abort-controller", "abort-globals"],
  ["buffer", "node-buffer"],
  ["events", "node-events"],
  ["process/", "stream-process"],
  ["qs", "url-qs"],
  ["string_decoder/", "node-buffer"],
  ["tr46", "url-idna"],
  ["webidl-conversions", "url-conversions"],
  ["@exodus/bytes/encoding.js", "url-percent"],
  ["@exodus/bytes/whatwg.js", "url-percent"],
]);

/** Shims for modules inside a package, selected by the end of the importer's path. */
const INNER_SHIMS: readonly (readonly [importer: RegExp, path: RegExp, name: string])[] = [
  [/whatwg-url[\\/]lib[\\/]URL\.js$/, /^\.\/URL-impl\.js$/, "url-impl"],
  [/whatwg-url[\\/]lib[\\/]URL(?:SearchParams)?-impl\.js$/, /^\.\/url(?:-state-machine|encoded)$/, "url-later"],
];

/** Importers that get the real packages. */
const KEEPS_PACKAGES = /idna\.ts$|legacy-encodings\.ts$|[\\/]@exodus[\\/]/;

const shims: Plugin = {
  name: "shims",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^[^.]/ }, ({ path, importer }) => {
      const name = KEEPS_PACKAGES.test(importer) ? undefined : SHIMS.get(path);
      if (name === undefined) return undefined;
      return isPlatformModuleName(name) ? { path: name, external: true } : { path: findChunk(name) };
    });
    onResolve({ filter: /^\.\// }, ({ path, importer }) => {
      const found = INNER_SHIMS.find(([from, to]) => from.test(importer) && to.test(path));
      return found === undefined ? undefined : { path: findChunk(found[2]) };
    });
  },
};

/**
 * Keeps imports of other parts of the guest external: other platform modules, and modules of the prelude (`makePreludeModules` in
 * platform.ts). All other imports of a platform module are bundled into it.
 */
const chunkImports: Plugin = {
  name: "chunk-imports",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^\.\.?\/.*\.ts$/ }, ({ path, resolveDir }) => {
      const file = join(resolveDir, path);
      const name = basename(file, ".ts");
      if (isPlatformModuleName(name) && file === findChunk(name)) return { path: name, external: true };
      if (dirname(file) === dirname(CHUNKS)) return { path: `prelude:${name}`, external: true };
      return undefined;
    });
  },
};

const READS_SHARED_MEMORY: readonly PlatformModuleName[] = ["url", "node-url"];
/** Some packages read getters of this prototype while they load, and guests have no such class. */
const NO_SHARED_MEMORY =
  "const SharedArrayBuffer = class { get byteLength() { throw new TypeError(); } get growable() { throw new TypeError(); } };";

/** Hides native decoders from the package for legacy encodings: it would call the guest's own TextDecoder, which calls the package. */
const NO_NATIVE_DECODERS = "const globalThis = {};";

/** Computed from the package's own source when the artifacts are built. */
function inspectBanner(): string {
  return intrinsicsBanner(readFileSync(createRequire(import.meta.url).resolve("node-inspect-extracted"), "utf8"));
}

function bannerOf(name: PlatformModuleName): string {
  if (name === "inspect") return inspectBanner();
  if (name === "legacy-encodings") return NO_SHARED_MEMORY + NO_NATIVE_DECODERS;
  return READS_SHARED_MEMORY.includes(name) ? NO_SHARED_MEMORY : "";
}

/** Writes all artifacts into `folder`. This build reads files of Glovebox only, never the source of a tool. */
export async function writeSandboxArtifacts(folder: string): Promise<void> {
  const { build } = await import("esbuild");
  const sandbox = join(SOURCE_ROOT, "sandbox");
  const common = { bundle: true, write: false, target: "node24", logLevel: "warning", legalComments: "none" } as const;
  const program = { ...common, platform: "node" as const, external: ["isolated-vm", "esbuild"] };
  // CommonJS for the scripts that start often: an ESM import of a built-in module reads all of its exports, which loads further modules and
  // takes 20 of the 160 ms of a worker's start (measured).
  const script = { ...program, format: "cjs" as const, define: { "import.meta.dirname": "__dirname" } };
  const [python, worker, onDemand, buildChild, probe, prelude, ...chunks] = await Promise.all([
    buildPythonRuntime(join(sandbox, "guest", "python")),
    build({ ...script, entryPoints: [join(sandbox, "worker", "worker.ts")] }),
    build({ ...script, entryPoints: [join(sandbox, "worker", "on-demand.ts")] }),
    build({ ...script, entryPoints: [join(SOURCE_ROOT, "bundler", "compile", "child", "child-main.ts")] }),
    build({ ...program, format: "esm", entryPoints: [join(sandbox, "worker", "probe-main.ts")] }),
    build({ ...common, entryPoints: [join(sandbox, "guest", "main.ts")], platform: "neutral", format: "esm" }),
    ...PLATFORM_MODULE_NAMES.map((name) =>
      build({
        ...common,
        entryPoints: [findChunk(name)],
        platform: "browser",
        format: "esm",
        // Identifiers are not minified: guests can read the name of a class.
        minifySyntax: true,
        minifyWhitespace: true,
        plugins: [chunkImports, shims],
      }),
    ),
  ]);
  const text = (result: { readonly outputFiles: readonly { readonly text: string }[] }): string =>
    result.outputFiles[0]?.text ?? "";
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, FILES.worker), text(worker));
  await writeFile(join(folder, ON_DEMAND_FILE), text(onDemand));
  await writeFile(join(folder, FILES.buildChild), text(buildChild));
  await writeFile(join(folder, FILES.probe), text(probe));
  await writeFile(join(folder, FILES.python), python);
  await writeFile(join(folder, FILES.prelude), `${asFunction(text(prelude))}().boot`);
  const scripts = PLATFORM_MODULE_NAMES.map((name, index) => asChunk(name, text(chunks[index] ?? { outputFiles: [] })));
  for (const [index, name] of PLATFORM_MODULE_NAMES.entries())
    await writeFile(join(folder, platformModuleFile(name)), scripts[index] ?? "");
  const all = scripts.join("");
  const metadata: ChunkMetadata = { sha256: createHash("sha256").update(all).digest("hex"), units: all.length };
  await writeFile(join(folder, FILES.chunks), JSON.stringify(metadata));
}

/** Returns one hash over all sources that the artifacts are built from. */
async function hashSources(): Promise<string> {
  const hash = createHash("sha256");
  const folders = [join(SOURCE_ROOT, "bundler"), join(SOURCE_ROOT, "sandbox")];
  const files = await Promise.all(
    folders.map(async (folder) => {
      const names = await readdir(folder, { recursive: true });
      return names.filter((name) => /\.(?:ts|py)$/.test(name)).map((name) => join(folder, name));
    }),
  );
  const lockfile = join(SOURCE_ROOT, "..", "package-lock.json");
  for (const file of [...files.flat().sort(), lockfile]) hash.update(await readFile(file).catch(() => ""));
  return hash.digest("hex").slice(0, 16);
}

async function buildOnce(): Promise<SandboxArtifacts> {
  const cache = join(SOURCE_ROOT, "..", "node_modules", ".cache", "glovebox");
  const folder = join(cache, `sandbox-${await hashSources()}`);
  try {
    return await readArtifacts(folder);
  } catch {
    // Built in a temporary folder and renamed as a whole, so that no reader sees a partial build. If another process was faster, its folder
    // stays.
    const fresh = `${folder}.${process.pid}`;
    await writeSandboxArtifacts(fresh);
    await rename(fresh, folder).catch(() => rm(fresh, { recursive: true, force: true }));
    return await readArtifacts(folder);
  }
}

async function load(): Promise<SandboxArtifacts> {
  try {
    return RUNS_FROM_SOURCE ? await buildOnce() : await readArtifacts(join(SOURCE_ROOT, "sandbox", "artifacts"));
  } catch (cause) {
    loaded = undefined;
    throw new ToolError("INTERNAL", "The sandbox's own files are missing or cannot be built. Reinstall Glovebox", {
      cause,
    });
  }
}

let loaded: Promise<SandboxArtifacts> | undefined;

/**
 * Loads the artifacts once per process.
 * @throws {ToolError} INTERNAL when the installation is broken
 */
export function loadSandboxArtifacts(): Promise<SandboxArtifacts> {
  loaded ??= load();
  return loaded;
}
