// Maps V8 stack traces to the author's files and lines. A stack comes from the guest and is untrusted: its length is limited, and only
// frames of Glovebox scripts are used.
import { decodedMappings, originalPositionFor, sourceContentFor, TraceMap } from "@jridgewell/trace-mapping";
import { SCRIPT_ORIGIN, TOOL_SCRIPT_NAME } from "../../sandbox/protocol/guest-messages.ts";
import { CELL_MAIN } from "../cells/cell.ts";

export interface StackFrame {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly functionName?: string;
  /** True for a frame without a function name that follows an await. With a function name V8 includes "async" in the name. */
  readonly isAsync?: true;
  /** True for a frame in a file of the tool itself, not of a package. */
  readonly isOwn?: true;
}

export interface MappedStack {
  /** The header, followed by one line per frame: `at name (file:line:column)`. */
  readonly stack: string;
  readonly frames: readonly StackFrame[];
}

export interface StackMapper {
  mapStack(stack: string): MappedStack;
  /** Maps the stack frames in a text that has other lines too, such as a log entry. Other lines are kept. */
  mapText(text: string): string;
  /** Maps `script:line:column` in the isolate to `file:line:column` in the source. Returns `undefined` for generated code. */
  mapLocation(location: string): string | undefined;
  /** Returns the source line of a frame with a marker below the column, or `undefined` if the map does not contain its text. */
  codeFrameOf(frame: StackFrame): string | undefined;
  /** Returns the text of a frame's file, or `undefined` if the map does not contain it. */
  textOf?(frame: StackFrame): string | undefined;
}

/** Maximum length of a stack that is parsed. V8's own stacks have ten frames, a guest's may have millions. */
const MAX_STACK_LENGTH = 64 * 1024;
const MAX_HEADER_LENGTH = 4_096;
const MAX_FRAMES = 50;
const MAX_NAME_LENGTH = 120;
const MAX_CODE_LENGTH = 120;
const TOOL_SCRIPT = TOOL_SCRIPT_NAME.slice(SCRIPT_ORIGIN.length);
const FRAME_LINE = /^\s{1,20}at /;
const LOCATION = /^([\w.-]{1,40}):(\d{1,9}):(\d{1,9})$/;
const CONTROL = /[\p{Cc}\u2028\u2029]/gu;

interface RawFrame {
  readonly functionName: string | undefined;
  readonly isAsync: boolean;
  /** Script name without the origin. */
  readonly script: string;
  readonly line: number;
  readonly column: number;
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** Parses `    at name (location)` or `    at location`. Only locations in Glovebox scripts are accepted. */
function parseFrame(text: string): RawFrame | undefined {
  const rest = text.trim().slice("at ".length);
  const open = rest.endsWith(")") ? rest.lastIndexOf(" (") : -1;
  const isAsync = open < 0 && rest.startsWith("async ");
  const location = open < 0 ? rest.slice(isAsync ? "async ".length : 0) : rest.slice(open + 2, -1);
  const at = location.startsWith(SCRIPT_ORIGIN) ? parseLocation(location.slice(SCRIPT_ORIGIN.length)) : undefined;
  if (at === undefined) return undefined;
  const name = open < 0 ? undefined : cut(rest.slice(0, open).replace(CONTROL, " "), MAX_NAME_LENGTH);
  // A cell's own statements are in a generated function.
  const isCell = name === CELL_MAIN || name === `async ${CELL_MAIN}`;
  return {
    ...at,
    ...(isCell ? { functionName: undefined, isAsync: name !== CELL_MAIN } : { functionName: name, isAsync }),
  };
}

function parseLocation(location: string): Pick<RawFrame, "script" | "line" | "column"> | undefined {
  const [, script, line, column] = LOCATION.exec(location) ?? [];
  if (script === undefined || line === undefined || column === undefined) return undefined;
  return { script, line: Number(line), column: Number(column) };
}

/** Returns the path of a package file as its author knows it, such as `zod/v4/core/parse.js`, wherever the package is installed. */
const fileOf = (source: string, isOwn: boolean): string => (isOwn ? source : source.replace(/^.*node_modules\//, ""));

/**
 * Restores the original function name. esbuild names an anonymous default export after its file, and renames on collisions (`_Foo`,
 * `inner2`). A name that does not occur in its file is one of those.
 */
function nameOf(functionName: string, file: string, text: string | null): string {
  const stem = file
    .replace(/^.*\//, "")
    .replace(/\.[^.]+$/, "")
    .replace(/\W+/g, "_");
  return functionName.replace(/[\w$]+/g, (word) => {
    if (word.replace(/\d+$/, "") === `${stem}_default`) return "default";
    if (text === null || text.includes(word)) return word;
    const original = word.replace(/^_+/, "").replace(/\d+$/, "");
    return original !== "" && text.includes(original) ? original : word;
  });
}

function parseMap(json: string): TraceMap | undefined {
  try {
    return new TraceMap(json);
  } catch {
    return undefined;
  }
}

/** Returns no frame for esbuild's helpers, which have no source, and for modules of Glovebox. */
function locate(
  map: TraceMap,
  { line, column, functionName, isAsync }: Omit<RawFrame, "script">,
): StackFrame | undefined {
  if (line < 1 || column < 1) return undefined;
  const at = originalPositionFor(map, { line, column: column - 1 });
  if (at.source === null || at.source === "" || at.source.startsWith("glovebox/")) return undefined;
  const text = sourceContentFor(map, at.source);
  const isOwn = text !== null;
  const file = fileOf(at.source, isOwn);
  return {
    file,
    line: at.line,
    column: at.column + 1,
    ...(functionName === undefined ? {} : { functionName: nameOf(functionName, file, text) }),
    ...(isAsync ? { isAsync } : {}),
    ...(isOwn ? { isOwn } : {}),
  };
}

function describe({ file, line, column, functionName, isAsync }: StackFrame): string {
  const location = `${file}:${line}:${column}`;
  if (functionName !== undefined) return `    at ${functionName} (${location})`;
  return `    at ${isAsync ? "async " : ""}${location}`;
}

/** A source map that is parsed when first used: a map of some MB takes some ms to parse, and most calls do not fail. */
export class ScriptMap {
  readonly #json: string;
  #map: TraceMap | undefined;
  #isParsed = false;

  constructor(json: string) {
    this.#json = json;
  }

  /** Length of the text in UTF-16 code units. */
  get length(): number {
    return this.#json.length;
  }

  get map(): TraceMap | undefined {
    if (!this.#isParsed) this.#map = parseMap(this.#json);
    this.#isParsed = true;
    return this.#map;
  }
}

class ScriptsMapper implements StackMapper {
  readonly #scripts: ReadonlyMap<string, ScriptMap>;

  constructor(scripts: ReadonlyMap<string, ScriptMap>) {
    this.#scripts = scripts;
  }

  mapStack(stack: string): MappedStack {
    const lines = stack.slice(0, MAX_STACK_LENGTH).split("\n");
    const firstFrame = lines.findIndex((line) => FRAME_LINE.test(line));
    const header = lines.slice(0, firstFrame < 0 ? lines.length : firstFrame).join("\n");
    const frames: StackFrame[] = [];
    for (const line of firstFrame < 0 ? [] : lines.slice(firstFrame)) {
      if (frames.length === MAX_FRAMES) break;
      const raw = FRAME_LINE.test(line) ? parseFrame(line) : undefined;
      const frame = raw === undefined ? undefined : this.#locate(raw);
      if (frame !== undefined) frames.push(frame);
    }
    return { stack: [cut(header, MAX_HEADER_LENGTH), ...frames.map(describe)].join("\n"), frames };
  }

  mapText(text: string): string {
    if (!text.includes(SCRIPT_ORIGIN)) return text;
    let left = MAX_FRAMES;
    return text
      .split("\n")
      .flatMap((line) => {
        if (!FRAME_LINE.test(line) || !line.includes(SCRIPT_ORIGIN)) return line;
        left -= 1;
        const raw = left < 0 ? undefined : parseFrame(line);
        const frame = raw === undefined ? undefined : this.#locate(raw);
        return frame === undefined ? [] : describe(frame);
      })
      .join("\n");
  }

  mapLocation(location: string): string | undefined {
    const at = parseLocation(location);
    const frame = at && this.#locate({ ...at, functionName: undefined, isAsync: false });
    return frame === undefined ? undefined : `${frame.file}:${frame.line}:${frame.column}`;
  }

  codeFrameOf(frame: StackFrame): string | undefined {
    const text = this.textOf(frame);
    return text === undefined ? undefined : codeFrame({ ...frame, text });
  }

  textOf({ file }: StackFrame): string | undefined {
    // The script of a cell is named after its file.
    const map = (this.#scripts.get(file) ?? this.#scripts.get(TOOL_SCRIPT))?.map;
    return (map === undefined ? undefined : sourceContentFor(map, file)) ?? undefined;
  }

  #locate(raw: RawFrame): StackFrame | undefined {
    const map = this.#scripts.get(raw.script)?.map;
    return map === undefined ? undefined : locate(map, raw);
  }
}

export function createStackMapper(sourceMapJson: string): StackMapper {
  return createScriptsMapper(new Map([[TOOL_SCRIPT, new ScriptMap(sourceMapJson)]]));
}

/** @param scripts source maps by script name without the origin; read at each mapping, so entries may be added later */
export function createScriptsMapper(scripts: ReadonlyMap<string, ScriptMap>): StackMapper {
  return new ScriptsMapper(scripts);
}

/** Returns the first line of the bundle, counted from 0, that comes from a file of the tool. Returns undefined if there is none. */
export function firstOwnLine(sourceMapJson: string): number | undefined {
  const map = parseMap(sourceMapJson);
  if (map === undefined) return undefined;
  const isOwn = map.sources.map((source) => source !== null && sourceContentFor(map, source) !== null);
  const line = decodedMappings(map).findIndex((segments) =>
    segments.some((segment) => segment.length > 1 && isOwn[segment[1] as number] === true),
  );
  return line < 0 ? undefined : line;
}

/** Returns the part of a long line that contains the column, and the column in that part. */
function excerpt(line: string, column: number): { text: string; column: number } {
  if (line.length <= MAX_CODE_LENGTH) return { text: line, column };
  const start = Math.max(0, Math.min(column - 1 - MAX_CODE_LENGTH / 2, line.length - MAX_CODE_LENGTH));
  return { text: line.slice(start, start + MAX_CODE_LENGTH), column: column - start };
}

/**
 * Returns the line of `text` and the one before it, with a marker below the column. Returns `undefined` if there is no such line.
 *
 * @example
 * ```text
 *   4 | const sum = a + b;
 * > 5 | throw new Error("no");
 *     |       ^
 * ```
 */
export function codeFrame(location: {
  readonly line: number;
  readonly column: number;
  readonly text: string;
}): string | undefined {
  const lines = location.text.split(/\r\n|[\n\r\u2028\u2029]/, location.line);
  const line = lines[location.line - 1];
  if (line === undefined) return undefined;
  const shown = excerpt(line, Math.max(1, Math.min(location.column, line.length + 1)));
  const width = String(location.line).length;
  const before = lines[location.line - 2];
  // The indentation repeats the tabs of the line, so that the marker aligns with the column at any tab width.
  const indent = shown.text.slice(0, shown.column - 1).replace(/[^\t]/g, " ");
  return [
    ...(before === undefined ? [] : [`  ${String(location.line - 1).padStart(width)} | ${excerpt(before, 1).text}`]),
    `> ${location.line} | ${shown.text}`,
    `  ${" ".repeat(width)} | ${indent}^`,
  ].join("\n");
}
