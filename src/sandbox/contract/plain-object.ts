// Options, contexts and other objects that a caller passes must be plain objects. A promise, a Map or an instance of a class has no own
// keys to reject, so a schema would read it as {} and every default would apply: a policy that was never awaited would count as none.
import * as z from "zod";

const MAX_NAME_LENGTH = 50;

/** Tells whether a value is an object literal, or has no prototype; `Object.prototype` may be that of another realm. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  try {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === null || prototype === Object.prototype) return true;
    // Only Object.prototype, of whichever realm, has both an end of the chain above it and this method of its own.
    return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "isPrototypeOf");
  } catch {
    // A proxy that throws.
    return false;
  }
}

/** Names the kind of a value for a message: `a string`, `an array`, `a Promise`, `an instance of Config`. Never throws. */
export function describeKind(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  try {
    if (Array.isArray(value)) return "an array";
    if (isPlainObject(value)) return "an object";
    const made: unknown = (value as { readonly constructor?: unknown }).constructor;
    const name: unknown = typeof made === "function" ? made.name : undefined;
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

/** Returns a schema for plain objects that rejects unknown keys. Use it in the place of `z.strictObject` for what a caller passes. */
export function strictObject<Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): SameTypes<z.ZodObject<Shape, z.core.$strict>> {
  return plainObject(z.strictObject(shape));
}

/** Puts the check for a plain object before a schema of objects. */
export function plainObject<Schema extends z.ZodType>(schema: Schema): SameTypes<Schema> {
  const checked = z.preprocess((value, context) => {
    if (isPlainObject(value)) return value;
    context.addIssue({ code: "custom", message: `Expected a plain object, got ${describeKind(value)}` });
    return z.NEVER;
  }, schema);
  return checked as unknown as SameTypes<Schema>;
}
