// DOMException, the error class of the web platform (WebIDL, "DOMException").
import {
  defineValue,
  ErrorConstructor,
  NumberConstructor,
  NumberIsFinite,
  ObjectHasOwn,
  RangeErrorConstructor,
  ReflectDefineProperty,
  SymbolToStringTag,
  TypeErrorConstructor,
} from "../../primordials.ts";

/** WebIDL's table of names with their legacy codes. */
const makeLegacyCodes = (): { readonly [name: string]: number } => ({
  IndexSizeError: 1,
  HierarchyRequestError: 3,
  WrongDocumentError: 4,
  InvalidCharacterError: 5,
  NoModificationAllowedError: 7,
  NotFoundError: 8,
  NotSupportedError: 9,
  InUseAttributeError: 10,
  InvalidStateError: 11,
  SyntaxError: 12,
  InvalidModificationError: 13,
  NamespaceError: 14,
  InvalidAccessError: 15,
  TypeMismatchError: 17,
  SecurityError: 18,
  NetworkError: 19,
  AbortError: 20,
  URLMismatchError: 21,
  QuotaExceededError: 22,
  TimeoutError: 23,
  InvalidNodeTypeError: 24,
  DataCloneError: 25,
});

/** Names of the code constants, from 1. It includes names that are no longer used. */
const makeConstants = (): readonly string[] => [
  "INDEX_SIZE_ERR",
  "DOMSTRING_SIZE_ERR",
  "HIERARCHY_REQUEST_ERR",
  "WRONG_DOCUMENT_ERR",
  "INVALID_CHARACTER_ERR",
  "NO_DATA_ALLOWED_ERR",
  "NO_MODIFICATION_ALLOWED_ERR",
  "NOT_FOUND_ERR",
  "NOT_SUPPORTED_ERR",
  "INUSE_ATTRIBUTE_ERR",
  "INVALID_STATE_ERR",
  "SYNTAX_ERR",
  "INVALID_MODIFICATION_ERR",
  "NAMESPACE_ERR",
  "INVALID_ACCESS_ERR",
  "VALIDATION_ERR",
  "TYPE_MISMATCH_ERR",
  "SECURITY_ERR",
  "NETWORK_ERR",
  "ABORT_ERR",
  "URL_MISMATCH_ERR",
  "QUOTA_EXCEEDED_ERR",
  "TIMEOUT_ERR",
  "INVALID_NODE_TYPE_ERR",
  "DATA_CLONE_ERR",
];

/** Defines the constants on the interface and on its prototype, as WebIDL requires. */
function defineConstants(made: typeof DOMException): void {
  const names = makeConstants();
  for (let index = 0; index < names.length; index += 1) {
    const name = names[index] as string;
    const descriptor = { __proto__: null, value: index + 1, writable: false, enumerable: true, configurable: false };
    ReflectDefineProperty(made, name, descriptor as PropertyDescriptor);
    ReflectDefineProperty(made.prototype, name, descriptor as PropertyDescriptor);
  }
}

const legacyCodes = makeLegacyCodes();

export class DOMException extends ErrorConstructor {
  readonly code: number = 0;

  /** @param options the name, or an object with a name and a cause, as in Node */
  constructor(message: unknown = "", options: unknown = "Error") {
    super(`${message as string}`);
    const isObject = typeof options === "object" && options !== null;
    const { name = "Error" } = isObject ? (options as { readonly name?: unknown }) : { name: options };
    const text = `${name as string}`;
    defineValue(this, "name", text, false);
    if (isObject && "cause" in options) defineValue(this, "cause", options.cause, false);
    defineValue(this, "code", ObjectHasOwn(legacyCodes, text) ? legacyCodes[text] : 0, false);
  }
}
defineValue(DOMException.prototype, SymbolToStringTag, "DOMException", false);
defineConstants(DOMException);

function readBound(options: unknown, name: "quota" | "requested"): number | null {
  const value = (options as { readonly [name: string]: unknown } | null | undefined)?.[name];
  if (value === undefined) return null;
  const bound = NumberConstructor(value);
  if (!NumberIsFinite(bound)) throw new TypeErrorConstructor(`${name} expected a finite number`);
  if (bound < 0) throw new RangeErrorConstructor(`${name} expected no negative number`);
  return bound;
}

/** WebIDL's own subclass, with the optional quota and the optional requested amount. */
export class QuotaExceededError extends DOMException {
  readonly #quota: number | null;
  readonly #requested: number | null;

  constructor(message: unknown = "", options: unknown = {}) {
    super(message, "QuotaExceededError");
    this.#quota = readBound(options, "quota");
    this.#requested = readBound(options, "requested");
    if (this.#quota !== null && this.#requested !== null && this.#requested < this.#quota) {
      throw new RangeErrorConstructor("requested expected no less than the quota");
    }
  }

  get quota(): number | null {
    return this.#quota;
  }

  get requested(): number | null {
    return this.#requested;
  }
}
defineValue(QuotaExceededError.prototype, SymbolToStringTag, "QuotaExceededError", false);

/** Used by {@link createDomException} of the prelude. */
export function create(message: string, name: string): Error {
  return name === "QuotaExceededError" ? new QuotaExceededError(message) : new DOMException(message, name);
}
