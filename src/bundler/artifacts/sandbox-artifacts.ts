// What the sandbox is made of, as files: the worker in one script, the prelude, and a script for each chunk; and the bundler's child,
// which starts as often. The published package carries them; a checkout makes them from source, once per content, in
// node_modules/.cache.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { PRELUDE_SCRIPT_NAME } from "../../sandbox/protocol/guest-messages.ts";
import {
  CHUNK_NAMES,
  type ChunkName,
  chunkFile,
  isChunkName,
  type ReadChunk,
} from "../../sandbox/protocol/platform-modules.ts";
import { buildPythonRuntime } from "../python/python-runtime.ts";
import { intrinsicsBanner } from "./needed-intrinsics.ts";

export interface SandboxArtifacts {
  /** The worker's script, an absolute path. */
  readonly workerPath: string;
  /** The script that tries in a worker's place what no worker may do. */
  readonly probePath: string;
  /** The bundler's child (child.ts). */
  readonly buildChildPath: string;
  readonly preludeSource: string;
  /** The worker reads them by itself. */
  readonly readChunk: ReadChunk;
  readonly chunks: ChunkFacts;
  /** Read when the first Python tool is there: it is 1.5 MB. */
  readonly readPythonRuntime: () => Promise<string>;
}

/** What the host needs to know of all chunks together: their code caches are kept under the hash. */
export interface ChunkFacts {
  readonly sha256: string;
  /** Of text. */
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
    // Where it really lies: a worker may read its own folder only, not the links that lead there.
    realpath(join(folder, FILES.worker)),
  ]);
  const readChunk: ReadChunk = (name) => readFileSync(join(folder, chunkFile(name)), "utf8");
  return {
    workerPath,
    probePath: join(dirname(workerPath), FILES.probe),
    buildChildPath: join(folder, FILES.buildChild),
    preludeSource,
    readChunk,
    chunks: JSON.parse(chunks) as ChunkFacts,
    readPythonRuntime: () => readFile(join(folder, FILES.python), "utf8"),
  };
}

/** Of another chunk, or of a module of the prelude: the rest is bundled. */
const IMPORT = /\bimport\s*(?:\*\s*as\s+([\w$]+)|\{([^{}]*)\})\s*from\s*"((?:prelude:)?[\w-]+)";/g;
const EXPORT = /\bexport\s*\{([^{}]*)\};?\s*$/;

/** `a, b as c` as the members of a pattern, or of an object. */
const toMembers = (names: string, renamed: "$1:$2" | "$2:$1"): string =>
  names.replace(/([\w$]+)\s+as\s+([\w$]+)/g, renamed);

/**
 * A module as a script whose completion value is a function of what the module requires: nothing is left on the global object. Each
 * import and export is one look-up here; esbuild's own form of CommonJS defines them by getters, with functions that a guest may have
 * replaced by the time a chunk is evaluated.
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

/** Its frames are the prelude's, which no stack shows. */
const asChunk = (name: ChunkName, module: string): string =>
  `${asFunction(module, bannerOf(name))}\n//# sourceURL=${PRELUDE_SCRIPT_NAME}`;

const CHUNKS = join(SOURCE_ROOT, "sandbox", "guest", "platform");

/** What chunks take in the place of packages: see the files' own headers. */
const STAND_INS: ReadonlyMap<string, string> = new Map([
  ["abort-controller", "abort-globals.ts"],
  ["buffer", "node-buffer.ts"],
  ["events", "node-events.ts"],
  ["process/", "stream-process.ts"],
  ["qs", "url-qs.ts"],
  ["string_decoder/", "node-buffer.ts"],
  ["tr46", "url-idna.ts"],
  ["webidl-conversions", "url-conversions.ts"],
  ["@exodus/bytes/encoding.js", "url-percent.ts"],
  ["@exodus/bytes/whatwg.js", "url-percent.ts"],
]);

/** The same of modules within a package, by the end of the importer's path. */
const INNER_STAND_INS: readonly (readonly [importer: RegExp, path: RegExp, file: string])[] = [
  [/whatwg-url[\\/]lib[\\/]URL(?:SearchParams)?-impl\.js$/, /^\.\/url(?:-state-machine|encoded)$/, "url-later.ts"],
];

/** From these the packages themselves are imported. */
const KEEPS_PACKAGES = /idna\.ts$|legacy-encodings\.ts$|[\\/]@exodus[\\/]/;

const standIns: Plugin = {
  name: "stand-ins",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^[^.]/ }, ({ path, importer }) => {
      const file = KEEPS_PACKAGES.test(importer) ? undefined : STAND_INS.get(path);
      if (file === undefined) return undefined;
      const name = basename(file, ".ts");
      return isChunkName(name) ? { path: name, external: true } : { path: join(CHUNKS, file) };
    });
    onResolve({ filter: /^\.\// }, ({ path, importer }) => {
      const found = INNER_STAND_INS.find(([from, to]) => from.test(importer) && to.test(path));
      return found === undefined ? undefined : { path: join(CHUNKS, found[2]) };
    });
  },
};

/**
 * What a chunk takes from elsewhere in the guest: another chunk, or a module of the prelude (`makePreludeModules` in platform.ts). The rest
 * of what it imports is bundled into it.
 */
const chunkImports: Plugin = {
  name: "chunk-imports",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^\.\.?\/.*\.ts$/ }, ({ path, resolveDir }) => {
      const file = join(resolveDir, path);
      const name = basename(file, ".ts");
      if (dirname(file) === CHUNKS && isChunkName(name)) return { path: name, external: true };
      if (dirname(file) === dirname(CHUNKS)) return { path: `prelude:${name}`, external: true };
      return undefined;
    });
  },
};

const READS_SHARED_MEMORY: readonly ChunkName[] = ["url", "node-url"];
/** Some packages read getters of this prototype while they load; guests have no such class. */
const NO_SHARED_MEMORY =
  "const SharedArrayBuffer = class { get byteLength() { throw new TypeError(); } get growable() { throw new TypeError(); } };";

/** What the legacy encodings' package finds of native decoders: it would ask the guest's own TextDecoder, which asks it. */
const NO_NATIVE_DECODERS = "const globalThis = {};";

/** Read where the artifacts are built, from the package itself. */
function inspectBanner(): string {
  return intrinsicsBanner(readFileSync(createRequire(import.meta.url).resolve("node-inspect-extracted"), "utf8"));
}

function bannerOf(name: ChunkName): string {
  if (name === "inspect") return inspectBanner();
  if (name === "legacy-encodings") return NO_SHARED_MEMORY + NO_NATIVE_DECODERS;
  return READS_SHARED_MEMORY.includes(name) ? NO_SHARED_MEMORY : "";
}

/** Writes them all into `folder`. Ours only: no source of a tool comes near this build. */
export async function writeSandboxArtifacts(folder: string): Promise<void> {
  const { build } = await import("esbuild");
  const sandbox = join(SOURCE_ROOT, "sandbox");
  const common = { bundle: true, write: false, target: "node24", logLevel: "warning", legalComments: "none" } as const;
  const program = { ...common, platform: "node" as const, external: ["isolated-vm", "esbuild"] };
  // CommonJS for what is started often: an import of a built-in module reads all of its exports, and so loads what they load, 20 ms of a
  // worker's 160 (measured).
  const script = { ...program, format: "cjs" as const, define: { "import.meta.dirname": "__dirname" } };
  const [python, worker, buildChild, probe, prelude, ...chunks] = await Promise.all([
    buildPythonRuntime(join(sandbox, "guest", "python")),
    build({ ...script, entryPoints: [join(sandbox, "worker", "worker.ts")] }),
    build({ ...script, entryPoints: [join(SOURCE_ROOT, "bundler", "compile", "child-main.ts")] }),
    build({ ...program, format: "esm", entryPoints: [join(sandbox, "worker", "probe-main.ts")] }),
    build({ ...common, entryPoints: [join(sandbox, "guest", "main.ts")], platform: "neutral", format: "esm" }),
    ...CHUNK_NAMES.map((name) =>
      build({
        ...common,
        entryPoints: [join(CHUNKS, `${name}.ts`)],
        platform: "browser",
        format: "esm",
        // Names are kept: a class's is seen.
        minifySyntax: true,
        minifyWhitespace: true,
        plugins: [chunkImports, standIns],
      }),
    ),
  ]);
  const text = (result: { readonly outputFiles: readonly { readonly text: string }[] }): string =>
    result.outputFiles[0]?.text ?? "";
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, FILES.worker), text(worker));
  await writeFile(join(folder, FILES.buildChild), text(buildChild));
  await writeFile(join(folder, FILES.probe), text(probe));
  await writeFile(join(folder, FILES.python), python);
  await writeFile(join(folder, FILES.prelude), `${asFunction(text(prelude))}().boot`);
  const scripts = CHUNK_NAMES.map((name, index) => asChunk(name, text(chunks[index] ?? { outputFiles: [] })));
  for (const [index, name] of CHUNK_NAMES.entries())
    await writeFile(join(folder, chunkFile(name)), scripts[index] ?? "");
  const all = scripts.join("");
  const facts: ChunkFacts = { sha256: createHash("sha256").update(all).digest("hex"), units: all.length };
  await writeFile(join(folder, FILES.chunks), JSON.stringify(facts));
}

/** One hash over the sources that the artifacts are made from. */
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
    // Built beside its place and moved there whole, so that no reader sees a half; who comes second keeps the first one's.
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
    throw new ToolError("INTERNAL", "The sandbox's own files are missing or cannot be built; install Glovebox again", {
      cause,
    });
  }
}

let loaded: Promise<SandboxArtifacts> | undefined;

/**
 * The same for all of this process.
 * @throws {ToolError} INTERNAL when the installation is broken
 */
export function loadSandboxArtifacts(): Promise<SandboxArtifacts> {
  loaded ??= load();
  return loaded;
}
