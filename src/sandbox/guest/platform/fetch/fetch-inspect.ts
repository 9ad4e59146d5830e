// Formats objects of the web platform for the console as Node does, through the symbol of custom inspection functions.
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

const LINE_LENGTH = 72;

/** Shows names and values as `URLSearchParams { 'a' => '1' }`. */
export function showPairs<Owner extends object>(
  name: string,
  made: { readonly prototype: Owner },
  pairsOf: (owner: Owner) => readonly (readonly [string, string])[],
): void {
  function show(this: Owner, _depth: number, options: object, inspect: Inspect): string {
    try {
      const pairs = pairsOf(this).map(([key, value]) => `${inspect(key, options)} => ${inspect(value, options)}`);
      if (pairs.length === 0) return `${name} {}`;
      const length = pairs.reduce((sum, pair) => sum + pair.length + 2, 0);
      return length <= LINE_LENGTH ? `${name} { ${pairs.join(", ")} }` : `${name} {\n  ${pairs.join(",\n  ")} }`;
    } catch {
      return `${name} {}`;
    }
  }
  Object.defineProperty(made.prototype, CUSTOM, { value: show, writable: true, configurable: true });
}
