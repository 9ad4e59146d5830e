// util.inspect and util.format as Node has them: node-inspect-extracted.

/** Each a list of what is shown how; `inspect` carries its own settings too. */
type Inspect = ((value: unknown, options?: object) => string) & { readonly [name: string]: unknown };
interface Formatting {
  readonly inspect: Inspect;
  format(...values: unknown[]): string;
  formatWithOptions(options: object, ...values: unknown[]): string;
}
declare function require(name: "node-inspect-extracted"): Formatting;

/** The package copies the functions of this object while it loads; a guest has none. */
const isLacking = !("Atomics" in globalThis);
if (isLacking) Object.defineProperty(globalThis, "Atomics", { value: {}, configurable: true });
const formatting = require("node-inspect-extracted");
if (isLacking) Reflect.deleteProperty(globalThis, "Atomics");

export const { format, formatWithOptions, inspect } = formatting;
