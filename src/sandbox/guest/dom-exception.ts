// DOMException, as the web platform's own errors are thrown (WebIDL, "DOMException").
import {
  defineGlobal,
  ErrorConstructor,
  ObjectHasOwn,
  ReflectDefineProperty,
  StringConstructor,
} from "./primordials.ts";

/** WebIDL's names table: the legacy code of each name. */
const LEGACY_CODES: { readonly [name: string]: number } = {
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
  SecurityError: 18,
  NetworkError: 19,
  AbortError: 20,
  URLMismatchError: 21,
  QuotaExceededError: 22,
  TimeoutError: 23,
  InvalidNodeTypeError: 24,
  DataCloneError: 25,
};

export class DOMException extends ErrorConstructor {
  readonly code: number;

  constructor(message: unknown = "", name: unknown = "Error") {
    super(StringConstructor(message));
    const text = StringConstructor(name);
    ReflectDefineProperty(this, "name", { value: text, configurable: true, writable: true, enumerable: false });
    this.code = ObjectHasOwn(LEGACY_CODES, text) ? (LEGACY_CODES[text] as number) : 0;
    ReflectDefineProperty(this, "code", { value: this.code, enumerable: false });
  }
}

export function installDomException(): void {
  defineGlobal("DOMException", DOMException);
}
