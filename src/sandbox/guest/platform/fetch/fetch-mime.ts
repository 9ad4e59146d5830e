// Parses and serializes MIME types (MIME Sniffing standard), and extracts the type of a header list.
import { isToken } from "./fetch-headers.ts";

export interface MimeType {
  /** `type/subtype`, lower case. */
  readonly essence: string;
  readonly parameters: Map<string, string>;
}

const SPACE_AROUND = /^[\t\n\r ]+|[\t\n\r ]+$/g;
const trim = (text: string): string => text.replace(SPACE_AROUND, "");
const QUOTED_CODE_POINTS = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Reads a quoted string that starts at its opening quote. Returns its value and its end. */
function readQuoted(input: string, start: number): { readonly value: string; readonly end: number } {
  let value = "";
  let index = start + 1;
  for (; index < input.length && input[index] !== '"'; index += 1) {
    if (input[index] === "\\" && index + 1 < input.length) index += 1;
    value += input[index];
  }
  return { value, end: Math.min(index + 1, input.length) };
}

function endOf(input: string, from: number, stop: (character: string) => boolean): number {
  let index = from;
  while (index < input.length && !stop(input[index] as string)) index += 1;
  return index;
}

function readParameters(input: string, from: number): Map<string, string> {
  const parameters = new Map<string, string>();
  let index = from;
  while (index < input.length) {
    const start = endOf(input, index + 1, (character) => !"\t\n\r ".includes(character));
    index = endOf(input, start, (character) => character === ";" || character === "=");
    const name = input.slice(start, index).toLowerCase();
    if (input[index] !== "=") continue;
    index += 1;
    let value: string;
    if (input[index] === '"') {
      const quoted = readQuoted(input, index);
      value = quoted.value;
      index = endOf(input, quoted.end, (character) => character === ";");
    } else {
      const end = endOf(input, index, (character) => character === ";");
      value = input.slice(index, end).replace(/[\t\n\r ]+$/, "");
      index = end;
      if (value === "") continue;
    }
    if (isToken(name) && QUOTED_CODE_POINTS.test(value) && !parameters.has(name)) parameters.set(name, value);
  }
  return parameters;
}

export function parseMimeType(text: string): MimeType | undefined {
  const input = trim(text);
  const semicolon = input.indexOf(";");
  const end = semicolon < 0 ? input.length : semicolon;
  const slash = input.indexOf("/");
  if (slash < 0 || slash > end) return undefined;
  const type = input.slice(0, slash);
  const subtype = input.slice(slash + 1, end).replace(/[\t\n\r ]+$/, "");
  if (!isToken(type) || !isToken(subtype)) return undefined;
  return { essence: `${type}/${subtype}`.toLowerCase(), parameters: readParameters(input, end) };
}

export function serializeMimeType({ essence, parameters }: MimeType): string {
  let text = essence;
  for (const [name, value] of parameters) {
    text += `;${name}=${isToken(value) ? value : `"${value.replace(/(["\\])/g, "\\$1")}"`}`;
  }
  return text;
}

/** "Get, decode, and split": splits at commas outside quotes. */
function splitAtCommas(text: string): string[] {
  const values: string[] = [];
  let start = 0;
  for (let index = 0; index <= text.length; ) {
    if (text[index] === '"') index = readQuoted(text, index).end;
    else if (index === text.length || text[index] === ",") {
      values.push(trim(text.slice(start, index)));
      start = index + 1;
      index = start;
    } else index += 1;
  }
  return values;
}

/** "Extract a MIME type": the last valid one wins, and takes the charset of an earlier one with the same essence. */
export function extractMimeType(contentType: string | null): MimeType | undefined {
  if (contentType === null) return undefined;
  let found: MimeType | undefined;
  let charset: string | undefined;
  for (const value of splitAtCommas(contentType)) {
    const parsed = parseMimeType(value);
    if (parsed === undefined || parsed.essence === "*/*") continue;
    if (parsed.essence !== found?.essence) charset = parsed.parameters.get("charset");
    else if (charset !== undefined && !parsed.parameters.has("charset")) parsed.parameters.set("charset", charset);
    found = parsed;
  }
  return found;
}
