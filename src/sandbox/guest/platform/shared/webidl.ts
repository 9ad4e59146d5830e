// Web IDL requirements for every interface: conversion of arguments, and the property descriptors of members.

type Interface = { readonly prototype: object; readonly name: string };
const CLASS_OWN: readonly PropertyKey[] = ["length", "name", "prototype", "constructor"];

function makeEnumerable(target: object): void {
  for (const key of Reflect.ownKeys(target)) {
    if (typeof key === "symbol" || CLASS_OWN.includes(key)) continue;
    Object.defineProperty(target, key, { enumerable: true });
  }
}

/** Makes members enumerable, unlike those of a class, and restores the interface's name, which the build may have changed. */
export function defineInterface(name: string, made: Interface): void {
  makeEnumerable(made);
  makeEnumerable(made.prototype);
  if (made.name !== name) Object.defineProperty(made, "name", { value: name, configurable: true });
  Object.defineProperty(made.prototype, Symbol.toStringTag, { value: name, configurable: true });
}

/** Defines constants on the interface and on its prototype. */
export function defineConstants(made: Interface, constants: { readonly [name: string]: number }): void {
  for (const [name, value] of Object.entries(constants)) {
    Object.defineProperty(made, name, { value, enumerable: true });
    Object.defineProperty(made.prototype, name, { value, enumerable: true });
  }
}

/** @param what "operation on Interface", for messages */
export function requireArguments(what: string, needed: number, got: number): void {
  if (got >= needed) return;
  throw new TypeError(`${what} expected ${needed} argument${needed === 1 ? "" : "s"}, got ${got}`);
}

/** Converts to a dictionary: any object is one, null and undefined are an empty one. */
export function toDictionary(value: unknown, what: string): { readonly [member: string]: unknown } {
  if (value === undefined || value === null) return {};
  if (typeof value === "object" || typeof value === "function") return value as { readonly [member: string]: unknown };
  throw new TypeError(`${what} expected an object, got ${typeof value}`);
}

/** [Clamp] long long: rounds to the nearest integer, and to an even one from the middle. */
export function toClampedInteger(value: unknown): number {
  const number = Number(value);
  if (Number.isNaN(number)) return 0;
  const clamped = Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
  const floor = Math.floor(clamped);
  const fraction = clamped - floor;
  if (fraction < 0.5 || (fraction === 0.5 && floor % 2 === 0)) return floor + 0;
  return floor + 1;
}

/** Converts to long long, within the range in which numbers are exact. */
export function toInteger(value: unknown): number {
  const number = Math.trunc(Number(value));
  return Number.isFinite(number) ? number + 0 : 0;
}

/** Returns a BufferSource as bytes without copying, and undefined for any other value, including shared memory. */
export function bytesOf(source: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(source)) {
    const { buffer, byteOffset, byteLength } = source;
    return buffer instanceof ArrayBuffer ? new Uint8Array(buffer, byteOffset, byteLength) : undefined;
  }
  return source instanceof ArrayBuffer ? new Uint8Array(source) : undefined;
}
