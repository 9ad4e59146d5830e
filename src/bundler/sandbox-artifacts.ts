// What the sandbox is made of, as files: the worker in one script, the prelude and the URL chunk as text. The published package
// carries them; a checkout makes them from source, once per content, in node_modules/.cache.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { ToolError } from "../sandbox/errors.ts";

export interface SandboxArtifacts {
  /** The worker's script, an absolute path. */
  readonly workerPath: string;
  /** The script that tries in a worker's place what no worker may do. */
  readonly probePath: string;
  readonly preludeSource: string;
  readonly urlChunkSource: string;
}

const HERE = dirname(fileURLToPath(import.meta.url));
const RUNS_FROM_SOURCE = import.meta.url.endsWith(".ts");
const FILES = { worker: "worker.mjs", probe: "probe.mjs", prelude: "prelude.js", urlChunk: "url-chunk.js" } as const;

async function readArtifacts(folder: string): Promise<SandboxArtifacts> {
  const [preludeSource, urlChunkSource, workerPath] = await Promise.all([
    readFile(join(folder, FILES.prelude), "utf8"),
    readFile(join(folder, FILES.urlChunk), "utf8"),
    // Where it really lies: a worker may read its own folder only, not the links that lead there.
    realpath(join(folder, FILES.worker)),
  ]);
  return { workerPath, probePath: join(dirname(workerPath), FILES.probe), preludeSource, urlChunkSource };
}

/** A script whose completion value is `exports.boot`, or the URL classes: nothing is left on the global object. */
const asExpression = (code: string, value: string): string =>
  `(function () { "use strict"; const module = { exports: {} };\n${code}\nreturn ${value}; })()`;

/** What the URL chunk takes in the place of packages: see the files' own headers. */
const STAND_INS: ReadonlyMap<string, string> = new Map([
  ["tr46", "url-idna.ts"],
  ["@exodus/bytes/encoding.js", "url-percent.ts"],
  ["@exodus/bytes/whatwg.js", "url-percent.ts"],
]);

const standIns: Plugin = {
  name: "stand-ins",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^(tr46|@exodus\/bytes\/.*)$/ }, ({ path, importer }) => {
      const file = importer.endsWith("url-idna.ts") ? undefined : STAND_INS.get(path);
      return file === undefined ? undefined : { path: join(HERE, "..", "sandbox", "guest", file) };
    });
  },
};

/** Two packages of the URL chunk read getters of this prototype while they load; guests have no such class. */
const NO_SHARED_MEMORY =
  "const SharedArrayBuffer = class { get byteLength() { throw new TypeError(); } get growable() { throw new TypeError(); } };";

/** Writes the three files into `folder`. Ours only: no source of a tool comes near this build. */
export async function writeSandboxArtifacts(folder: string): Promise<void> {
  const { build } = await import("esbuild");
  const sandbox = join(HERE, "..", "sandbox");
  const common = { bundle: true, write: false, target: "node24", logLevel: "warning", legalComments: "none" } as const;
  const program = { ...common, platform: "node" as const, format: "esm" as const, external: ["isolated-vm"] };
  const [worker, probe, prelude, urlChunk] = await Promise.all([
    build({ ...program, entryPoints: [join(sandbox, "worker.ts")] }),
    build({ ...program, entryPoints: [join(sandbox, "probe-main.ts")] }),
    build({ ...common, entryPoints: [join(sandbox, "guest", "main.ts")], platform: "neutral", format: "cjs" }),
    build({
      ...common,
      entryPoints: [join(sandbox, "guest", "url-chunk.ts")],
      platform: "browser",
      format: "cjs",
      minify: true,
      banner: { js: NO_SHARED_MEMORY },
      plugins: [standIns],
    }),
  ]);
  const text = (result: { readonly outputFiles: readonly { readonly text: string }[] }): string =>
    result.outputFiles[0]?.text ?? "";
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, FILES.worker), text(worker));
  await writeFile(join(folder, FILES.probe), text(probe));
  await writeFile(join(folder, FILES.prelude), asExpression(text(prelude), "module.exports.boot"));
  await writeFile(join(folder, FILES.urlChunk), asExpression(text(urlChunk), "module.exports"));
}

/** One hash over the sources that the artifacts are made from. */
async function hashSources(): Promise<string> {
  const hash = createHash("sha256");
  const sandbox = join(HERE, "..", "sandbox");
  const names = await readdir(sandbox, { recursive: true });
  const lockfile = join(HERE, "..", "..", "package-lock.json");
  const files = [
    ...names
      .filter((name) => name.endsWith(".ts"))
      .sort()
      .map((name) => join(sandbox, name)),
  ];
  for (const file of [...files, fileURLToPath(import.meta.url), lockfile])
    hash.update(await readFile(file).catch(() => ""));
  return hash.digest("hex").slice(0, 16);
}

async function buildOnce(): Promise<SandboxArtifacts> {
  const cache = join(HERE, "..", "..", "node_modules", ".cache", "glovebox");
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

/** @throws {ToolError} INTERNAL when the installation is broken */
export async function loadSandboxArtifacts(): Promise<SandboxArtifacts> {
  try {
    return RUNS_FROM_SOURCE ? await buildOnce() : await readArtifacts(join(HERE, "..", "sandbox", "artifacts"));
  } catch (cause) {
    throw new ToolError("INTERNAL", "The sandbox's own files are missing or cannot be built; install Glovebox again", {
      cause,
    });
  }
}
