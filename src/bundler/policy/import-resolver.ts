// Resolves each import of a tool: to its own files, npm packages and built-ins. Denies by default; the rules are in import-rules.ts.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { OnResolveArgs, OnResolveResult, PluginBuild } from "esbuild";
import { findBuiltin } from "../../sandbox/contract/node-builtins.ts";
import { BuildIssueError, type BuildRequest } from "../compile/child/build-messages.ts";
import type { TextFacts } from "../compile/child/text-facts.ts";
import type { LocationNames } from "../compile/located-files/module-location.ts";
import type { UnresolvedImports } from "../compile/transforms/unresolved-imports.ts";
import { isDirectory } from "../locate/contained-file.ts";
import { isBetterReplaced } from "../locate/package-builds.ts";
import {
  type ChosenBuilds,
  INTERNAL_REQUEST,
  type PackageResolver,
  type ResolveRequest,
  remember,
  resolveWith,
} from "../locate/package-resolver.ts";
import { type PackageStore, packageNameOf } from "../locate/package-store.ts";
import type { ToolFiles } from "../locate/tool-files.ts";
import { FILE_LOADERS, loaderOf, resolveRelative } from "../locate/tool-paths.ts";
import { checkForm, denyImport, explainUnresolved, isRelative } from "./import-rules.ts";

const IMPORT_KINDS: ReadonlySet<string> = new Set(["import-statement", "require-call", "dynamic-import"]);
const GUEST_MODULE = "glovebox/tool";

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

/** Resolves the imports of one phase of a build. */
export class ImportResolver {
  readonly #options: ImportPolicyOptions;
  /** Resolves an import to the default build. */
  readonly #resolveDefault: PackageResolver["resolve"];
  /** Modules whose own `require` calls the bundler handles. */
  readonly #ownRequire = new Set<string>();
  /** Modules that stand behind the specifiers of rewritten imports. */
  readonly #namespaces: string[] = [];

  constructor(options: ImportPolicyOptions, build: PluginBuild) {
    this.#options = options;
    this.#resolveDefault = remember((request) => resolveWith(build, request));
  }

  /** Records that the bundler handles the `require` calls of a package's file. */
  addOwnRequire(path: string): void {
    this.#ownRequire.add(path);
  }

  /** Returns a specifier for a module, which only a rewritten import can contain. */
  addNamespace(path: string): string {
    return `${NAMESPACE_SCHEME}${this.#namespaces.push(path) - 1}`;
  }

  /** @throws {BuildIssueError} for an import that a tool may not have */
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

  /** Returns the module behind a specifier that `addNamespace` has returned. The scan rejects such a specifier in a tool's own text. */
  #namespaceOf({ path, kind }: OnResolveArgs): string | undefined {
    const [, index] = (kind === "import-statement" ? NAMESPACE_SPECIFIER.exec(path) : null) ?? [];
    return index === undefined ? undefined : this.#namespaces[Number(index)];
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
    return this.#options.phase === "scan" ? { path: args.path, external: true } : this.chooseBuild(args);
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

  /** Whether a tool may import this package. */
  isAllowedPackage(specifier: string): boolean {
    try {
      if (findBuiltin(specifier) !== undefined) return false;
      this.#checkPackage(specifier);
      return true;
    } catch {
      return false;
    }
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
    if (name === undefined || mapping !== undefined || store.has(name)) return this.chooseBuild(args);
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
  chooseBuild({ path, importer, resolveDir, kind }: ResolveRequest): Resolution {
    const request = { path, importer, resolveDir, kind };
    if (kind === "require-call" && this.#ownRequire.has(importer)) return this.#resolveOwnRequire(request);
    return this.#resolveOther(request);
  }

  /** An import through a module's own `require` that cannot be resolved fails when it is called, as in Node. */
  async #resolveOwnRequire(request: ResolveRequest): Promise<OnResolveResult | undefined> {
    const found = await this.#resolveDefault(request);
    return found === undefined
      ? { path: request.path, namespace: NAMESPACES.absent }
      : await this.#resolveOther(request);
  }

  /** Resolves an import to a build other than the default one. Returns undefined if the default one is used. */
  #resolveOther(request: ResolveRequest): Resolution {
    const { builds, store } = this.#options;
    if (builds === "browser" || builds.browserFolders.size + builds.commonJsFolders.size === 0) return undefined;
    if (this.#isSameInAllBuilds(request)) return undefined;
    return this.#resolveChosen(request, [
      [builds.browser, (path) => this.#isForBrowsers(path)],
      [builds.commonJs, (path) => builds.commonJsFolders.has(store.packageOf(path)?.folder ?? "")],
    ]);
  }

  /**
   * Tells whether all builds resolve a relative import to the same file: one of the importer's own package that its field `browser` does not
   * replace. Resolving it with esbuild takes milliseconds, and some packages have thousands of such imports.
   */
  #isSameInAllBuilds({ path, importer }: ResolveRequest): boolean {
    if (importer === "" || !isRelative(path)) return false;
    const { store } = this.#options;
    const target = join(dirname(importer), path);
    // `main` of a folder may depend on the build, and the folder may be a package.
    if (isDirectory(target) && existsSync(join(target, "package.json"))) return false;
    const folder = store.packageOf(importer)?.folder;
    const isOwn = folder !== undefined && store.packageOf(target)?.folder === folder;
    return isOwn && store.browserMapping(importer, path) === undefined;
  }

  /** @param choices resolvers, each with the paths that it decides about */
  async #resolveChosen(
    request: ResolveRequest,
    choices: readonly (readonly [PackageResolver | undefined, (path: string) => boolean])[],
  ): Promise<OnResolveResult | undefined> {
    const [usual, ...others] = await Promise.all([
      this.#resolveDefault(request),
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
}
