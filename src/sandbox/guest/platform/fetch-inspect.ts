// How the console shows fetch's objects: as Node does, by the symbol under which any object may say so.
const CUSTOM = Symbol.for("nodejs.util.inspect.custom");

type Inspect = (value: unknown, options: unknown) => string;

/** @param fieldsOf throws for an object of another class, as the prototype itself is */
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

/** The values of getters. */
export function pickFields<Owner extends object>(owner: Owner, names: readonly (keyof Owner)[]): object {
  return Object.fromEntries(names.map((name) => [name, owner[name]]));
}
