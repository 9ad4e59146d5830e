// Gives classes the names that they have in their sources. esbuild links `class Foo` that refers to itself as `var Foo = class _Foo`, and a second
// class of that name as `var Foo2 = class`. Errors, logs and registries of packages show the names of classes.

const MODULE_COMMENT = /^\/\/ (.+)$/gm;
/** Matches the first line of a linked class: its variable, the name that esbuild has added, and a superclass without braces. */
const LINKED_CLASS =
  /^(?: *)(?:(?:var|let|const) )?([\w$]+) = class(?: ([\w$]+))?(?: extends [\w$.]+(?:\([\w$.]*\))?)? \{$/gm;

/**
 * Returns the linked code with a statement in each class whose name differs from that in its source.
 * @param sourceOf returns the source of a module that esbuild names in a comment; undefined for a generated one
 * @param setName name of the function that the statements call; see {@link setClassNameText}
 */
export function nameClasses(linked: string, sourceOf: (module: string) => string | undefined, setName: string): string {
  if (!linked.includes(" = class")) return linked;
  const starts = [...linked.matchAll(MODULE_COMMENT)].map(({ index, 1: module = "" }) => ({ index, module }));
  const parts = starts.map(({ index, module }, at) => {
    const text = linked.slice(index, starts[at + 1]?.index);
    return text.includes(" = class") ? nameModuleClasses(text, () => sourceOf(module), setName) : text;
  });
  return linked.slice(0, starts[0]?.index) + parts.join("");
}

/** @param readSource called only if a class may have been renamed */
function nameModuleClasses(text: string, readSource: () => string | undefined, setName: string): string {
  return text.replace(LINKED_CLASS, (line: string, variable: string, added: string | undefined) => {
    const name = added === undefined ? /^([\w$]*?[A-Za-z_$])\d+$/.exec(variable)?.[1] : /^_(.+)$/.exec(added)?.[1];
    if (name === undefined) return line;
    const source = readSource();
    // A source that has the changed name as well has it for another reason.
    if (source === undefined || hasClass(source, added ?? variable) || !hasClass(source, name)) return line;
    // At the end of the line, where no mapping of the source map follows.
    return `${line} static { ${setName}(this, ${JSON.stringify(name)}); }`;
  });
}

const hasClass = (source: string, name: string): boolean =>
  new RegExp(`\\bclass\\s+${name.replaceAll("$", "\\$")}(?![\\w$])`).test(source);

/** Declares the function that sets the name of a class. A class with a static method or accessor `name` keeps it. */
export const setClassNameText = (name: string): string =>
  `const ${name} = ((define, get) => (made, value) => { if (typeof get(made, "name")?.value === "string") define(made, "name", { value, configurable: true }); })(Object.defineProperty, Object.getOwnPropertyDescriptor);`;
