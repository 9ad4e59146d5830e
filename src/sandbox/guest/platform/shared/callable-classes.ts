// Lets classes be called as the constructor functions that they are in Node: without `new`, and applied to an object of a class that inherits
// from them through `util.inherits()`, which the classes of JavaScript do not allow. Lets factories be called with `new`.

type Constructor = abstract new (...args: never[]) => object;

/** The object that the next constructor of an adoptable parent initializes instead of a new one. */
let adopted: object | undefined;

/**
 * Returns a parent whose subclasses can be applied to an existing object. They share the prototype of `Parent`, which is a constructor
 * function.
 */
export function adoptable<Parent extends Constructor>(Parent: Parent): Parent {
  function Adoptable(...args: unknown[]): object {
    const target = adopted;
    adopted = undefined;
    if (target === undefined) return Reflect.construct(Parent, args, new.target);
    Reflect.apply(Parent, target, args);
    // The fields of the subclass, private ones included, are defined on what its parent returns.
    return target;
  }
  Object.setPrototypeOf(Adoptable, Parent);
  Adoptable.prototype = Parent.prototype;
  return Adoptable as unknown as Parent;
}

interface CallableOptions {
  /** Turns the arguments that a tool passes into those of the class. */
  readonly convert?: (...args: never[]) => unknown[];
}

/** Returns a constructor function for a class. Only a class with an adoptable parent can be applied to another object. */
export function callable<Class extends Constructor>(Class: Class, { convert }: CallableOptions = {}): Class {
  function Callable(this: unknown, ...given: unknown[]): object | undefined {
    const args = convert === undefined ? given : Reflect.apply(convert, undefined, given);
    if (new.target !== undefined) return Reflect.construct(Class, args, new.target);
    if (!(this instanceof Class)) return Reflect.construct(Class, args);
    adopted = this as object;
    try {
      Reflect.construct(Class, args);
    } finally {
      adopted = undefined;
    }
    return undefined;
  }
  Object.setPrototypeOf(Callable, Class);
  Callable.prototype = Class.prototype;
  Object.defineProperty(Class.prototype, "constructor", { value: Callable, writable: true, configurable: true });
  Object.defineProperty(Callable, "name", { value: Class.name, configurable: true });
  return Callable as unknown as Class;
}

/**
 * Lets `new` call a factory: most functions of Node are constructors, and packages write `new crypto.createCipheriv(…)`. The factory
 * returns an object, which is then the value of `new`.
 */
export function constructible<Args extends unknown[], Result extends object>(
  name: string,
  factory: (...args: Args) => Result,
): (...args: Args) => Result {
  function create(...args: Args): Result {
    return factory(...args);
  }
  return Object.defineProperty(create, "name", { value: name, configurable: true });
}
