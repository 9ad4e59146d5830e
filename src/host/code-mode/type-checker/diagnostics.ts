// Converts the compiler's diagnostics to the form that a model can use: where, what, the type there, and what to write instead.
import type { JsonValue } from "../../../sandbox/contract/errors.ts";
import { toVisibleText } from "../../util/visible-text.ts";
import type { CompilerDiagnostic } from "./compiler-process.ts";

/** One error in code. Lines and columns count from 1, columns in UTF-16 code units. */
export interface CodeDiagnostic {
  readonly line: number;
  readonly column: number;
  readonly endLine: number;
  readonly endColumn: number;
  /** Number of the compiler's message: 2551 for TS2551. */
  readonly code: number;
  readonly message: string;
  /** Type of the expression at this place. */
  readonly type?: string | undefined;
  /** What to write instead. */
  readonly suggestion?: string | undefined;
  /** Offset in the code. @internal */
  readonly offset: number;
}

const MAX_MESSAGE = 800;
const MAX_TYPE = 400;

const cut = (text: string, maxLength: number): string => {
  const shown = toVisibleText(text);
  return shown.length <= maxLength ? shown : `${shown.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, "")}…`;
};

/** Messages about a name of Node.js, of browsers or of a test runner: the compiler would have the model install its types. */
const MISSING_PLATFORM: ReadonlySet<number> = new Set([2580, 2581, 2582, 2583, 2584, 2591, 2592, 2593]);

const DATE_HINT = "Convert to a number first: `getTime()` for a Date, `Number()` for a text";

/** Suggestions by message. `{1}` is the first name that the message quotes. */
const SUGGESTIONS: { readonly [code: number]: string } = {
  1232: "Remove the import: code has no modules. Use the tools, and the globals of JavaScript",
  1378: "Remove the import or export: the code is the body of an async function",
  1184: "Remove export: the code is the body of an async function. Return the value instead",
  2307: "Remove the import: code has no modules. Use the tools, and the globals of JavaScript",
  2571: "The value has no known type: check it first, or state its type with `as`, for example `(value as { id: string }[])`",
  18046:
    "{1} has no known type, because its tool declares no output schema: check it first, or state its type with `as`, for example `({1} as { id: string }[])`. Run the tool once and return its value to see it",
  18047: "Check that {1} is not null first, or use `?.`",
  18048: "Check that {1} is not undefined first, or use `?.`",
  2532: "Check that the object is not undefined first, or use `?.`",
  2362: DATE_HINT,
  2363: DATE_HINT,
  1108: "Write the code without a function around it, or call that function",
};

/** After `?.` the compiler calls a value of the type `unknown` an empty object. */
const IS_UNKNOWN_OBJECT = /^Property '.{1,100}' does not exist on type '\{\}'\.$/;
const UNKNOWN_OBJECT_HINT =
  "The type of this value has no properties. For the output of a tool without an output schema, state the type with `as`, for example `(value as { id: string }[])`; run the tool once and return its value to see it. For an object that the code fills, declare it: `const value: Record<string, any> = {}`";
/** A variable or a list of texts is wider than the texts that an enum allows. */
const IS_LOOSE_TEXT = /\b[Tt]ype 'string' is not assignable to (?:parameter of )?type '(?:"[^']*" \| )*"[^']*"/;
const LOOSE_TEXT_HINT =
  'Only these texts are allowed: write `as const` after the text or the list, for example `["a", "b"] as const`, or state the type of the variable';

function suggestionOf({ code, text, relatedInformation }: CompilerDiagnostic): string | undefined {
  const related = relatedInformation?.find(({ text: shown }) => /await/.test(shown));
  if (related !== undefined || /'Promise<|'PromiseLike</.test(text)) return "Write `await` before the call of the tool";
  if (IS_UNKNOWN_OBJECT.test(text)) return UNKNOWN_OBJECT_HINT;
  if (IS_LOOSE_TEXT.test(text)) return LOOSE_TEXT_HINT;
  const name = /'([^']{1,100})'/.exec(text)?.[1] ?? "The value";
  if (MISSING_PLATFORM.has(code)) return `${name} does not exist here: use the tools, and the globals of JavaScript`;
  return SUGGESTIONS[code]?.replaceAll("{1}", () => name);
}

function messageOf({ code, text, messageChain }: CompilerDiagnostic, depth = 0): string {
  if (MISSING_PLATFORM.has(code)) return /^[^']*'[^']*'\./.exec(text)?.[0] ?? text;
  const chain = depth > 4 ? [] : (messageChain ?? []).slice(0, 3).map((inner) => messageOf(inner, depth + 1));
  return [text, ...chain].join(" ");
}

/** Maps offsets to lines and columns. */
class Positions {
  readonly #starts: readonly number[];
  readonly #length: number;

  constructor(code: string) {
    this.#starts = [
      0,
      ...[...code.matchAll(/\r\n|[\n\r\u2028\u2029]/g)].map(({ 0: text, index }) => index + text.length),
    ];
    this.#length = code.length;
  }

  at(offset: number): { readonly line: number; readonly column: number } {
    const within = Math.min(Math.max(0, offset), this.#length);
    const line = this.#starts.findLastIndex((start) => start <= within);
    return { line: line + 1, column: within - (this.#starts[line] ?? 0) + 1 };
  }
}

/** @param before length of the text that was put before the code */
export function toDiagnostics(
  found: readonly CompilerDiagnostic[],
  code: string,
  before: number,
): readonly CodeDiagnostic[] {
  const positions = new Positions(code);
  const shown = found.map((each): CodeDiagnostic => {
    const offset = Math.min(Math.max(0, each.pos - before), code.length);
    const end = positions.at(Math.max(each.end - before, offset));
    const suggestion = suggestionOf(each);
    return {
      ...positions.at(offset),
      endLine: end.line,
      endColumn: end.column,
      code: each.code,
      message: cut(messageOf(each), MAX_MESSAGE),
      ...(each.type === undefined || each.type === "any" ? {} : { type: cut(each.type, MAX_TYPE) }),
      ...(suggestion === undefined ? {} : { suggestion }),
      offset,
    };
  });
  return shown.sort((a, b) => a.offset - b.offset);
}

/** Returns a diagnostic as JSON for a result. */
export function toJsonDiagnostic({
  offset: _offset,
  endLine: _line,
  endColumn: _column,
  ...shown
}: CodeDiagnostic): JsonValue {
  const { code, ...rest } = shown;
  return Object.fromEntries(
    Object.entries({ ...rest, code: `TS${code}` }).filter(([, value]) => value !== undefined),
  ) as JsonValue;
}
