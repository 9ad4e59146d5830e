// console: captured with its level, capped per call here and again outside. Made when first touched.

import { toolPlace } from "./call-site.ts";
import { allowance, callState } from "./call-state.ts";
import { now } from "./coarse-time.ts";
import { capText } from "./error-text.ts";
import { post } from "./host.ts";
import { formatLog, inspect } from "./inspect.ts";
import {
  defineLazyGlobals,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeGet,
  MapPrototypeSet,
  MathMin,
  ReflectApply,
  StringConstructor,
  StringPrototypeSlice,
} from "./primordials.ts";

type Level = "debug" | "info" | "warn" | "error";

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

export function writeLog(level: Level, text: string): void {
  if (!callState.active) return;
  callState.logLines += 1;
  const left = allowance("logBytes") - callState.logBytes;
  // Past a cap the line goes out empty, so that the worker counts what was dropped; past ten times the cap nothing does.
  if (callState.logLines > allowance("logLines") || left <= 0) {
    if (callState.logLines <= allowance("logLines") * 10) post("log", "dropped", "");
    return;
  }
  const capped = capText(indent + text, MathMin(left, LINE_UNITS));
  callState.logBytes += capped.length;
  if (callState.header?.logPlaces) post("log", level, capped, toolPlace());
  else post("log", level, capped);
}

const writer =
  (level: Level) =>
  (...args: unknown[]): void =>
    writeLog(level, formatLog(args, LINE_UNITS));

const labelOf = (label: unknown): string => (label === undefined ? "default" : inspect(label, 100));

function elapsed(label: unknown): string | undefined {
  const start = MapPrototypeGet(started, labelOf(label));
  return start === undefined ? undefined : `${labelOf(label)}: ${now() - start}ms`;
}

function makeConsole(): object {
  const log = writer("info");
  const group = (...args: unknown[]): void => {
    if (args.length > 0) ReflectApply(log, undefined, args);
    if (indent.length < 40) indent += "  ";
  };
  return {
    debug: writer("debug"),
    log,
    info: log,
    warn: writer("warn"),
    error: writer("error"),
    table: log,
    dir: (value: unknown): void => writeLog("info", inspect(value, LINE_UNITS)),
    dirxml: log,
    trace: (...args: unknown[]): void => writeLog("debug", `Trace: ${formatLog(args, LINE_UNITS)}`),
    assert: (condition?: unknown, ...args: unknown[]): void => {
      if (condition) return;
      writeLog("error", args.length === 0 ? "Assertion failed" : `Assertion failed: ${formatLog(args, LINE_UNITS)}`);
    },
    count: (label?: unknown): void => {
      const count = (MapPrototypeGet(counts, labelOf(label)) ?? 0) + 1;
      MapPrototypeSet(counts, labelOf(label), count);
      writeLog("info", `${labelOf(label)}: ${StringConstructor(count)}`);
    },
    countReset: (label?: unknown): void => {
      MapPrototypeDelete(counts, labelOf(label));
    },
    group,
    groupCollapsed: group,
    groupEnd: (): void => {
      indent = StringPrototypeSlice(indent, 2);
    },
    time: (label?: unknown): void => {
      MapPrototypeSet(started, labelOf(label), now());
    },
    timeLog: (label?: unknown, ...args: unknown[]): void => {
      const text = elapsed(label);
      if (text !== undefined) writeLog("info", args.length === 0 ? text : `${text} ${formatLog(args, LINE_UNITS)}`);
    },
    timeEnd: (label?: unknown): void => {
      const text = elapsed(label);
      if (text !== undefined) writeLog("info", text);
      MapPrototypeDelete(started, labelOf(label));
    },
    clear: (): void => {},
  };
}

export function installConsole(): void {
  defineLazyGlobals(["console"], () => ({ __proto__: null as never, console: makeConsole() }));
}
