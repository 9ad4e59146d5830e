// V8's stack text onto the author's files and lines, for a person to read. A stack is the guest's word: bounded, and only our script's frames.
import { decodedMappings, originalPositionFor, sourceContentFor, TraceMap } from "@jridgewell/trace-mapping";
import { SCRIPT_ORIGIN, TOOL_SCRIPT_NAME } from "../../sandbox/protocol/guest-messages.ts";
import { CELL_MAIN } from "../cells/cell.ts";

export interface StackFrame {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly functionName?: string;
  /** A frame without a name, behind an await: with one, V8 says so in the name. */
  readonly isAsync?: true;
  /** In a file of the tool itself, not of a package. */
  readonly isOwn?: true;
}

export interface MappedStack {
  /** The header, then one line a frame: `at name (file:line:column)`. */
  readonly stack: string;
  readonly frames: readonly StackFrame[];
}

export interface StackMapper {
  mapStack(stack: string): MappedStack;
  /** The same for a text that may hold stacks among other lines, such as a line of log: those lines stay. */
  mapText(text: string): string;
  /** `script:line:column` in the isolate as `file:line:column` in the source; `undefined` for a place that is no author's. */
  mapPlace(place: string): string | undefined;
  /** The source line that a frame is in, marked; `undefined` when its text is not in the map. */
  codeFrameOf(frame: StackFrame): string | undefined;
}

/** A stack is looked at no further: V8's own has ten frames, a guest's may have millions. */
const MAX_STACK_LENGTH = 64 * 1024;
const MAX_HEADER_LENGTH = 4_096;
const MAX_FRAMES = 50;
const MAX_NAME_LENGTH = 120;
const MAX_CODE_LENGTH = 120;
const TOOL_SCRIPT = TOOL_SCRIPT_NAME.slice(SCRIPT_ORIGIN.length);
const FRAME_LINE = /^\s{1,20}at /;
const PLACE = /^([\w.-]{1,40}):(\d{1,9}):(\d{1,9})$/;
const CONTROL = /[\p{Cc}\u2028\u2029]/gu;

interface RawFrame {
  readonly functionName: string | undefined;
  readonly isAsync: boolean;
  /** Its name, without the origin. */
  readonly script: string;
  readonly line: number;
  readonly column: number;
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** `    at name (place)` or `    at place`, and only when the place is in a script of ours. */
function parseFrame(text: string): RawFrame | undefined {
  const rest = text.trim().slice("at ".length);
  const open = rest.endsWith(")") ? rest.lastIndexOf(" (") : -1;
  const isAsync = open < 0 && rest.startsWith("async ");
  const place = open < 0 ? rest.slice(isAsync ? "async ".length : 0) : rest.slice(open + 2, -1);
  const at = place.startsWith(SCRIPT_ORIGIN) ? parsePlace(place.slice(SCRIPT_ORIGIN.length)) : undefined;
  if (at === undefined) return undefined;
  const name = open < 0 ? undefined : cut(rest.slice(0, open).replace(CONTROL, " "), MAX_NAME_LENGTH);
  // A cell's own statements are in a function of ours.
  const isCell = name === CELL_MAIN || name === `async ${CELL_MAIN}`;
  return {
    ...at,
    ...(isCell ? { functionName: undefined, isAsync: name !== CELL_MAIN } : { functionName: name, isAsync }),
  };
}

function parsePlace(place: string): Pick<RawFrame, "script" | "line" | "column"> | undefined {
  const [, script, line, column] = PLACE.exec(place) ?? [];
  if (script === undefined || line === undefined || column === undefined) return undefined;
  return { script, line: Number(line), column: Number(column) };
}

/** A package's file as its author knows it: `zod/v4/core/parse.js`, wherever the package lies. */
const fileOf = (source: string, isOwn: boolean): string => (isOwn ? source : source.replace(/^.*node_modules\//, ""));

/**
 * The bundler gives a default export without a name one after its file, and renames what would collide (`_Foo`, `inner2`): a name that
 * its file does not have is one of those.
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

/** Frames of esbuild's helpers have no source; those of our own modules are none of the author's. */
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
  const place = `${file}:${line}:${column}`;
  if (functionName !== undefined) return `    at ${functionName} (${place})`;
  return `    at ${isAsync ? "async " : ""}${place}`;
}

/** A map of some MB takes some ms to parse, and most calls do not fail. */
export class ScriptMap {
  readonly #json: string;
  #map: TraceMap | undefined;
  #isParsed = false;

  constructor(json: string) {
    this.#json = json;
  }

  /** Of its text. */
  get units(): number {
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

  mapPlace(place: string): string | undefined {
    const at = parsePlace(place);
    const frame = at && this.#locate({ ...at, functionName: undefined, isAsync: false });
    return frame === undefined ? undefined : `${frame.file}:${frame.line}:${frame.column}`;
  }

  codeFrameOf(frame: StackFrame): string | undefined {
    // A cell's script has its file's name.
    const map = (this.#scripts.get(frame.file) ?? this.#scripts.get(TOOL_SCRIPT))?.map;
    const text = map === undefined ? null : sourceContentFor(map, frame.file);
    return text === null ? undefined : codeFrame({ ...frame, text });
  }

  #locate(raw: RawFrame): StackFrame | undefined {
    const map = this.#scripts.get(raw.script)?.map;
    return map === undefined ? undefined : locate(map, raw);
  }
}

export function createStackMapper(sourceMapJson: string): StackMapper {
  return createScriptsMapper(new Map([[TOOL_SCRIPT, new ScriptMap(sourceMapJson)]]));
}

/** @param scripts by name, without the origin; read whenever something is mapped */
export function createScriptsMapper(scripts: ReadonlyMap<string, ScriptMap>): StackMapper {
  return new ScriptsMapper(scripts);
}

/** The first line of the tool's script, from 0, that an author of the tool has written; undefined where there is none. */
export function firstOwnLine(sourceMapJson: string): number | undefined {
  const map = parseMap(sourceMapJson);
  if (map === undefined) return undefined;
  const isOwn = map.sources.map((source) => source !== null && sourceContentFor(map, source) !== null);
  const line = decodedMappings(map).findIndex((segments) =>
    segments.some((segment) => segment.length > 1 && isOwn[segment[1] as number] === true),
  );
  return line < 0 ? undefined : line;
}

/** As much of a long line as shows the column, and the column in that. */
function window(line: string, column: number): { text: string; column: number } {
  if (line.length <= MAX_CODE_LENGTH) return { text: line, column };
  const start = Math.max(0, Math.min(column - 1 - MAX_CODE_LENGTH / 2, line.length - MAX_CODE_LENGTH));
  return { text: line.slice(start, start + MAX_CODE_LENGTH), column: column - start };
}

/**
 * The line of `text` and the one before it, with a mark below the column; `undefined` when there is no such line.
 *
 * @example
 * ```text
 *   4 | const sum = a + b;
 * > 5 | throw new Error("no");
 *     |       ^
 * ```
 */
export function codeFrame(place: {
  readonly line: number;
  readonly column: number;
  readonly text: string;
}): string | undefined {
  const lines = place.text.split(/\r\n|[\n\r\u2028\u2029]/, place.line);
  const line = lines[place.line - 1];
  if (line === undefined) return undefined;
  const shown = window(line, Math.max(1, Math.min(place.column, line.length + 1)));
  const width = String(place.line).length;
  const before = lines[place.line - 2];
  // The same tabs above the mark as in the line, so that it stands where the column does, however wide a tab is.
  const indent = shown.text.slice(0, shown.column - 1).replace(/[^\t]/g, " ");
  return [
    ...(before === undefined ? [] : [`  ${String(place.line - 1).padStart(width)} | ${window(before, 1).text}`]),
    `> ${place.line} | ${shown.text}`,
    `  ${" ".repeat(width)} | ${indent}^`,
  ].join("\n");
}
