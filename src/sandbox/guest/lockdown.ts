// Removes the engine features that the host has not granted: those that can exceed the memory limit, share memory, block the thread, or run
// dynamic code. Granted features stay V8's own. The reasons are in ../contract/engine-features.ts.
import type { EngineFeature } from "../protocol/guest-messages.ts";
import {
  ArrayBufferConstructor,
  defineGlobal,
  defineValue,
  EvalErrorConstructor,
  FunctionConstructor,
  ObjectHasOwn,
  ReflectConstruct,
  ReflectDefineProperty,
  ReflectDeleteProperty,
  ReflectGetOwnPropertyDescriptor,
  ReflectGetPrototypeOf,
  TypeErrorConstructor,
} from "./primordials.ts";

/** Features that consist of one global. */
export const FEATURE_GLOBALS = [
  ["webAssembly", "WebAssembly"],
  ["sharedArrayBuffer", "SharedArrayBuffer"],
  ["atomics", "Atomics"],
] as const;

/** Defines a property that cannot be changed. */
function fix(target: object, key: PropertyKey, value: unknown): void {
  const descriptor = { __proto__: null, value, writable: false, enumerable: false, configurable: false };
  ReflectDefineProperty(target, key, descriptor as PropertyDescriptor);
}

/**
 * Defines a property that cannot be changed and that functions inherit. It is an accessor, because assigning an own property fails on an
 * object that inherits a read-only property of the same name, and packages such as jimp assign `constructor` on functions.
 */
function fixInherited(target: object, key: PropertyKey, value: unknown): void {
  const accessors = {
    get: (): unknown => value,
    set(this: unknown, own: unknown): void {
      if (this === target || typeof this !== "function")
        throw new TypeErrorConstructor(`Cannot assign to ${key as string}`);
      const descriptor = { __proto__: null, value: own, writable: true, enumerable: true, configurable: true };
      ReflectDefineProperty(this, key, descriptor as PropertyDescriptor);
    },
  };
  const descriptor = { __proto__: null, ...accessors, enumerable: false, configurable: false };
  ReflectDefineProperty(target, key, descriptor as PropertyDescriptor);
}

function setName(target: object, name: string): void {
  const descriptor = { __proto__: null, value: name, writable: false, enumerable: false, configurable: true };
  ReflectDefineProperty(target, "name", descriptor as PropertyDescriptor);
}

type BufferConstructor = typeof ArrayBuffer | typeof SharedArrayBuffer;

/**
 * Replaces a buffer's constructor with one that takes a length only. The prototype's `constructor` also refers to the replacement, so that
 * the real constructor is not reachable.
 */
function fixLength(name: string, Real: BufferConstructor): void {
  const { prototype } = Real;
  function FixedBuffer(this: unknown, length?: unknown): object {
    // For a call without `new`, let the real constructor throw its TypeError.
    if (new.target === undefined) return (Real as unknown as (length: unknown) => object)(length);
    return ReflectConstruct(Real, [length], new.target) as object;
  }
  setName(FixedBuffer, name);
  if (ObjectHasOwn(Real, "isView")) defineValue(FixedBuffer, "isView", ArrayBufferConstructor.isView, false);
  const species = ReflectGetOwnPropertyDescriptor(Real, Symbol.species) as PropertyDescriptor;
  ReflectDefineProperty(FixedBuffer, Symbol.species, species);
  fix(FixedBuffer, "prototype", prototype);
  defineValue(prototype, "constructor", FixedBuffer, false);
  defineGlobal(name, FixedBuffer);
}

/** Limits shared buffers, which come from their constructor and from WebAssembly memories. */
function limitSharedBuffers(has: (feature: EngineFeature) => boolean, Shared: typeof SharedArrayBuffer): void {
  if (!has("resizableBuffers")) {
    ReflectDeleteProperty(Shared.prototype, "grow");
    if (has("sharedArrayBuffer")) fixLength("SharedArrayBuffer", Shared);
  }
  if (!has("sharedArrayBuffer")) ReflectDeleteProperty(Shared.prototype, "constructor");
}

function limitBuffers(has: (feature: EngineFeature) => boolean, Shared: typeof SharedArrayBuffer | undefined): void {
  if (!has("resizableBuffers")) {
    ReflectDeleteProperty(ArrayBufferConstructor.prototype, "resize");
    fixLength("ArrayBuffer", ArrayBufferConstructor);
    const { WebAssembly } = globalThis as {
      readonly WebAssembly?: { readonly Memory: { readonly prototype: object } };
    };
    if (WebAssembly !== undefined) ReflectDeleteProperty(WebAssembly.Memory.prototype, "toResizableBuffer");
  }
  if (Shared !== undefined && (has("sharedArrayBuffer") || has("webAssembly"))) limitSharedBuffers(has, Shared);
}

const throwEvalError = (): never => {
  throw new EvalErrorConstructor(
    "eval and Function are turned off in this sandbox; the host can grant stringToCode, or set engine.dynamicCode to true",
  );
};

/** Replaces one of the four function constructors, also as `constructor` of its prototype. */
function replaceConstructor(name: string, prototype: object): void {
  function replacement(): never {
    return throwEvalError();
  }
  setName(replacement, name);
  fix(replacement, "prototype", prototype);
  fixInherited(prototype, "constructor", replacement);
  if (name === "Function") defineGlobal(name, replacement);
}

/** Makes `eval`, `Function` and its three siblings throw an EvalError. `x instanceof Function` still works. */
function disableDynamicCode(): void {
  replaceConstructor("Function", FunctionConstructor.prototype);
  replaceConstructor("AsyncFunction", ReflectGetPrototypeOf(async () => {}) as object);
  replaceConstructor("GeneratorFunction", ReflectGetPrototypeOf(function* () {}) as object);
  replaceConstructor("AsyncGeneratorFunction", ReflectGetPrototypeOf(async function* () {}) as object);
  defineGlobal("eval", throwEvalError);
}

/** Removes all engine features except the granted ones. */
export function lockDown(features: readonly EngineFeature[]): void {
  const has = (feature: EngineFeature): boolean => features.includes(feature);
  const { SharedArrayBuffer: Shared } = globalThis as { readonly SharedArrayBuffer?: typeof SharedArrayBuffer };
  for (let index = 0; index < FEATURE_GLOBALS.length; index += 1) {
    const [feature, name] = FEATURE_GLOBALS[index] as (typeof FEATURE_GLOBALS)[number];
    if (!has(feature)) ReflectDeleteProperty(globalThis, name);
  }
  // A ShadowRealm would have an unrestricted eval. V8 does not ship it yet.
  ReflectDeleteProperty(globalThis, "ShadowRealm");
  limitBuffers(has, Shared);
  if (!has("stringToCode")) disableDynamicCode();
}
