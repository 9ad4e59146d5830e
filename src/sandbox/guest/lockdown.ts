// Takes from the global object what a guest may not have: what passes the memory limit, shares memory, holds its thread, or makes
// code from text. What the host allows stays V8's own; the reasons are in ../engine-features.ts.
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

/** Globals that are a feature each. */
const FEATURE_GLOBALS = [
  ["webAssembly", "WebAssembly"],
  ["sharedArrayBuffer", "SharedArrayBuffer"],
  ["atomics", "Atomics"],
] as const;

/** A property that is nobody's to change. */
function fix(target: object, key: PropertyKey, value: unknown): void {
  const descriptor = { __proto__: null, value, writable: false, enumerable: false, configurable: false };
  ReflectDefineProperty(target, key, descriptor as PropertyDescriptor);
}

/**
 * The same for a property that functions inherit. An accessor, since objects that inherit a property which cannot be written could not be
 * assigned one of their own: packages set `constructor` of functions (jimp).
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
 * In the place of a buffer's constructor: one that takes a length only. The real one is reached through its prototype too, so that
 * points here.
 */
function fixLength(name: string, Real: BufferConstructor): void {
  const { prototype } = Real;
  function FixedBuffer(this: unknown, length?: unknown): object {
    // `new.target` is undefined for a plain call, and then the real constructor's own TypeError is right.
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

/** Shared buffers come from their constructor, and from the memories of WebAssembly modules. */
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

const refuse = (): never => {
  throw new EvalErrorConstructor(
    "eval and Function are turned off in this sandbox; the host can grant stringToCode, or set engine.dynamicCode to true",
  );
};

/** In the place of one of the four constructors. They are reached through their prototypes too, so those point here. */
function replaceConstructor(name: string, prototype: object): void {
  function replacement(): never {
    return refuse();
  }
  setName(replacement, name);
  fix(replacement, "prototype", prototype);
  fixInherited(prototype, "constructor", replacement);
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

export function lockDown(features: readonly EngineFeature[]): void {
  const has = (feature: EngineFeature): boolean => features.includes(feature);
  const { SharedArrayBuffer: Shared } = globalThis as { readonly SharedArrayBuffer?: typeof SharedArrayBuffer };
  for (let index = 0; index < FEATURE_GLOBALS.length; index += 1) {
    const [feature, name] = FEATURE_GLOBALS[index] as (typeof FEATURE_GLOBALS)[number];
    if (!has(feature)) ReflectDeleteProperty(globalThis, name);
  }
  // A realm whose eval is whole; absent from V8 today.
  ReflectDeleteProperty(globalThis, "ShadowRealm");
  limitBuffers(has, Shared);
  if (!has("stringToCode")) removeStringToCode();
}
