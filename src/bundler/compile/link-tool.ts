// Runs esbuild on a tool: scans its own files, then links them with their packages, choosing for each package the build that can run.
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import type { BuildOptions, BuildResult, Message, OutputFile } from "esbuild";
import type { FileManifest } from "../locate/file-manifest.ts";
import {
  BROWSER_ENTRY_POINTS,
  COMMON_JS_ENTRY_POINTS,
  findBrowserPackages,
  findRequiredPackages,
  findWorseBuilds,
  NODE_ENTRY_POINTS,
} from "../locate/package-builds.ts";
import { type ChosenBuilds, openResolver } from "../locate/package-resolver.ts";
import type { PackageMetadata, PackageStore } from "../locate/package-store.ts";
import type { ToolFiles } from "../locate/tool-files.ts";
import { createImportPolicy } from "../policy/import-policy.ts";
import type { ImportPolicyOptions } from "../policy/import-resolver.ts";
import { FATAL_WARNINGS, type IssueContext, toIssues } from "./build-issues.ts";
import { OUTPUT_FILE } from "./bundle-output.ts";
import type { BuildFailure, BuildRequest } from "./child/build-messages.ts";
import type { Script } from "./compile-script.ts";
import { defineLocations, locationNames } from "./located-files/module-location.ts";
import { hasImplicitAwaits, needsContext } from "./transforms/await-context.ts";

/** esbuild's `build`, passed as an argument because child-main.ts is its only importer. */
export type RunEsbuild = (options: BuildOptions) => Promise<BuildResult>;

/** Options of every build. Configuration in the tool's folder (tsconfig.json, NODE_PATH …) is ignored. */
const FIXED_OPTIONS = {
  bundle: true,
  write: false,
  metafile: true,
  format: "esm",
  target: "node24",
  // An import() of a name that is known at run time only becomes a require(), which has the built-ins: a script has no import().
  supported: { "import-meta": false, "dynamic-import": false },
  charset: "ascii",
  legalComments: "none",
  treeShaking: true,
  keepNames: false,
  // A source map contains only texts that this process read itself.
  sourcemap: "external",
  sourcesContent: false,
  outfile: OUTPUT_FILE,
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: false, experimentalDecorators: false } },
  nodePaths: [],
  logLevel: "silent",
  logLimit: 100,
} as const satisfies BuildOptions;

/** Maximum number of links until the builds of packages stay the same. */
const MAX_LINKS = 6;
const MISSING_EXPORT = /^No matching export in "(.+)" for import /;
/** Matches esbuild's warning about a member of a namespace, as in `import * as cheerio`. */
const UNDEFINED_IMPORT = /^Import "(.+)" will always be undefined because there is no matching export in "(.+)"$/;

export interface Build {
  readonly request: BuildRequest;
  readonly script: Script | undefined;
  readonly fileManifest: FileManifest;
  readonly files: ToolFiles;
  readonly store: PackageStore;
  readonly context: IssueContext;
  readonly policy: Omit<ImportPolicyOptions, "phase" | "entryStub" | "useBuiltin" | "builds" | "locations">;
}

/** Options that differ between runs of esbuild. */
interface Run {
  readonly phase: "scan" | "link";
  readonly builds: ImportPolicyOptions["builds"];
  readonly supported?: BuildOptions["supported"];
}

/**
 * Returns a suffix for generated names. It is a hash of the tool's texts, so they cannot contain it, and it does not depend on the folder.
 */
export function nameSuffix({ files, policy }: Build): string {
  const texts = [...policy.scanned].sort().map((path) => [path, files.texts.get(path)]);
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 16);
}

export function parameterNames(build: Build): readonly [register: string, useBuiltin: string] {
  const suffix = nameSuffix(build);
  return [`__glovebox_register_${suffix}`, `__glovebox_builtin_${suffix}`];
}

/** Name that replaces `SharedArrayBuffer.prototype` in the bundle. */
export const sharedPrototypeName = (build: Build): string => `__glovebox_shared_${nameSuffix(build)}`;

function optionsOf(build: Build, { phase, builds, supported }: Run): BuildOptions {
  const [register, useBuiltin] = parameterNames(build);
  const entryStub = `import * as tool from "tool";\n${register}(tool);\n`;
  const locations = locationNames(nameSuffix(build));
  const level = phase === "scan" ? "warning" : "silent";
  return {
    ...FIXED_OPTIONS,
    ...(builds === "browser" ? BROWSER_ENTRY_POINTS : NODE_ENTRY_POINTS),
    supported: { ...FIXED_OPTIONS.supported, ...supported },
    entryPoints: ["entry"],
    absWorkingDir: build.context.workingDirectory,
    define: {
      "process.env.NODE_ENV": '"production"',
      ...defineLocations(locations, phase === "link"),
      global: "globalThis",
      "SharedArrayBuffer.prototype": sharedPrototypeName(build),
    },
    logOverride: Object.fromEntries([...FATAL_WARNINGS].map((id) => [id, level])),
    plugins: [createImportPolicy({ ...build.policy, phase, builds, entryStub, useBuiltin, locations })],
  };
}

interface Outcome {
  readonly errors: readonly Message[];
  readonly warnings: readonly Message[];
}

function isOutcome(failure: unknown): failure is Outcome {
  if (typeof failure !== "object" || failure === null || !("errors" in failure && "warnings" in failure)) return false;
  return Array.isArray(failure.errors) && failure.errors.length > 0 && Array.isArray(failure.warnings);
}

/** Returns the errors and the fatal warnings as issues. */
function issuesOf({ errors, warnings }: Outcome, build: Build): BuildFailure["problems"] {
  const fatal = warnings.filter((warning) => FATAL_WARNINGS.has(warning.id));
  return toIssues([...errors, ...fatal], build.context);
}

export async function run(build: Build, esbuild: RunEsbuild, options: Run): Promise<BuildResult | BuildFailure> {
  try {
    const result = await esbuild(optionsOf(build, options));
    const issues = issuesOf(result, build);
    return issues.length === 0 ? result : { ok: false, problems: issues };
  } catch (error) {
    if (!isOutcome(error)) throw error;
    const pathOf = (file: string) => {
      const path = resolve(build.context.workingDirectory, file);
      return build.store.loaded.has(path) ? path : undefined;
    };
    if (build.policy.unresolved.add(error.errors, pathOf)) return await run(build, esbuild, options);
    return { ok: false, problems: issuesOf(error, build) };
  }
}

export function textOf(outputs: readonly OutputFile[] | undefined, extension: string): string {
  const output = outputs?.find((candidate) => candidate.path.endsWith(extension));
  if (output === undefined) throw new Error(`Expected an output that ends in ${extension}`);
  return output.text;
}

/** Links once with these builds of packages, and a second time if `await using` must be lowered. */
async function linkOnce(build: Build, esbuild: RunEsbuild, builds: Run["builds"]): Promise<BuildResult | BuildFailure> {
  const link = await run(build, esbuild, { phase: "link", builds });
  if ("ok" in link) return link;
  const code = textOf(link.outputFiles, ".js");
  const isWhole = !needsContext(code) || !hasImplicitAwaits(code);
  return isWhole ? link : await run(build, esbuild, { phase: "link", builds, supported: { using: false } });
}

/** Returns the packages whose build lacks an export that is imported. */
function findLackingPackages({ problems }: BuildFailure, build: Build): readonly PackageMetadata[] {
  return problems.flatMap(({ message }) => packageOfInput(MISSING_EXPORT.exec(message)?.[1], build) ?? []);
}

const packageOfInput = (file: string | undefined, { store, context }: Build): PackageMetadata | undefined =>
  file === undefined ? undefined : store.packageOf(resolve(context.workingDirectory, file));

/** Returns the packages without what a tool uses of their namespaces, keyed by package folder and name. */
function findUndefinedImports({ warnings }: BuildResult, build: Build): ReadonlyMap<string, PackageMetadata> {
  const found = warnings.flatMap(({ text }): [string, PackageMetadata][] => {
    const [, name = "", file] = UNDEFINED_IMPORT.exec(text) ?? [];
    const metadata = packageOfInput(file, build);
    return metadata === undefined ? [] : [[`${metadata.folder} ${name}`, metadata]];
  });
  return new Map(found);
}

/**
 * Links again with other builds of the packages that need one, until their imports need no further one. A package whose other build lacks
 * what is imported from it, or is worse, keeps its default build.
 */
async function linkWithOtherBuilds(
  build: Build,
  esbuild: RunEsbuild,
  first: BuildResult,
  chosen: ChosenBuilds,
): Promise<BuildResult | BuildFailure> {
  const { store, context } = build;
  const packageOf = (input: string) =>
    /^\w+:/.test(input) ? undefined : store.packageOf(resolve(context.workingDirectory, input));
  const readText = (input: string) => store.load(resolve(context.workingDirectory, input)).contents.toString("utf8");
  let link = first;
  let builds = chosen;
  let lacking: ReadonlySet<string> = new Set();
  let worse: ReadonlySet<string> = new Set();
  await using resolvers = new AsyncDisposableStack();
  for (let round = 0; round < MAX_LINKS && link.metafile !== undefined; round += 1) {
    const { browserFolders, commonJsFolders } = builds;
    const browser = findBrowserPackages(link.metafile, packageOf, worse).union(browserFolders).difference(lacking);
    // Builds for browsers require other packages than builds for Node, so the former are chosen first.
    const required =
      browser.size > browserFolders.size ? new Set<string>() : findRequiredPackages(link.metafile, packageOf);
    const commonJs = required.union(commonJsFolders).difference(lacking);
    if (browser.size === browserFolders.size && commonJs.size === commonJsFolders.size) break;
    if (commonJs.size > 0 && builds.commonJs === undefined)
      builds = { ...builds, commonJs: resolvers.use(await openOther(build, esbuild, COMMON_JS_ENTRY_POINTS)) };
    const wanted = { ...builds, browserFolders: browser, commonJsFolders: commonJs };
    const next = await linkOnce(build, esbuild, wanted);
    if ("ok" in next) {
      const more = findLackingPackages(next, build).filter(({ folder }) => browser.has(folder) || commonJs.has(folder));
      if (more.length === 0) return next;
      lacking = lacking.union(new Set(more.map(({ folder }) => folder)));
      continue;
    }
    const known = findUndefinedImports(link, build);
    const undefinedHere = [...findUndefinedImports(next, build)].filter(([key]) => !known.has(key));
    const newlyLacking = undefinedHere
      .map(([, { folder }]) => folder)
      .filter((folder) => browser.has(folder) || commonJs.has(folder));
    if (newlyLacking.length > 0) {
      lacking = lacking.union(new Set(newlyLacking));
      continue;
    }
    const found =
      next.metafile === undefined
        ? new Set<string>()
        : findWorseBuilds(browser.difference(browserFolders), [link.metafile, next.metafile], packageOf, readText);
    if (found.size > 0) {
      worse = worse.union(found);
      lacking = lacking.union(found);
      continue;
    }
    builds = wanted;
    link = next;
  }
  return link;
}

function openOther(build: Build, esbuild: RunEsbuild, entryPoints: Parameters<typeof openResolver>[2]) {
  return openResolver(esbuild, optionsOf(build, { phase: "link", builds: "browser" }), entryPoints);
}

export async function linkTool(build: Build, esbuild: RunEsbuild): Promise<BuildResult | BuildFailure> {
  if (build.store.nearest === undefined) return await linkOnce(build, esbuild, "browser");
  await using resolvers = new AsyncDisposableStack();
  const browser = resolvers.use(await openOther(build, esbuild, BROWSER_ENTRY_POINTS));
  let builds: ChosenBuilds = { browser, browserFolders: new Set(), commonJsFolders: new Set() };
  let first = await linkOnce(build, esbuild, builds);
  // A default import of CommonJS is the value of `module.exports`, and the file behind `module` may have no default export.
  const lacking = "ok" in first ? findLackingPackages(first, build).filter((found) => found.hasModuleBuild) : [];
  if (lacking.length > 0) {
    const commonJs = resolvers.use(await openOther(build, esbuild, COMMON_JS_ENTRY_POINTS));
    builds = { ...builds, commonJs, commonJsFolders: new Set(lacking.map(({ folder }) => folder)) };
    first = await linkOnce(build, esbuild, builds);
  }
  const link = "ok" in first ? first : await linkWithOtherBuilds(build, esbuild, first, builds);
  if (!("ok" in link)) return link;
  // The build for Node may not be bundleable, for example because of native code.
  const other = await linkOnce(build, esbuild, "browser");
  return "ok" in other ? link : other;
}
