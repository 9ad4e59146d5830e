// DOMException, as the web platform's own errors are thrown (WebIDL, "DOMException"). Made when first needed.
import {
  defineLazyGlobals,
  defineValue,
  ErrorConstructor,
  NumberConstructor,
  NumberIsFinite,
  ObjectHasOwn,
  RangeErrorConstructor,
  StringConstructor,
  SymbolToStringTag,
  TypeErrorConstructor,
} from "./primordials.ts";

type DomExceptionClass = new (message?: unknown, name?: unknown) => Error & { readonly code: number };

/** WebIDL's names table: the legacy code of each name. */
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

function makeDomExceptionClass(): DomExceptionClass {
  const legacyCodes = makeLegacyCodes();
  class DOMException extends ErrorConstructor {
    readonly code: number = 0;

    constructor(message: unknown = "", name: unknown = "Error") {
      super(StringConstructor(message));
      const text = StringConstructor(name);
      defineValue(this, "name", text, false);
      defineValue(this, "code", ObjectHasOwn(legacyCodes, text) ? legacyCodes[text] : 0, false);
    }
  }
  defineValue(DOMException.prototype, SymbolToStringTag, "DOMException", false);
  return DOMException;
}

let made: DomExceptionClass | undefined;
const domExceptionClass = (): DomExceptionClass => {
  made ??= makeDomExceptionClass();
  return made;
};

/** WebIDL's own subclass: how much there may be, and how much was asked for, where that is said. */
function makeQuotaErrorClass(): DomExceptionClass {
  const readBound = (options: unknown, name: "quota" | "requested"): number | null => {
    const value = (options as { readonly [name: string]: unknown } | null | undefined)?.[name];
    if (value === undefined) return null;
    const bound = NumberConstructor(value);
    if (!NumberIsFinite(bound)) throw new TypeErrorConstructor(`${name} expected a finite number`);
    if (bound < 0) throw new RangeErrorConstructor(`${name} expected no negative number`);
    return bound;
  };
  class QuotaExceededError extends domExceptionClass() {
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
  return QuotaExceededError;
}

let quotaErrorClass: DomExceptionClass | undefined;
const quotaErrors = (): DomExceptionClass => {
  quotaErrorClass ??= makeQuotaErrorClass();
  return quotaErrorClass;
};

export function makeDomException(message: string, name: string): Error {
  if (name === "QuotaExceededError") return new (quotaErrors())(message);
  return new (domExceptionClass())(message, name);
}

export function installDomException(): void {
  defineLazyGlobals(["DOMException"], () => ({ DOMException: domExceptionClass() }));
  defineLazyGlobals(["QuotaExceededError"], () => ({ QuotaExceededError: quotaErrors() }));
}
