// Loads each module that an import of a tool was resolved to, as esbuild gets it: its text, with what Glovebox adds or replaces. Checks again that
// the module may be loaded.
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { OnLoadArgs, OnLoadResult, PluginBuild } from "esbuild";
import { NODE_BUILTINS } from "../../sandbox/contract/node-builtins.ts";
import { BuildIssueError } from "../compile/child/build-messages.ts";
import { bundleOwnRequire } from "../compile/located-files/data-files.ts";
import { requireLocatedFiles } from "../compile/located-files/located-requires.ts";
import {
  declareLocations,
  locationsText,
  mentionsLocation,
  TOOL_FOLDER,
} from "../compile/located-files/module-location.ts";
import { rewriteNamespaceImports } from "../compile/transforms/namespace-imports.ts";
import { copyWithoutAtomics } from "../compile/transforms/node-primordials.ts";
import { spellOutRequires } from "../compile/transforms/spelled-requires.ts";
import { isInside } from "../locate/contained-file.ts";
import { resolveWith } from "../locate/package-resolver.ts";
import type { PackageStore } from "../locate/package-store.ts";
import { FILE_LOADERS, loaderOf } from "../locate/tool-paths.ts";
import { adaptPackageFile } from "./adapted-packages.ts";
import { type ImportPolicyOptions, type ImportResolver, NAMESPACES } from "./import-resolver.ts";
import { ALLOWED_HINT, denyImport, UNKNOWN_BUILTIN } from "./import-rules.ts";

/** Size of a JSON file from which on it is parsed when the tool runs. */
const LARGE_JSON_BYTES = 64 * 1024;
/** esbuild reads the file or `file:` URL in the last comment of this kind, even in a virtual file. This one names no file. */
const NO_SOURCE_MAP = "\n//# sourceMappingURL=none:";

/** Throws what Node's `require` throws for a package that is not installed. */
const absentText = (specifier: string): string =>
  `module.exports = null;\nthrow Object.assign(new Error(${JSON.stringify(`Cannot find module '${specifier}'`)}), { code: "MODULE_NOT_FOUND" });\n`;

/** Loads the modules of one phase of a build. */
export class BundledModules {
  readonly #options: ImportPolicyOptions;
  readonly #build: PluginBuild;
  readonly #resolver: ImportResolver;

  constructor(options: ImportPolicyOptions, build: PluginBuild, resolver: ImportResolver) {
    this.#options = options;
    this.#build = build;
    this.#resolver = resolver;
  }

  /** @throws {BuildIssueError} for a module that a tool may not load */
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

  /** Returns the module of a built-in. The names come from the table, not from the source. */
  #builtinText(name: string): string {
    const chunk = NODE_BUILTINS.get(name);
    if (chunk === undefined) throw denyImport(`node:${name}`, UNKNOWN_BUILTIN);
    return this.#useBuiltinText(chunk, name);
  }

  #useBuiltinText(chunk: string, name: string): string {
    return `module.exports = ${this.#options.useBuiltin}(${JSON.stringify(chunk)}, ${JSON.stringify(name)});\n`;
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

  /**
   * Rewrites imports of a namespace that a package exports under a name; see namespace-imports.ts. One that is not allowed stays as it is, and is
   * rejected when esbuild resolves it.
   */
  async #rewriteNamespaces(text: string): Promise<string> {
    const { nearest } = this.#options.store;
    if (nearest === undefined) return text;
    const reader = {
      resolve: async (path: string, importer: string | undefined) => {
        if (importer === undefined && !this.#resolver.isAllowedPackage(path)) return undefined;
        const request = { path, importer: importer ?? "", kind: "import-statement" as const };
        const resolveDir = importer === undefined ? nearest : dirname(importer);
        const chosen = await this.#resolver.chooseBuild({ ...request, resolveDir });
        if (chosen?.path !== undefined) return { path: chosen.path, sideEffects: chosen.sideEffects !== false };
        return await resolveWith(this.#build, { ...request, resolveDir });
      },
      read: (path: string) => this.#readQuietly(path),
    };
    return await rewriteNamespaceImports(text, reader, ({ path }) => this.#resolver.addNamespace(path));
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
      this.#options.files.texts.values(),
    );
    const spelled = adapted ?? (loader === "js" ? copyWithoutAtomics(spellOutRequires(stored)) : stored);
    const text = this.#options.unresolved.keepComputed(path, spelled);
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
        declareLocations(
          this.#bundleRequire(path, this.#requireLocated(path, located)),
          locationsText(locations, guestPath),
        ) + NO_SOURCE_MAP,
      loader,
    };
  }

  #requireLocated(path: string, text: string): string {
    const folder = this.#options.store.packageOf(path)?.folder;
    if (folder === undefined) return text;
    return requireLocatedFiles(text, path, (file) => isInside(folder, file) && existsSync(file));
  }

  #bundleRequire(path: string, text: string): string {
    const bundled = bundleOwnRequire(text);
    if (bundled !== text) this.#resolver.addOwnRequire(path);
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
