// Formats the objects of fetch for the console as Node does, through the symbol of custom inspection functions.
const CUSTOM = Symbol.for("nodejs.util.inspect.custom");

type Inspect = (value: unknown, options: unknown) => string;

/** @param fieldsOf returns the fields to show; throws for objects of another class, such as the prototype itself */
export function showAs<Owner extends object>(
  name: string,
  made: { readonly prototype: Owner },
  fieldsOf: (owner: Owner) => object,
): void {
  function show(this: Owner, _depth: number, options: object, inspect: Inspect): string {
    try {
      return `${name} ${inspect(fieldsOf(this), options)}`;
    } catch {
      return `${name} {}`;
    }
  }
  Object.defineProperty(made.prototype, CUSTOM, { value: show, writable: true, configurable: true });
}

/** Returns the values of getters as an object. */
export function pickFields<Owner extends object>(owner: Owner, names: readonly (keyof Owner)[]): object {
  return Object.fromEntries(names.map((name) => [name, owner[name]]));
}
