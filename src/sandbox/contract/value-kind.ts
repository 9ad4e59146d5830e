// Tells plain objects from other values, and names the kind of a value in errors. Imports nothing, because the client of browsers uses it too.

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

/** Returns whether the value is what JSON calls an object: neither null nor an array. */
export const isJsonObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

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
