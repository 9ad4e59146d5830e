// Resolves the imports of a link with esbuild, also with the entry points of other builds of packages than the default one.
import type { BuildOptions, ImportKind, PluginBuild } from "esbuild";
import type { BROWSER_ENTRY_POINTS, COMMON_JS_ENTRY_POINTS } from "./package-builds.ts";

/** esbuild's `build`, passed as an argument because child-main.ts is its only importer. */
type Build = (options: BuildOptions) => Promise<unknown>;

/** `pluginData` of requests that the plugins of the build ignore. */
export const INTERNAL_REQUEST = Symbol("internal request");

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

/** Calls the resolver of a build. Returns undefined if it finds no file. */
export async function resolveWith(build: PluginBuild, request: ResolveRequest): Promise<Resolved | undefined> {
  const { path, ...options } = request;
  const found = await build.resolve(path, { ...options, namespace: "file", pluginData: INTERNAL_REQUEST });
  if (found.errors.length > 0 || found.external || found.namespace !== "file") return undefined;
  return { path: found.path, sideEffects: found.sideEffects };
}

/**
 * Remembers what a resolver has found for imports of one folder. esbuild reads the folders up to the package store again for each request, which
 * takes several milliseconds in a store of a thousand packages.
 */
export function remember(
  resolve: (request: ResolveRequest) => Promise<Resolved | undefined>,
): (request: ResolveRequest) => Promise<Resolved | undefined> {
  const known = new Map<string, Promise<Resolved | undefined>>();
  return (request) => {
    const key = JSON.stringify([request.kind, request.resolveDir, request.path]);
    const found = known.get(key) ?? resolve(request);
    known.set(key, found);
    return found;
  };
}

export interface PackageResolver extends AsyncDisposable {
  resolve(request: ResolveRequest): Promise<Resolved | undefined>;
}

/** The builds of packages that a link uses instead of the default one. */
export interface ChosenBuilds {
  /** Resolves imports to the builds for browsers. */
  readonly browser: PackageResolver;
  /** Folders of the packages that use their build for browsers. */
  readonly browserFolders: ReadonlySet<string>;
  /** Resolves imports to the builds for CommonJS. Missing while no package needs it. */
  readonly commonJs?: PackageResolver | undefined;
  /** Folders of the packages that use their build for CommonJS. */
  readonly commonJsFolders: ReadonlySet<string>;
}

/**
 * Opens another, empty esbuild build and keeps it open to resolve imports with other entry points. One build resolves all of its imports
 * with the same options. The caller disposes the result.
 */
export async function openResolver(
  esbuild: Build,
  options: BuildOptions,
  entryPoints: typeof BROWSER_ENTRY_POINTS | typeof COMMON_JS_ENTRY_POINTS,
): Promise<PackageResolver> {
  const opened = Promise.withResolvers<PluginBuild>();
  const closed = Promise.withResolvers<void>();
  const namespace = "resolver";
  const plugin = {
    name: "package-resolver",
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
    ...entryPoints,
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
    resolve: remember((request) => resolveWith(build, request)),
    async [Symbol.asyncDispose]() {
      closed.resolve();
      await running;
    },
  };
}
