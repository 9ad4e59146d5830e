// MIMEType and MIMEParams of node:util: parse, change and serialize media types as Node does.
import { nameClasses } from "../shared/class-names.ts";
import { nodeError } from "../shared/node-error.ts";

const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~A-Za-z0-9]/;
const NOT_QUOTED_STRING = /[^\t\u0020-~\u0080-\u00FF]/;
const LEADING_SPACE = /^[\r\n\t ]+/;

function toLowerAscii(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Removes HTTP whitespace at the end. A regular expression that is not anchored at the start would take quadratic time. */
function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && "\r\n\t ".includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}

function invalidSyntax(production: string, text: string, index: number): Error {
  const at = index === -1 ? "" : ` at ${index}`;
  return nodeError(
    TypeError,
    "ERR_INVALID_MIME_SYNTAX",
    `The MIME syntax for a ${production} in "${text}" is invalid${at}`,
  );
}

/** @param whole text that the error shows */
function checkToken(token: string, production: string, whole = token): void {
  const index = token.search(NOT_TOKEN);
  if (token === "" || index !== -1) throw invalidSyntax(production, whole, index);
}

/** Reads a quoted string from behind its opening quote. Returns its value and its end. */
function readQuoted(text: string, start: number): { readonly value: string; readonly end: number } {
  let value = "";
  let index = start;
  for (; index < text.length; index += 1) {
    const character = text[index] as string;
    if (character === '"') return { value, end: index + 1 };
    if (character === "\\" && index + 1 < text.length) index += 1;
    value += text[index];
  }
  return { value, end: index };
}

function parseParameters(text: string): Map<string, string> {
  const parameters = new Map<string, string>();
  const end = trimEnd(text).length;
  let position = 0;
  while (position < end) {
    position += LEADING_SPACE.exec(text.slice(position))?.[0].length ?? 0;
    const nameStart = position;
    while (position < text.length && text[position] !== ";" && text[position] !== "=") position += 1;
    const name = toLowerAscii(text.slice(nameStart, position));
    if (position < end) {
      position += 1;
      if (text[position - 1] === ";") continue;
    }
    if (position >= end) break;
    let value: string;
    if (text[position] === '"') {
      ({ value, end: position } = readQuoted(text, position + 1));
    } else {
      const next = text.indexOf(";", position);
      const raw = next === -1 ? text.slice(position) : text.slice(position, next);
      position += raw.length;
      value = trimEnd(raw);
      // As in Node: the semicolon is read again, as that of a parameter without a name.
      if (value === "") continue;
    }
    if (name !== "" && !NOT_TOKEN.test(name) && !NOT_QUOTED_STRING.test(value) && !parameters.has(name)) {
      parameters.set(name, value);
    }
    position += 1;
  }
  return parameters;
}

function serializeValue(value: string): string {
  if (value === "") return '""';
  return NOT_TOKEN.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value;
}

let createParameters: (text: string) => MIMEParams;

export class MIMEParams {
  #parsed: Map<string, string> | undefined = new Map();
  #text = "";

  static {
    createParameters = (text) => {
      const parameters = new MIMEParams();
      parameters.#text = text;
      parameters.#parsed = undefined;
      return parameters;
    };
  }

  get #parameters(): Map<string, string> {
    this.#parsed ??= parseParameters(this.#text);
    return this.#parsed;
  }
  delete(name: unknown): void {
    this.#parameters.delete(toLowerAscii(`${name as string}`));
  }
  get(name: unknown): string | null {
    return this.#parameters.get(toLowerAscii(`${name as string}`)) ?? null;
  }
  has(name: unknown): boolean {
    return this.#parameters.has(toLowerAscii(`${name as string}`));
  }
  set(given: unknown, givenValue: unknown): void {
    const parameters = this.#parameters;
    const name = toLowerAscii(`${given as string}`);
    const value = `${givenValue as string}`;
    checkToken(name, "parameter name");
    const index = value.search(NOT_QUOTED_STRING);
    if (index !== -1) throw invalidSyntax("parameter value", value, index);
    parameters.set(name, value);
  }
  *entries(): Generator<[string, string]> {
    yield* this.#parameters.entries();
  }
  *keys(): Generator<string> {
    yield* this.#parameters.keys();
  }
  *values(): Generator<string> {
    yield* this.#parameters.values();
  }
  toString(): string {
    return [...this.#parameters].map(([name, value]) => `${name}=${serializeValue(value)}`).join(";");
  }
}

export class MIMEType {
  #type: string;
  #subtype: string;
  readonly #params: MIMEParams;

  constructor(given: unknown) {
    const text = `${given as string}`;
    const start = LEADING_SPACE.exec(text)?.[0].length ?? 0;
    const slash = text.indexOf("/", start);
    const type = text.slice(start, slash === -1 ? undefined : slash);
    checkToken(type, "type", text);
    if (slash === -1) throw invalidSyntax("type", text, -1);
    const semicolon = text.indexOf(";", slash + 1);
    const subtype = trimEnd(text.slice(slash + 1, semicolon === -1 ? undefined : semicolon));
    checkToken(subtype, "subtype", text);
    this.#type = toLowerAscii(type);
    this.#subtype = toLowerAscii(subtype);
    this.#params = createParameters(semicolon === -1 ? "" : text.slice(semicolon + 1));
  }

  /** Returns null instead of throwing for invalid text. */
  static parse(text: unknown): MIMEType | null {
    const given = `${text as string}`;
    try {
      return new MIMEType(given);
    } catch {
      return null;
    }
  }
  get type(): string {
    return this.#type;
  }
  set type(value: unknown) {
    const type = `${value as string}`;
    checkToken(type, "type");
    this.#type = toLowerAscii(type);
  }
  get subtype(): string {
    return this.#subtype;
  }
  set subtype(value: unknown) {
    const subtype = `${value as string}`;
    checkToken(subtype, "subtype");
    this.#subtype = toLowerAscii(subtype);
  }
  get essence(): string {
    return `${this.#type}/${this.#subtype}`;
  }
  get params(): MIMEParams {
    return this.#params;
  }
  toString(): string {
    const parameters = this.#params.toString();
    return parameters === "" ? this.essence : `${this.essence};${parameters}`;
  }
}

const define = (target: object, key: PropertyKey, value: unknown): object =>
  Object.defineProperty(target, key, { value, writable: true, configurable: true });
define(MIMEParams.prototype, Symbol.iterator, MIMEParams.prototype.entries);
define(MIMEParams.prototype, "toJSON", MIMEParams.prototype.toString);
define(MIMEType.prototype, "toJSON", MIMEType.prototype.toString);
nameClasses({ MIMEParams, MIMEType });
