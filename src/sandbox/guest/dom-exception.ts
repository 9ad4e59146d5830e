// DOMException, as the web platform's own errors are thrown (WebIDL, "DOMException"). Made when first needed.
import {
  defineLazyGlobals,
  defineValue,
  ErrorConstructor,
  ObjectHasOwn,
  StringConstructor,
  SymbolToStringTag,
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

export function makeDomException(message: string, name: string): Error {
  return new (domExceptionClass())(message, name);
}

export function installDomException(): void {
  defineLazyGlobals(["DOMException"], () => ({ DOMException: domExceptionClass() }));
}
