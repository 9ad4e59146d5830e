// Parses the text of a module for the analyses of located files.
import { type Options, parse } from "acorn";
import type { Syntax } from "../transforms/syntax.ts";

/** Longest text that is parsed. Parsing the TypeScript compiler (9 MiB) takes two seconds. */
const MAX_PARSED_LENGTH = 4 * 1024 * 1024;
const PARSE_OPTIONS: Options = {
  ecmaVersion: "latest",
  sourceType: "module",
  allowHashBang: true,
  allowReturnOutsideFunction: true,
};

/** Returns undefined for text that is too long, and for text that is no JavaScript. */
export function parseModule(text: string): Syntax | undefined {
  if (text.length > MAX_PARSED_LENGTH) return undefined;
  for (const sourceType of ["module", "script"] as const) {
    try {
      return parse(text, { ...PARSE_OPTIONS, sourceType }) as unknown as Syntax;
    } catch {
      // Sloppy code is not a module. esbuild reports code that is neither.
    }
  }
  return undefined;
}
