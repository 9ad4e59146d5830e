// Compiles a cell to a bundle. A cell that imports nothing only needs the wrapper. Other cells go through the same two passes as a tool.
// Locations and quoted lines are mapped back to the cell's own text.
import { createHash } from "node:crypto";
import { decodedMappings, encodedMappings, type SourceMapSegment, TraceMap } from "@jridgewell/trace-mapping";
import { SCRIPT_ORIGIN } from "../../sandbox/protocol/guest-messages.ts";
import { wrapCell } from "../compile/bundle-output.ts";
import {
  type BuildIssue,
  BuildIssueError,
  type BuildRequest,
  type BuildResponse,
} from "../compile/child/build-messages.ts";
import type { TextFacts } from "../compile/child/text-facts.ts";
import type { RunEsbuild } from "../compile/link-tool.ts";
import { findDynamicCode } from "../policy/dynamic-code-uses.ts";
import type { CellLanguage } from "../tool-bundle.ts";
import { type CellModule, toCellModule } from "./cell.ts";
import { lowerCell } from "./lower-cell.ts";
import { CellSyntaxError } from "./parse-cell.ts";

type MapInput = ConstructorParameters<typeof TraceMap>[0] & object;

interface SourceMap {
  readonly sources: readonly string[];
  readonly sourcesContent: readonly (string | null)[];
}

/** Maps the locations of the module to the cell. Generated text gets no location. */
function toCellSourceMap(
  map: SourceMap,
  mappings: readonly (readonly SourceMapSegment[])[],
  file: string,
  source: string,
  module: CellModule,
): string {
  const index = map.sources.indexOf(file);
  const own = mappings.map((segments) =>
    segments.map((segment): SourceMapSegment => {
      if (segment.length === 1 || segment[1] !== index) return [...segment] as SourceMapSegment;
      const [at, from, line, column] = segment;
      const location = module.toCellLocation({ line, column });
      return location === undefined ? [at] : [at, from, location.line, location.column];
    }),
  );
  const sourcesContent = map.sourcesContent.map((content, at) => (at === index ? source : content));
  const whole = new TraceMap({ ...map, mappings: own } as unknown as MapInput);
  return JSON.stringify({ ...map, version: 3, names: [], sourcesContent, mappings: encodedMappings(whole) });
}

/** Maps each word separately: a location between two words is nearest to the first. */
function wordMappings(code: string, moduleLines: number): SourceMapSegment[][] {
  // The wrapper adds one line before the module's first.
  const lines = code.split("\n").slice(1, 1 + moduleLines);
  const segments = lines.map((text, line) =>
    [...text.matchAll(/[\w$]+|[^\s\w$]/g)].map(({ index }): SourceMapSegment => [index, 0, line, index]),
  );
  return [[], ...segments];
}

function toCellIssue(issue: BuildIssue, file: string, source: string, { toCellLocation }: CellModule): BuildIssue {
  const { line, column = 1, lineText: _, ...rest } = issue;
  if (issue.file !== file || line === undefined) return issue;
  const own = toCellLocation({ line: line - 1, column: column - 1 });
  if (own === undefined) return rest;
  return { ...rest, line: own.line + 1, column: own.column + 1, lineText: source.split("\n")[own.line] };
}

/** Type stripping does not report where it failed, so the location comes from a regular build of the same text. */
async function addLocation(unlocated: BuildIssue, building: Promise<BuildResponse>): Promise<readonly BuildIssue[]> {
  const built = await building;
  return !built.ok && built.problems.some(({ line }) => line !== undefined) ? built.problems : [unlocated];
}

/** Names the script after the cell, so that the frames of a session's stack show which cell they belong to. */
const addSourceName = (code: string, entry: string): string => `${code}\n//# sourceURL=${SCRIPT_ORIGIN}${entry}`;

function finishSelfContained(
  { entry, limits }: BuildRequest,
  source: string,
  module: CellModule,
  facts: TextFacts,
): BuildResponse {
  const suffix = createHash("sha256").update(source).digest("hex").slice(0, 16);
  const code = addSourceName(wrapCell(module.text, suffix), entry);
  const bytes = Buffer.byteLength(code);
  if (bytes > limits.outputBytes) {
    const message = `The bundle of the cell has ${bytes} bytes; the limit bundleBytes (bundler.limits.outputBytes) is ${limits.outputBytes} bytes`;
    return { ok: false, problems: [{ message }] };
  }
  const map = { sources: [entry], sourcesContent: [source] };
  return {
    ok: true,
    code,
    sourceMap: toCellSourceMap(map, wordMappings(code, module.text.split("\n").length), entry, source, module),
    exports: ["default"],
    inputs: [{ path: entry, bytes }],
    packages: [],
    dynamicCode: findDynamicCode([{ label: entry, text: module.text }], facts),
    dependencies: [],
    absent: [],
  };
}

async function readCell(
  source: string,
  entry: string,
  language: CellLanguage,
  esbuild: RunEsbuild,
): Promise<CellModule> {
  try {
    return await toCellModule(source, entry, language);
  } catch (thrown) {
    if (thrown instanceof CellSyntaxError) return await lowerCell(source, entry, language, esbuild);
    throw thrown;
  }
}

/** What the build of a cell uses. */
interface CellBuild {
  readonly language: CellLanguage;
  readonly esbuild: RunEsbuild;
  readonly facts: TextFacts;
  /** Builds a tool. */
  readonly build: (request: BuildRequest) => Promise<BuildResponse>;
}

export async function compileCell(
  request: BuildRequest,
  { language, esbuild, facts, build }: CellBuild,
): Promise<BuildResponse> {
  const { entry, files, limits } = request;
  const source = files.kind === "memory" ? (files.files[entry] ?? "") : "";
  try {
    if (Buffer.byteLength(source) > limits.sourceBytes) {
      const message = `The cell has ${Buffer.byteLength(source)} bytes; the limit sourceBytes is ${limits.sourceBytes} bytes`;
      return { ok: false, problems: [{ message }] };
    }
    const module = await readCell(source, entry, language, esbuild);
    if (module.isSelfContained) return finishSelfContained(request, source, module, facts);
    // Generated text does not count against the limit.
    const raisedLimits = { ...limits, sourceBytes: limits.sourceBytes + module.text.length - source.length };
    const built = await build({
      ...request,
      limits: raisedLimits,
      files: { kind: "memory", files: { [entry]: module.text } },
    });
    if (!built.ok) return { ok: false, problems: built.problems.map((one) => toCellIssue(one, entry, source, module)) };
    const map = JSON.parse(built.sourceMap) as SourceMap;
    const mappings = decodedMappings(new TraceMap(map as unknown as MapInput));
    return {
      ...built,
      code: addSourceName(built.code, entry),
      sourceMap: toCellSourceMap(map, mappings, entry, source, module),
    };
  } catch (error) {
    if (!(error instanceof BuildIssueError)) throw error;
    const { issue } = error;
    if (issue.line !== undefined || language !== "typescript") return { ok: false, problems: [issue] };
    const text = /\bexport\s+default\b/.test(source) ? source : `${source}\nexport default null;`;
    const building = build({ ...request, files: { kind: "memory", files: { [entry]: text } } });
    return { ok: false, problems: await addLocation(issue, building) };
  }
}
