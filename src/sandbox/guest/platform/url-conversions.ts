// Stands in for webidl-conversions in the URL chunk: the two of its conversions that whatwg-url's classes use.
interface Options {
  /** What is converted, as a message names it. */
  readonly context?: string;
}

export function USVString(value: unknown, { context = "Value" }: Options = {}): string {
  if (typeof value === "symbol") throw new TypeError(`${context} is a symbol, which cannot be converted to a string.`);
  return String(value).toWellFormed();
}

export const any = (value: unknown): unknown => value;
