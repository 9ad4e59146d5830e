// A zod schema of an object with names of the caller's choice, which counts them before it checks their values.
import * as z from "zod";

const countKeys = (value: unknown): number =>
  typeof value === "object" && value !== null ? Object.keys(value).length : 0;

/**
 * Returns the schema of an object with at most `max` keys. `z.record` alone describes each value that is invalid: 100,000 of them take half a
 * second, and some more of them throw a RangeError.
 * @param what names the values in the message
 */
export const limitedRecord = <Value extends z.ZodType>(
  key: z.ZodString,
  value: Value,
  { max, what }: { readonly max: number; readonly what: string },
) =>
  z.preprocess(
    (input, context) => {
      if (countKeys(input) > max) context.addIssue(`Expected at most ${max} ${what}`);
      return input;
    },
    z.record(key, value),
  );
