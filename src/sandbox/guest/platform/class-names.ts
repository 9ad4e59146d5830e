// The names of classes that packages compare by `constructor.name`, and that Node's `inspect` shows.

/** Each by its key: the build renames what two modules of a chunk call alike (`Buffer3`), and a class that names itself (`_KeyObject`). */
export function nameClasses(classes: { readonly [name: string]: unknown }): void {
  for (const [value, made] of Object.entries(classes)) {
    Object.defineProperty(made, "name", { value, configurable: true });
  }
}
