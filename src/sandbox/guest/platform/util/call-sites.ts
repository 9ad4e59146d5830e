// getCallSites() of node:util: the calls that led to the caller, from V8's stack.
import { checkBoolean, checkInteger, checkObject } from "../shared/node-error.ts";

interface V8CallSite {
  getColumnNumber(): number | null;
  getFunctionName(): string | null;
  getLineNumber(): number | null;
  getScriptNameOrSourceURL(): string | null;
}
interface V8Error {
  captureStackTrace(target: object, from: unknown): void;
  prepareStackTrace?: ((error: unknown, sites: readonly V8CallSite[]) => unknown) | undefined;
  stackTraceLimit: number;
}
const DEFAULT_FRAMES = 10;
const MAX_FRAMES = 200;

/** V8 reads both properties of Error while it captures a stack, so they are set for that time. */
function captureSites(count: number, from: unknown): readonly V8CallSite[] {
  const engine = Error as unknown as V8Error;
  const { stackTraceLimit } = engine;
  const prepare = Object.getOwnPropertyDescriptor(engine, "prepareStackTrace");
  let captured: readonly V8CallSite[] = [];
  try {
    engine.stackTraceLimit = count;
    const prepareStackTrace = (_error: unknown, sites: readonly V8CallSite[]): string => {
      captured = sites;
      return "";
    };
    Object.defineProperty(engine, "prepareStackTrace", { value: prepareStackTrace, configurable: true });
    const target: { stack?: unknown } = {};
    engine.captureStackTrace(target, from);
    void target.stack;
  } finally {
    engine.stackTraceLimit = stackTraceLimit;
    if (prepare === undefined) delete engine.prepareStackTrace;
    else Object.defineProperty(engine, "prepareStackTrace", prepare);
  }
  return captured;
}

/** @throws {TypeError | RangeError} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE */
export function getCallSites(given: unknown = DEFAULT_FRAMES, givenOptions?: unknown): object[] {
  const isCount = givenOptions !== undefined || typeof given !== "object";
  const options = !isCount ? given : givenOptions === undefined ? {} : givenOptions;
  const count = isCount ? given : DEFAULT_FRAMES;
  checkObject(options, "options");
  const { sourceMap = false } = options as { readonly sourceMap?: unknown };
  checkBoolean(sourceMap, "options.sourceMap");
  checkInteger(count, "frameCount", 1, MAX_FRAMES);
  return captureSites(count, getCallSites).map((site) => {
    const column = site.getColumnNumber() ?? 0;
    return Object.assign(Object.create(null) as object, {
      functionName: site.getFunctionName() ?? "",
      scriptId: "0",
      scriptName: site.getScriptNameOrSourceURL() ?? "",
      lineNumber: site.getLineNumber() ?? 0,
      columnNumber: column,
      column,
    });
  });
}
