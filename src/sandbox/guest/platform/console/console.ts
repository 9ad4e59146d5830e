// console: writes lines to the log. Platform modules for formatting are loaded when the first value is logged that is not a plain string or
// number.
import { callSerial } from "../../call-state.ts";
import { now } from "../../coarse-time.ts";
import { type Level, MAX_LINE_LENGTH, writeLazily } from "../../log-lines.ts";
import { usePlatformModule } from "../../module-loader.ts";
import {
  ErrorConstructor,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeGet,
  MapPrototypeSet,
  MathTrunc,
  ReflectDefineProperty,
  StringConstructor,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
  SymbolToStringTag,
} from "../../primordials.ts";
import { dropPreludeFrames, formatLog } from "./bounded-inspect.ts";

export { dropPreludeFrames, inspect } from "./bounded-inspect.ts";

/** Node's formatting. It may throw because of a guest's value. */
interface Formatting {
  format(args: readonly unknown[]): string;
  dir(value: unknown, options: unknown): string;
  table(data: unknown, columns: unknown): string | undefined;
}
let serial = callSerial();
let indent = "";
const counts = new MapConstructor<string, number>();
const started = new MapConstructor<string, number>();

/** Clears the groups, counters and timers of the last call. */
function beginCall(): void {
  if (serial === callSerial()) return;
  serial = callSerial();
  indent = "";
  MapPrototypeClear(counts);
  MapPrototypeClear(started);
}

/** Indents the lines of a group, up to the length that fits into the log. */
function indentLines(text: string): string {
  if (indent === "") return text;
  let indented = indent;
  for (let start = 0; indented.length <= MAX_LINE_LENGTH; ) {
    const newline = StringPrototypeIndexOf(text, "\n", start);
    if (newline < 0) return indented + StringPrototypeSlice(text, start);
    indented += `${StringPrototypeSlice(text, start, newline + 1)}${indent}`;
    start = newline + 1;
  }
  return indented;
}

/** @param make returns the text; called only if the log has room for it */
function write(level: Level, make: () => string): void {
  beginCall();
  writeLazily(level, () => indentLines(make()));
}

/** Tells whether all arguments are strings and numbers without a format directive, which need no formatting module. */
function isPlain(args: readonly unknown[]): boolean {
  for (let index = 0; index < args.length; index += 1) {
    const value = args[index];
    if (typeof value === "function" || (typeof value === "object" && value !== null)) return false;
  }
  const first = args[0];
  return args.length < 2 || typeof first !== "string" || StringPrototypeIndexOf(first, "%") < 0;
}

/** Formats as Node does. If a value of the guest makes that throw, formats with the bounded fallback. */
function show(args: readonly unknown[], run: (formatting: Formatting) => string | undefined): string {
  try {
    const text = run(usePlatformModule("formatting") as unknown as Formatting);
    if (text !== undefined) return dropPreludeFrames(text);
  } catch {
    // A getter, a proxy or a custom inspection function of the guest has thrown.
  }
  return formatLog(args, MAX_LINE_LENGTH);
}

const formatArgs = (args: readonly unknown[]): string =>
  isPlain(args) ? formatLog(args, MAX_LINE_LENGTH) : show(args, (formatting) => formatting.format(args));

/** Not spread: the guest can replace the iterator of arrays. */
function prepend(text: string, args: readonly unknown[]): unknown[] {
  const list: unknown[] = [text];
  for (let index = 0; index < args.length; index += 1) list[index + 1] = args[index];
  return list;
}

const writer =
  (level: Level) =>
  (...args: unknown[]): void =>
    write(level, () => formatArgs(args));

const labelOf = (label: unknown): string => StringPrototypeSlice(`${label as string}`, 0, 1_000);
const padded = (value: number, length: number): string => {
  let text = StringConstructor(value);
  while (text.length < length) text = `0${text}`;
  return text;
};

/** Formats a duration as Node does: `12ms`, `1.234s`, `1:02.345 (m:ss.mmm)`, `1:02:03 (h:mm:ss)`. */
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
  beginCall();
  const start = MapPrototypeGet(started, label);
  return start === undefined ? undefined : `${label}: ${formatTime(now() - start)}`;
}

/** Returns the lines of the current stack. */
const stackLines = (): string => {
  const { stack } = new ErrorConstructor();
  const from = stack === undefined ? -1 : StringPrototypeIndexOf(stack, "\n");
  return from < 0 ? "" : dropPreludeFrames(StringPrototypeSlice(stack as string, from));
};

const counters = {
  count: (label: unknown = "default"): void => {
    beginCall();
    const name = labelOf(label);
    const count = (MapPrototypeGet(counts, name) ?? 0) + 1;
    MapPrototypeSet(counts, name, count);
    write("info", () => `${name}: ${StringConstructor(count)}`);
  },
  countReset: (label: unknown = "default"): void => {
    beginCall();
    MapPrototypeDelete(counts, labelOf(label));
  },
  time: (label: unknown = "default"): void => {
    beginCall();
    const name = labelOf(label);
    if (MapPrototypeGet(started, name) === undefined) MapPrototypeSet(started, name, now());
  },
  timeLog: (label: unknown = "default", ...args: unknown[]): void => {
    const text = elapsed(labelOf(label));
    if (text !== undefined) write("info", () => (args.length === 0 ? text : `${text} ${formatArgs(args)}`));
  },
  timeEnd: (label: unknown = "default"): void => {
    const name = labelOf(label);
    const text = elapsed(name);
    if (text !== undefined) write("info", () => text);
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
    write("info", () => show([value], (formatting) => formatting.dir(value, options))),
  table: (data?: unknown, columns?: unknown): void =>
    write("info", () => {
      const isObject = typeof data === "object" && data !== null;
      return isObject ? show([data], (formatting) => formatting.table(data, columns)) : formatArgs([data]);
    }),
  trace: (...args: unknown[]): void => {
    const stack = stackLines();
    write("debug", () => `Trace${args.length === 0 ? "" : `: ${formatArgs(args)}`}${stack}`);
  },
  assert: (condition?: unknown, ...args: unknown[]): void => {
    if (condition) return;
    write("error", () => {
      if (args.length === 0) return "Assertion failed";
      if (typeof args[0] !== "string") return formatArgs(prepend("Assertion failed", args));
      args[0] = `Assertion failed: ${args[0]}`;
      return formatArgs(args);
    });
  },
};

const group = (...args: unknown[]): void => {
  beginCall();
  if (args.length > 0) write("info", () => formatArgs(args));
  if (indent.length < 40) indent += "  ";
};

/** A namespace object (Web IDL): its prototype is a separate empty object. */
export const console: object = {
  __proto__: {},
  ...writers,
  ...counters,
  group,
  groupCollapsed: group,
  groupEnd: (): void => {
    beginCall();
    indent = StringPrototypeSlice(indent, 2);
  },
  clear: (): void => {},
} as object;
ReflectDefineProperty(console, SymbolToStringTag, {
  __proto__: null,
  value: "console",
  writable: false,
  enumerable: false,
  configurable: true,
} as PropertyDescriptor);
/** Of node:console, which is loaded when it is used. */
ReflectDefineProperty(console, "Console", {
  __proto__: null,
  get: () =>
    ((usePlatformModule("node-os").builtins as Record<string, object>).console as { Console: unknown }).Console,
  enumerable: false,
  configurable: true,
} as PropertyDescriptor);
