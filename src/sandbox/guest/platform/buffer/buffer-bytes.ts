// Buffer's functions on whole buffers: comparing, joining, copying and searching, with Node's checks.

import { invalidArgument, outOfRange, unknownEncoding } from "../shared/node-error.ts";
import { type Bytes, checkBytes, checkOffset } from "./buffer-arguments.ts";

export function compareBytes(left: Bytes, right: Bytes): number {
  const end = Math.min(left.length, right.length);
  for (let index = 0; index < end; index += 1) {
    const difference = (left[index] as number) - (right[index] as number);
    if (difference !== 0) return Math.sign(difference);
  }
  return Math.sign(left.length - right.length);
}

/** `Buffer.compare(buf1, buf2)` */
export function compareTwo(left: unknown, right: unknown): number {
  checkBytes(left, "buf1");
  checkBytes(right, "buf2");
  return compareBytes(left, right);
}

/** `buf.compare(target, targetStart, targetEnd, sourceStart, sourceEnd)` */
export function compareRanges(source: Bytes, target: unknown, limits: readonly unknown[]): number {
  checkBytes(target, "target");
  const read = (index: number, name: string, otherwise: number, max?: number): number =>
    limits[index] === undefined ? otherwise : checkOffset(limits[index], name, max);
  const targetStart = read(0, "targetStart", 0);
  const targetEnd = read(1, "targetEnd", target.length, target.length);
  const sourceStart = read(2, "sourceStart", 0);
  const sourceEnd = read(3, "sourceEnd", source.length, source.length);
  if (sourceStart >= sourceEnd) return targetStart >= targetEnd ? 0 : -1;
  if (targetStart >= targetEnd) return 1;
  return compareBytes(source.subarray(sourceStart, sourceEnd), target.subarray(targetStart, targetEnd));
}

export function equalBytes(source: Bytes, other: unknown): boolean {
  checkBytes(other, "otherBuffer");
  return source.length === other.length && compareBytes(source, other) === 0;
}

/** @param alloc creates the result, filled with zeros */
export function concatBytes<T extends Bytes>(list: unknown, length: unknown, alloc: (size: number) => T): T {
  if (!Array.isArray(list)) throw invalidArgument("list", "an instance of Array", list);
  if (list.length === 0) return alloc(0);
  const sizes = (list as readonly { readonly length?: number }[]).map((part) => part?.length || 0);
  const total = length === undefined ? sizes.reduce((sum, size) => sum + size, 0) : checkOffset(length, "length");
  const joined = alloc(total);
  let position = 0;
  for (const [index, part] of (list as readonly unknown[]).entries()) {
    checkBytes(part, `list[${index}]`);
    if (position >= total) continue;
    joined.set(part.subarray(0, total - position), position);
    position += part.length;
  }
  return joined;
}

const toInteger = (value: unknown): number => {
  const integer = Math.trunc(Number(value));
  return Number.isSafeInteger(integer) ? integer : 0;
};

/** Returns the number of copied bytes. */
export function copyBytes(source: Bytes, target: unknown, limits: readonly unknown[]): number {
  checkBytes(target, "target");
  const [to, from, until] = limits;
  const targetStart = to === undefined ? 0 : toInteger(to);
  if (targetStart < 0) throw outOfRange("targetStart", ">= 0", targetStart);
  const sourceStart = from === undefined ? 0 : toInteger(from);
  if (sourceStart < 0 || sourceStart > source.length)
    throw outOfRange("sourceStart", `>= 0 && <= ${source.length}`, sourceStart);
  const sourceEnd = until === undefined ? source.length : toInteger(until);
  if (sourceEnd < 0) throw outOfRange("sourceEnd", ">= 0", sourceEnd);
  if (targetStart >= target.length || sourceStart >= sourceEnd) return 0;
  const part = source.subarray(sourceStart, Math.min(sourceEnd, sourceStart + target.length - targetStart));
  target.set(part, targetStart);
  return part.length;
}

interface Search {
  readonly value: unknown;
  readonly byteOffset: unknown;
  readonly encoding: unknown;
  readonly isForward: boolean;
}
interface Encodings {
  /** Returns Node's spelling of an encoding, or undefined for an unknown one. */
  nameOf(encoding: unknown): string | undefined;
  toBytes(text: string, encoding: string): Bytes;
}

/** Returns where a search begins, -1 if nothing can be found. A negative offset counts from the end. */
function startOf(length: number, offset: number, needleLength: number, isForward: boolean): number {
  if (offset < 0) {
    if (offset + length >= 0) return offset + length;
    return isForward || needleLength === 0 ? 0 : -1;
  }
  if (offset + needleLength <= length) return offset;
  if (needleLength === 0) return length;
  return isForward ? -1 : length - 1;
}

function isAt(bytes: Bytes, needle: Bytes, index: number, length: number): boolean {
  for (let at = 0; at < length; at += 1) if (bytes[index + at] !== needle[at]) return false;
  return true;
}

/** The engine's method, which Buffer replaces. */
const { indexOf: indexOfByte } = Uint8Array.prototype;

/** @param step bytes of a unit: text in UTF-16 is found only at whole units */
function findBytes(bytes: Bytes, needle: Bytes, offset: number, isForward: boolean, step: number): number {
  const start = startOf(bytes.length, offset, needle.length, isForward);
  if (needle.length === 0) return Math.min(start, bytes.length - (bytes.length % step));
  if (bytes.length < step || needle.length < step || start < 0 || needle.length > bytes.length) return -1;
  const whole = needle.length - (needle.length % step);
  const last = bytes.length - whole;
  const first = needle[0] as number;
  if (isForward && step === 1) {
    const next = (from: number): number => Reflect.apply(indexOfByte, bytes, [first, from]);
    for (let index = next(start); index >= 0 && index <= last; index = next(index + 1))
      if (isAt(bytes, needle, index, whole)) return index;
    return -1;
  }
  if (isForward) {
    if (start > bytes.length - (bytes.length % step) - needle.length) return -1;
    for (let index = start - (start % step); index <= last; index += step)
      if (isAt(bytes, needle, index, whole)) return index;
    return -1;
  }
  const from = Math.min(start, last);
  for (let index = from - (from % step); index >= 0; index -= step) if (isAt(bytes, needle, index, whole)) return index;
  return -1;
}

/** `indexOf()` and `lastIndexOf()` */
export function search(bytes: Bytes, given: Search, encodings: Encodings): number {
  const { value, isForward } = given;
  const isEncoding = typeof given.byteOffset === "string";
  const encoding = isEncoding ? given.byteOffset : given.encoding;
  const number = isEncoding ? Number.NaN : Number(given.byteOffset);
  const bounded = Math.trunc(Math.min(Math.max(number, -0x8000_0000), 0x7fff_ffff));
  const offset = Number.isNaN(number) ? (isForward ? 0 : bytes.length) : bounded;
  if (typeof value === "number") return findBytes(bytes, new Uint8Array([value >>> 0]), offset, isForward, 1);
  const name = encoding === undefined ? "utf8" : encodings.nameOf(encoding);
  const step = name === "utf16le" ? 2 : 1;
  if (typeof value === "string") {
    if (name === undefined) throw unknownEncoding(encoding);
    const units = bytes.subarray(0, bytes.length - (bytes.length % step));
    return findBytes(units, encodings.toBytes(value, name), offset, isForward, step);
  }
  if (value instanceof Uint8Array) return findBytes(bytes, value, offset, isForward, step);
  throw invalidArgument("value", "one of type number or string or an instance of Buffer or Uint8Array", value);
}
