// Members of Node's built-in modules that are the globals of the same name.

const web = globalThis as unknown as { readonly [name: string]: unknown };

/** Returns the property of a module that is a global. It is looked up at each access, because the first access to a global loads its code. */
export const globalMember = (name: string): PropertyDescriptor => ({ enumerable: true, get: () => web[name] });
