// How a class of the web platform looks (Web IDL): its members are enumerable, and its objects carry its name.
import { ReflectDefineProperty, ReflectOwnKeys, SymbolToStringTag } from "./primordials.ts";

type Interface = { readonly prototype: object };

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

/** For the classes of the prelude; those of chunks have chunks/webidl.ts. */
export function defineInterface(name: string, made: Interface): void {
  makeEnumerable(made);
  makeEnumerable(made.prototype);
  const descriptor = { __proto__: null, value: name, writable: false, enumerable: false, configurable: true };
  ReflectDefineProperty(made.prototype, SymbolToStringTag, descriptor as PropertyDescriptor);
}
