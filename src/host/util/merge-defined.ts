// Options that are stated at two levels: for all calls and for one. A field that is undefined was not given, so it replaces nothing: a
// guard that is configured for all runs stays in force when one run passes `needsApproval: undefined`.

type Defined<T> = { readonly [Key in keyof T]: Exclude<T[Key], undefined> };

/** Returns the fields of an object whose value is not undefined. */
export function definedFields<T extends object>(fields: T): Partial<Defined<T>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Defined<T>>;
}

/** Returns `defaults` with the fields of `given` that are not undefined in their place. */
export function mergeDefined<Defaults extends object, Given extends object>(
  defaults: Defaults,
  given: Given | undefined,
): Defaults & Given {
  return { ...defaults, ...definedFields(given ?? {}) } as Defaults & Given;
}
