// Primes of node:crypto. The synchronous functions compute in the guest, where they can be interrupted and their CPU time counts. The
// others send each candidate to the worker's threads, one after the other, so that each job has a limit.

import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkObject,
  invalidArgument,
  nodeError,
  outOfRange,
} from "../shared/node-error.ts";
import { fillRandom } from "./crypto.ts";
import { deriveInWorker } from "./crypto-call.ts";
import type { Callback } from "./node-crypto-data.ts";

const MAX_INT32 = 2 ** 31 - 1;
/** Rounds of the Miller-Rabin test, as in OpenSSL. A composite number passes a round with a probability of at most 1/4. */
const MIN_ROUNDS = 64;
/** Primes for trial division. They rule out four of five odd candidates. */
const SMALL_PRIMES: readonly bigint[] = (() => {
  const primes: bigint[] = [];
  for (let number = 3n; number < 256n; number += 2n) {
    if (primes.every((prime) => number % prime !== 0n)) primes.push(number);
  }
  return primes;
})();

function toBigInt(bytes: Uint8Array): bigint {
  let hex = "0x0";
  for (const byte of bytes) hex += byte.toString(16).padStart(2, "0");
  return BigInt(hex);
}

function toBytes(value: bigint, size: number): Uint8Array<ArrayBuffer> {
  const hex = value.toString(16).padStart(2 * size, "0");
  const bytes = new Uint8Array(size);
  for (let index = 0; index < size; index += 1) bytes[index] = Number.parseInt(hex.slice(2 * index, 2 * index + 2), 16);
  return bytes;
}

const bitLength = (value: bigint): number => (value === 0n ? 0 : value.toString(2).length);
const byteLength = (value: bigint): number => Math.ceil(bitLength(value) / 8);

/** Reads a bigint, or bytes in big-endian order. */
function readInteger(value: unknown, name: string): bigint {
  if (typeof value === "bigint") {
    if (value < 0n) throw outOfRange(name, ">= 0", value);
    return value;
  }
  if (ArrayBuffer.isView(value)) {
    return toBigInt(new Uint8Array(value.buffer as ArrayBuffer, value.byteOffset, value.byteLength));
  }
  if (value instanceof ArrayBuffer) return toBigInt(new Uint8Array(value));
  throw invalidArgument(name, "of type bigint or an instance of ArrayBuffer, TypedArray, Buffer, or DataView", value);
}

/** Returns a random number of at most this many bits. */
function randomBits(bits: number): bigint {
  const bytes = new Uint8Array(Math.ceil(bits / 8));
  fillRandom(bytes);
  return toBigInt(bytes) >> BigInt(bytes.length * 8 - bits);
}

function powerModulo(base: bigint, exponent: string, modulus: bigint): bigint {
  let result = 1n;
  for (const bit of exponent) {
    result = (result * result) % modulus;
    if (bit === "1") result = (result * base) % modulus;
  }
  return result;
}

/** Decides small and even numbers, and those with a small factor. */
function decideQuickly(candidate: bigint): boolean | undefined {
  if (candidate < 4n) return candidate > 1n;
  if (candidate % 2n === 0n) return false;
  for (const prime of SMALL_PRIMES) if (candidate % prime === 0n) return candidate === prime;
  return undefined;
}

function isPrime(candidate: bigint, checks: number): boolean {
  const quick = decideQuickly(candidate);
  if (quick !== undefined) return quick;
  const minusOne = candidate - 1n;
  let twos = 0;
  let odd = minusOne;
  while (odd % 2n === 0n) {
    odd /= 2n;
    twos += 1;
  }
  const exponent = odd.toString(2);
  const bits = bitLength(candidate);
  for (let round = 0; round < Math.max(MIN_ROUNDS, checks); round += 1) {
    const base = 2n + (randomBits(bits + 64) % (candidate - 3n));
    let power = powerModulo(base, exponent, candidate);
    if (power === 1n || power === minusOne) continue;
    let squarings = 1;
    for (; squarings < twos && power !== minusOne; squarings += 1) power = (power * power) % candidate;
    if (power !== minusOne) return false;
  }
  return true;
}

async function isPrimeInWorker(candidate: bigint, checks: number): Promise<boolean> {
  const quick = decideQuickly(candidate);
  if (quick !== undefined) return quick;
  const [answer] = await deriveInWorker("checkPrime", [checks], [toBytes(candidate, byteLength(candidate))]);
  return answer === 1;
}

function settle(promise: Promise<unknown>, callback: Callback): void {
  promise.then(
    (value) => callback(undefined, value),
    (error: unknown) => callback(error),
  );
}

/** Returns the options and the callback. Both functions can be called without options. */
function splitCallback([options = {}, callback]: readonly unknown[]): [options: unknown, callback: unknown] {
  return typeof options === "function" ? [{}, options] : [options, callback];
}

function readChecks(options: unknown): number {
  checkObject(options, "options");
  const { checks = 0 } = options as { readonly checks?: unknown };
  checkInteger(checks, "options.checks", 0, MAX_INT32);
  return checks;
}

export function checkPrimeSync(candidate: unknown, options: unknown = {}): boolean {
  return isPrime(readInteger(candidate, "candidate"), readChecks(options));
}

export function checkPrime(candidate: unknown, ...rest: readonly unknown[]): void {
  const number = readInteger(candidate, "candidate");
  const [options, callback] = splitCallback(rest);
  checkFunction(callback, "callback");
  settle(isPrimeInWorker(number, readChecks(options)), callback as Callback);
}

interface Search {
  readonly size: number;
  readonly isSafe: boolean;
  readonly add: bigint | undefined;
  readonly rem: bigint;
  readonly isBigInt: boolean;
}

const notInRange = (name: string): Error => nodeError(RangeError, "ERR_OUT_OF_RANGE", `invalid options.${name}`);

function greatestDivisor(a: bigint, b: bigint): bigint {
  let [divisor, rest] = [a, b];
  while (rest !== 0n) [divisor, rest] = [rest, divisor % rest];
  return divisor;
}

function readSearch(size: unknown, options: unknown): Search {
  checkInteger(size, "size", 1, MAX_INT32);
  checkObject(options, "options");
  const { safe = false, bigint = false, add: step, rem: rest } = options as { readonly [name: string]: unknown };
  checkBoolean(safe, "options.safe");
  checkBoolean(bigint, "options.bigint");
  const add = step === undefined ? undefined : readInteger(step, "options.add");
  const given = rest === undefined ? undefined : readInteger(rest, "options.rem");
  if (size < 2 || (safe && add === undefined && size < 6 && size !== 3)) {
    throw nodeError(Error, "ERR_OSSL_BN_BITS_TOO_SMALL", "error:01800076:bignum routines::bits too small");
  }
  const search = { size, isSafe: safe, isBigInt: bigint, add, rem: given ?? (safe ? 3n : 1n) };
  if (add === undefined) return search;
  if (bitLength(add) > size) throw notInRange("add");
  if (add === 0n) throw nodeError(Error, "ERR_OSSL_BN_DIV_BY_ZERO", "error:01800067:bignum routines::div by zero");
  // All numbers with this remainder share the divisor. Node searches without an end.
  if ((given !== undefined && add <= given) || greatestDivisor(add, search.rem) !== 1n) throw notInRange("rem");
  return search;
}

/** Returns a random odd number of exactly `size` bits with the required remainder, or undefined if it has missed. */
function nextCandidate({ size, add, rem }: Search): bigint | undefined {
  const highest = 1n << BigInt(size - 1);
  // As in OpenSSL, the product of two primes without a required remainder has exactly twice the bits.
  if (add === undefined) return highest | (highest >> 1n) | randomBits(size - 1) | 1n;
  const random = highest | randomBits(size - 1);
  const candidate = random - (random % add) + (rem % add);
  return candidate % 2n === 1n && bitLength(candidate) === size ? candidate : undefined;
}

/** Returns candidates whose small factors are ruled out, and ends long after a prime could be expected. */
function* candidatesFor(search: Search): Generator<bigint> {
  const { size, isSafe } = search;
  const attempts = 10_000 + 40 * size * (isSafe ? size : 1);
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const candidate = nextCandidate(search);
    if (candidate === undefined || decideQuickly(candidate) === false) continue;
    if (!isSafe || decideQuickly(candidate >> 1n) !== false) yield candidate;
  }
}

const notFound = (): Error =>
  nodeError(Error, "ERR_CRYPTO_OPERATION_FAILED", "No prime of this size with these options was found");

const toResult = (prime: bigint, { size, isBigInt }: Search): bigint | ArrayBuffer =>
  isBigInt ? prime : toBytes(prime, Math.ceil(size / 8)).buffer;

export function generatePrimeSync(size: unknown, options: unknown = {}): bigint | ArrayBuffer {
  const search = readSearch(size, options);
  for (const candidate of candidatesFor(search)) {
    if (isPrime(candidate, 0) && (!search.isSafe || isPrime(candidate >> 1n, 0))) return toResult(candidate, search);
  }
  throw notFound();
}

async function findPrime(search: Search): Promise<bigint | ArrayBuffer> {
  for (const candidate of candidatesFor(search)) {
    if (!(await isPrimeInWorker(candidate, 0))) continue;
    if (!search.isSafe || (await isPrimeInWorker(candidate >> 1n, 0))) return toResult(candidate, search);
  }
  throw notFound();
}

export function generatePrime(size: unknown, ...rest: readonly unknown[]): void {
  const [options, callback] = splitCallback(rest);
  checkInteger(size, "size", 1, MAX_INT32);
  checkFunction(callback, "callback");
  settle(findPrime(readSearch(size, options)), callback as Callback);
}
