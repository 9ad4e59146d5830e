// Errors of the guest's cryptography, and their conversion to a plain Failure for the guest. Node's own errors and stacks never reach it.
import * as z from "zod";
import type { Failure } from "../../protocol/crypto-messages.ts";

/** Names of DOMExceptions that the Web Cryptography API uses. */
const DOM_NAMES: ReadonlySet<string> = new Set([
  "OperationError",
  "DataError",
  "NotSupportedError",
  "InvalidAccessError",
  "QuotaExceededError",
  "SyntaxError",
  "InvalidStateError",
  "TypeMismatchError",
  "DataCloneError",
]);
const MAX_MESSAGE_LENGTH = 300;
/** Error codes of Node and of its codecs. */
const CODE = /^(?:ERR_[A-Z0-9_]{1,60}|Z_[A-Z_]{1,30}|ZSTD_error_\w{1,60})$/;

export class CryptoError extends Error {
  readonly failure: Failure;
  /**
   * @param name name of a DOMException, or `TypeError`
   * @param code the code that Node's own error has
   */
  constructor(name: string, message: string, code?: string) {
    super(message);
    this.failure = { ok: false, name, message, ...(code === undefined ? {} : { code }) };
  }
}

/** Converts a thrown value to a Failure. Unknown errors become an OperationError, as in the Web Cryptography API. */
export function toFailure(thrown: unknown): Failure {
  if (thrown instanceof CryptoError) return thrown.failure;
  if (thrown instanceof z.ZodError) return { ok: false, name: "TypeError", message: "Invalid arguments" };
  const { name, message, code } = thrown as {
    readonly name?: unknown;
    readonly message?: unknown;
    readonly code?: unknown;
  };
  const text = typeof message === "string" ? message.slice(0, MAX_MESSAGE_LENGTH) : "The operation failed";
  if (thrown instanceof DOMException) {
    return { ok: false, name: DOM_NAMES.has(thrown.name) ? thrown.name : "OperationError", message: text };
  }
  const nodeCode = typeof code === "string" && CODE.test(code) ? { code } : {};
  if (name === "TypeError" || name === "RangeError") return { ok: false, name, message: text, ...nodeCode };
  return { ok: false, name: "OperationError", message: text, ...nodeCode };
}
