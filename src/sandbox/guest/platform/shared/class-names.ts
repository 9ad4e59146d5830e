// Sets the names of classes, which packages compare by `constructor.name` and Node's `inspect` prints.

/**
 * Names each class after its key. The build renames classes with equal names (`Buffer3`) and classes that refer to themselves
 * (`_KeyObject`).
 */
export function nameClasses(classes: { readonly [name: string]: unknown }): void {
  for (const [value, made] of Object.entries(classes)) {
    Object.defineProperty(made, "name", { value, configurable: true });
  }
}
