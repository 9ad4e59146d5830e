// Which build of a package goes into a bundle where it has several: the one for Node, except where that one needs what no tool has
// (sockets, processes) and the package has another for browsers.
import type { BuildOptions, ImportKind, Metafile, PluginBuild } from "esbuild";
import { findBuiltin } from "../../sandbox/contract/node-builtins.ts";
import type { PackageFacts } from "./package-store.ts";

/** esbuild's `build`, handed in: child.ts is its one importer. */
type Build = (options: BuildOptions) => Promise<unknown>;

/** How esbuild resolves packages by default: `exports` by the conditions node, import or require, and default. */
export const NODE_ENTRY_POINTS = {
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["node"],
} as const satisfies BuildOptions;

/** How it resolves the packages that are taken in their build for browsers. */
export const BROWSER_ENTRY_POINTS = {
  platform: "browser",
  mainFields: ["browser", "module", "main"],
  conditions: ["worker", "browser"],
} as const satisfies BuildOptions;

/** Built-ins of which nothing works in a tool, and in whose place a build for browsers uses fetch. */
const UNSERVED: ReadonlySet<string> = new Set([
  "child_process",
  "cluster",
  "dgram",
  "dns",
  "dns/promises",
  "http",
  "http2",
  "https",
  "net",
  "tls",
]);

/** Packages whose build for browsers is a stub, which names a class of the browser or throws, or needs a page. */
const NODE_ONLY: ReadonlySet<string> = new Set(["form-data", "less", "ws"]);

interface PackageNeeds {
  readonly facts: PackageFacts;
  readonly dependencies: Set<string>;
  isBlocked: boolean;
}

/** Packages whose build for Node makes code from text, and whose build for browsers does not. */
const BROWSER_ONLY: ReadonlySet<string> = new Set(["depd"]);

const hasOtherBuild = ({ facts }: PackageNeeds): boolean => facts.hasBrowserBuild && !NODE_ONLY.has(facts.name ?? "");

/** Reads the imports of the packages in the output, by their folders. */
function readNeeds(metafile: Metafile, packageOf: (input: string) => PackageFacts | undefined) {
  const packages = new Map<string, PackageNeeds>();
  const inOutput = new Set(Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs)));
  for (const input of inOutput) {
    const facts = packageOf(input);
    if (facts === undefined) continue;
    const isBlocked = BROWSER_ONLY.has(facts.name ?? "");
    const needs = packages.get(facts.folder) ?? { facts, dependencies: new Set(), isBlocked };
    packages.set(facts.folder, needs);
    for (const { path } of metafile.inputs[input]?.imports ?? []) {
      const dependency = packageOf(path);
      if (dependency !== undefined) needs.dependencies.add(dependency.folder);
      else if (path.startsWith("node:") && UNSERVED.has(findBuiltin(path) ?? "")) needs.isBlocked = true;
    }
  }
  return packages;
}

/**
 * Folders of the packages of a finished link that are taken in their build for browsers: they need a built-in that no tool has, or import
 * a package that does. The build for browsers of a package is made for those of its importers.
 */
export function findBrowserPackages(
  metafile: Metafile,
  packageOf: (input: string) => PackageFacts | undefined,
): ReadonlySet<string> {
  const packages = readNeeds(metafile, packageOf);
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    for (const needs of packages.values()) {
      if (needs.isBlocked) continue;
      needs.isBlocked = [...needs.dependencies].some((folder) => packages.get(folder)?.isBlocked === true);
      hasChanged ||= needs.isBlocked;
    }
  }
  const found = [...packages.values()].filter((needs) => needs.isBlocked && hasOtherBuild(needs));
  return new Set(found.map(({ facts }) => facts.folder));
}

export interface ResolveRequest {
  readonly path: string;
  readonly importer: string;
  readonly resolveDir: string;
  readonly kind: ImportKind;
}

export interface Resolved {
  readonly path: string;
  readonly sideEffects: boolean;
}

/** Asks a build's own resolver; undefined where it finds no file. */
export async function resolveWith(build: PluginBuild, request: ResolveRequest): Promise<Resolved | undefined> {
  const { path, ...options } = request;
  // `pluginData` tells the build's plugins that the question is ours.
  const found = await build.resolve(path, { ...options, namespace: "file", pluginData: OWN_QUESTION });
  if (found.errors.length > 0 || found.external || found.namespace !== "file") return undefined;
  return { path: found.path, sideEffects: found.sideEffects };
}
export const OWN_QUESTION = Symbol("own question");

export interface BrowserResolver extends AsyncDisposable {
  resolve(request: ResolveRequest): Promise<Resolved | undefined>;
}

/**
 * esbuild resolves all of a build's imports in one way. This is a second build, of nothing, that stays open to resolve in the other way.
 */
export async function openBrowserResolver(esbuild: Build, options: BuildOptions): Promise<BrowserResolver> {
  const opened = Promise.withResolvers<PluginBuild>();
  const closed = Promise.withResolvers<void>();
  const namespace = "resolver";
  const plugin = {
    name: "browser-resolver",
    setup(build: PluginBuild) {
      build.onResolve({ filter: /^resolver$/ }, () => ({ path: "resolver", namespace }));
      build.onLoad({ filter: /.*/, namespace }, async () => {
        opened.resolve(build);
        await closed.promise;
        return { contents: "" };
      });
    },
  };
  const { absWorkingDir, nodePaths, tsconfigRaw } = options;
  const running = esbuild({
    ...BROWSER_ENTRY_POINTS,
    absWorkingDir,
    nodePaths,
    tsconfigRaw,
    entryPoints: ["resolver"],
    bundle: true,
    write: false,
    logLevel: "silent",
    plugins: [plugin],
  } as BuildOptions).then(
    () => undefined,
    (error: unknown) => opened.reject(error),
  );
  const build = await opened.promise;
  return {
    resolve: (request) => resolveWith(build, request),
    async [Symbol.asyncDispose]() {
      closed.resolve();
      await running;
    },
  };
}
