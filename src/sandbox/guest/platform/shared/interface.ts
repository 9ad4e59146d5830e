// Defines a class as a web platform interface (Web IDL): its members are enumerable, and its objects have its name as their tag.
import { ReflectDefineProperty, ReflectOwnKeys, SymbolToStringTag } from "../../primordials.ts";

type Interface = { readonly prototype: object; readonly name: string };

function makeEnumerable(target: object): void {
  const keys = ReflectOwnKeys(target);
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] as PropertyKey;
    if (typeof key === "symbol" || key === "constructor" || key === "prototype" || key === "name" || key === "length") {
      continue;
    }
    ReflectDefineProperty(target, key, { __proto__: null, enumerable: true } as PropertyDescriptor);
  }
}

/** For classes that a guest must not be able to influence. The others use webidl.ts. */
export function defineInterface(name: string, made: Interface): void {
  makeEnumerable(made);
  makeEnumerable(made.prototype);
  const descriptor = { __proto__: null, value: name, writable: false, enumerable: false, configurable: true };
  ReflectDefineProperty(made.prototype, SymbolToStringTag, descriptor as PropertyDescriptor);
  // The build may have renamed the class.
  if (made.name !== name) ReflectDefineProperty(made, "name", descriptor as PropertyDescriptor);
}
