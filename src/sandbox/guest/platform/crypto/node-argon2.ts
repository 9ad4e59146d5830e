// Argon2 of node:crypto: in the guest if it is synchronous, else as a job of the worker.

import { checkFunction, checkInteger, checkObject, checkString, nodeError, outOfRange } from "../shared/node-error.ts";
import { deriveInWorker } from "./crypto-call.ts";
import type { Argon2Options } from "./crypto-options.ts";
import { dataBytes, encode, settle } from "./node-crypto-data.ts";

/** A platform module of its own, because few tools need it. */
declare function require(name: "./crypto-derive.ts"): typeof import("./crypto-derive.ts");

const MAX_UINT32 = 2 ** 32 - 1;
const MAX_LANES = 2 ** 24 - 1;
const ALGORITHMS = ["argon2d", "argon2i", "argon2id"];

function readOptions(algorithm: unknown, parameters: unknown): Argon2Options {
  checkString(algorithm, "algorithm");
  checkObject(parameters, "parameters");
  if (!ALGORITHMS.includes(algorithm)) {
    const names = ALGORITHMS.map((name) => `'${name}'`).join(", ");
    const message = `The argument 'algorithm' must be one of: ${names}. Received '${algorithm}'`;
    throw nodeError(TypeError, "ERR_INVALID_ARG_VALUE", message);
  }
  const given = parameters as { readonly [name: string]: unknown };
  const { parallelism, tagLength, memory, passes, secret = "", associatedData = "" } = given;
  const bytes = {
    message: dataBytes(given.message, "parameters.message"),
    nonce: dataBytes(given.nonce, "parameters.nonce"),
    secret: dataBytes(secret, "parameters.secret"),
    associatedData: dataBytes(associatedData, "parameters.associatedData"),
  };
  const { byteLength } = bytes.nonce;
  if (byteLength < 8) throw outOfRange("parameters.nonce.byteLength", `>= 8 && <= ${MAX_UINT32}`, byteLength);
  checkInteger(parallelism, "parameters.parallelism", 1, MAX_LANES);
  checkInteger(tagLength, "parameters.tagLength", 4, MAX_UINT32);
  checkInteger(memory, "parameters.memory", 8 * parallelism, MAX_UINT32);
  checkInteger(passes, "parameters.passes", 1, MAX_UINT32);
  return { algorithm: algorithm as Argon2Options["algorithm"], ...bytes, parallelism, tagLength, memory, passes };
}

export const argon2Sync = (algorithm: unknown, parameters: unknown): unknown =>
  encode(require("./crypto-derive.ts").argon2Sync(readOptions(algorithm, parameters)));

export function argon2(algorithm: unknown, parameters: unknown, callback: unknown): void {
  const { message, nonce, secret, associatedData, ...options } = readOptions(algorithm, parameters);
  checkFunction(callback, "callback");
  const numbers = [options.parallelism, options.tagLength, options.memory, options.passes];
  const derived = deriveInWorker("argon2", [options.algorithm, ...numbers], [message, nonce, secret, associatedData]);
  settle(derived, callback);
}
