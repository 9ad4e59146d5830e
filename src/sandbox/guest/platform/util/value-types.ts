// util.types: detects the type of a value by its internal slots, regardless of its prototype. A proxy is not distinguishable from its
// target.

type Test = (value: unknown) => boolean;

/** True if the method, which reads an internal slot, accepts the value. */
function hasSlot(method: ((this: never, ...args: never[]) => unknown) | undefined, ...args: unknown[]): Test {
  return (value) => {
    if (method === undefined || typeof value !== "object" || value === null) return false;
    try {
      Reflect.apply(method, value, args);
      return true;
    } catch {
      return false;
    }
  };
}

const getterOf = (prototype: object, key: PropertyKey): (() => unknown) | undefined =>
  Object.getOwnPropertyDescriptor(prototype, key)?.get;
const tagOf = (value: unknown): string => Object.prototype.toString.call(value).slice("[object ".length, -1);
const functionTag =
  (tag: string): Test =>
  (value) =>
    typeof value === "function" && tagOf(value) === tag;
const typedArrayTag = getterOf(Object.getPrototypeOf(Uint8Array.prototype) as object, Symbol.toStringTag);
const typedTagOf = (value: unknown): unknown =>
  typeof value === "object" && value !== null && typedArrayTag !== undefined
    ? Reflect.apply(typedArrayTag, value, [])
    : undefined;

const isDate = hasSlot(Date.prototype.getTime);
const isArrayBuffer = hasSlot(getterOf(ArrayBuffer.prototype, "byteLength"));
const boxed = {
  isNumberObject: hasSlot(Number.prototype.valueOf),
  isStringObject: hasSlot(String.prototype.valueOf),
  isBooleanObject: hasSlot(Boolean.prototype.valueOf),
  isBigIntObject: hasSlot(BigInt.prototype.valueOf),
  isSymbolObject: hasSlot(Symbol.prototype.valueOf),
};
const errors = Error as unknown as { readonly isError?: Test };

export const types = {
  isExternal: (): boolean => false,
  isDate,
  isArgumentsObject: (value: unknown): boolean =>
    tagOf(value) === "Arguments" && !(Symbol.toStringTag in (value as object)),
  ...boxed,
  isBoxedPrimitive: (value: unknown): boolean => Object.values(boxed).some((test) => test(value)),
  isNativeError: (value: unknown): boolean => errors.isError?.(value) ?? value instanceof Error,
  isRegExp: hasSlot(getterOf(RegExp.prototype, "hasIndices"), RegExp),
  isAsyncFunction: (value: unknown): boolean =>
    functionTag("AsyncFunction")(value) || functionTag("AsyncGeneratorFunction")(value),
  isGeneratorFunction: (value: unknown): boolean =>
    functionTag("GeneratorFunction")(value) || functionTag("AsyncGeneratorFunction")(value),
  isGeneratorObject: (value: unknown): boolean => tagOf(value) === "Generator" || tagOf(value) === "AsyncGenerator",
  isPromise: (value: unknown): boolean => value instanceof Promise && tagOf(value) === "Promise",
  isMap: hasSlot(getterOf(Map.prototype, "size")),
  isSet: hasSlot(getterOf(Set.prototype, "size")),
  isMapIterator: (value: unknown): boolean => tagOf(value) === "Map Iterator",
  isSetIterator: (value: unknown): boolean => tagOf(value) === "Set Iterator",
  isWeakMap: hasSlot(WeakMap.prototype.has, {}),
  isWeakSet: hasSlot(WeakSet.prototype.has, {}),
  isArrayBuffer,
  isDataView: hasSlot(getterOf(DataView.prototype, "byteLength")),
  isSharedArrayBuffer: (value: unknown): boolean => tagOf(value) === "SharedArrayBuffer",
  isProxy: (): boolean => false,
  isModuleNamespaceObject: (value: unknown): boolean => tagOf(value) === "Module",
  isAnyArrayBuffer: (value: unknown): boolean => isArrayBuffer(value) || tagOf(value) === "SharedArrayBuffer",
  isCryptoKey: (value: unknown): boolean => tagOf(value) === "CryptoKey",
  isKeyObject: (value: unknown): boolean => tagOf(value) === "KeyObject",
  isEventTarget: (value: unknown): boolean => tagOf(value) === "EventTarget",
  isArrayBufferView: (value: unknown): boolean => ArrayBuffer.isView(value),
  isTypedArray: (value: unknown): boolean => typedTagOf(value) !== undefined,
  ...Object.fromEntries(
    [
      "Uint8Array",
      "Uint8ClampedArray",
      "Uint16Array",
      "Uint32Array",
      "Int8Array",
      "Int16Array",
      "Int32Array",
      "Float16Array",
      "Float32Array",
      "Float64Array",
      "BigInt64Array",
      "BigUint64Array",
    ].map((name) => [`is${name}`, (value: unknown): boolean => typedTagOf(value) === name]),
  ),
};
