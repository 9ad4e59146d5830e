// Contexts of node:vm. A guest cannot create another realm, so code of a context runs in the tool's own one, in sloppy mode and below two `with`
// statements: names are first properties of the context's object, then the built-ins of JavaScript, then nothing. As in Node, a context is not a
// boundary against hostile code: the isolate is.
import { invalidArgument } from "../shared/node-error.ts";

const web = globalThis as unknown as { readonly [name: string]: unknown };
type Context = { [name: PropertyKey]: unknown };

/** Globals of a new context in Node. Those of Node itself (process, fetch, setTimeout) are not visible in it. */
const BUILT_INS: ReadonlySet<string> = new Set(
  "Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError JSON Math Intl ArrayBuffer Atomics Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float32Array Float64Array Float16Array DataView Map BigInt Set Iterator WeakMap WeakSet Proxy Reflect FinalizationRegistry WeakRef decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval isFinite isNaN console Temporal SuppressedError DisposableStack AsyncDisposableStack SharedArrayBuffer WebAssembly".split(
    " ",
  ),
);
const isBuiltIn = (key: PropertyKey): boolean => typeof key === "string" && BUILT_INS.has(key) && key in web;

/**
 * Evaluates code. Its `var` and function declarations belong to this function, outside of both `with` statements, where `probe` finds them.
 * Assignments go through the statements.
 */
const EVALUATE = `arguments[0].probe = function () { return eval(arguments[0]); };
with (arguments[0].scope) with (arguments[0].context) return eval(arguments[0].code);`;

interface Evaluation {
  readonly code: string;
  readonly context: Context;
  readonly scope: object;
  /** Returns what a name means outside of the context. Set by the evaluated function. */
  probe?: (name: string) => unknown;
}

const IDENTIFIER = "[\\p{ID_Start}$_][\\p{ID_Continue}$]*";
/** Names whose absence `typeof` can ask for. A proxy cannot tell `typeof x` from `x`. */
const TYPEOF_NAMES = new RegExp(`\\btypeof\\s*\\(?\\s*(${IDENTIFIER})`, "gu");
/** Names that may be declared: each is then looked up, so one that is found in a text or in a function does no harm. */
const DECLARED_NAMES = new RegExp(`\\b(?:function\\b\\s*\\*?|var|,)\\s*(${IDENTIFIER})`, "gu");
const namesIn = (code: string, pattern: RegExp): Set<string> =>
  new Set([...code.matchAll(pattern)].map(([, name = ""]) => name));

interface ContextState {
  readonly global: object;
  /** Names that scripts have declared without a value: code finds undefined, and the object does not have them, as in Node. */
  readonly declared: Set<string>;
}
const contexts = new WeakMap<object, ContextState>();

const isObject = (value: unknown): value is Context =>
  (typeof value === "object" && value !== null) || typeof value === "function";

function checkContextObject(value: unknown): asserts value is Context {
  if (!isObject(value)) throw invalidArgument("object", "of type object", value);
}

/** The global object as code of the context sees it: `this` and `globalThis`. */
function globalOf(context: Context): object {
  const global: object = new Proxy(context, {
    has: (target, key) => key === "globalThis" || Reflect.has(target, key) || isBuiltIn(key),
    get: (target, key, receiver) => {
      if (Reflect.has(target, key)) return Reflect.get(target, key, receiver === global ? target : receiver) as unknown;
      if (key === "globalThis") return global;
      return isBuiltIn(key) ? web[key as string] : undefined;
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  });
  return global;
}

export function isContext(value: unknown): boolean {
  checkContextObject(value);
  return contexts.has(value);
}

/** Makes an object a context and returns it. */
export function createContext(object: unknown = {}): Context {
  checkContextObject(object);
  if (!contexts.has(object)) contexts.set(object, { global: globalOf(object), declared: new Set() });
  return object;
}

/** Returns the value of a declaration of the evaluated code, or undefined for a name that it does not declare. */
function findDeclared({ probe }: Evaluation, name: string): { readonly value: unknown } | undefined {
  // A name that the tool's own global object has would be found there.
  if (probe === undefined || name in web || name === "arguments") return undefined;
  try {
    return { value: probe(name) };
  } catch {
    return undefined;
  }
}

/** Resolves the names that the context's object does not have. */
function createScope(code: string, { global, declared }: ContextState, evaluation: () => Evaluation): object {
  let typeofNames: Set<string> | undefined;
  return new Proxy(Object.create(null) as object, {
    has: (_, key) => typeof key === "string" && key !== "eval" && key !== "arguments",
    get: (_, key) => {
      if (typeof key !== "string") return undefined;
      if (key === "globalThis") return global;
      if (isBuiltIn(key)) return web[key];
      const found = findDeclared(evaluation(), key);
      if (found !== undefined) return found.value;
      if (declared.has(key)) return undefined;
      typeofNames ??= namesIn(code, TYPEOF_NAMES);
      if (typeofNames.has(key)) return undefined;
      throw new ReferenceError(`${key} is not defined`);
    },
    set: (_, key, value) => Reflect.set(evaluation().context, key, value),
    deleteProperty: () => true,
  });
}

/**
 * Runs a script in a context, and adds what it declares with `var` and `function` to the context's object. `let`, `const` and `class` at the
 * top level, and declarations of strict code, are visible in this script only.
 * @throws {EvalError} if the host has turned dynamic code off
 */
export function runInContext(given: unknown, context: unknown): unknown {
  checkContextObject(context);
  const state = contexts.get(context);
  if (state === undefined) throw invalidArgument("contextifiedObject", "an vm.Context", context);
  const code = `${given as string}`;
  const scope = createScope(code, state, () => evaluation);
  const evaluation: Evaluation = { code, context, scope };
  const evaluate = (web.Function as FunctionConstructor)(EVALUATE);
  try {
    return Reflect.apply(evaluate, state.global, [evaluation]) as unknown;
  } finally {
    for (const name of namesIn(code, DECLARED_NAMES)) {
      const found = Object.hasOwn(context, name) ? undefined : findDeclared(evaluation, name);
      if (found?.value === undefined) {
        if (found !== undefined) state.declared.add(name);
      } else context[name] = found.value;
    }
  }
}
