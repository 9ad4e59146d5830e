// Reads the source map of an uploaded bundle, and applies it to the server's own: places in logs and errors are then those of the author's
// files. A map is untrusted: its size is limited, and its paths stay below the tool's root.
import { decodedMappings, encodedMappings, originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import * as z from "zod";
import { issueMessage } from "../../host/config/issue-message.ts";
import { ToolError } from "../../host/index.ts";

/** Longest JSON text of a map. The authors' files are in it, and the packages' are not. */
export const MAX_SOURCE_MAP_LENGTH: number = 4 * 1024 * 1024;
const MAX_SOURCES = 5_000;
/** zod describes each name that is invalid, which takes long for very many. */
const MAX_NAMES = 50_000;
/** Decoding takes some 100 bytes for each mapping. */
const MAX_MAPPINGS = 500_000;
const MAX_POSITION = 10_000_000;
/** Longest message about a map, which can have very many unknown keys. */
const MAX_MESSAGE_LENGTH = 400;

const hasControl = (path: string): boolean => /[\p{Cc}\u2028\u2029]/u.test(path);

/** Returns whether a path stays below the tool's root, on every system. */
const isBelowRoot = (path: string): boolean =>
  !hasControl(path) && !/^[A-Za-z]:|\\|^\/|:\/\//.test(path) && !path.split("/").includes("..");

const SourceMapSchema = z
  .strictObject({
    version: z.literal(3),
    sources: z
      .array(z.string().min(1).max(512).refine(isBelowRoot, { error: "Expected a path below the tool's root" }))
      .max(MAX_SOURCES),
    /** The texts of the author's files; null for a file of a package. */
    sourcesContent: z.array(z.string().nullable()).max(MAX_SOURCES),
    mappings: z.string().regex(/^[A-Za-z0-9+/,;]*$/, { error: "Expected mappings in base64 VLQ" }),
    names: z.array(z.string().max(512)).max(MAX_NAMES).optional(),
    file: z.string().optional(),
    sourceRoot: z.literal("").optional(),
  })
  .refine(({ sources, sourcesContent }) => sources.length === sourcesContent.length, {
    error: "Expected one text for each source",
  })
  .refine(({ mappings }) => (mappings.match(/[,;]/g)?.length ?? 0) < MAX_MAPPINGS, {
    error: `Expected at most ${MAX_MAPPINGS} mappings`,
  });
export type UploadedSourceMap = z.infer<typeof SourceMapSchema>;

/** @throws {ToolError} PARAM_INVALID, which names what is wrong */
export function parseUploadedSourceMap(json: string): UploadedSourceMap {
  const fail = (why: string): ToolError => new ToolError("PARAM_INVALID", `sourceMap: ${why}`);
  if (json.length > MAX_SOURCE_MAP_LENGTH) throw fail(`Expected at most ${MAX_SOURCE_MAP_LENGTH} characters`);
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw fail("Expected a source map as JSON");
  }
  const { data, error } = SourceMapSchema.safeParse(value);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  const where = (issue?.path ?? []).map((part) => `/${String(part)}`).join("");
  throw fail(`${where} ${issue === undefined ? "" : issueMessage(issue)}`.trim().slice(0, MAX_MESSAGE_LENGTH));
}

/** Returns the author's files by path, as a map contains them. */
export function originalsOf({ sources, sourcesContent }: UploadedSourceMap): { readonly [path: string]: string } {
  const own = sources.flatMap((path, index): readonly [string, string][] => {
    const text = sourcesContent[index];
    return typeof text === "string" ? [[path, text]] : [];
  });
  return Object.fromEntries(own);
}

/** Location in a file of an error's details, all from 1. */
interface Location {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

const isLocation = (value: unknown): value is Location => {
  const { file, line, column } = (value ?? {}) as Partial<Location>;
  return typeof file === "string" && typeof line === "number" && typeof column === "number";
};

const isPosition = (value: number): boolean => value >= 0 && value < MAX_POSITION;

/** Returns the author's location; undefined if the map has none, or mappings that cannot be decoded. */
function originalLocationOf(map: TraceMap, { line, column }: Location): Location | undefined {
  try {
    const found = originalPositionFor(map, { line, column: column - 1 });
    if (typeof found.source !== "string" || !isPosition(found.line - 1) || !isPosition(found.column)) return undefined;
    return { file: found.source, line: found.line, column: found.column + 1 };
  } catch {
    return undefined;
  }
}

/**
 * Returns an error about an upload with the locations in the author's files in place of those in the upload. What the map does not have stays
 * as it is.
 */
export function toOriginalError(error: ToolError, { sources, sourcesContent, mappings }: UploadedSourceMap): ToolError {
  const map = new TraceMap({ version: 3, names: [], sources, sourcesContent, mappings });
  const toOriginal = <Value>(value: Value): Value => {
    if (!isLocation(value) || value.line < 1 || value.column < 1) return value;
    const found = originalLocationOf(map, value);
    return found === undefined ? value : { ...value, ...found };
  };
  const { message, details = {}, guestStack, cause } = error;
  const located = toOriginal({ ...details });
  const problems = Array.isArray(details.problems) ? { problems: details.problems.map(toOriginal) } : {};
  const textOf = (value: unknown): string => (isLocation(value) ? `${value.file}:${value.line}:${value.column}: ` : "");
  const [before, after] = [textOf(details), textOf(located)];
  const text = before !== "" && message.startsWith(before) ? `${after}${message.slice(before.length)}` : message;
  return new ToolError(error.code, text, {
    details: { ...located, ...problems },
    cause,
    ...(guestStack === undefined ? {} : { guestStack }),
  });
}

type Segment = [number] | [number, number, number, number];

/**
 * Replaces the uploaded file in the map of the server's bundle by the files that it was made from.
 * @param bundleMap the map as JSON text, in which the upload is the only file with a text
 * @throws {ToolError} PARAM_INVALID for mappings that cannot be decoded
 */
export function applySourceMap(bundleMap: string, uploaded: UploadedSourceMap): string {
  const outer = new TraceMap(bundleMap);
  const upload = (outer.sourcesContent ?? []).findIndex((text) => typeof text === "string");
  if (upload < 0) return bundleMap;
  const offset = outer.sources.length;
  try {
    const { sources, sourcesContent, mappings: encoded } = uploaded;
    const inner = new TraceMap({ version: 3, names: [], sources, sourcesContent, mappings: encoded });
    const indexOf = new Map(uploaded.sources.map((source, index) => [source, offset + index]));
    const toSegment = (segment: readonly number[]): Segment => {
      const [at = 0, source, line = 0, column = 0] = segment;
      if (source === undefined) return [at];
      if (source !== upload) return [at, source, line, column];
      const found = originalPositionFor(inner, { line: line + 1, column });
      const index = found.source === null ? undefined : indexOf.get(found.source);
      // A part that the author's bundler has added.
      if (index === undefined || found.line === null) return [at];
      return isPosition(found.line - 1) && isPosition(found.column) ? [at, index, found.line - 1, found.column] : [at];
    };
    const mappings = decodedMappings(outer).map((segments) => segments.map(toSegment));
    // The upload itself is not a file of the author.
    const keep = <Value>(values: readonly Value[], empty: Value): Value[] =>
      values.map((value, index) => (index === upload ? empty : value));
    const merged = {
      version: 3 as const,
      names: [],
      sources: [...keep(outer.sources, "glovebox/upload.js"), ...uploaded.sources],
      sourcesContent: [...keep(outer.sourcesContent ?? [], null), ...uploaded.sourcesContent],
    };
    return JSON.stringify({ ...merged, mappings: encodedMappings(new TraceMap({ ...merged, mappings })) });
  } catch {
    throw new ToolError("PARAM_INVALID", "sourceMap: /mappings Expected mappings in base64 VLQ");
  }
}
