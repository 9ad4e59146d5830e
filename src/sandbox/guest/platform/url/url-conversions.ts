// Shim for webidl-conversions in the URL module: the two conversions that whatwg-url's classes use.
interface Options {
  /** Name of the converted value in messages. */
  readonly context?: string;
}

export function USVString(value: unknown, { context = "Value" }: Options = {}): string {
  if (typeof value === "symbol") throw new TypeError(`${context} is a symbol, which cannot be converted to a string.`);
  return String(value).toWellFormed();
}

export const any = (value: unknown): unknown => value;
