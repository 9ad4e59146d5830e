// Runs one build inside the child process: scans the tool's own files, links them with their packages, and finishes the output.
import { dirname } from "node:path";
import type { BuildResult, Metafile } from "esbuild";
import { ACTIVATION_EXPORT, PACKAGE_FILES_EXPORT } from "../../sandbox/contract/node-builtins.ts";
import { compileCell } from "../cells/compile-cell.ts";
import { readContainedFile, realPathOf } from "../locate/contained-file.ts";
import { FileManifest } from "../locate/file-manifest.ts";
import { PackageStore } from "../locate/package-store.ts";
import { ToolFiles } from "../locate/tool-files.ts";
import { type ImportPolicyOptions, NAMESPACES } from "../policy/import-resolver.ts";
import { finishSourceMap, sharedPrototypeText, wrapCode } from "./bundle-output.ts";
import { type BuildFailure, BuildIssueError, type BuildRequest, type BuildResponse } from "./child/build-messages.ts";
import { TextFacts } from "./child/text-facts.ts";
import {
  appendScript,
  findScriptProblem,
  isScript,
  SCRIPT_FILE_HINT,
  SCRIPT_HINT,
  type Script,
  toScript,
} from "./compile-script.ts";
import { codeOutput, dynamicCodeOf, namesFor, sourceOf, summarize } from "./describe-build.ts";
import {
  type Build,
  linkTool,
  nameSuffix,
  parameterNames,
  type RunEsbuild,
  run,
  sharedPrototypeName,
  textOf,
} from "./link-tool.ts";
import { collectDataFiles } from "./located-files/collect-data-files.ts";
import { type DataFiles, dataFilesText } from "./located-files/data-files.ts";
import { locationNames, locationsText, TOOL_FOLDER } from "./located-files/module-location.ts";
import { type ContextNames, keepContext, needsContext } from "./transforms/await-context.ts";
import { nameClasses, setClassNameText } from "./transforms/class-names.ts";
import { importDefaultsAsNode } from "./transforms/default-imports.ts";
import { UnresolvedImports } from "./transforms/unresolved-imports.ts";

function contextNames(build: Build): ContextNames {
  const [, useBuiltin] = parameterNames(build);
  const suffix = nameSuffix(build);
  const source = `${useBuiltin}("node-async-hooks", ${JSON.stringify(ACTIVATION_EXPORT)})`;
  return { source, activationClass: `Activation_${suffix}`, activation: `$a${suffix.slice(0, 8)}` };
}

/** Reads the file behind `glovebox/tool`. It is recorded as a dependency, so that an upgrade of Glovebox rebuilds bundles. */
function readGuestModule(path: string, fileManifest: FileManifest): ImportPolicyOptions["guestModule"] {
  const realPath = realPathOf(path) ?? path;
  const read = readContainedFile([dirname(realPath)], realPath, Number.POSITIVE_INFINITY);
  if (read.kind !== "file") throw new Error("Expected the module behind glovebox/tool next to the bundler");
  fileManifest.record("package", read.file);
  return { contents: read.file.contents, path };
}

function prepare(request: BuildRequest, script: Script | undefined, facts: TextFacts): Build {
  const fileManifest = new FileManifest(request.limits);
  const files = new ToolFiles(request.files, fileManifest);
  const store = new PackageStore(request.stores, request.linked, fileManifest);
  const outermost = request.stores.at(-1);
  const guestModule = readGuestModule(request.guestModule, fileManifest);
  return {
    request,
    script,
    fileManifest,
    files,
    store,
    context: { store, texts: files.texts, workingDirectory: outermost === undefined ? "/" : dirname(outermost) },
    policy: {
      request,
      files,
      store,
      guestModule,
      scanned: new Set(),
      locatedTexts: new Map(),
      unresolved: new UnresolvedImports(),
      facts,
    },
  };
}

function failure(issue: BuildFailure["problems"][number]): BuildFailure {
  return { ok: false, problems: [issue] };
}

/** Returns a static import that was not bundled. A `require` or `import()` may stay external: it fails when it is reached. */
function findLeftover(metafile: Metafile | undefined): string | undefined {
  const { imports } = codeOutput(metafile);
  return imports.find((item) => item.external === true && item.kind === "import-statement")?.path;
}

/** Matches esbuild's function for a `require` that it cannot resolve, because the call is indirect or its argument is not constant. */
const DYNAMIC_REQUIRE = /^var __require\d* = /m;

/**
 * Declares the `require` that esbuild's function calls if there is one. It loads built-ins by name, and has the members of Node's. It is created
 * when it is used.
 */
const requireText = (useBuiltin: string, entry: string): string => {
  const create = `${useBuiltin}("node-os","module").createRequire(${JSON.stringify(`${TOOL_FOLDER}/${entry}`)})`;
  return `var require=((make,made)=>new Proxy(()=>{},{apply:(_f,_t,[id])=>(made??=make())(id),get:(_f,key)=>(made??=make())[key]}))(()=>${create});`;
};

const classNameSetter = (build: Build): string => `__glovebox_class_${nameSuffix(build)}`;

/** Returns the first line of the bundle: declarations of the generated names that the linked code uses. */
function preambleOf(build: Build, linked: string, data: DataFiles): string {
  const [, useBuiltin] = parameterNames(build);
  const shared = sharedPrototypeName(build);
  const setClassName = classNameSetter(build);
  const locations = locationNames(nameSuffix(build));
  return [
    linked.includes(shared) ? sharedPrototypeText(shared) : "",
    linked.includes(setClassName) ? setClassNameText(setClassName) : "",
    DYNAMIC_REQUIRE.test(linked) ? requireText(useBuiltin, build.request.entry) : "",
    Object.values(locations).some((name) => linked.includes(name))
      ? locationsText(locations, `${TOOL_FOLDER}/${build.request.entry}`)
      : "",
    data.files.length > 0
      ? `${useBuiltin}("node-fs", ${JSON.stringify(PACKAGE_FILES_EXPORT)})(${dataFilesText(data)});`
      : "",
  ].join("");
}

async function finish(
  build: Build,
  exports: readonly string[],
  result: BuildResult,
  esbuild: RunEsbuild,
): Promise<BuildResponse> {
  const leftover = findLeftover(result.metafile);
  if (leftover !== undefined)
    return failure({ message: `Cannot import ${JSON.stringify(leftover)}: it is not bundled` });
  const names = namesFor(build);
  // Old CommonJS packages assign undeclared variables and use a global `this`, so they need sloppy mode.
  const inputs = Object.entries(result.metafile?.inputs ?? {});
  const isStrict = !inputs.some(([path, { format }]) => format === "cjs" && !path.startsWith(`${NAMESPACES.builtin}:`));
  const output = importDefaultsAsNode({
    code: textOf(result.outputFiles, ".js"),
    sourceMap: textOf(result.outputFiles, ".map"),
  });
  const linked = nameClasses(output.code, (module) => sourceOf(build, module), classNameSetter(build));
  const preamble = preambleOf(build, linked, await collectDataFiles(build, result.metafile, esbuild));
  const built = {
    code: wrapCode(linked, parameterNames(build), names, { isStrict, preamble }),
    sourceMap: finishSourceMap(output.sourceMap, names),
  };
  const plain = build.script === undefined ? built : appendScript(built, build.script, build.request.entry);
  const { code, sourceMap } = needsContext(plain.code) ? await keepContext(plain, contextNames(build)) : plain;
  const { outputBytes } = build.request.limits;
  const size = Buffer.byteLength(code);
  if (size > outputBytes) {
    const message = `The bundle has ${size} bytes; the limit bundleBytes (bundler.limits.outputBytes) is ${outputBytes} bytes`;
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
    dynamicCode: dynamicCodeOf(build, linked, result.metafile),
    dependencies: build.fileManifest.dependencies,
    absent: build.fileManifest.absent,
  };
}

/** Returns the text of a tool whose author may say that it is a script: one text, without files. */
function onlyText({ request, script }: Build): string | undefined {
  const { files, entry, maySetMode = false, cell } = request;
  if (!maySetMode || files.kind !== "memory" || script !== undefined || cell !== undefined) return undefined;
  return files.files[entry];
}

function findScript(build: Build, metafile: Metafile | undefined): BuildFailure["problems"][number] | undefined {
  const text = onlyText(build);
  const isCommonJs = metafile?.inputs[`${NAMESPACES.tool}:${build.request.entry}`]?.format === "cjs";
  return text === undefined ? undefined : findScriptProblem(text, build.request.entry, isCommonJs);
}

/** Adds the hint about `mode: "script"` where a script could not be built as a module. */
function suggestScript(build: Build, failed: BuildFailure): BuildFailure {
  const [first, ...others] = failed.problems;
  const isSyntaxProblem = first?.line !== undefined && first.hint === undefined;
  const { request, script, files } = build;
  if (first === undefined || !isSyntaxProblem || script !== undefined || request.cell !== undefined) return failed;
  const only = onlyText(build);
  const text = only ?? (request.maySetMode === true ? undefined : files.texts.get(first.file ?? ""));
  if (text === undefined || !isScript(text)) return failed;
  return { ok: false, problems: [{ ...first, hint: only === undefined ? SCRIPT_FILE_HINT : SCRIPT_HINT }, ...others] };
}

async function compile(build: Build, esbuild: RunEsbuild): Promise<BuildResponse> {
  const scan = await run(build, esbuild, { phase: "scan", builds: "browser" });
  if ("ok" in scan) return suggestScript(build, scan);
  const issue = findScript(build, scan.metafile);
  if (issue !== undefined) return failure(issue);
  // The scan starts at the tool's own entry, so esbuild reports its exports, including those of `export *` and CommonJS.
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
  return "ok" in link ? link : await finish(build, exports, link, esbuild);
}

/** Returns the request to build. A script is replaced by a module that calls it. */
function withScript(request: BuildRequest): { readonly built: BuildRequest; readonly script: Script | undefined } {
  const { files, entry } = request;
  if (request.isScript !== true || files.kind !== "memory") return { built: request, script: undefined };
  const script = toScript(files.files[entry] ?? "", entry);
  return { built: { ...request, files: { kind: "memory", files: { [entry]: script.module } } }, script };
}

export async function build(request: BuildRequest, esbuild: RunEsbuild, facts: TextFacts): Promise<BuildResponse> {
  try {
    const { built, script } = withScript(request);
    const prepared = prepare(built, script, facts);
    if (prepared.files.find(request.entry) !== request.entry) {
      return failure({ message: `Cannot find the entry ${JSON.stringify(request.entry)} among the tool's files` });
    }
    return await compile(prepared, esbuild);
  } catch (error) {
    if (error instanceof BuildIssueError) return failure(error.issue);
    throw error;
  }
}

/**
 * Builds a tool or a cell. Problems in the source are returned, internal errors are thrown.
 * @param facts what earlier builds of the same owner found out
 */
export async function compileTool(
  request: BuildRequest,
  esbuild: RunEsbuild,
  facts: TextFacts = new TextFacts(),
): Promise<BuildResponse> {
  if (request.cell === undefined) return await build(request, esbuild, facts);
  const { language } = request.cell;
  return await compileCell(request, { language, esbuild, facts, build: (module) => build(module, esbuild, facts) });
}
