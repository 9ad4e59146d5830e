// Reading what a provider sends, which is anything at all: each field by a guard, each size bounded.
export type Json = { readonly [key: string]: unknown };

export const isRecord = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A record, whatever is there. */
export const record = (value: unknown): Json => (isRecord(value) ? value : {});
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
export const index = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** What one answer of a model may have. */
export const ANSWER_LIMITS = {
  /** Calls; the first one past them is kept as a call that was not run. */
  calls: 128,
  /** Of one call's arguments, in UTF-16 units. */
  argumentChars: 1024 * 1024,
  /** Of all that is kept of an answer. */
  totalChars: 16 * 1024 * 1024,
  nameChars: 1_024,
  items: 1_024,
  /** Of an item that is replayed as it came. */
  itemChars: 4 * 1024 * 1024,
  itemDepth: 64,
  itemValues: 100_000,
} as const;

/** The units of JSON that a value is about; undefined for one that is too large or too deep to be kept. */
export function sizeOfItem(value: unknown): number | undefined {
  const { itemChars, itemDepth, itemValues } = ANSWER_LIMITS;
  let chars = 0;
  let values = 0;
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value, depth: 1 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value: each, depth } = next;
    values += 1;
    chars += typeof each === "string" ? each.length + 2 : 8;
    if (typeof each === "object" && each !== null) {
      for (const [key, member] of Object.entries(each)) {
        chars += key.length + 4;
        open.push({ value: member, depth: depth + 1 });
        if (open.length > itemValues) return undefined;
      }
    }
    if (chars > itemChars || depth > itemDepth || values > itemValues) return undefined;
  }
  return chars;
}

/** What a model failed to say: its answer ended with an error. */
export class ModelResponseError extends Error {
  override readonly name = "ModelResponseError";
  /** The provider's own code, where it gave one. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

/** From `response.failed` or an `error` event. */
export function toModelResponseError(given: unknown): ModelResponseError {
  const { message, code, type } = record(given);
  const said = text(message)?.slice(0, 1_000) ?? "no reason given";
  return new ModelResponseError(`The model's answer failed: ${said}`, (text(code) ?? text(type))?.slice(0, 100));
}
