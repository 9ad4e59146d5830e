// Checks that options, contexts and other objects of a caller are plain objects. A promise, a Map or a class instance has no own keys to
// reject, so a schema would parse it as {} and apply every default. A policy promise that was not awaited would then mean "no policy".
import * as z from "zod";

const MAX_NAME_LENGTH = 50;

/** Returns whether the value is a plain object: its prototype is null or the `Object.prototype` of any realm. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  try {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === null || prototype === Object.prototype) return true;
    // Only the Object.prototype of a realm has both a null prototype and its own method isPrototypeOf.
    return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "isPrototypeOf");
  } catch {
    // A proxy that throws.
    return false;
  }
}

/** Describes the kind of a value for a message: `a string`, `an array`, `a Promise`, `an instance of Config`. Never throws. */
export function describeKind(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  try {
    if (Array.isArray(value)) return "an array";
    if (isPlainObject(value)) return "an object";
    const constructorFn: unknown = (value as { readonly constructor?: unknown }).constructor;
    const name: unknown = typeof constructorFn === "function" ? constructorFn.name : undefined;
    if (name === "Promise" || name === "Map" || name === "Set") return `a ${name}`;
    if (typeof name === "string" && /^[\w$]+$/.test(name) && name !== "Object") {
      return `an instance of ${name.slice(0, MAX_NAME_LENGTH)}`;
    }
  } catch {
    // A proxy that throws.
  }
  return "an object that is not plain";
}

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
