// Takes from the global object what a guest may not have: what passes the memory limit, shares memory, or makes code from text.
// A table of what goes, and why; the rest is V8's own.
import {
  ArrayBufferConstructor,
  defineGlobal,
  defineValue,
  EvalErrorConstructor,
  FunctionConstructor,
  ReflectConstruct,
  ReflectDefineProperty,
  ReflectDeleteProperty,
  ReflectGetOwnPropertyDescriptor,
  ReflectGetPrototypeOf,
} from "./primordials.ts";

/** Globals that are absent unless granted. */
const REMOVED_GLOBALS = [
  "WebAssembly", // its memory passes V8's heap limit (4 GB measured)
  "SharedArrayBuffer", // growable ones pass the limit too; shared memory is also a clock
  "Atomics", // Atomics.wait blocks the thread where dispose() cannot reach
  "ShadowRealm", // a realm whose eval is whole; absent from V8 today
] as const;

/** A property that is nobody's to change. */
function fix(target: object, key: PropertyKey, value: unknown): void {
  const descriptor = { __proto__: null, value, writable: false, enumerable: false, configurable: false };
  ReflectDefineProperty(target, key, descriptor as PropertyDescriptor);
}

function setName(target: object, name: string): void {
  const descriptor = { __proto__: null, value: name, writable: false, enumerable: false, configurable: true };
  ReflectDefineProperty(target, "name", descriptor as PropertyDescriptor);
}

/** A resizable buffer reserves and commits past the memory limit (2.2 GB measured), so the constructor takes a length only. */
function removeResizableBuffers(): void {
  const prototype = ArrayBufferConstructor.prototype;
  ReflectDeleteProperty(prototype, "resize");
  function FixedArrayBuffer(this: unknown, length?: unknown): object {
    // `new.target` is undefined for a plain call, and then the real constructor's own TypeError is right.
    if (new.target === undefined) return (ArrayBufferConstructor as unknown as (length: unknown) => object)(length);
    return ReflectConstruct(ArrayBufferConstructor, [length], new.target) as object;
  }
  setName(FixedArrayBuffer, "ArrayBuffer");
  defineValue(FixedArrayBuffer, "isView", ArrayBufferConstructor.isView, false);
  const species = ReflectGetOwnPropertyDescriptor(ArrayBufferConstructor, Symbol.species) as PropertyDescriptor;
  ReflectDefineProperty(FixedArrayBuffer, Symbol.species, species);
  fix(FixedArrayBuffer, "prototype", prototype);
  defineValue(prototype, "constructor", FixedArrayBuffer, false);
  defineGlobal("ArrayBuffer", FixedArrayBuffer);
}

const refuse = (): never => {
  throw new EvalErrorConstructor("Making code from text is not allowed in the sandbox");
};

/** In the place of one of the four constructors. They are reached through their prototypes too, so those point here. */
function replaceConstructor(name: string, prototype: object): void {
  function replacement(): never {
    return refuse();
  }
  setName(replacement, name);
  fix(replacement, "prototype", prototype);
  fix(prototype, "constructor", replacement);
  if (name === "Function") defineGlobal(name, replacement);
}

/** `eval`, `Function` and its three siblings throw EvalError; `x instanceof Function` stays true. */
function removeStringToCode(): void {
  replaceConstructor("Function", FunctionConstructor.prototype);
  replaceConstructor("AsyncFunction", ReflectGetPrototypeOf(async () => {}) as object);
  replaceConstructor("GeneratorFunction", ReflectGetPrototypeOf(function* () {}) as object);
  replaceConstructor("AsyncGeneratorFunction", ReflectGetPrototypeOf(async function* () {}) as object);
  defineGlobal("eval", refuse);
}

export function lockDown(): void {
  for (let index = 0; index < REMOVED_GLOBALS.length; index += 1) {
    ReflectDeleteProperty(globalThis, REMOVED_GLOBALS[index] as string);
  }
  removeResizableBuffers();
  removeStringToCode();
}
