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
const formatting = require("node-inspect-extracted");
if (isLacking) Reflect.deleteProperty(globalThis, "Atomics");

export const { format, formatWithOptions, inspect } = formatting;
