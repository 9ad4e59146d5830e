// The esbuild plugin that resolves and loads each import of a tool: its own files, npm packages and built-ins. It denies by default, and
// checks again at each load; the rules are in import-rules.ts.
import { dirname } from "node:path";
import type {
  OnLoadArgs,
  OnLoadResult,
  OnResolveArgs,
  OnResolveResult,
  PartialMessage,
  Plugin,
  PluginBuild,
} from "esbuild";
import { findBuiltin, NODE_BUILTINS } from "../../sandbox/contract/node-builtins.ts";
import { BuildIssueError, type BuildRequest } from "../compile/build-messages.ts";
import { bundleOwnRequire } from "../compile/data-files.ts";
import {
  declareLocations,
  type LocationNames,
  locationsText,
  mentionsLocation,
  TOOL_FOLDER,
} from "../compile/module-location.ts";
import { rewriteNamespaceImports } from "../compile/namespace-imports.ts";
import type { TextFacts } from "../compile/text-facts.ts";
import type { UnresolvedImports } from "../compile/unresolved-imports.ts";
import {
  type ChosenBuilds,
  INTERNAL_REQUEST,
  isBetterReplaced,
  type PackageResolver,
  type ResolveRequest,
  resolveWith,
} from "../locate/entry-points.ts";
import { type PackageStore, packageNameOf } from "../locate/package-store.ts";
import type { ToolFiles } from "../locate/tool-files.ts";
import { FILE_LOADERS, loaderOf, resolveRelative } from "../locate/tool-paths.ts";
import { adaptPackageFile } from "./adapted-packages.ts";
import { ALLOWED_HINT, checkForm, denyImport, explainUnresolved, isRelative, UNKNOWN_BUILTIN } from "./import-rules.ts";

const IMPORT_KINDS: ReadonlySet<string> = new Set(["import-statement", "require-call", "dynamic-import"]);
const GUEST_MODULE = "glovebox/tool";

/** Size of a JSON file from which on it is parsed when the tool runs. */
const LARGE_JSON_BYTES = 64 * 1024;
/** esbuild reads the file or `file:` URL in the last comment of this kind, even in a virtual file. This one names no file. */
const NO_SOURCE_MAP = "\n//# sourceMappingURL=none:";

/** Specifiers of rewritten imports. They have the form of a URL, which no tool may import. */
const NAMESPACE_SCHEME = "glovebox-namespace:";
const NAMESPACE_SPECIFIER = /^glovebox-namespace:(\d+)$/;

export const NAMESPACES = {
  entry: "entry",
  tool: "tool",
  guest: "glovebox",
  builtin: "node",
  empty: "empty",
  absent: "absent",
  package: "file",
} as const;

export interface ImportPolicyOptions {
  readonly request: BuildRequest;
  readonly files: ToolFiles;
  readonly store: PackageStore;
  readonly guestModule: { readonly contents: Buffer; readonly path: string };
  /** Files of the tool that the scan has seen. The link loads no others. */
  readonly scanned: Set<string>;
  /** `scan` reads the tool's own files only. `link` also reads packages, and starts at `entryStub` instead of the tool's entry. */
  readonly phase: "scan" | "link";
  readonly entryStub: string;
  /** Name of the function with which the bundle loads a built-in. */
  readonly useBuiltin: string;
  /** Builds of packages: all for browsers, or some other than the default. */
  readonly builds: "browser" | ChosenBuilds;
  readonly locations: LocationNames;
  /** Texts of the package files that use their own location, by path. */
  readonly locatedTexts: Map<string, string>;
  /** Imports of packages that fail when they are reached, as far as earlier links have found them. */
  readonly unresolved: UnresolvedImports;
  readonly facts: TextFacts;
}

type Resolution = OnResolveResult | undefined | Promise<OnResolveResult | undefined>;

/** Throws what Node's `require` throws for a package that is not installed. */
const absentText = (specifier: string): string =>
  `module.exports = null;\nthrow Object.assign(new Error(${JSON.stringify(`Cannot find module '${specifier}'`)}), { code: "MODULE_NOT_FOUND" });\n`;

function toMessage(thrown: unknown): PartialMessage {
  // Only messages of Glovebox are forwarded: an error of fs contains host paths.
  if (!(thrown instanceof BuildIssueError)) return { text: "The bundler failed while it read this import" };
  return { text: thrown.issue.message, detail: { hint: thrown.issue.hint } };
}

class ImportPolicy {
  readonly #options: ImportPolicyOptions;
  readonly #build: PluginBuild;
  /** Modules whose own `require` calls the bundler handles. */
  readonly #ownRequire = new Set<string>();
  /** Modules that stand behind the specifiers of rewritten imports. */
  readonly #namespaces: string[] = [];

  constructor(options: ImportPolicyOptions, build: PluginBuild) {
    this.#options = options;
    this.#build = build;
  }

  resolve(args: OnResolveArgs): Resolution {
    const { request, phase } = this.#options;
    if (args.pluginData === INTERNAL_REQUEST) return undefined;
    if (args.kind === "entry-point" && args.namespace === "") {
      return phase === "link"
        ? { path: "entry", namespace: NAMESPACES.entry }
        : { path: request.entry, namespace: NAMESPACES.tool };
    }
    if (args.namespace === NAMESPACES.entry) return { path: request.entry, namespace: NAMESPACES.tool };
    if (args.namespace === NAMESPACES.tool) return this.#resolveFromTool(args);
    if (args.namespace === NAMESPACES.package && phase === "link") return this.#resolveFromPackage(args);
    throw denyImport(args.path, "its importer may not import anything");
  }

  load(args: OnLoadArgs): OnLoadResult | Promise<OnLoadResult> {
    const { phase, entryStub, guestModule } = this.#options;
    switch (args.namespace) {
      case NAMESPACES.entry:
        return { contents: entryStub, loader: "js" };
      case NAMESPACES.tool:
        return this.#loadToolFile(args);
      case NAMESPACES.builtin:
        return { contents: this.#builtinText(args.path), loader: "js" };
      case NAMESPACES.guest:
        return { contents: guestModule.contents, loader: loaderOf(guestModule.path) ?? "js" };
      // esbuild uses the namespace "" for a built-in that a package's browser field switches off.
      case NAMESPACES.empty:
      case "":
        return { contents: "", loader: "js" };
      case NAMESPACES.absent:
        return { contents: absentText(args.path), loader: "js" };
      case NAMESPACES.package:
        if (phase === "link") return this.#loadPackageFile(args);
    }
    throw new BuildIssueError({ message: "The import leads to a file that a tool may not load", hint: ALLOWED_HINT });
  }

  #resolveFromTool(args: OnResolveArgs): Resolution {
    if (!IMPORT_KINDS.has(args.kind)) {
      throw denyImport(
        args.path,
        `${args.kind === "require-resolve" ? "require.resolve" : args.kind} is not supported`,
      );
    }
    if (args.path === GUEST_MODULE) return { path: "tool", namespace: NAMESPACES.guest };
    const builtin = this.#resolveBuiltin(args);
    if (builtin !== undefined) return builtin;
    const namespace = this.#namespaceOf(args);
    if (namespace !== undefined) return { path: namespace, namespace: NAMESPACES.package, sideEffects: false };
    checkForm(args, "tool");
    if (isRelative(args.path)) return { path: this.#findToolFile(args), namespace: NAMESPACES.tool };
    this.#checkPackage(args.path);
    // esbuild resolves packages from the store itself, because only then it reads a package's `type`, `exports`, `browser` and
    // `sideEffects`.
    return this.#options.phase === "scan" ? { path: args.path, external: true } : this.#chooseBuild(args);
  }

  #findToolFile(args: OnResolveArgs): string {
    const resolution = resolveRelative(args.importer, args.path);
    if (!resolution.ok) throw denyImport(args.path, resolution.reason);
    const file = this.#options.files.find(resolution.path);
    if (file === undefined) {
      const known = Object.keys(FILE_LOADERS).join(" ");
      throw denyImport(args.path, "there is no such file in the tool", `files end in one of ${known}`);
    }
    if (args.with.type === "json" && loaderOf(file) !== "json") throw denyImport(args.path, "it is not a .json file");
    return file;
  }

  #checkPackage(specifier: string): void {
    const { request, store } = this.#options;
    const name = packageNameOf(specifier);
    if (name === undefined) throw denyImport(specifier, "it names no package");
    if (request.allowPackages !== null && !request.allowPackages.includes(name)) {
      const allowed = request.allowPackages.slice(0, 20).join(", ");
      const hint = allowed === "" ? "no packages are allowed" : `allowed packages are ${allowed}`;
      throw denyImport(specifier, `the package ${name} is not on the allow list`, hint);
    }
    if (!store.has(name)) throw new BuildIssueError(explainUnresolved(specifier, store));
  }

  /** "events/" is the npm package if the store has it, as in Node. "events" is always the built-in. */
  #resolveBuiltin(args: OnResolveArgs): OnResolveResult | undefined {
    const { phase, store } = this.#options;
    const builtin = findBuiltin(args.path);
    if (builtin === undefined || !IMPORT_KINDS.has(args.kind)) return undefined;
    if (args.path.endsWith("/") && store.has(builtin)) return undefined;
    if (Object.keys(args.with).length > 0) throw denyImport(args.path, "a built-in takes no import attributes");
    if (phase === "scan") return { path: args.path, external: true };
    return { path: builtin, namespace: NAMESPACES.builtin, sideEffects: false };
  }

  /** Returns the module of a built-in. The names come from the table, not from the source. */
  #builtinText(name: string): string {
    const chunk = NODE_BUILTINS.get(name);
    if (chunk === undefined) throw denyImport(`node:${name}`, UNKNOWN_BUILTIN);
    return this.#useBuiltinText(chunk, name);
  }

  #useBuiltinText(chunk: string, name: string): string {
    return `module.exports = ${this.#options.useBuiltin}(${JSON.stringify(chunk)}, ${JSON.stringify(name)});\n`;
  }

  #resolveFromPackage(args: OnResolveArgs): Resolution {
    if (args.path === GUEST_MODULE) return { path: "tool", namespace: NAMESPACES.guest };
    checkForm(args, "package");
    const { store } = this.#options;
    const mapping = this.#isForBrowsers(args.importer) ? store.browserMapping(args.importer, args.path) : undefined;
    if (mapping === "empty") return { path: args.path, namespace: NAMESPACES.empty };
    const found = this.#resolveBuiltin(args);
    // If the package's own browser field replaces a built-in, esbuild resolves the replacement. Packages that emulate a built-in for
    // browsers are not used: streams and buffers of `stream-browserify` and `buffer` are not those of the tool.
    const isEmulated = mapping === "package" && found !== undefined && !isBetterReplaced(found.path ?? "");
    const builtin = mapping === undefined || isEmulated ? found : undefined;
    if (builtin !== undefined) return builtin;
    const isLazy = args.kind === "require-call" || args.kind === "dynamic-import";
    const absent = { path: args.path, namespace: NAMESPACES.absent };
    if (isLazy && this.#options.unresolved.isMissing(args.importer, args.path)) return absent;
    const name = isRelative(args.path) ? undefined : packageNameOf(args.path);
    if (name === undefined || mapping !== undefined || store.has(name)) return this.#chooseBuild(args);
    // A missing optional dependency, such as a database driver, fails when it is reached, as in Node.
    const canFail = store.isMissingOptional(args.importer, name) || this.#ownRequire.has(args.importer);
    return isLazy && canFail ? absent : undefined;
  }

  /** Tells whether a file's package uses its browser build. */
  #isForBrowsers(path: string): boolean {
    const { builds, store } = this.#options;
    return builds === "browser" || builds.browserFolders.has(store.packageOf(path)?.folder ?? "");
  }

  /** Lets esbuild resolve an import unless a package uses another build than the default one. */
  #chooseBuild({ path, importer, resolveDir, kind }: ResolveRequest): Resolution {
    const request = { path, importer, resolveDir, kind };
    if (kind === "require-call" && this.#ownRequire.has(importer)) return this.#resolveOwnRequire(request);
    return this.#resolveOther(request);
  }

  /** An import through a module's own `require` that cannot be resolved fails when it is called, as in Node. */
  async #resolveOwnRequire(request: ResolveRequest): Promise<OnResolveResult | undefined> {
    const found = await resolveWith(this.#build, request);
    return found === undefined
      ? { path: request.path, namespace: NAMESPACES.absent }
      : await this.#resolveOther(request);
  }

  /** Resolves an import to a build other than the default one. Returns undefined if the default one is used. */
  #resolveOther(request: ResolveRequest): Resolution {
    const { builds, store } = this.#options;
    if (builds === "browser" || builds.browserFolders.size + builds.commonJsFolders.size === 0) return undefined;
    return this.#resolveChosen(request, [
      [builds.browser, (path) => this.#isForBrowsers(path)],
      [builds.commonJs, (path) => builds.commonJsFolders.has(store.packageOf(path)?.folder ?? "")],
    ]);
  }

  /** @param choices resolvers, each with the paths that it decides about */
  async #resolveChosen(
    request: ResolveRequest,
    choices: readonly (readonly [PackageResolver | undefined, (path: string) => boolean])[],
  ): Promise<OnResolveResult | undefined> {
    const [usual, ...others] = await Promise.all([
      resolveWith(this.#build, request),
      ...choices.map(([resolver]) => resolver?.resolve(request)),
    ]);
    for (const [index, [, isChosen]] of choices.entries()) {
      const found = others[index];
      // If both resolvers find the same file, esbuild resolves it, because only then it reads the package's `type`.
      if (found === undefined || found.path === usual?.path) continue;
      // `load` rejects a path outside of all packages. A built-in that a browser field replaces leads nowhere by default.
      const isOutside = this.#options.store.packageOf(found.path) === undefined;
      if (usual !== undefined && !isOutside && !isChosen(found.path)) continue;
      return { path: found.path, namespace: NAMESPACES.package, sideEffects: found.sideEffects };
    }
    return undefined;
  }

  async #loadToolFile(args: OnLoadArgs): Promise<OnLoadResult> {
    const { files, store, phase, scanned } = this.#options;
    const loader = loaderOf(args.path);
    const text = files.texts.get(args.path);
    if (phase === "scan") scanned.add(args.path);
    if (loader === undefined || text === undefined || !scanned.has(args.path)) {
      throw denyImport(args.path, "there is no such file in the tool");
    }
    if (loader === "json") {
      const isParsed = phase === "link" && args.with.type !== "json";
      return (
        (isParsed && parseWhenRun(Buffer.from(text))) || {
          contents: text,
          loader,
          ...this.#resolveDirOf(text, phase, store),
        }
      );
    }
    const code = phase === "link" ? this.#locateToolFile(args.path, await this.#rewriteNamespaces(text)) : text;
    return { contents: code + NO_SOURCE_MAP, loader, ...this.#resolveDirOf(text, phase, store) };
  }

  /** Declares the location of a tool's file. The bundle itself declares that of the entry. */
  #locateToolFile(path: string, text: string): string {
    const { request, locations } = this.#options;
    if (path === request.entry || !mentionsLocation(text)) return text;
    return declareLocations(text, locationsText(locations, `${TOOL_FOLDER}/${path}`));
  }

  /** Returns the module behind a specifier that `#rewriteNamespaces` has written. The scan rejects such a specifier in a tool's own text. */
  #namespaceOf({ path, kind }: OnResolveArgs): string | undefined {
    const [, index] = (kind === "import-statement" ? NAMESPACE_SPECIFIER.exec(path) : null) ?? [];
    return index === undefined ? undefined : this.#namespaces[Number(index)];
  }

  async #rewriteNamespaces(text: string): Promise<string> {
    const { nearest } = this.#options.store;
    if (nearest === undefined) return text;
    const reader = {
      resolve: async (path: string, importer: string | undefined) => {
        if (importer === undefined && !this.#isAllowedPackage(path)) return undefined;
        const request = { path, importer: importer ?? "", kind: "import-statement" as const };
        const resolveDir = importer === undefined ? nearest : dirname(importer);
        const chosen = await this.#chooseBuild({ ...request, resolveDir });
        if (chosen?.path !== undefined) return { path: chosen.path, sideEffects: chosen.sideEffects !== false };
        return await resolveWith(this.#build, { ...request, resolveDir });
      },
      read: (path: string) => this.#readQuietly(path),
    };
    return await rewriteNamespaceImports(text, reader, ({ path }) => {
      return `${NAMESPACE_SCHEME}${this.#namespaces.push(path) - 1}`;
    });
  }

  /** An import that is not allowed stays as it is, and is rejected when esbuild resolves it. */
  #isAllowedPackage(specifier: string): boolean {
    try {
      if (findBuiltin(specifier) !== undefined) return false;
      this.#checkPackage(specifier);
      return true;
    } catch {
      return false;
    }
  }

  #readQuietly(path: string): string | undefined {
    try {
      return loaderOf(path) === "js" ? this.#options.store.load(path).contents.toString("utf8") : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * Returns the folder from which esbuild resolves imports. esbuild expands `import("./" + name)` by walking the disk from the module's
   * folder before it calls any plugin, and without a folder from its working directory. In the scan a module's folder therefore does not
   * exist, and is deeper than the `../` that its text can contain. Such imports find nothing, fail in the scan, and never reach the link.
   */
  #resolveDirOf(text: string, phase: "scan" | "link", store: PackageStore): { resolveDir?: string } {
    if (phase === "link") return store.nearest === undefined ? {} : { resolveDir: store.nearest };
    const dots = text.match(/[.\\]/g)?.length ?? 0;
    return { resolveDir: `/.glovebox-dead-end${"/x".repeat(dots / 2 + 1)}` };
  }

  #loadPackageFile({ path, with: attributes }: OnLoadArgs): OnLoadResult {
    const loader = loaderOf(path);
    if (loader === undefined) {
      // The file is checked before its extension, so that a path outside the store discloses nothing about itself.
      this.#options.store.load(path);
      throw new BuildIssueError({
        message: "The package file has a type that cannot be imported",
        hint: `files end in one of ${Object.keys(FILE_LOADERS).join(" ")}`,
      });
    }
    const { store, locations, locatedTexts, facts } = this.#options;
    const { contents: stored, sha256 } = store.load(path);
    const adapted = adaptPackageFile(
      path,
      store.packageOf(path)?.name,
      () => stored.toString("utf8"),
      (chunk, name) => this.#useBuiltinText(chunk, name),
    );
    const text = this.#options.unresolved.keepComputed(path, adapted ?? stored);
    const contents = typeof text === "string" ? Buffer.from(text) : text;
    // esbuild demands the loader for JSON if the import has the attribute.
    if (loader === "json") return (attributes.type !== "json" && parseWhenRun(contents)) || { contents, loader };
    const isLocated = facts.recall("location", { sha256 }, () => mentionsLocation(contents.toString("utf8")));
    const guestPath = isLocated ? store.guestPath(path) : undefined;
    if (guestPath === undefined) return { contents: Buffer.concat([contents, Buffer.from(NO_SOURCE_MAP)]), loader };
    const located = contents.toString("utf8");
    locatedTexts.set(path, located);
    return {
      contents:
        declareLocations(this.#bundleRequire(path, located), locationsText(locations, guestPath)) + NO_SOURCE_MAP,
      loader,
    };
  }

  #bundleRequire(path: string, text: string): string {
    const bundled = bundleOwnRequire(text);
    if (bundled !== text) this.#ownRequire.add(path);
    return bundled;
  }
}

/**
 * Returns a module that parses a large JSON file when it runs. As an object of JavaScript, each of its values would have an entry in the source
 * map, and megabytes of data would take hundreds of megabytes to bundle. Returns undefined for a small file, and for one that is not JSON.
 */
function parseWhenRun(contents: Buffer): OnLoadResult | undefined {
  if (contents.byteLength < LARGE_JSON_BYTES) return undefined;
  const text = contents.toString("utf8").replace(/^\uFEFF/, "");
  try {
    JSON.parse(text);
  } catch {
    // esbuild reports where the error is.
    return undefined;
  }
  return { contents: `module.exports = JSON.parse(${JSON.stringify(text)});`, loader: "js" };
}

/** Turns exceptions into messages that contain no path of the host. */
function guarded<Args, Result>(respond: (args: Args) => Result | Promise<Result>) {
  return async (args: Args): Promise<Result | { errors: PartialMessage[] }> => {
    try {
      return await respond(args);
    } catch (error) {
      return { errors: [toMessage(error)] };
    }
  };
}

export function createImportPolicy(options: ImportPolicyOptions): Plugin {
  return {
    name: "import-policy",
    setup(build) {
      const policy = new ImportPolicy(options, build);
      build.onResolve(
        { filter: /.*/ },
        guarded((args: OnResolveArgs) => policy.resolve(args)),
      );
      build.onLoad(
        { filter: /.*/ },
        guarded((args: OnLoadArgs) => policy.load(args)),
      );
    },
  };
}
