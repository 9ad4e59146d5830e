// Reads untrusted data of a provider: every field through a type guard, every size limited.
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
export type Json = { readonly [key: string]: unknown };

/** Returns the value if it is a record, otherwise an empty record. */
export const record = (value: unknown): Json => (isJsonObject(value) ? value : {});
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
export const index = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** Limits of one answer of a model. */
export const ANSWER_LIMITS = {
  /** Number of calls. The first call beyond the limit is kept and answered with an error. */
  calls: 128,
  /** Length of one call's arguments, in UTF-16 code units. */
  argumentChars: 1024 * 1024,
  /** Total length of the data kept of an answer, in UTF-16 code units. */
  totalChars: 16 * 1024 * 1024,
  nameChars: 1_024,
  items: 1_024,
  /** Length of a provider item that is replayed unchanged. */
  itemChars: 4 * 1024 * 1024,
  itemDepth: 64,
  itemValues: 100_000,
} as const;

/** Returns the approximate length of a value as JSON; undefined if the value is too large or too deep to be kept. */
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

/**
 * The error of a model's answer that failed.
 * @example
 * ```typescript
 * import { ModelResponseError, readAnswer } from "glovebox/openai";
 *
 * function isRateLimit(response: unknown): boolean {
 *   try {
 *     readAnswer(response);
 *     return false;
 *   } catch (error) {
 *     return error instanceof ModelResponseError && error.code === "rate_limit_exceeded";
 *   }
 * }
 * ```
 */
export class ModelResponseError extends Error {
  override readonly name = "ModelResponseError";
  /** The provider's error code, if it sent one. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

/** Converts the error of `response.failed` or of an `error` event. */
export function toModelResponseError(given: unknown): ModelResponseError {
  const { message, code, type } = record(given);
  const reason = text(message)?.slice(0, 1_000) ?? "no reason given";
  return new ModelResponseError(`The model's answer failed: ${reason}`, (text(code) ?? text(type))?.slice(0, 100));
}
