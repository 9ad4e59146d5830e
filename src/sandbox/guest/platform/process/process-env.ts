// process.env. It is empty at first, and it keeps what a tool assigns as text, as the environment of a process does (node_env_var.cc).
import {
  defineValue,
  ObjectHasOwn,
  ProxyConstructor,
  ReflectDefineProperty,
  StringPrototypeIndexOf,
  StringPrototypeToWellFormed,
  TypeErrorConstructor,
} from "../../primordials.ts";
import { nodeError } from "../shared/node-error.ts";

const invalidDescriptor = (rule: string): Error =>
  nodeError(TypeErrorConstructor, "ERR_INVALID_OBJECT_DEFINE_PROPERTY", `'process.env' ${rule}`);

/** @throws {TypeError} if the key or the value is a symbol, or if the conversion to text throws */
function assign(target: object, key: PropertyKey, value: unknown): boolean {
  if (typeof key === "symbol") throw new TypeErrorConstructor("Cannot convert a Symbol value to a string");
  const text = StringPrototypeToWellFormed(`${value as string}`);
  // The operating system has no such names. Node ignores the assignment.
  if (key !== "" && StringPrototypeIndexOf(key as string, "=") < 0) defineValue(target, key, text);
  return true;
}

function define(target: object, key: PropertyKey, descriptor: PropertyDescriptor): boolean {
  if (ObjectHasOwn(descriptor, "get") || ObjectHasOwn(descriptor, "set")) {
    throw invalidDescriptor("does not accept an accessor(getter/setter) descriptor");
  }
  const { value, writable, enumerable, configurable } = { __proto__: null, ...descriptor } as PropertyDescriptor;
  if (!ObjectHasOwn(descriptor, "value") || writable !== true || enumerable !== true || configurable !== true) {
    throw invalidDescriptor("only accepts a configurable, writable, and enumerable data descriptor");
  }
  return assign(target, key, value);
}

/** Returns a new, empty environment. */
export function createEnvironment(): object {
  const values = {};
  const environment: object = new ProxyConstructor(values, {
    __proto__: null,
    set(target: object, key: PropertyKey, value: unknown, receiver: object): boolean {
      if (receiver === environment) return assign(target, key, value);
      // An object that inherits from the environment gets an ordinary property.
      const descriptor = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
      return ReflectDefineProperty(receiver, key, descriptor as PropertyDescriptor);
    },
    defineProperty: define,
    preventExtensions: () => false,
  } as ProxyHandler<object>);
  return environment;
}
