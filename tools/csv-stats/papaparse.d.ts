// The part of Papa Parse that csv-stats calls; tools/tsconfig.json puts it before @types/papaparse, which brings in the
// types of Node and the DOM, and with them every global that a tool does not have.

export interface ParseError {
  readonly type: "Quotes" | "Delimiter" | "FieldMismatch";
  readonly code: string;
  readonly message: string;
  readonly row?: number;
  /** Offset of the character after the quote that opened the field. */
  readonly index?: number;
}

export interface StepResult {
  readonly data: string[];
  readonly errors: readonly ParseError[];
  /** `cursor` is the offset after the row and its line break. */
  readonly meta: { readonly delimiter: string; readonly cursor: number };
}

export interface Parser {
  abort(): void;
}

export interface ParseConfig {
  /** Empty: detected. */
  readonly delimiter: string;
  readonly newline: "\n";
  readonly skipEmptyLines: true;
  readonly step: (result: StepResult, parser: Parser) => void;
}

export function parse(text: string, config: ParseConfig): void;
