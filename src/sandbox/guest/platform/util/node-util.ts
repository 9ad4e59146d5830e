// node:util. inspect and format are those of console.

import { useBuiltin } from "../../module-loader.ts";
import { format, formatWithOptions, inspect } from "../console/inspect.ts";
import { signals } from "../process/os-constants.ts";
import { checkFunction, checkString, invalidArgument, nodeError } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { getCallSites } from "./call-sites.ts";
import { isDeepStrictEqual } from "./deep-equal.ts";
import { diff } from "./diff.ts";
import { MIMEParams, MIMEType } from "./mime-type.ts";
import { parseArgs } from "./parse-args.ts";
import {
  errnoException,
  exceptionWithHostPort,
  getSystemErrorMap,
  getSystemErrorMessage,
  getSystemErrorName,
} from "./system-errors.ts";
import { types } from "./value-types.ts";

export { isDeepLooseEqual, isDeepStrictEqual, isPartialDeepEqual } from "./deep-equal.ts";
export { format, inspect, types };

type Callback = (error: unknown, value?: unknown) => void;
type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;
declare const console: { error(...values: unknown[]): void; warn(...values: unknown[]): void };
declare function queueMicrotask(run: () => void): void;

const customPromisify = Symbol.for("nodejs.util.promisify.custom");

export function inherits(heir: { super_?: unknown; prototype: object }, parent: { prototype: object }): void {
  checkFunction(heir, "ctor");
  checkFunction(parent, "superCtor");
  if ((parent as { prototype?: object }).prototype === undefined) {
    throw invalidArgument("superCtor.prototype", "of type object", undefined);
  }
  Object.defineProperty(heir, "super_", { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(heir.prototype, parent.prototype);
}

/** Node's functions with several results declare names for them, and resolve with an object. */
export function promisify(original: AnyFunction): AnyFunction {
  checkFunction(original, "original");
  const custom: unknown = (original as unknown as { [key: symbol]: unknown })[customPromisify];
  if (custom !== undefined) {
    checkFunction(custom, "util.promisify.custom");
    Object.defineProperty(custom, customPromisify, { value: custom, configurable: true });
    return custom as AnyFunction;
  }
  function promised(this: unknown, ...args: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const done: Callback = (error, value) => (error ? reject(error) : resolve(value));
      const returned = Reflect.apply(original, this, [...args, done]);
      if (types.isPromise(returned))
        console.warn("Calling promisify on a function that returns a Promise is likely a mistake.");
    });
  }
  Object.setPrototypeOf(promised, Object.getPrototypeOf(original) as object);
  Object.defineProperty(promised, customPromisify, { value: promised, configurable: true });
  return Object.defineProperties(promised, Object.getOwnPropertyDescriptors(original)) as AnyFunction;
}
promisify.custom = customPromisify;

function callbackify(original: (...args: unknown[]) => Promise<unknown>): AnyFunction {
  checkFunction(original, "original");
  function called(this: unknown, ...args: unknown[]): void {
    const callback = args.pop();
    checkFunction(callback, "last argument");
    const later = (...values: unknown[]): void => queueMicrotask(() => Reflect.apply(callback, this, values));
    const fail = (reason: unknown): void => {
      if (reason) later(reason);
      else {
        const error = nodeError(Error, "ERR_FALSY_VALUE_REJECTION", "Promise was rejected with falsy value");
        later(Object.assign(error, { reason }));
      }
    };
    (Reflect.apply(original, this, args) as Promise<unknown>).then((value) => later(null, value), fail);
  }
  const { name } = original;
  Object.defineProperty(called, "name", { value: `${name}Callbackified`, configurable: true });
  return called as AnyFunction;
}

const warned = new Set<string>();

export function deprecate(original: AnyFunction, message: string, code?: string): AnyFunction {
  let hasWarned = false;
  function deprecated(this: unknown, ...args: unknown[]): unknown {
    if (!hasWarned && (code === undefined || !warned.has(code))) {
      console.warn(`DeprecationWarning: ${message}`);
      if (code !== undefined) warned.add(code);
    }
    hasWarned = true;
    if (new.target !== undefined) return Reflect.construct(original, args, new.target);
    return Reflect.apply(original, this, args);
  }
  Object.setPrototypeOf(deprecated, original);
  const { prototype } = original as { prototype?: object };
  if (prototype !== undefined) deprecated.prototype = prototype;
  return deprecated as AnyFunction;
}

/** Never logs, because a tool has no NODE_DEBUG. */
function debuglog(): AnyFunction {
  const silent = (): void => {};
  return Object.assign(silent, { enabled: false });
}

const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches escape sequences
  /[\u001b\u009b][[\]()#;?]*(?:(?:(?:(?:;[-a-zA-Z\d/#&.:=?%@~_]+)*|[a-zA-Z\d]+(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?(?:\u0007|\u001b\u005c|\u009c))|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~]))/g;

function stripVTControlCharacters(text: string): string {
  checkString(text, "str");
  return text.replace(ESCAPES, "");
}

interface StyleOptions {
  readonly validateStream?: boolean;
  readonly stream?: unknown;
}

const environment = (): { readonly [name: string]: string | undefined } =>
  (useBuiltin("node-process", "process") as { readonly env: { readonly [name: string]: string | undefined } }).env;

/** As in Node, text for a stream that is no terminal stays plain, unless FORCE_COLOR is set. A tool's own output is none. */
function hasColors({ validateStream = true, stream }: StyleOptions): boolean {
  if (typeof validateStream !== "boolean")
    throw invalidArgument("options.validateStream", "of type boolean", validateStream);
  if (!validateStream) return true;
  const { on, isTTY, getColorDepth } = Object(stream) as { readonly [name: string]: unknown };
  const isStream =
    stream === undefined ||
    stream === null ||
    typeof on === "function" ||
    stream instanceof web.ReadableStream ||
    stream instanceof web.WritableStream;
  if (!isStream) throw invalidArgument("stream", "an instance of ReadableStream, WritableStream, or Stream", stream);
  const { FORCE_COLOR } = environment();
  if (FORCE_COLOR !== undefined) return ["", "1", "true", "2", "3"].includes(FORCE_COLOR);
  if (isTTY !== true) return false;
  return typeof getColorDepth !== "function" || (Reflect.apply(getColorDepth, stream, []) as number) > 2;
}

function styleText(style: string | readonly string[], text: string, options: StyleOptions = {}): string {
  checkString(text, "text");
  const isColored = hasColors(options);
  const { colors } = inspect as unknown as { readonly colors: { readonly [name: string]: readonly [number, number] } };
  let open = "";
  let close = "";
  for (const name of typeof style === "string" ? [style] : style) {
    if (name === "none") continue;
    const codes = colors[name];
    if (codes === undefined) {
      throw nodeError(
        TypeError,
        "ERR_INVALID_ARG_VALUE",
        `The argument 'format' must be one of: ${Object.keys(colors).join(", ")}. Received '${name}'`,
      );
    }
    open += `\u001b[${codes[0]}m`;
    close = `\u001b[${codes[1]}m${close}`;
  }
  return isColored ? open + text + close : text;
}

/** Parses lines of NAME=value. Quotes preserve the text between them. */
function parseEnv(text: string): { [name: string]: string } {
  checkString(text, "content");
  const parsed: { [name: string]: string } = {};
  const lines = /^\s*(?:export\s+)?([\w.-]+)\s*=[^\S\n]*("(?:[^"\\]|\\.)*"|'[^']*'|`[^`]*`|[^\n#]*)?[^\n]*$/gm;
  for (const [, name = "", value = ""] of text.matchAll(lines)) {
    const quoted = /^(["'`])([\s\S]*)\1$/.exec(value.trim());
    const plain = quoted === null ? value.trim() : (quoted[2] as string);
    parsed[name] = quoted?.[1] === '"' ? plain.replaceAll("\\n", "\n") : plain;
  }
  return parsed;
}

async function aborted(signal: {
  aborted: boolean;
  addEventListener(type: string, run: () => void, o: object): void;
}): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

interface WebClasses {
  readonly ReadableStream: new () => object;
  readonly WritableStream: new () => object;
  readonly AbortController: new () => object;
  readonly AbortSignal: new () => object;
  readonly TextEncoder: unknown;
  readonly TextDecoder: unknown;
}
const web = globalThis as unknown as WebClasses;
/** POSIX: the exit code of a process that a signal has ended is this number plus that of the signal. */
const EXITED_BY_SIGNAL = 128;

/** Returns the signal itself: a tool has no other thread that it could transfer it to. */
function transferableAbortSignal(signal: unknown): unknown {
  if (!(signal instanceof web.AbortSignal)) throw invalidArgument("signal", "an instance of AbortSignal", signal);
  return signal;
}

function markPromiseAsHandled(promise: unknown): void {
  if (!types.isPromise(promise)) throw invalidArgument("promise", "an instance of Promise", promise);
  Promise.prototype.then.call(promise, undefined, () => {});
}

function convertProcessSignalToExitCode(signal: unknown): number {
  const number = Object.hasOwn(signals, signal as string) ? signals[signal as string] : undefined;
  if (number === undefined) {
    const names = Object.keys(signals).map((name) => `'${name}'`);
    const message = `The argument 'signalCode' must be one of: ${names.join(", ")}. Received ${inspect(signal)}`;
    throw nodeError(TypeError, "ERR_INVALID_ARG_VALUE", message);
  }
  return EXITED_BY_SIGNAL + number;
}

const util = {
  _errnoException: errnoException,
  _exceptionWithHostPort: exceptionWithHostPort,
  _extend: (target: object, source: unknown): object =>
    typeof source === "object" && source !== null ? Object.assign(target, source) : target,
  aborted,
  callbackify,
  convertProcessSignalToExitCode,
  debug: debuglog,
  debuglog,
  deprecate,
  format,
  formatWithOptions,
  diff,
  getCallSites,
  getSystemErrorMap,
  getSystemErrorMessage,
  getSystemErrorName,
  MIMEParams,
  MIMEType,
  markPromiseAsHandled,
  inherits,
  inspect,
  isArray: Array.isArray,
  isDeepStrictEqual,
  parseArgs,
  parseEnv,
  promisify,
  stripVTControlCharacters,
  styleText,
  get TextDecoder(): unknown {
    return web.TextDecoder;
  },
  get TextEncoder(): unknown {
    return web.TextEncoder;
  },
  transferableAbortController: (): object => new web.AbortController(),
  transferableAbortSignal,
  toUSVString: (text: unknown): string => String(text).toWellFormed(),
  types,
};

addUnsupported(util, "util", "the sandbox does not support it", "debounce setTraceSigInt throttle");

export const builtins = { util, sys: util, "util/types": types };
