// One build, inside the child: scans the tool's own files, links them with their packages, and finishes the output.
import { createHash } from "node:crypto";
import { dirname, relative, resolve } from "node:path";
import type { BuildOptions, BuildResult, Message, Metafile, OutputFile } from "esbuild";
import { ACTIVATION_EXPORT, PACKAGE_FILES_EXPORT } from "../sandbox/node-builtins.ts";
import { type ContextNames, hasImplicitAwaits, keepContext, needsContext } from "./await-context.ts";
import { BuildLedger } from "./build-ledger.ts";
import {
  type BuildFailure,
  BuildProblemError,
  type BuildRequest,
  type BuildResponse,
  type BuildSuccess,
} from "./build-messages.ts";
import { displayFile, FATAL_WARNINGS, type ProblemContext, toProblems } from "./build-problems.ts";
import {
  finishSourceMap,
  OUTPUT_FILE,
  type OutputNames,
  sharedPrototypeText,
  sourcePathOf,
  wrapCode,
} from "./bundle-output.ts";
import { compileCell } from "./compile-cell.ts";
import { appendScript, findScriptProblem, isScript, SCRIPT_HINT, type Script, toScript } from "./compile-script.ts";
import { readContainedFile, realPathOf } from "./contained-file.ts";
import { DataFiles, dataFilesText } from "./data-files.ts";
import {
  BROWSER_ENTRY_POINTS,
  type BrowserResolver,
  findBrowserPackages,
  NODE_ENTRY_POINTS,
  openBrowserResolver,
} from "./entry-points.ts";
import { createImportPolicy, type ImportPolicyOptions, NAMESPACES } from "./import-policy.ts";
import { definePlaces, placeNames, placesText, TOOL_FOLDER } from "./package-places.ts";
import { PackageStore } from "./package-store.ts";
import { ToolFiles } from "./tool-files.ts";

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

interface Build {
  readonly request: BuildRequest;
  readonly script: Script | undefined;
  readonly ledger: BuildLedger;
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
function nameSuffix({ files, policy }: Build): string {
  const texts = [...policy.scanned].sort().map((path) => [path, files.texts.get(path)]);
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 16);
}

function parameterNames(build: Build): readonly [register: string, useBuiltin: string] {
  const suffix = nameSuffix(build);
  return [`__glovebox_register_${suffix}`, `__glovebox_builtin_${suffix}`];
}

/** Stands for `SharedArrayBuffer.prototype` in the bundle. */
const sharedPrototypeName = (build: Build): string => `__glovebox_shared_${nameSuffix(build)}`;

function contextNames(build: Build): ContextNames {
  const [, useBuiltin] = parameterNames(build);
  const suffix = nameSuffix(build);
  const source = `${useBuiltin}("node-async-hooks", ${JSON.stringify(ACTIVATION_EXPORT)})`;
  return { source, activationClass: `Activation_${suffix}`, activation: `$a${suffix.slice(0, 8)}` };
}

/** Our own file; a dependency like any other, so that an upgrade of Glovebox makes bundles anew. */
function readGuestModule(path: string, ledger: BuildLedger): ImportPolicyOptions["guestModule"] {
  const realPath = realPathOf(path) ?? path;
  const read = readContainedFile([dirname(realPath)], realPath, Number.POSITIVE_INFINITY);
  if (read.kind !== "file") throw new Error("Expected the module behind glovebox/tool next to the bundler");
  ledger.record("package", read.file);
  return { contents: read.file.contents, path };
}

function prepare(request: BuildRequest, script: Script | undefined): Build {
  const ledger = new BuildLedger(request.limits);
  const files = new ToolFiles(request.files, ledger);
  const store = new PackageStore(request.stores, request.linked, ledger);
  const outermost = request.stores.at(-1);
  const guestModule = readGuestModule(request.guestModule, ledger);
  return {
    request,
    script,
    ledger,
    files,
    store,
    context: { store, texts: files.texts, workingDirectory: outermost === undefined ? "/" : dirname(outermost) },
    policy: { request, files, store, guestModule, scanned: new Set(), placed: new Map() },
  };
}

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

async function run(build: Build, esbuild: RunEsbuild, options: Run): Promise<BuildResult | BuildFailure> {
  try {
    const result = await esbuild(optionsOf(build, options));
    const problems = problemsOf(result, build);
    return problems.length === 0 ? result : { ok: false, problems };
  } catch (error) {
    if (!isOutcome(error)) throw error;
    return { ok: false, problems: problemsOf(error, build) };
  }
}

function codeOutput(metafile: Metafile | undefined): Metafile["outputs"][string] {
  const output = Object.values(metafile?.outputs ?? {}).find((candidate) => candidate.entryPoint !== undefined);
  if (output === undefined) throw new Error("Expected one output of the bundler");
  return output;
}

function failure(problem: BuildFailure["problems"][number]): BuildFailure {
  return { ok: false, problems: [problem] };
}

/** Static imports cannot be left over; a `require` or `import()` that a package guards may be: it fails when it is reached. */
function findLeftover(metafile: Metafile | undefined): string | undefined {
  const { imports } = codeOutput(metafile);
  return imports.find((item) => item.external === true && item.kind === "import-statement")?.path;
}

/** Sources without an author: our stubs, and modules that are switched off. */
const OWN_SOURCES = [
  [`${NAMESPACES.entry}:`, "glovebox/entry"],
  [`${NAMESPACES.builtin}:`, "glovebox/builtin"],
  [`${NAMESPACES.empty}:`, "glovebox/empty"],
  [`${NAMESPACES.absent}:`, "glovebox/absent"],
  ["(disabled):", "glovebox/empty"],
] as const;

function namesFor(build: Build): OutputNames {
  const { store, context, files } = build;
  const printed = [...store.loaded].map((path) => {
    return [relative(context.workingDirectory, path), store.displayPath(path) ?? "package"] as const;
  });
  return {
    ofPrinted: new Map(printed),
    ofSource: (source) => {
      const name = displayFile(source, context);
      if (name !== undefined && /^\w+:/.test(source)) return name;
      const ours = OWN_SOURCES.find(([prefix]) => source.startsWith(prefix));
      if (ours !== undefined) return ours[1];
      const path = sourcePathOf(source);
      return store.loaded.has(path) ? store.displayPath(path) : undefined;
    },
    textOf: (name) => files.texts.get(name),
  };
}

function textOf(outputs: readonly OutputFile[] | undefined, extension: string): string {
  const output = outputs?.find((candidate) => candidate.path.endsWith(extension));
  if (output === undefined) throw new Error(`Expected an output that ends in ${extension}`);
  return output.text;
}

function summarize(build: Build, metafile: Metafile | undefined): Pick<BuildSuccess, "inputs" | "packages"> {
  const packages = new Set<string>();
  const inputs = Object.entries(codeOutput(metafile).inputs).flatMap(([file, { bytesInOutput }]) => {
    const path = displayFile(file, build.context);
    if (path === undefined) return [];
    const label = build.store.labelOf(resolve(build.context.workingDirectory, file));
    if (label !== undefined) packages.add(label);
    return [{ path, bytes: bytesInOutput }];
  });
  inputs.sort((a, b) => b.bytes - a.bytes || (a.path < b.path ? -1 : 1));
  return { inputs, packages: [...packages].sort() };
}

/** Paths of the package files of which something is in the output, with their sizes. */
function bundledFiles(
  build: Build,
  metafile: Metafile | undefined,
): readonly (readonly [path: string, bytes: number])[] {
  return Object.entries(codeOutput(metafile).inputs).flatMap(([input, { bytesInOutput }]) => {
    const path = resolve(build.context.workingDirectory, input);
    if (bytesInOutput === 0 || !build.store.loaded.has(path)) return [];
    return [[path, metafile?.inputs[input]?.bytes ?? 0] as const];
  });
}

/** The data files that the bundled packages read, held to the limit together with their code. */
function collectDataFiles(build: Build, metafile: Metafile | undefined): DataFiles {
  const bundled = bundledFiles(build, metafile);
  const data = new DataFiles(build.store);
  for (const [path] of bundled) {
    const text = build.policy.placed.get(path);
    if (text !== undefined) data.add(path, text);
  }
  build.ledger.checkBundled(bundled.reduce((sum, [, bytes]) => sum + bytes, data.bytes));
  return data;
}

/** What stands before the linked code, on its first line: the names that it uses and that no module declares. */
function preambleOf(build: Build, linked: string, data: DataFiles): string {
  const [, useBuiltin] = parameterNames(build);
  const shared = sharedPrototypeName(build);
  const places = placeNames(nameSuffix(build));
  return [
    linked.includes(shared) ? sharedPrototypeText(shared) : "",
    Object.values(places).some((name) => linked.includes(name))
      ? placesText(places, `${TOOL_FOLDER}/${build.request.entry}`)
      : "",
    data.files.length > 0
      ? `${useBuiltin}("node-fs", ${JSON.stringify(PACKAGE_FILES_EXPORT)})(${dataFilesText(data)});`
      : "",
  ].join("");
}

async function finish(build: Build, exports: readonly string[], result: BuildResult): Promise<BuildResponse> {
  const leftover = findLeftover(result.metafile);
  if (leftover !== undefined)
    return failure({ message: `Cannot import ${JSON.stringify(leftover)}: it is not bundled` });
  const names = namesFor(build);
  // Old CommonJS packages assign undeclared variables and use a global `this`.
  const inputs = Object.entries(result.metafile?.inputs ?? {});
  const isStrict = !inputs.some(([path, { format }]) => format === "cjs" && !path.startsWith(`${NAMESPACES.builtin}:`));
  const linked = textOf(result.outputFiles, ".js");
  const preamble = preambleOf(build, linked, collectDataFiles(build, result.metafile));
  const built = {
    code: wrapCode(linked, parameterNames(build), names, { isStrict, preamble }),
    sourceMap: finishSourceMap(textOf(result.outputFiles, ".map"), names),
  };
  const plain = build.script === undefined ? built : appendScript(built, build.script, build.request.entry);
  const { code, sourceMap } = needsContext(plain.code) ? await keepContext(plain, contextNames(build)) : plain;
  const { outputBytes } = build.request.limits;
  const size = Buffer.byteLength(code);
  if (size > outputBytes) {
    const message = `The bundle has ${size} bytes; the limit outputBytes is ${outputBytes} bytes`;
    return failure({
      message,
      hint: "import less of a package, or a smaller one; a host sets the limit in limits.bundleBytes and bundler.limits.outputBytes",
    });
  }
  return {
    ok: true,
    code,
    sourceMap,
    exports,
    ...summarize(build, result.metafile),
    dependencies: build.ledger.dependencies,
    absent: build.ledger.absent,
  };
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

async function linkTool(build: Build, esbuild: RunEsbuild): Promise<BuildResult | BuildFailure> {
  if (build.store.nearest === undefined) return await linkOnce(build, esbuild, "all");
  await using resolver = await openBrowserResolver(esbuild, optionsOf(build, { phase: "link", browser: "all" }));
  const first = await linkOnce(build, esbuild, { folders: new Set(), resolver });
  const link = "ok" in first ? first : await linkForBrowsers(build, esbuild, first, resolver);
  if (!("ok" in link)) return link;
  // A build for Node that cannot be bundled, such as one with native code.
  const other = await linkOnce(build, esbuild, "all");
  return "ok" in other ? link : other;
}

/** The text of a tool that is one source in memory. */
function onlyText({ request, script }: Build): string | undefined {
  if (request.files.kind !== "memory" || script !== undefined || request.cell !== undefined) return undefined;
  const texts = Object.values(request.files.files);
  return texts.length === 1 ? texts[0] : undefined;
}

function findScript(build: Build): BuildFailure["problems"][number] | undefined {
  const text = onlyText(build);
  return text === undefined ? undefined : findScriptProblem(text, build.request.entry);
}

/** Names the option that runs a script where a script could not be built as a module. */
function suggestScript(build: Build, failed: BuildFailure): BuildFailure {
  const text = onlyText(build);
  const [first, ...others] = failed.problems;
  const isSyntaxProblem = first?.line !== undefined && first.hint === undefined;
  if (text === undefined || first === undefined || !isSyntaxProblem || !isScript(text)) return failed;
  return { ok: false, problems: [{ ...first, hint: SCRIPT_HINT }, ...others] };
}

async function compile(build: Build, esbuild: RunEsbuild): Promise<BuildResponse> {
  const scan = await run(build, esbuild, { phase: "scan", browser: "all" });
  if ("ok" in scan) return suggestScript(build, scan);
  const problem = findScript(build);
  if (problem !== undefined) return failure(problem);
  // The scan's entry is the tool's own, so that esbuild tells its exports, `export *` and CommonJS included.
  const exports = codeOutput(scan.metafile).exports;
  if (!exports.includes("default")) {
    const text = onlyText(build);
    return failure({
      file: build.request.entry,
      line: 1,
      column: 1,
      message: `${build.request.entry} has no default export`,
      hint: `write export default defineTool({ … }), or export default a function${text !== undefined && text.trim() !== "" && isScript(text) ? `; or ${SCRIPT_HINT}` : ""}`,
    });
  }
  const link = await linkTool(build, esbuild);
  return "ok" in link ? link : await finish(build, exports, link);
}

/** The request as it is built: in a script's place stands a module that calls it. */
function withScript(request: BuildRequest): { readonly built: BuildRequest; readonly script: Script | undefined } {
  const { files, entry } = request;
  if (request.isScript !== true || files.kind !== "memory") return { built: request, script: undefined };
  const script = toScript(files.files[entry] ?? "", entry);
  return { built: { ...request, files: { kind: "memory", files: { [entry]: script.module } } }, script };
}

async function build(request: BuildRequest, esbuild: RunEsbuild): Promise<BuildResponse> {
  try {
    const { built, script } = withScript(request);
    const prepared = prepare(built, script);
    if (prepared.files.find(request.entry) !== request.entry) {
      return failure({ message: `Cannot find the entry ${JSON.stringify(request.entry)} among the tool's files` });
    }
    return await compile(prepared, esbuild);
  } catch (error) {
    if (error instanceof BuildProblemError) return failure(error.problem);
    throw error;
  }
}

/** Builds a tool, or a cell; what is wrong with its source comes back as problems, what is wrong with us is thrown. */
export async function compileTool(request: BuildRequest, esbuild: RunEsbuild): Promise<BuildResponse> {
  return request.cell === undefined
    ? await build(request, esbuild)
    : await compileCell(request, request.cell.language, (module) => build(module, esbuild), esbuild);
}
