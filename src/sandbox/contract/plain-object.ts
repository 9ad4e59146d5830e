// Checks that options, contexts and other objects of a caller are plain objects. A promise, a Map or a class instance has no own keys to
// reject, so a schema would parse it as {} and apply every default. A policy promise that was not awaited would then mean "no policy".
import * as z from "zod";
import { describeKind, isPlainObject } from "./value-kind.ts";

export { describeKind, isPlainObject };

type SameTypes<Schema extends z.ZodType> = z.ZodType<z.output<Schema>, z.input<Schema>>;

/** Returns a schema for plain objects that rejects unknown keys. Replaces `z.strictObject` for objects that a caller passes. */
export function strictObject<Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): SameTypes<z.ZodObject<Shape, z.core.$strict>> {
  return plainObject(z.strictObject(shape));
}

/** Returns a schema that checks for a plain object before it applies the given schema. */
export function plainObject<Schema extends z.ZodType>(schema: Schema): SameTypes<Schema> {
  const checked = z.preprocess((value, context) => {
    if (isPlainObject(value)) return value;
    context.addIssue({ code: "custom", message: `Expected a plain object, got ${describeKind(value)}` });
    return z.NEVER;
  }, schema);
  return checked as unknown as SameTypes<Schema>;
}
