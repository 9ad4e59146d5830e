// util.inspect and util.format as in Node, from node-inspect-extracted.

/** The function also has properties: its settings, such as `inspect.custom`. */
type Inspect = ((value: unknown, options?: object) => string) & { readonly [name: string]: unknown };
interface Formatting {
  readonly inspect: Inspect;
  format(...values: unknown[]): string;
  formatWithOptions(options: object, ...values: unknown[]): string;
}
declare function require(name: "node-inspect-extracted"): Formatting;

/** The package copies the functions of `Atomics` while it loads, and guests have no `Atomics`. */
const isLacking = !("Atomics" in globalThis);
if (isLacking) Object.defineProperty(globalThis, "Atomics", { value: {}, configurable: true });
/**
 * The package takes the global classes that it sees while it loads for those of the language, whose objects `%s` inspects. These have text of
 * their own, which Node writes.
 */
const hidden = ["URL", "URLSearchParams"].flatMap((name) => {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, name);
  return descriptor !== undefined && Reflect.deleteProperty(globalThis, name) ? [{ name, descriptor }] : [];
});
const formatting = require("node-inspect-extracted");
for (const { name, descriptor } of hidden) Object.defineProperty(globalThis, name, descriptor);
if (isLacking) Reflect.deleteProperty(globalThis, "Atomics");

export const { format, formatWithOptions, inspect } = formatting;
