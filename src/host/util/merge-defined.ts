// Merges options of two levels: those for all calls and those for one. An undefined field counts as not given and replaces nothing, so a
// guard that is configured for all runs stays active when one run passes `needsApproval: undefined`.

type Defined<T> = { readonly [Key in keyof T]: Exclude<T[Key], undefined> };

/** Returns the fields of an object whose value is not undefined. */
export function definedFields<T extends object>(fields: T): Partial<Defined<T>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Defined<T>>;
}

/** Returns `defaults`, overridden by the fields of `given` that are not undefined. */
export function mergeDefined<Defaults extends object, Given extends object>(
  defaults: Defaults,
  given: Given | undefined,
): Defaults & Given {
  return { ...defaults, ...definedFields(given ?? {}) } as Defaults & Given;
}
