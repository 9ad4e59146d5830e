// Buffer's methods that read and write numbers: `readUInt16LE()`, `writeIntBE()` and others, with Node's checks.
import { Buffer } from "buffer/";
import { checkNumber, outOfRange } from "../shared/node-error.ts";
import { boundsError } from "./buffer-arguments.ts";

type Methods = { [name: string]: (this: Uint8Array, ...args: never[]) => unknown };
type Limits = readonly [min: number | bigint, max: number | bigint];

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

/**
 * The package's methods. They compute with single bytes, which is several times as fast as a DataView, and skip their
 * own checks if the last argument is true.
 */
const arithmetic = Buffer.prototype as unknown as Readonly<
  Record<string, ((...args: unknown[]) => number) | undefined>
>;

function checkBounds(bytes: Uint8Array, offset: unknown, size: number): asserts offset is number {
  checkNumber(offset, "offset");
  if (bytes[offset] === undefined || bytes[offset + size - 1] === undefined)
    throw boundsError(offset, bytes.length - size);
}

function checkValue(value: number | bigint, [min, max]: Limits, size: number): void {
  if (!(value > max || value < min)) return;
  const n = typeof min === "bigint" ? "n" : "";
  const bits = size * 8;
  const power = (exponent: number): string => `2${n} ** ${exponent}${n}`;
  let range = `>= ${min}${n} and <= ${max}${n}`;
  if (size > 4)
    range = Number(min) === 0 ? `>= 0${n} and < ${power(bits)}` : `>= -(${power(bits - 1)}) and < ${power(bits - 1)}`;
  throw outOfRange("value", range, value);
}

const limitsOf = (size: number, isSigned: boolean): Limits =>
  isSigned ? [-(2 ** (size * 8 - 1)), 2 ** (size * 8 - 1) - 1] : [0, 2 ** (size * 8) - 1];

/** Kinds of numbers that DataView has: name, size in bytes, and limits for values that are checked. */
const FIXED: readonly (readonly [name: string, kind: string, size: number, limits?: Limits])[] = [
  ["UInt8", "Uint8", 1, limitsOf(1, false)],
  ["Int8", "Int8", 1, limitsOf(1, true)],
  ["UInt16", "Uint16", 2, limitsOf(2, false)],
  ["Int16", "Int16", 2, limitsOf(2, true)],
  ["UInt32", "Uint32", 4, limitsOf(4, false)],
  ["Int32", "Int32", 4, limitsOf(4, true)],
  ["BigUInt64", "BigUint64", 8, [0n, 2n ** 64n - 1n]],
  ["BigInt64", "BigInt64", 8, [-(2n ** 63n), 2n ** 63n - 1n]],
  ["Float", "Float32", 4],
  ["Double", "Float64", 8],
];

type ViewMethods = Readonly<Record<string, (offset: number, ...rest: readonly unknown[]) => number | bigint>>;

function fixedMethods(): Methods {
  const methods: Methods = {};
  for (const [name, kind, size, limits] of FIXED) {
    for (const order of size === 1 ? [""] : ["LE", "BE"]) {
      const isLittle = order === "LE";
      const read = size < 8 && name !== "Float" ? arithmetic[`read${name}${order}`] : undefined;
      const write = size < 8 && name !== "Float" ? arithmetic[`write${name}${order}`] : undefined;
      methods[`read${name}${order}`] = function (this: Uint8Array, offset: unknown = 0) {
        checkBounds(this, offset, size);
        if (read !== undefined) return read.call(this, offset, true);
        const view = viewOf(this);
        return (view as unknown as ViewMethods)[`get${kind}`]?.call(view, offset, isLittle);
      };
      methods[`write${name}${order}`] = function (this: Uint8Array, given: unknown, offset: unknown = 0) {
        const value = size === 8 && limits !== undefined ? (given as bigint) : +(given as number);
        if (size === 1) checkNumber(offset, "offset");
        if (limits !== undefined) checkValue(value, limits, size);
        checkBounds(this, offset, size);
        if (typeof limits?.[0] === "bigint" && typeof value !== "bigint")
          throw new TypeError("Cannot mix BigInt and other types, use explicit conversions");
        if (write !== undefined) return write.call(this, value, offset, true);
        const view = viewOf(this);
        (view as unknown as ViewMethods)[`set${kind}`]?.call(view, offset, value, isLittle);
        return offset + size;
      };
    }
  }
  return methods;
}

function checkSize(size: unknown): asserts size is number {
  checkNumber(size, "byteLength");
  if (!(size >= 1 && size <= 6 && Number.isInteger(size))) throw boundsError(size, 6, "byteLength");
}

/** Methods for numbers of 1 to 6 bytes. */
function variableMethods(): Methods {
  const methods: Methods = {};
  for (const isSigned of [false, true]) {
    for (const order of ["LE", "BE"]) {
      const name = `${isSigned ? "Int" : "UInt"}${order}`;
      const isLittle = order === "LE";
      methods[`read${name}`] = function (this: Uint8Array, offset: unknown, size: unknown) {
        if (offset === undefined) checkNumber(offset, "offset");
        checkSize(size);
        checkBounds(this, offset, size);
        let value = 0;
        for (let index = 0; index < size; index += 1)
          value += (this[offset + (isLittle ? index : size - 1 - index)] as number) * 2 ** (index * 8);
        return isSigned && value >= 2 ** (size * 8 - 1) ? value - 2 ** (size * 8) : value;
      };
      methods[`write${name}`] = function (this: Uint8Array, given: unknown, offset: unknown, size: unknown) {
        checkSize(size);
        const value = +(given as number);
        if (size === 1) checkNumber(offset, "offset");
        checkValue(value, limitsOf(size, isSigned), size);
        checkBounds(this, offset, size);
        // The upper bytes of more than 32 bits are rounded down, the others are those of the integer part.
        const high = Math.floor(value * 2 ** -32);
        for (let index = 0; index < size; index += 1)
          this[offset + (isLittle ? index : size - 1 - index)] =
            index < 4 ? value >>> (index * 8) : high >>> ((index - 4) * 8);
        return offset + size;
      };
    }
  }
  return methods;
}

function withAliases(methods: Methods): Methods {
  const all: Methods = { ...methods };
  for (const [name, method] of Object.entries(methods)) {
    if (name.includes("UInt")) all[name.replace("UInt", "Uint")] = method;
  }
  return all;
}

/** All methods, by name, also in their spelling with `Uint`. */
export const numberMethods: Methods = withAliases({ ...fixedMethods(), ...variableMethods() });
for (const [name, method] of Object.entries(numberMethods)) {
  if (!name.includes("Uint")) Object.defineProperty(method, "name", { value: name, configurable: true });
}
