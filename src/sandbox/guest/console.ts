// console: captured with its level, capped per call here and again outside. Made when first touched; how values are shown comes in a
// chunk, once one is logged that is no plain text or number.
import { toolPlace } from "./call-site.ts";
import { allowance, callState } from "./call-state.ts";
import { now } from "./coarse-time.ts";
import { capText } from "./error-text.ts";
import { post } from "./host.ts";
import { dropPreludeFrames, formatLog } from "./inspect.ts";
import {
  defineLazyGlobals,
  ErrorConstructor,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeGet,
  MapPrototypeSet,
  MathMin,
  MathTrunc,
  ReflectDefineProperty,
  StringConstructor,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
  SymbolToStringTag,
} from "./primordials.ts";

type Level = "debug" | "info" | "warn" | "error";

/** How Node shows values: chunks/console.ts. What it throws is a guest's doing. */
export interface Formatting {
  format(args: readonly unknown[]): string;
  dir(value: unknown, options: unknown): string;
  table(data: unknown, columns: unknown): string | undefined;
}
let loadFormatting: (() => Formatting) | undefined;

export function connectFormatting(load: () => Formatting): void {
  loadFormatting = load;
}

/** One line's cap, in UTF-16 units; the call's `logBytes` may be lower. */
const LINE_UNITS = 32_768;
let indent = "";
const counts = new MapConstructor<string, number>();
const started = new MapConstructor<string, number>();

/** A call begins with none of the last one's groups, counters and timers. */
export function resetConsole(): void {
  indent = "";
  MapPrototypeClear(counts);
  MapPrototypeClear(started);
}

/** A group's lines, each with its indentation; no more of them than fit. */
function indentLines(text: string): string {
  if (indent === "") return text;
  let indented = indent;
  for (let start = 0; indented.length <= LINE_UNITS; ) {
    const newline = StringPrototypeIndexOf(text, "\n", start);
    if (newline < 0) return indented + StringPrototypeSlice(text, start);
    indented += `${StringPrototypeSlice(text, start, newline + 1)}${indent}`;
    start = newline + 1;
  }
  return indented;
}

/** @param make the text, asked for only if there is room for it */
function writeLazily(level: Level, make: () => string): void {
  if (!callState.active) return;
  callState.logLines += 1;
  const left = allowance("logBytes") - callState.logBytes;
  // Past a cap the line goes out empty, so that the worker counts what was dropped; past ten times the cap nothing does.
  if (callState.logLines > allowance("logLines") || left <= 0) {
    if (callState.logLines <= allowance("logLines") * 10) post("log", "dropped", "");
    return;
  }
  const capped = capText(indentLines(make()), MathMin(left, LINE_UNITS));
  callState.logBytes += capped.length;
  if (callState.header?.logPlaces) post("log", level, capped, toolPlace());
  else post("log", level, capped);
}

export function writeLog(level: Level, text: string): void {
  writeLazily(level, () => text);
}

/** Texts and numbers, without a directive that would be filled: shown here as Node shows them. */
function isPlain(args: readonly unknown[]): boolean {
  for (let index = 0; index < args.length; index += 1) {
    const value = args[index];
    if (typeof value === "function" || (typeof value === "object" && value !== null)) return false;
  }
  const first = args[0];
  return args.length < 2 || typeof first !== "string" || StringPrototypeIndexOf(first, "%") < 0;
}

/** By Node's rules; by our own, which nothing can stop, where a value of the guest's fails those. */
function show(args: readonly unknown[], run: (formatting: Formatting) => string | undefined): string {
  try {
    const text = loadFormatting === undefined ? undefined : run(loadFormatting());
    if (text !== undefined) return dropPreludeFrames(text);
  } catch {
    // A getter, a proxy or an inspection of the guest's has thrown.
  }
  return formatLog(args, LINE_UNITS);
}

const formatArgs = (args: readonly unknown[]): string =>
  isPlain(args) ? formatLog(args, LINE_UNITS) : show(args, (formatting) => formatting.format(args));

/** Not spread: an array's iterator is the guest's to replace. */
function prepend(text: string, args: readonly unknown[]): unknown[] {
  const list: unknown[] = [text];
  for (let index = 0; index < args.length; index += 1) list[index + 1] = args[index];
  return list;
}

const writer =
  (level: Level) =>
  (...args: unknown[]): void =>
    writeLazily(level, () => formatArgs(args));

const labelOf = (label: unknown): string => StringPrototypeSlice(`${label as string}`, 0, 1_000);
const padded = (value: number, length: number): string => {
  let text = StringConstructor(value);
  while (text.length < length) text = `0${text}`;
  return text;
};

/** As Node writes a time: `12ms`, `1.234s`, `1:02.345 (m:ss.mmm)`, `1:02:03 (h:mm:ss)`. */
function formatTime(ms: number): string {
  if (ms < 1_000) return `${ms}ms`;
  const seconds = MathTrunc(ms / 1_000);
  const rest = padded(ms % 1_000, 3);
  if (seconds < 60) return `${seconds}.${rest}s`;
  const minutes = MathTrunc(seconds / 60);
  if (minutes < 60) return `${minutes}:${padded(seconds % 60, 2)}.${rest} (m:ss.mmm)`;
  return `${MathTrunc(minutes / 60)}:${padded(minutes % 60, 2)}:${padded(seconds % 60, 2)} (h:mm:ss)`;
}

function elapsed(label: string): string | undefined {
  const start = MapPrototypeGet(started, label);
  return start === undefined ? undefined : `${label}: ${formatTime(now() - start)}`;
}

/** Where in the tool it was called from. */
const stackLines = (): string => {
  const { stack } = new ErrorConstructor();
  const from = stack === undefined ? -1 : StringPrototypeIndexOf(stack, "\n");
  return from < 0 ? "" : dropPreludeFrames(StringPrototypeSlice(stack as string, from));
};

const counters = {
  count: (label: unknown = "default"): void => {
    const name = labelOf(label);
    const count = (MapPrototypeGet(counts, name) ?? 0) + 1;
    MapPrototypeSet(counts, name, count);
    writeLog("info", `${name}: ${StringConstructor(count)}`);
  },
  countReset: (label: unknown = "default"): void => {
    MapPrototypeDelete(counts, labelOf(label));
  },
  time: (label: unknown = "default"): void => {
    const name = labelOf(label);
    if (MapPrototypeGet(started, name) === undefined) MapPrototypeSet(started, name, now());
  },
  timeLog: (label: unknown = "default", ...args: unknown[]): void => {
    const text = elapsed(labelOf(label));
    if (text !== undefined) writeLazily("info", () => (args.length === 0 ? text : `${text} ${formatArgs(args)}`));
  },
  timeEnd: (label: unknown = "default"): void => {
    const name = labelOf(label);
    const text = elapsed(name);
    if (text !== undefined) writeLog("info", text);
    MapPrototypeDelete(started, name);
  },
};

const writers = {
  debug: writer("debug"),
  log: writer("info"),
  info: writer("info"),
  warn: writer("warn"),
  error: writer("error"),
  dirxml: writer("info"),
  dir: (value?: unknown, options?: unknown): void =>
    writeLazily("info", () => show([value], (formatting) => formatting.dir(value, options))),
  table: (data?: unknown, columns?: unknown): void =>
    writeLazily("info", () => {
      const isObject = typeof data === "object" && data !== null;
      return isObject ? show([data], (formatting) => formatting.table(data, columns)) : formatArgs([data]);
    }),
  trace: (...args: unknown[]): void => {
    const stack = stackLines();
    writeLazily("debug", () => `Trace${args.length === 0 ? "" : `: ${formatArgs(args)}`}${stack}`);
  },
  assert: (condition?: unknown, ...args: unknown[]): void => {
    if (condition) return;
    writeLazily("error", () => {
      if (args.length === 0) return "Assertion failed";
      if (typeof args[0] !== "string") return formatArgs(prepend("Assertion failed", args));
      args[0] = `Assertion failed: ${args[0]}`;
      return formatArgs(args);
    });
  },
};

const group = (...args: unknown[]): void => {
  if (args.length > 0) writeLazily("info", () => formatArgs(args));
  if (indent.length < 40) indent += "  ";
};

/** A namespace object (Web IDL): its prototype is an empty object of its own. */
function makeConsole(): object {
  const made = {
    __proto__: {},
    ...writers,
    ...counters,
    group,
    groupCollapsed: group,
    groupEnd: (): void => {
      indent = StringPrototypeSlice(indent, 2);
    },
    clear: (): void => {},
  };
  const tag = { __proto__: null, value: "console", writable: false, enumerable: false, configurable: true };
  ReflectDefineProperty(made, SymbolToStringTag, tag as PropertyDescriptor);
  return made;
}

export function installConsole(): void {
  defineLazyGlobals(["console"], () => ({ __proto__: null as never, console: makeConsole() }));
}
