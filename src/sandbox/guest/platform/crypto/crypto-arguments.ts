// Converts the arguments of SubtleCrypto's methods as the standard requires (WebIDL), and then to what crosses to the worker: text,
// numbers, handles, and copies of bytes. All arguments are converted first, from left to right. Then algorithms are read, which may call
// getters of the caller, and bytes are copied last.
import {
  type Argument,
  JWK_PRIME_TEXTS,
  JWK_TEXTS,
  MEMBERS,
  type Operation,
  PARAMETERS,
} from "../../../protocol/crypto-messages.ts";
import { copyBytes, isBufferSource } from "./crypto-bytes.ts";
import { handleOf } from "./crypto-key.ts";

type Members = { [member: string]: unknown };

const isObject = (value: unknown): value is Members =>
  (typeof value === "object" && value !== null) || typeof value === "function";

/** `[EnforceRange]` rejects numbers that are not finite. The worker checks the upper limit. */
function toNumber(value: unknown, what: string): number {
  const number = +(value as number);
  if (!Number.isFinite(number)) throw new TypeError(`${what} is outside the expected range`);
  return Math.trunc(number);
}

function toSequence(value: unknown): string[] {
  if (!isObject(value) || typeof value[Symbol.iterator as unknown as string] !== "function") {
    throw new TypeError("Expected a sequence");
  }
  return Array.from(value as unknown as Iterable<unknown>, (item) => `${item as string}`);
}

function toJwk(value: unknown): Members {
  const jwk: Members = {};
  if (value === undefined || value === null) return jwk;
  if (!isObject(value)) throw new TypeError("Expected a JsonWebKey");
  // Web IDL reads the members of a dictionary in alphabetical order.
  for (const member of [...JWK_TEXTS, "ext", "key_ops", "oth"].sort()) {
    const given = value[member];
    if (given === undefined) continue;
    if (member === "ext") jwk.ext = Boolean(given);
    else if (member === "key_ops") jwk.key_ops = toSequence(given);
    else if (member === "oth") jwk.oth = Array.from(given as Iterable<unknown>, toPrime);
    else jwk[member] = `${given as string}`;
  }
  return jwk;
}

function toPrime(value: unknown): Members {
  const prime: Members = {};
  for (const member of JWK_PRIME_TEXTS) {
    const given = isObject(value) ? value[member] : undefined;
    if (given !== undefined) prime[member] = `${given as string}`;
  }
  return prime;
}

/** Converts a value to the type of its argument. */
function convert({ kind }: Argument, value: unknown, format: unknown): unknown {
  switch (kind) {
    case "algorithm":
      return isObject(value) ? value : `${value as string}`;
    case "bytes":
      if (!isBufferSource(value)) throw new TypeError("Expected an ArrayBuffer or a view of one");
      return value;
    case "key":
      if (handleOf(value) === undefined) throw new TypeError("Expected a CryptoKey");
      return handleOf(value);
    case "keyData":
      if (format === "jwk") return toJwk(value);
      if (!isBufferSource(value)) throw new TypeError("Expected an ArrayBuffer or a view of one");
      return value;
    case "boolean":
      return Boolean(value);
    case "usages":
      return toSequence(value);
    case "length":
      return value === null || value === undefined ? null : toNumber(value, "length");
    default:
      return `${value as string}`;
  }
}

const patterns = new Map<string, RegExp>();

function isNamed(names: string, name: string): boolean {
  let pattern = patterns.get(names);
  if (pattern === undefined) {
    pattern = new RegExp(`^(?:${names})$`);
    patterns.set(names, pattern);
  }
  return pattern.test(name);
}

/** Collects the values that cross to the worker. */
export class Crossing {
  readonly buffers: ArrayBuffer[] = [];

  bytes(value: unknown): number {
    if (!isBufferSource(value)) throw new TypeError("Expected an ArrayBuffer or a view of one");
    return this.buffers.push(copyBytes(value)) - 1;
  }

  /** Reads only the members of a dictionary that its algorithm defines, each of them once. */
  algorithm(value: unknown, operations: readonly Operation[]): unknown {
    if (!isObject(value)) return value;
    const given = value.name;
    if (given === undefined) throw new TypeError("An algorithm expected a name");
    const name = `${given as string}`;
    const algorithm: Members = { name };
    for (const operation of operations) {
      for (const [names, ...members] of PARAMETERS[operation]) {
        if (isNamed(names, name.toUpperCase())) for (const member of members) this.#member(algorithm, value, member);
      }
    }
    return algorithm;
  }

  #member(algorithm: Members, source: Members, member: string): void {
    if (Object.hasOwn(algorithm, member)) return;
    const value = source[member];
    if (value === undefined) return;
    switch (MEMBERS[member]) {
      case "bytes":
        algorithm[member] = this.bytes(value);
        break;
      case "integer":
        if (Object.prototype.toString.call(value) !== "[object Uint8Array]") {
          throw new TypeError(`${member} expected a Uint8Array`);
        }
        algorithm[member] = this.bytes(value);
        break;
      case "hash":
        algorithm[member] = this.algorithm(isObject(value) ? value : `${value as string}`, ["digest"]);
        break;
      case "key":
        if (handleOf(value) === undefined) throw new TypeError(`${member} expected a CryptoKey`);
        algorithm[member] = handleOf(value);
        break;
      case "number":
        algorithm[member] = toNumber(value, member);
        break;
      default:
        algorithm[member] = `${value as string}`;
    }
  }

  /** Converts the arguments of a whole call. @throws {TypeError} and whatever the caller's getters throw */
  cross(signature: readonly Argument[], values: readonly unknown[]): unknown[] {
    const converted = signature.map((argument, index) => convert(argument, values[index], values[0]));
    const crossed = converted.map((value, index) => {
      const argument = signature[index];
      return argument?.kind === "algorithm" ? this.algorithm(value, argument.operations) : value;
    });
    return crossed.map((value, index) => {
      const kind = signature[index]?.kind;
      return kind === "bytes" || (kind === "keyData" && isBufferSource(value)) ? this.bytes(value) : value;
    });
  }
}
