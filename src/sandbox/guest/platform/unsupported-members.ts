// Members of Node's built-in modules that the sandbox does not have: packages can import and extend them, and they fail when they are used.
import { unsupported } from "./node-error.ts";

export type Members = { [name: string]: unknown };

const isClassName = (name: string): boolean => /^[A-Z]/.test(name);

/**
 * Functions, or classes where the name begins with a capital letter, that throw ERR_SANDBOX_UNSUPPORTED when they are called or constructed.
 * @param instead what the tool can use in their place
 * @param names separated by spaces
 * @param parent the class that the classes extend: packages ask for their instances
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

/** Adds those names that `target` lacks. */
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
