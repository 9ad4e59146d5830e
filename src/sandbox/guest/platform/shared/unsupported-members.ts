// Members of Node's built-in modules that the sandbox lacks. Packages can import and extend them. They throw when they are used.
import { unsupported } from "./node-error.ts";

export type Members = { [name: string]: unknown };

const isClassName = (name: string): boolean => /^[A-Z]/.test(name);

/**
 * Returns functions, or classes for capitalized names, that throw ERR_SANDBOX_UNSUPPORTED when they are called or constructed.
 * @param instead what to use instead
 * @param names names separated by spaces
 * @param parent class that the classes extend, for packages that check their instances
 */
export function unsupportedMembers(module: string, instead: string, names: string, parent?: { prototype: object }) {
  const members: Members = {};
  for (const name of names.split(" ")) {
    const fail = function (this: unknown): never {
      throw unsupported(`${module}.${name}${isClassName(name) ? "" : "()"}`, instead);
    };
    if (parent !== undefined && isClassName(name)) Object.setPrototypeOf(fail.prototype, parent.prototype);
    Object.defineProperty(fail, "name", { value: name });
    members[name] = fail;
  }
  return members;
}

/** Adds the names that `target` lacks. */
export function addUnsupported<Target extends object>(
  target: Target,
  module: string,
  instead: string,
  names: string,
): Target {
  for (const [name, value] of Object.entries(unsupportedMembers(module, instead, names))) {
    if (name in target) continue;
    Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return target;
}
