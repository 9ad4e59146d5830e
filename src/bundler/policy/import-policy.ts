// The import policy of tools as a table of data, and the esbuild plugin that enforces it: deny by default, with a second check at each
// load.
import type {
  OnLoadArgs,
  OnLoadResult,
  OnResolveArgs,
  OnResolveResult,
  PartialMessage,
  Plugin,
  PluginBuild,
} from "esbuild";
import { findBuiltin, NODE_BUILTINS, WS_CLIENT_CHUNK, WS_CLIENT_EXPORT } from "../../sandbox/contract/node-builtins.ts";
import { type BuildIssue, BuildIssueError, type BuildRequest } from "../compile/build-messages.ts";
import { bundleOwnRequire } from "../compile/data-files.ts";
import { type BrowserResolver, INTERNAL_REQUEST, type ResolveRequest, resolveWith } from "../locate/entry-points.ts";
import { declareLocations, type LocationNames, locationsText, mentionsLocation } from "../locate/package-locations.ts";
import { type PackageStore, packageNameOf } from "../locate/package-store.ts";
import type { ToolFiles } from "../locate/tool-files.ts";
import { FILE_LOADERS, loaderOf, resolveRelative } from "../locate/tool-paths.ts";

/** The importing file: the tool's own, or a package's. Packages have slightly more rights, because the host chose the store. */
type Importer = "tool" | "package";

interface SpecifierRule {
  readonly matches: RegExp;
  readonly importers: readonly Importer[];
  readonly reason: string;
}

const BOTH: readonly Importer[] = ["tool", "package"];
const TOOL_ONLY: readonly Importer[] = ["tool"];
/** The client of the package `ws` needs sockets. It is replaced by a client over the sandbox's own WebSocket. */
const WS_CLIENT_FILE = /[\\/]ws[\\/]lib[\\/]websocket\.js$/i;
const UNKNOWN_BUILTIN = "Node has no built-in module of this name";

/** Specifiers that are not allowed. The first match wins. */
const SPECIFIER_RULES: readonly SpecifierRule[] = [
  { matches: /^$/, importers: BOTH, reason: "the path is empty" },
  { matches: /^.{1025}/s, importers: BOTH, reason: "the path is longer than 1024 characters" },
  { matches: /[\p{Cc}\u2028\u2029]/u, importers: BOTH, reason: "a path has no control characters" },
  { matches: /\\/, importers: BOTH, reason: "paths are written with forward slashes" },
  { matches: /^node:/i, importers: TOOL_ONLY, reason: UNKNOWN_BUILTIN },
  { matches: /^file:/i, importers: BOTH, reason: "the sandbox has no file system" },
  { matches: /^(?!node:)[a-z][a-z0-9+.-]*:/i, importers: BOTH, reason: "modules cannot be loaded from a URL" },
  { matches: /^\/\//, importers: BOTH, reason: "modules cannot be loaded from a URL" },
  { matches: /^\//, importers: BOTH, reason: "absolute paths cannot be imported" },
  { matches: /^~/, importers: TOOL_ONLY, reason: "path aliases and home folders (~) are not supported" },
  { matches: /^#/, importers: TOOL_ONLY, reason: "package imports (#name) work inside packages only" },
  { matches: /%[0-9a-f]{2}/i, importers: TOOL_ONLY, reason: "paths are not percent-decoded" },
  { matches: /^glovebox(?:$|\/)/, importers: TOOL_ONLY, reason: 'tools import "glovebox/tool" instead' },
];

const ALLOWED_HINT = "a tool may import relative files, JSON files, Node's built-ins, and npm packages from its store";
const IMPORT_KINDS: ReadonlySet<string> = new Set(["import-statement", "require-call", "dynamic-import"]);
const GUEST_MODULE = "glovebox/tool";

/** esbuild reads the file or `file:` URL in the last comment of this kind, even in a virtual file. This one names no file. */
const NO_SOURCE_MAP = "\n//# sourceMappingURL=none:";

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
  /** Packages that use their browser build. */
  readonly browser: "all" | BrowserPackages;
  readonly locations: LocationNames;
  /** Texts of the package files that use their own location, by path. */
  readonly locatedTexts: Map<string, string>;
}

export interface BrowserPackages {
  /** Folders of the packages. */
  readonly folders: ReadonlySet<string>;
  readonly resolver: BrowserResolver;
}

type Resolution = OnResolveResult | undefined | Promise<OnResolveResult | undefined>;

function quotePath(specifier: string): string {
  return JSON.stringify(specifier.length > 120 ? `${specifier.slice(0, 120)}…` : specifier);
}

function denyImport(specifier: string, reason: string, hint: string = ALLOWED_HINT): BuildIssueError {
  return new BuildIssueError({ message: `Cannot import ${quotePath(specifier)}: ${reason}`, hint });
}

/** Explains why an allowed import cannot be resolved from the store. */
export function explainUnresolved(specifier: string, store: PackageStore): BuildIssue {
  const name = packageNameOf(specifier);
  if (name !== undefined && store.has(name)) {
    return denyImport(specifier, `the package ${name} has no such entry`, "see exports in its package.json").problem;
  }
  if (specifier.startsWith("node:")) return denyImport(specifier, UNKNOWN_BUILTIN).problem;
  if (name === undefined) return denyImport(specifier, "the package has no such file").problem;
  const reason = store.nearest === undefined ? "there is no package store" : `the store has no package ${name}`;
  return denyImport(specifier, reason, `install ${name} into the package store (a node_modules folder)`).problem;
}

/** Checks the rules that need only the import itself. */
function checkForm(args: OnResolveArgs, importer: Importer): void {
  const rule = SPECIFIER_RULES.find((row) => row.importers.includes(importer) && row.matches.test(args.path));
  if (rule !== undefined) throw denyImport(args.path, rule.reason);
  for (const [key, value] of Object.entries(args.with)) {
    if (key === "type" && value === "json" && args.kind !== "require-call") continue;
    const attribute = `${quotePath(key)}: ${quotePath(value)}`;
    throw denyImport(args.path, `the import attribute ${attribute} is not supported`, '{ type: "json" } is');
  }
}

/** Throws what Node's `require` throws for a package that is not installed. */
const absentText = (specifier: string): string =>
  `module.exports = null;\nthrow Object.assign(new Error(${JSON.stringify(`Cannot find module '${specifier}'`)}), { code: "MODULE_NOT_FOUND" });\n`;

function isRelative(specifier: string): boolean {
  return /^\.\.?(?:\/|$)/.test(specifier);
}

function toMessage(thrown: unknown): PartialMessage {
  // Only messages of Glovebox are forwarded: an error of fs contains host paths.
  if (!(thrown instanceof BuildIssueError)) return { text: "The bundler failed while it read this import" };
  return { text: thrown.problem.message, detail: { hint: thrown.problem.hint } };
}

class ImportPolicy {
  readonly #options: ImportPolicyOptions;
  readonly #build: PluginBuild;
  /** Modules whose own `require` calls the bundler handles. */
  readonly #ownRequire = new Set<string>();

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

  load(args: OnLoadArgs): OnLoadResult {
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
        if (phase === "link") return this.#loadPackageFile(args.path);
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
    // If the package's own browser field replaces a built-in, esbuild resolves the replacement.
    const builtin = mapping === "replaced" ? undefined : this.#resolveBuiltin(args);
    if (builtin !== undefined) return builtin;
    const name = isRelative(args.path) ? undefined : packageNameOf(args.path);
    if (name === undefined || mapping === "replaced" || store.has(name)) return this.#chooseBuild(args);
    // A missing optional dependency, such as a database driver, fails when it is reached, as in Node.
    const isLazy = args.kind === "require-call" || args.kind === "dynamic-import";
    const canFail = store.isMissingOptional(args.importer, name) || this.#ownRequire.has(args.importer);
    return isLazy && canFail ? { path: args.path, namespace: NAMESPACES.absent } : undefined;
  }

  /** Tells whether a file's package uses its browser build. */
  #isForBrowsers(path: string): boolean {
    const { browser, store } = this.#options;
    return browser === "all" || browser.folders.has(store.packageOf(path)?.folder ?? "");
  }

  /** Lets esbuild resolve an import unless a package uses its browser build. */
  #chooseBuild({ path, importer, resolveDir, kind }: OnResolveArgs): Resolution {
    const { browser } = this.#options;
    const request = { path, importer, resolveDir, kind };
    if (kind === "require-call" && this.#ownRequire.has(importer)) return this.#resolveOwnRequire(request);
    if (browser === "all" || browser.folders.size === 0) return undefined;
    return this.#resolveForBrowsers(request, browser);
  }

  /** An import through a module's own `require` that cannot be resolved fails when it is called, as in Node. */
  async #resolveOwnRequire(request: ResolveRequest): Promise<OnResolveResult | undefined> {
    const found = await resolveWith(this.#build, request);
    if (found === undefined) return { path: request.path, namespace: NAMESPACES.absent };
    const { browser } = this.#options;
    return browser === "all" || browser.folders.size === 0 ? undefined : this.#resolveForBrowsers(request, browser);
  }

  async #resolveForBrowsers(request: ResolveRequest, browser: BrowserPackages): Promise<OnResolveResult | undefined> {
    const [usual, found] = await Promise.all([resolveWith(this.#build, request), browser.resolver.resolve(request)]);
    // If both resolvers find the same file, esbuild resolves it, because only then it reads the package's `type`.
    if (found === undefined || found.path === usual?.path) return undefined;
    // `load` rejects a path outside of all packages.
    const isOutside = this.#options.store.packageOf(found.path) === undefined;
    if (!isOutside && !this.#isForBrowsers(found.path)) return undefined;
    return { path: found.path, namespace: NAMESPACES.package, sideEffects: found.sideEffects };
  }

  #loadToolFile(args: OnLoadArgs): OnLoadResult {
    const { files, store, phase, scanned } = this.#options;
    const loader = loaderOf(args.path);
    const text = files.texts.get(args.path);
    if (phase === "scan") scanned.add(args.path);
    if (loader === undefined || text === undefined || !scanned.has(args.path)) {
      throw denyImport(args.path, "there is no such file in the tool");
    }
    const contents = loader === "json" ? text : text + NO_SOURCE_MAP;
    return { contents, loader, ...this.#resolveDirOf(text, phase, store) };
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

  #loadPackageFile(path: string): OnLoadResult {
    const loader = loaderOf(path);
    if (loader === undefined) {
      // The file is checked before its extension, so that a path outside the store discloses nothing about itself.
      this.#options.store.load(path);
      throw new BuildIssueError({
        message: "The package file has a type that cannot be imported",
        hint: `files end in one of ${Object.keys(FILE_LOADERS).join(" ")}`,
      });
    }
    const { store, locations, locatedTexts } = this.#options;
    const contents = store.load(path);
    if (WS_CLIENT_FILE.test(path) && store.packageOf(path)?.name === "ws") {
      return { contents: this.#useBuiltinText(WS_CLIENT_CHUNK, WS_CLIENT_EXPORT), loader };
    }
    if (loader === "json") return { contents, loader };
    const text = contents.toString("utf8");
    const guestPath = mentionsLocation(text) ? store.guestPath(path) : undefined;
    if (guestPath === undefined) return { contents: Buffer.concat([contents, Buffer.from(NO_SOURCE_MAP)]), loader };
    locatedTexts.set(path, text);
    return {
      contents: declareLocations(this.#bundleRequire(path, text), locationsText(locations, guestPath)) + NO_SOURCE_MAP,
      loader,
    };
  }

  #bundleRequire(path: string, text: string): string {
    const bundled = bundleOwnRequire(text);
    if (bundled !== text) this.#ownRequire.add(path);
    return bundled;
  }
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
