// Runs esbuild over a tool: a scan of its own files, and a link with its packages, each in the build that a tool can run.
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import type { BuildOptions, BuildResult, Message, OutputFile } from "esbuild";
import {
  BROWSER_ENTRY_POINTS,
  type BrowserResolver,
  findBrowserPackages,
  NODE_ENTRY_POINTS,
  openBrowserResolver,
} from "../locate/entry-points.ts";
import type { FileManifest } from "../locate/file-manifest.ts";
import { definePlaces, placeNames } from "../locate/package-locations.ts";
import type { PackageStore } from "../locate/package-store.ts";
import type { ToolFiles } from "../locate/tool-files.ts";
import { createImportPolicy, type ImportPolicyOptions } from "../policy/import-policy.ts";
import { hasImplicitAwaits, needsContext } from "./await-context.ts";
import { FATAL_WARNINGS, type ProblemContext, toProblems } from "./build-issues.ts";
import type { BuildFailure, BuildRequest } from "./build-messages.ts";
import { OUTPUT_FILE } from "./bundle-output.ts";
import type { Script } from "./compile-script.ts";

/** esbuild's `build`, handed in: child.ts is its one importer. */
export type RunEsbuild = (options: BuildOptions) => Promise<BuildResult>;

/** The same for every build; what a tool's folder says (tsconfig.json, NODE_PATH …) counts for nothing. */
const FIXED_OPTIONS = {
  bundle: true,
  write: false,
  metafile: true,
  format: "esm",
  target: "node24",
  supported: { "import-meta": false },
  charset: "ascii",
  legalComments: "none",
  treeShaking: true,
  keepNames: false,
  // The only texts in a source map are those that this process read itself.
  sourcemap: "external",
  sourcesContent: false,
  outfile: OUTPUT_FILE,
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: false, experimentalDecorators: false } },
  nodePaths: [],
  logLevel: "silent",
  logLimit: 100,
} as const satisfies BuildOptions;

/** How often a tool is linked until the choice of its packages' builds stays the same. */
const MAX_LINKS = 4;

export interface Build {
  readonly request: BuildRequest;
  readonly script: Script | undefined;
  readonly ledger: FileManifest;
  readonly files: ToolFiles;
  readonly store: PackageStore;
  readonly context: ProblemContext;
  readonly policy: Omit<ImportPolicyOptions, "phase" | "entryStub" | "useBuiltin" | "browser" | "places">;
}

/** What differs from one run of esbuild to the next. */
interface Run {
  readonly phase: "scan" | "link";
  readonly browser: ImportPolicyOptions["browser"];
  readonly supported?: BuildOptions["supported"];
}

/** For names that the tool's own text cannot have, being made from it; the same for the same text, wherever it lies. */
export function nameSuffix({ files, policy }: Build): string {
  const texts = [...policy.scanned].sort().map((path) => [path, files.texts.get(path)]);
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 16);
}

export function parameterNames(build: Build): readonly [register: string, useBuiltin: string] {
  const suffix = nameSuffix(build);
  return [`__glovebox_register_${suffix}`, `__glovebox_builtin_${suffix}`];
}

/** Stands for `SharedArrayBuffer.prototype` in the bundle. */
export const sharedPrototypeName = (build: Build): string => `__glovebox_shared_${nameSuffix(build)}`;

function optionsOf(build: Build, { phase, browser, supported }: Run): BuildOptions {
  const [register, useBuiltin] = parameterNames(build);
  const entryStub = `import * as tool from "tool";\n${register}(tool);\n`;
  const places = placeNames(nameSuffix(build));
  const level = phase === "scan" ? "warning" : "silent";
  return {
    ...FIXED_OPTIONS,
    ...(browser === "all" ? BROWSER_ENTRY_POINTS : NODE_ENTRY_POINTS),
    supported: { ...FIXED_OPTIONS.supported, ...supported },
    entryPoints: ["entry"],
    absWorkingDir: build.context.workingDirectory,
    define: {
      "process.env.NODE_ENV": '"production"',
      ...definePlaces(places, phase === "link"),
      global: "globalThis",
      "SharedArrayBuffer.prototype": sharedPrototypeName(build),
    },
    logOverride: Object.fromEntries([...FATAL_WARNINGS].map((id) => [id, level])),
    plugins: [createImportPolicy({ ...build.policy, phase, browser, entryStub, useBuiltin, places })],
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

/** Warnings are silenced but for those that mean a failure. */
function problemsOf({ errors, warnings }: Outcome, build: Build): BuildFailure["problems"] {
  const fatal = warnings.filter((warning) => FATAL_WARNINGS.has(warning.id));
  return toProblems([...errors, ...fatal], build.context);
}

export async function run(build: Build, esbuild: RunEsbuild, options: Run): Promise<BuildResult | BuildFailure> {
  try {
    const result = await esbuild(optionsOf(build, options));
    const problems = problemsOf(result, build);
    return problems.length === 0 ? result : { ok: false, problems };
  } catch (error) {
    if (!isOutcome(error)) throw error;
    return { ok: false, problems: problemsOf(error, build) };
  }
}

export function textOf(outputs: readonly OutputFile[] | undefined, extension: string): string {
  const output = outputs?.find((candidate) => candidate.path.endsWith(extension));
  if (output === undefined) throw new Error(`Expected an output that ends in ${extension}`);
  return output.text;
}

/** Links by one choice of packages' builds; a second time where the code must be lowered. */
async function linkOnce(
  build: Build,
  esbuild: RunEsbuild,
  browser: Run["browser"],
): Promise<BuildResult | BuildFailure> {
  const link = await run(build, esbuild, { phase: "link", browser });
  if ("ok" in link) return link;
  const code = textOf(link.outputFiles, ".js");
  const isWhole = !needsContext(code) || !hasImplicitAwaits(code);
  return isWhole ? link : await run(build, esbuild, { phase: "link", browser, supported: { using: false } });
}

/** Links again with those packages in their build for browsers that need it; what they import instead may need it too. */
async function linkForBrowsers(
  build: Build,
  esbuild: RunEsbuild,
  first: BuildResult,
  resolver: BrowserResolver,
): Promise<BuildResult | BuildFailure> {
  const { store, context } = build;
  const packageOf = (input: string) =>
    /^\w+:/.test(input) ? undefined : store.packageOf(resolve(context.workingDirectory, input));
  let link = first;
  let folders: ReadonlySet<string> = new Set();
  for (let round = 0; round < MAX_LINKS; round += 1) {
    const found = link.metafile === undefined ? folders : findBrowserPackages(link.metafile, packageOf).union(folders);
    if (found.size === folders.size) break;
    folders = found;
    const next = await linkOnce(build, esbuild, { folders, resolver });
    if ("ok" in next) return next;
    link = next;
  }
  return link;
}

export async function linkTool(build: Build, esbuild: RunEsbuild): Promise<BuildResult | BuildFailure> {
  if (build.store.nearest === undefined) return await linkOnce(build, esbuild, "all");
  await using resolver = await openBrowserResolver(esbuild, optionsOf(build, { phase: "link", browser: "all" }));
  const first = await linkOnce(build, esbuild, { folders: new Set(), resolver });
  const link = "ok" in first ? first : await linkForBrowsers(build, esbuild, first, resolver);
  if (!("ok" in link)) return link;
  // A build for Node that cannot be bundled, such as one with native code.
  const other = await linkOnce(build, esbuild, "all");
  return "ok" in other ? link : other;
}
