// Why a guest's cryptography is refused or failed, as the guest is told: never an error of Node's itself, with its stack.
import * as z from "zod";
import type { Failure } from "../../protocol/crypto-messages.ts";

/** DOMException's names that the Web Cryptography API uses. */
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
const MAX_MESSAGE_UNITS = 300;
/** Node's own, and those of its codecs. */
const CODE = /^(?:ERR_[A-Z0-9_]{1,60}|Z_[A-Z_]{1,30}|ZSTD_error_\w{1,60})$/;

export class CryptoRefusal extends Error {
  readonly failure: Failure;
  /** @param name a DOMException's name, or TypeError */
  constructor(name: string, message: string) {
    super(message);
    this.failure = { ok: false, name, message };
  }
}

/** What Node has thrown; what cannot be told more precisely is an OperationError, as the standard says. */
export function toFailure(thrown: unknown): Failure {
  if (thrown instanceof CryptoRefusal) return thrown.failure;
  if (thrown instanceof z.ZodError) return { ok: false, name: "TypeError", message: "Expected other arguments" };
  const { name, message, code } = thrown as {
    readonly name?: unknown;
    readonly message?: unknown;
    readonly code?: unknown;
  };
  const text = typeof message === "string" ? message.slice(0, MAX_MESSAGE_UNITS) : "The operation failed";
  if (thrown instanceof DOMException) {
    return { ok: false, name: DOM_NAMES.has(thrown.name) ? thrown.name : "OperationError", message: text };
  }
  const nodeCode = typeof code === "string" && CODE.test(code) ? { code } : {};
  if (name === "TypeError" || name === "RangeError") return { ok: false, name, message: text, ...nodeCode };
  return { ok: false, name: "OperationError", message: text, ...nodeCode };
}
