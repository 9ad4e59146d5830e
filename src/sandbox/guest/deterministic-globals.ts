// Makes repeatable calls independent of V8: Math.random is the generator sfc32 (from Doty-Humphrey's PractRand) with a seed of the worker,
// and the garbage collector cannot be observed.
import { replaceMethod } from "./coarse-time.ts";
import { append, defineGlobal, defineValue, ReflectConstruct } from "./primordials.ts";

const TWO_TO_27 = 2 ** 27;
const TWO_TO_53 = 2 ** 53;

/**
 * Replaces Math.random.
 * @param words seed: four 32-bit words
 */
export function installSeededRandom(words: readonly number[]): void {
  let [a = 0, b = 0, c = 0, counter = 0] = words;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  // 53 bits, the precision of a double.
  const random = (): number => ((next() >>> 6) * TWO_TO_27 + (next() >>> 5)) / TWO_TO_53;
  replaceMethod(Math, "random", () => random);
}

/**
 * Hides when the garbage collector runs: the target of a WeakRef is kept, and a FinalizationRegistry never calls back. Both are allowed by
 * the language, which does not require that anything is ever collected.
 */
export function hideGarbageCollection(): void {
  const NativeWeakRef = WeakRef;
  const kept: object[] = [];
  const handler = {
    __proto__: null,
    construct: (_target: unknown, args: readonly unknown[], newTarget: () => unknown): object => {
      const target = args.length > 0 ? args[0] : undefined;
      const reference = ReflectConstruct(NativeWeakRef, [target], newTarget) as object;
      append(kept, target as object);
      return reference;
    },
  };
  const KeepingWeakRef = new Proxy(NativeWeakRef, handler as unknown as ProxyHandler<WeakRefConstructor>);
  defineValue(NativeWeakRef.prototype, "constructor", KeepingWeakRef, false);
  defineGlobal("WeakRef", KeepingWeakRef);
  replaceMethod(FinalizationRegistry.prototype, "register", () => () => undefined);
  replaceMethod(FinalizationRegistry.prototype, "unregister", () => () => false);
}
