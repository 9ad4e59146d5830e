// What a tool may import, as a table of data, and the esbuild plugin that reads it: deny by default, and a second guard on each load.
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
import { BuildIssueError, type BuildProblem, type BuildRequest } from "../compile/build-messages.ts";
import { bundleOwnRequire } from "../compile/data-files.ts";
import { type BrowserResolver, OWN_QUESTION, type ResolveRequest, resolveWith } from "../locate/entry-points.ts";
import { declarePlaces, mentionsPlace, type PlaceNames, placesText } from "../locate/package-locations.ts";
import { type PackageStore, packageNameOf } from "../locate/package-store.ts";
import type { ToolFiles } from "../locate/tool-files.ts";
import { FILE_LOADERS, loaderOf, resolveRelative } from "../locate/tool-paths.ts";

/** Who imports: the tool's own file, or a file of a package. A package's author is trusted a little more: the host chose the store. */
type Importer = "tool" | "package";

interface SpecifierRule {
  readonly matches: RegExp;
  readonly importers: readonly Importer[];
  readonly reason: string;
}

const BOTH: readonly Importer[] = ["tool", "package"];
const TOOL_ONLY: readonly Importer[] = ["tool"];
/** The client of the package `ws`, which needs sockets: the sandbox has one over its own WebSocket. */
const WS_CLIENT_FILE = /[\\/]ws[\\/]lib[\\/]websocket\.js$/i;
const UNKNOWN_BUILTIN = "Node has no built-in module of this name";

/** What no import may look like, first match wins. */
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
  { matches: /^~/, importers: TOOL_ONLY, reason: "~ names nothing here: there are no path aliases and no home folder" },
  { matches: /^#/, importers: TOOL_ONLY, reason: "package imports (#name) work inside packages only" },
  { matches: /%[0-9a-f]{2}/i, importers: TOOL_ONLY, reason: "paths are not percent-decoded" },
  { matches: /^glovebox(?:$|\/)/, importers: TOOL_ONLY, reason: 'a tool\'s side of glovebox is "glovebox/tool"' },
];

const ALLOWED_HINT = "a tool may import relative files, JSON files, Node's built-ins, and npm packages from its store";
const IMPORT_KINDS: ReadonlySet<string> = new Set(["import-statement", "require-call", "dynamic-import"]);
const GUEST_MODULE = "glovebox/tool";

/** esbuild reads a file or `file:` URL named by the last such comment, virtual file or not; this one names nothing. */
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
  /** The tool's files that the scan has seen; the link loads no other. */
  readonly scanned: Set<string>;
  /** `scan` reads the tool's own files only; `link` packages too, and starts at `entryStub` instead of the tool's entry. */
  readonly phase: "scan" | "link";
  readonly entryStub: string;
  /** The name by which the bundle asks for a built-in. */
  readonly useBuiltin: string;
  /** Packages that are taken in their build for browsers. */
  readonly browser: "all" | BrowserPackages;
  readonly places: PlaceNames;
  /** Texts of package files that say where they are, by their paths. */
  readonly placed: Map<string, string>;
}

export interface BrowserPackages {
  /** Their folders. */
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

/** Why an import fails that no rule denies but that the store cannot serve. */
export function explainUnresolved(specifier: string, store: PackageStore): BuildProblem {
  const name = packageNameOf(specifier);
  if (name !== undefined && store.has(name)) {
    return denyImport(specifier, `the package ${name} has no such entry`, "see exports in its package.json").problem;
  }
  if (specifier.startsWith("node:")) return denyImport(specifier, UNKNOWN_BUILTIN).problem;
  if (name === undefined) return denyImport(specifier, "the file does not exist in the package").problem;
  const reason = store.nearest === undefined ? "there is no package store" : `the store has no package ${name}`;
  return denyImport(specifier, reason, `install ${name} into the node_modules that this tool's store is`).problem;
}

/** Rules that need nothing but the import itself. */
function checkForm(args: OnResolveArgs, importer: Importer): void {
  const rule = SPECIFIER_RULES.find((row) => row.importers.includes(importer) && row.matches.test(args.path));
  if (rule !== undefined) throw denyImport(args.path, rule.reason);
  for (const [key, value] of Object.entries(args.with)) {
    if (key === "type" && value === "json" && args.kind !== "require-call") continue;
    const attribute = `${quotePath(key)}: ${quotePath(value)}`;
    throw denyImport(args.path, `the import attribute ${attribute} is not supported`, '{ type: "json" } is');
  }
}

/** What Node's `require` does for a package that is not installed. */
const absentText = (specifier: string): string =>
  `module.exports = null;\nthrow Object.assign(new Error(${JSON.stringify(`Cannot find module '${specifier}'`)}), { code: "MODULE_NOT_FOUND" });\n`;

function isRelative(specifier: string): boolean {
  return /^\.\.?(?:\/|$)/.test(specifier);
}

function toMessage(thrown: unknown): PartialMessage {
  // Only our own words leave: an error of fs names host paths.
  if (!(thrown instanceof BuildIssueError)) return { text: "The bundler failed while it read this import" };
  return { text: thrown.problem.message, detail: { hint: thrown.problem.hint } };
}

class ImportPolicy {
  readonly #options: ImportPolicyOptions;
  readonly #build: PluginBuild;
  /** Modules whose own `require` the bundler stands in for. */
  readonly #ownRequire = new Set<string>();

  constructor(options: ImportPolicyOptions, build: PluginBuild) {
    this.#options = options;
    this.#build = build;
  }

  resolve(args: OnResolveArgs): Resolution {
    const { request, phase } = this.#options;
    if (args.pluginData === OWN_QUESTION) return undefined;
    if (args.kind === "entry-point" && args.namespace === "") {
      return phase === "link"
        ? { path: "entry", namespace: NAMESPACES.entry }
        : { path: request.entry, namespace: NAMESPACES.tool };
    }
    if (args.namespace === NAMESPACES.entry) return { path: request.entry, namespace: NAMESPACES.tool };
    if (args.namespace === NAMESPACES.tool) return this.#resolveFromTool(args);
    if (args.namespace === NAMESPACES.package && phase === "link") return this.#resolveFromPackage(args);
    throw denyImport(args.path, "it comes from where nothing may be imported");
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
      // The namespace "" is esbuild's for a built-in that a package's browser field switches off.
      case NAMESPACES.empty:
      case "":
        return { contents: "", loader: "js" };
      case NAMESPACES.absent:
        return { contents: absentText(args.path), loader: "js" };
      case NAMESPACES.package:
        if (phase === "link") return this.#loadPackageFile(args.path);
    }
    throw new BuildIssueError({ message: "The import leads to what a tool may not load", hint: ALLOWED_HINT });
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
    // esbuild itself resolves packages, from the store: only so it knows a package's `type`, `exports`, `browser` and `sideEffects`.
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

  /** "events/" is the npm package where the store has it, as Node's rule says; "events" is always the built-in. */
  #resolveBuiltin(args: OnResolveArgs): OnResolveResult | undefined {
    const { phase, store } = this.#options;
    const builtin = findBuiltin(args.path);
    if (builtin === undefined || !IMPORT_KINDS.has(args.kind)) return undefined;
    if (args.path.endsWith("/") && store.has(builtin)) return undefined;
    if (Object.keys(args.with).length > 0) throw denyImport(args.path, "a built-in takes no import attributes");
    if (phase === "scan") return { path: args.path, external: true };
    return { path: builtin, namespace: NAMESPACES.builtin, sideEffects: false };
  }

  /** Both names come from the table, not from the source. */
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
    // What the package's own browser field puts in a built-in's place, esbuild finds.
    const builtin = mapping === "replaced" ? undefined : this.#resolveBuiltin(args);
    if (builtin !== undefined) return builtin;
    const name = isRelative(args.path) ? undefined : packageNameOf(args.path);
    if (name === undefined || mapping === "replaced" || store.has(name)) return this.#chooseBuild(args);
    // An optional dependency that is not installed, such as a database driver, fails when it is reached, as in Node.
    const isLazy = args.kind === "require-call" || args.kind === "dynamic-import";
    const canFail = store.isLeftOut(args.importer, name) || this.#ownRequire.has(args.importer);
    return isLazy && canFail ? { path: args.path, namespace: NAMESPACES.absent } : undefined;
  }

  /** Whether a file's package is taken in its build for browsers. */
  #isForBrowsers(path: string): boolean {
    const { browser, store } = this.#options;
    return browser === "all" || browser.folders.has(store.packageOf(path)?.folder ?? "");
  }

  /** Leaves it to esbuild to resolve an import, but for the packages that are taken in their build for browsers. */
  #chooseBuild({ path, importer, resolveDir, kind }: OnResolveArgs): Resolution {
    const { browser } = this.#options;
    const request = { path, importer, resolveDir, kind };
    if (kind === "require-call" && this.#ownRequire.has(importer)) return this.#resolveOwnRequire(request);
    if (browser === "all" || browser.folders.size === 0) return undefined;
    return this.#resolveForBrowsers(request, browser);
  }

  /** What a `require` of a module's own cannot find fails when it is called, as in Node. */
  async #resolveOwnRequire(request: ResolveRequest): Promise<OnResolveResult | undefined> {
    const found = await resolveWith(this.#build, request);
    if (found === undefined) return { path: request.path, namespace: NAMESPACES.absent };
    const { browser } = this.#options;
    return browser === "all" || browser.folders.size === 0 ? undefined : this.#resolveForBrowsers(request, browser);
  }

  async #resolveForBrowsers(request: ResolveRequest, browser: BrowserPackages): Promise<OnResolveResult | undefined> {
    const [usual, found] = await Promise.all([resolveWith(this.#build, request), browser.resolver.resolve(request)]);
    // Where both find the same file esbuild resolves it: only so it knows the package's `type`.
    if (found === undefined || found.path === usual?.path) return undefined;
    // A path outside of all packages is for the guard of `load` to reject.
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
   * esbuild expands `import("./" + name)` by walking the disk from the module's folder, before any plugin is asked, and
   * with no folder from its working directory. So in the scan a module's folder is one that does not exist and is deeper
   * than the `../` its text can spell; such imports find nothing and fail there, and never reach the link.
   */
  #resolveDirOf(text: string, phase: "scan" | "link", store: PackageStore): { resolveDir?: string } {
    if (phase === "link") return store.nearest === undefined ? {} : { resolveDir: store.nearest };
    const dots = text.match(/[.\\]/g)?.length ?? 0;
    return { resolveDir: `/.glovebox-dead-end${"/x".repeat(dots / 2 + 1)}` };
  }

  #loadPackageFile(path: string): OnLoadResult {
    const loader = loaderOf(path);
    if (loader === undefined) {
      // The extension is looked at only after the guard: a path outside the store says nothing of itself.
      this.#options.store.load(path);
      throw new BuildIssueError({
        message: "The package file has a type that cannot be imported",
        hint: `files end in one of ${Object.keys(FILE_LOADERS).join(" ")}`,
      });
    }
    const { store, places, placed } = this.#options;
    const contents = store.load(path);
    if (WS_CLIENT_FILE.test(path) && store.packageOf(path)?.name === "ws") {
      return { contents: this.#useBuiltinText(WS_CLIENT_CHUNK, WS_CLIENT_EXPORT), loader };
    }
    if (loader === "json") return { contents, loader };
    const text = contents.toString("utf8");
    const guestPath = mentionsPlace(text) ? store.guestPath(path) : undefined;
    if (guestPath === undefined) return { contents: Buffer.concat([contents, Buffer.from(NO_SOURCE_MAP)]), loader };
    placed.set(path, text);
    return {
      contents: declarePlaces(this.#bundleRequire(path, text), placesText(places, guestPath)) + NO_SOURCE_MAP,
      loader,
    };
  }

  #bundleRequire(path: string, text: string): string {
    const bundled = bundleOwnRequire(text);
    if (bundled !== text) this.#ownRequire.add(path);
    return bundled;
  }
}

/** Rejections become messages that name no path of the host. */
function guarded<Args, Result>(answer: (args: Args) => Result | Promise<Result>) {
  return async (args: Args): Promise<Result | { errors: PartialMessage[] }> => {
    try {
      return await answer(args);
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
