// Creates errors as Node does: of a built-in class, with a `code`.

type ErrorClass = new (message: string) => Error;

const LARGE = 2 ** 32;

/** Creates an error whose stack starts with `TypeError [ERR_X]`, as in Node. */
export function nodeError(Base: ErrorClass, code: string, message: string): Error & { readonly code: string } {
  const error = new Base(message);
  const { stack } = error;
  const hidden = { writable: true, enumerable: false, configurable: true };
  Object.defineProperty(error, "toString", { ...hidden, value: () => `${error.name} [${code}]: ${error.message}` });
  if (typeof stack === "string") {
    const from = stack.startsWith(`${error.name}: `)
      ? `${error.name} [${code}]${stack.slice(error.name.length)}`
      : stack;
    Object.defineProperty(error, "stack", { ...hidden, value: from });
  }
  return Object.assign(error, { code });
}

/** Returns " Received type string ('x')" and the like, for the end of a message. */
export function describeReceived(value: unknown): string {
  if (value === null || value === undefined) return ` Received ${value}`;
  if (typeof value === "function") return ` Received function ${value.name}`;
  if (typeof value === "object") {
    const { constructor: maker } = value;
    return typeof maker === "function" && maker.name !== ""
      ? ` Received an instance of ${maker.name}`
      : " Received an object without a constructor";
  }
  return ` Received type ${typeof value} (${describePrimitive(value)})`;
}

function describePrimitive(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "string") return String(value);
  return value.length > 28 ? `'${value.slice(0, 25)}...'` : `'${value}'`;
}

function describeSubject(name: string): string {
  if (name.endsWith(" argument")) return `The ${name}`;
  return name.includes(".") ? `The "${name}" property` : `The "${name}" argument`;
}

/** Creates an ERR_INVALID_ARG_TYPE. `expected` follows "must be": "of type string". */
export function invalidArgument(name: string, expected: string, got: unknown): Error {
  const message = `${describeSubject(name)} must be ${expected}.${describeReceived(got)}`;
  return nodeError(TypeError, "ERR_INVALID_ARG_TYPE", message);
}

export function checkString(value: unknown, name: string): asserts value is string {
  if (typeof value !== "string") throw invalidArgument(name, "of type string", value);
}

export function checkBoolean(value: unknown, name: string): asserts value is boolean {
  if (typeof value !== "boolean") throw invalidArgument(name, "of type boolean", value);
}

export function checkFunction(value: unknown, name: string): asserts value is (...args: unknown[]) => unknown {
  if (typeof value !== "function") throw invalidArgument(name, "of type function", value);
}

export function checkNumber(value: unknown, name: string): asserts value is number {
  if (typeof value !== "number") throw invalidArgument(name, "of type number", value);
}

/** Writes whole numbers above 2 ** 32 in groups of three digits. */
function describeNumber(value: unknown): string {
  const isBig = typeof value === "bigint";
  const text = String(value);
  const isLarge = isBig
    ? value > BigInt(LARGE) || value < -BigInt(LARGE)
    : Number.isInteger(value) && Math.abs(value as number) > LARGE;
  const grouped = isLarge ? text.replace(/\B(?=(?:\d{3})+$)/g, "_") : Object.is(value, -0) ? "-0" : text;
  return isBig ? `${grouped}n` : grouped;
}

/** Creates an ERR_OUT_OF_RANGE. `range` follows "must be": "an integer". */
export function outOfRange(name: string, range: string, got: unknown): Error {
  const message = `The value of "${name}" is out of range. It must be ${range}. Received ${describeNumber(got)}`;
  return nodeError(RangeError, "ERR_OUT_OF_RANGE", message);
}

/** @throws {TypeError | RangeError} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE */
export function checkRange(value: unknown, name: string, min: number, max: number): asserts value is number {
  checkNumber(value, name);
  if (!(value >= min && value <= max)) throw outOfRange(name, `>= ${min} && <= ${max}`, value);
}

/** @throws {TypeError | RangeError} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE */
export function checkInteger(value: unknown, name: string, min: number, max: number): asserts value is number {
  checkNumber(value, name);
  if (!Number.isInteger(value)) throw outOfRange(name, "an integer", value);
  checkRange(value, name, min, max);
}

export function checkObject(value: unknown, name: string): asserts value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidArgument(name, "of type object", value);
  }
}

/** Creates an ERR_UNKNOWN_ENCODING. */
export const unknownEncoding = (encoding: unknown): Error =>
  nodeError(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${String(encoding)}`);

/** Creates the error for a feature that the sandbox lacks. `instead` says what to use. */
export function unsupported(what: string, instead: string): Error {
  return nodeError(Error, "ERR_SANDBOX_UNSUPPORTED", `${what} does not exist in the sandbox: ${instead}`);
}
