// Takes from the global object what a guest may not have: what passes the memory limit, shares memory, or makes code from text.
// A table of what goes, and why; the rest is V8's own.
import {
  ArrayBufferConstructor,
  EvalErrorConstructor,
  FunctionConstructor,
  ObjectHasOwn,
  ReflectConstruct,
  ReflectDefineProperty,
  ReflectDeleteProperty,
  ReflectGetPrototypeOf,
} from "./primordials.ts";

/** Globals that are absent unless granted. */
const REMOVED_GLOBALS = [
  "WebAssembly", // its memory passes V8's heap limit (4 GB measured)
  "SharedArrayBuffer", // growable ones pass the limit too; shared memory is also a clock
  "Atomics", // Atomics.wait blocks the thread where dispose() cannot reach
] as const;

/** `ArrayBuffer` without resizing: a resizable buffer reserves and commits past the memory limit (2.2 GB measured). */
const REMOVED_BUFFER_MEMBERS = ["resize"] as const;

function removeResizableBuffers(): void {
  const prototype = ArrayBufferConstructor.prototype;
  for (const name of REMOVED_BUFFER_MEMBERS) ReflectDeleteProperty(prototype, name);
  function ArrayBuffer(this: unknown, length?: unknown): object {
    // `new.target` is undefined for a plain call, and then the real constructor's own TypeError is right.
    if (new.target === undefined) return (ArrayBufferConstructor as unknown as (length: unknown) => object)(length);
    return ReflectConstruct(ArrayBufferConstructor, [length], new.target) as object;
  }
  inheritStatics(ArrayBuffer, ArrayBufferConstructor, prototype);
  replaceGlobal("ArrayBuffer", ArrayBuffer, prototype);
}

function inheritStatics(target: object, source: object, prototype: object): void {
  for (const key of Reflect.ownKeys(source)) {
    if (key === "prototype") continue;
    const descriptor = Reflect.getOwnPropertyDescriptor(source, key);
    if (descriptor !== undefined) ReflectDefineProperty(target, key, descriptor);
  }
  ReflectDefineProperty(target, "prototype", {
    value: prototype,
    writable: false,
    enumerable: false,
    configurable: false,
  });
}

function replaceGlobal(name: string, value: object, prototype: object): void {
  ReflectDefineProperty(prototype, "constructor", { value, writable: true, enumerable: false, configurable: true });
  ReflectDefineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/**
 * `eval`, `Function` and its three siblings throw EvalError. The constructors are reached through their prototypes too,
 * so those point at the replacements; `x instanceof Function` stays true.
 */
function removeStringToCode(): void {
  const refuse = (): never => {
    throw new EvalErrorConstructor("Making code from text is not allowed in the sandbox");
  };
  const samples: readonly [name: string, sample: object][] = [
    ["Function", FunctionConstructor.prototype],
    ["AsyncFunction", ReflectGetPrototypeOf(async () => {}) as object],
    ["GeneratorFunction", ReflectGetPrototypeOf(function* () {}) as object],
    ["AsyncGeneratorFunction", ReflectGetPrototypeOf(async function* () {}) as object],
  ];
  for (const [name, prototype] of samples) {
    const original = (prototype as { constructor: object }).constructor;
    function replacement(): never {
      return refuse();
    }
    inheritStatics(replacement, original, prototype);
    ReflectDefineProperty(prototype, "constructor", {
      value: replacement,
      writable: false,
      enumerable: false,
      configurable: false,
    });
    if (ObjectHasOwn(globalThis, name)) {
      ReflectDefineProperty(globalThis, name, {
        value: replacement,
        writable: true,
        enumerable: false,
        configurable: true,
      });
    }
  }
  ReflectDefineProperty(globalThis, "eval", { value: refuse, writable: true, enumerable: false, configurable: true });
}

export function lockDown(): void {
  for (const name of REMOVED_GLOBALS) ReflectDeleteProperty(globalThis, name);
  removeResizableBuffers();
  removeStringToCode();
}
