// Attack: run dynamic code although the host has disabled it, by every constructor, prototype or syntax that reaches V8's compiler.
import { describe, expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

const OFF = { features: [] } as const;

/** Expressions that would give 42, or a function of it, if text became code. */
const ATTEMPTS: readonly [name: string, attempt: string][] = [
  ["eval", "eval('42')"],
  ["eval, indirectly", "(0, eval)('42')"],
  ["eval, by the global object", "globalThis.eval('42')"],
  ["eval, by self", "self.eval('42')"],
  ["eval, by optional call", "eval?.('42')"],
  ["eval, called with another this", "Reflect.apply(eval, globalThis, ['42'])"],
  ["eval, as a tag", "eval`42`"],
  ["Function", "Function('return 42')()"],
  ["new Function", "new Function('return 42')()"],
  ["Function with arguments", "new Function('a', 'return a')(42)"],
  ["Function, by call", "Function.call(null, 'return 42')()"],
  ["Function, by bind", "Function.bind(null, 'return 42')()()"],
  ["Function, by Reflect.construct", "Reflect.construct(Function, ['return 42'])()"],
  ["Function, with another new.target", "Reflect.construct(Function, ['return 42'], Object)()"],
  ["Function, as new.target of Object", "Reflect.construct(Object, ['return 42'], Function)()"],
  ["a subclass of Function", "new (class extends Function { constructor() { super('return 42'); } })()()"],
  ["the constructor of a function", "(() => {}).constructor('return 42')()"],
  ["the constructor of an async function", "(async () => {}).constructor('return 42')()"],
  ["the constructor of a generator", "(function* () {}).constructor('return 42')().next().value"],
  ["the constructor of an async generator", "(async function* () {}).constructor('return 42')().next()"],
  ["the constructor of a method", "({ m() {} }).m.constructor('return 42')()"],
  ["the constructor of a class", "(class {}).constructor('return 42')()"],
  ["the constructor of a bound function", "(() => {}).bind().constructor('return 42')()"],
  ["the constructor of a proxy of a function", "new Proxy(() => {}, {}).constructor('return 42')()"],
  ["the constructor of a native function", "Math.max.constructor('return 42')()"],
  [
    "the constructor of a getter",
    "Object.getOwnPropertyDescriptor(Map.prototype, 'size').get.constructor('return 42')()",
  ],
  ["the constructor of Function.prototype", "Function.prototype.constructor('return 42')()"],
  ["the constructor of a constructor", "[].constructor.constructor('return 42')()"],
  ["the constructor of the replacement", "Function.constructor('return 42')()"],
  ["the prototype of AsyncFunction", "Object.getPrototypeOf((async () => {}).constructor)('return 42')()"],
  [
    "the prototype of AsyncFunction's constructor",
    "Object.getPrototypeOf((async () => {}).constructor).constructor('return 42')()",
  ],
  [
    "the prototype of GeneratorFunction",
    "Object.getPrototypeOf((function* () {}).constructor).constructor('return 42')()",
  ],
  ["__proto__ of AsyncFunction", "(async () => {}).constructor.__proto__.constructor('return 42')()"],
  [
    "the constructor after it was deleted",
    "(delete Function.prototype.constructor, (() => {}).constructor('return 42')())",
  ],
  [
    "the constructor after the prototype was replaced",
    "(Object.setPrototypeOf(Math.max, null), Object.setPrototypeOf(Math.max, Function.prototype), Math.max.constructor('return 42')())",
  ],
  ["the constructor of a generator object", "(function* () {})().constructor.constructor('return 42')()"],
  ["the species of Promise", "Promise[Symbol.species].constructor('return 42')()"],
  ["the hasInstance of Function", "Function[Symbol.hasInstance].constructor('return 42')()"],
  ["setTimeout with text", "setTimeout('42', 0)"],
  ["setInterval with text", "setInterval('42', 1)"],
  ["setImmediate with text", "setImmediate('42')"],
  ["queueMicrotask with text", "queueMicrotask('42')"],
  ["an import expression of data", "await import('data:text/javascript,export default 42')"],
  ["an import expression of a Node module", "await import('node:fs')"],
  ["an import expression of a file", "await import('/etc/hostname')"],
  ["require", "require('fs')"],
  ["process", "process.binding('fs')"],
  ["ShadowRealm", "new ShadowRealm().evaluate('42')"],
  ["WebAssembly", "new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))"],
  ["a Worker", "new Worker('data:text/javascript,42')"],
  ["a Realm", "new Realm().evaluate('42')"],
  ["V8's natives", "Function('%SystemBreak()')()"],
];

describe("a guest without dynamic code", () => {
  test.for(ATTEMPTS)("cannot run text as code by %s", async ([, attempt]) => {
    // A bundle in sloppy mode: the guest's best case.
    const end = await runGuest(
      `async () => {
      try { const got = ${attempt}; return ["got", typeof got, String(got)]; } catch (error) { return ["rejected", error.name]; }
    }`,
      OFF,
    );
    expect(end.outcome).toBe("output");
    const [verdict, name] = end.value as [string, string];
    expect([verdict, name]).toEqual([
      "rejected",
      expect.stringMatching(/^(EvalError|TypeError|ReferenceError|Error)$/),
    ]);
  });

  test("cannot find the real constructors on anything that it can reach", async () => {
    const end = await runGuest(
      `() => {
      const seen = new Set();
      const made = [];
      const queue = [globalThis, (async () => {}), (function* () {}), (async function* () {}), new Error("x"), Promise.resolve()];
      while (queue.length > 0) {
        const item = queue.pop();
        if ((typeof item !== "object" && typeof item !== "function") || item === null || seen.has(item)) continue;
        seen.add(item);
        if (typeof item === "function") {
          for (const run of [() => item("return 42"), () => new item("return 42"), () => Reflect.construct(item, ["return 42"])]) {
            // Functions with side effects are not called.
            if (/^(set|clear|queue)/.test(item.name)) continue;
            try { const got = run(); if (typeof got === "function" && got() === 42) made.push(item.name); } catch {}
          }
        }
        queue.push(Object.getPrototypeOf(item));
        for (const key of Reflect.ownKeys(item)) {
          const { value, get, set } = Object.getOwnPropertyDescriptor(item, key) ?? {};
          queue.push(value, get, set);
          if (get !== undefined) try { queue.push(item[key]); } catch {}
        }
      }
      return { made, size: seen.size };
    }`,
      OFF,
    );
    expect(end.outcome).toBe("output");
    const { made, size } = end.value as { readonly made: readonly string[]; readonly size: number };
    expect(made).toEqual([]);
    expect(size).toBeGreaterThan(800);
  });

  test.for<[name: string, attempt: string]>([
    ["eval", "eval"],
    ["Function", "Function"],
    ["the constructor of an async function", "(async () => {}).constructor"],
  ])("sees %s unchanged by instanceof and typeof", async ([, expression]) => {
    const end = await runGuest(
      `() => [typeof ${expression}, ${expression} instanceof Function, (() => {}) instanceof Function]`,
      OFF,
    );
    expect(end.value).toEqual(["function", true, true]);
  });

  test("may give functions a constructor of their own, as packages do", async () => {
    const end = await runGuest(
      `() => {
        "use strict";
        const own = function () {};
        own.constructor = 1;
        const asynchronous = async () => {};
        asynchronous.constructor = 2;
        return [own.constructor, asynchronous.constructor, Object.keys(own), (() => {}).constructor === Function, Function.prototype.constructor === Function];
      }`,
      OFF,
    );
    expect(end.value).toEqual([1, 2, ["constructor"], true, true]);
  });

  test.for<[name: string, attempt: string]>([
    ["a new constructor on Function.prototype by assignment", "'use strict'; Function.prototype.constructor = 1"],
    [
      "a new constructor on Function.prototype by the setter",
      "Object.getOwnPropertyDescriptor(Function.prototype, 'constructor').set.call(Function.prototype, 1)",
    ],
    [
      "a new constructor on Function.prototype",
      "Object.defineProperty(Function.prototype, 'constructor', { value: 1 })",
    ],
    ["another prototype for Function", "Object.defineProperty(Function, 'prototype', { value: {} })"],
  ])("cannot replace it with %s", async ([, attempt]) => {
    const end = await runGuest(
      `() => { try { ${attempt}; return "done"; } catch (error) { return error.name; } }`,
      OFF,
    );
    expect(end.value).toBe("TypeError");
  });
});
