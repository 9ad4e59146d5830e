// What Web IDL asks of every interface that a class is written for: conversions of arguments, and how its members look.

type Interface = { readonly prototype: object; readonly name: string };
const CLASS_OWN: readonly PropertyKey[] = ["length", "name", "prototype", "constructor"];

function makeEnumerable(target: object): void {
  for (const key of Reflect.ownKeys(target)) {
    if (typeof key === "symbol" || CLASS_OWN.includes(key)) continue;
    Object.defineProperty(target, key, { enumerable: true });
  }
}

/** Members are enumerable, unlike a class's, and the interface has its name, whatever the build has made of it. */
export function defineInterface(name: string, made: Interface): void {
  makeEnumerable(made);
  makeEnumerable(made.prototype);
  if (made.name !== name) Object.defineProperty(made, "name", { value: name, configurable: true });
  Object.defineProperty(made.prototype, Symbol.toStringTag, { value: name, configurable: true });
}

/** Constants are on the interface and on its prototype. */
export function defineConstants(made: Interface, constants: { readonly [name: string]: number }): void {
  for (const [name, value] of Object.entries(constants)) {
    Object.defineProperty(made, name, { value, enumerable: true });
    Object.defineProperty(made.prototype, name, { value, enumerable: true });
  }
}

/** "operation on Interface": for messages. */
export function requireArguments(what: string, needed: number, got: number): void {
  if (got >= needed) return;
  throw new TypeError(`${what} expected ${needed} argument${needed === 1 ? "" : "s"}, got ${got}`);
}

/** A dictionary: any object; null and undefined are an empty one. */
export function toDictionary(value: unknown, what: string): { readonly [member: string]: unknown } {
  if (value === undefined || value === null) return {};
  if (typeof value === "object" || typeof value === "function") return value as { readonly [member: string]: unknown };
  throw new TypeError(`${what} expected an object, got ${typeof value}`);
}

/** [Clamp] long long: the nearest integer, an even one from the middle. */
export function toClampedInteger(value: unknown): number {
  const number = Number(value);
  if (Number.isNaN(number)) return 0;
  const clamped = Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
  const floor = Math.floor(clamped);
  const fraction = clamped - floor;
  if (fraction < 0.5 || (fraction === 0.5 && floor % 2 === 0)) return floor + 0;
  return floor + 1;
}

/** long long, as far as a number is exact. */
export function toInteger(value: unknown): number {
  const number = Math.trunc(Number(value));
  return Number.isFinite(number) ? number + 0 : 0;
}

/** BufferSource as bytes, without a copy; undefined for anything else, shared memory with it. */
export function bytesOf(source: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(source)) {
    const { buffer, byteOffset, byteLength } = source;
    return buffer instanceof ArrayBuffer ? new Uint8Array(buffer, byteOffset, byteLength) : undefined;
  }
  return source instanceof ArrayBuffer ? new Uint8Array(source) : undefined;
}
