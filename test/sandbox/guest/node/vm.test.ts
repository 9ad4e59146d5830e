// Compares contexts of node:vm in a guest with Node's own.
import { expect, test } from "vitest";
import { expectLikeNode, inGuest, runGuest } from "../../../support/guest.ts";

test("code in a context gives what it gives in Node", async () => {
  await expectLikeNode(() => {
    const vm = process.getBuiltinModule("node:vm");
    const cases: readonly [code: string, context: () => object][] = [
      ["1 + a", () => ({ a: 2 })],
      ["a = 5; b = a * 2; typeof c + b", () => ({ a: 1 })],
      ["x", () => ({})],
      ["typeof x + typeof process + typeof fetch + typeof Array", () => ({})],
      ["process", () => ({})],
      ["x += 1", () => ({})],
      ["x += 1", () => ({ x: 1 })],
      ["var a = 1, b, c = a + 1; b", () => ({})],
      ["var result; if (false) result = 1; result", () => ({})],
      ["function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } f(10)", () => ({})],
      ["f(1); function f(n) { return n + g } var g = 1; f(1)", () => ({})],
      ["let a = 1; const b = 2; class C { m() { return a + b } } new C().m()", () => ({})],
      ["this.a = 1; globalThis.b = 2; a + b + this.b + Object.keys(this).length", () => ({})],
      ["this === globalThis && this.Array === Array && globalThis.globalThis === this", () => ({})],
      ["'fetch' in this || 'Array' in this", () => ({})],
      ["(function () { 'use strict'; return this === undefined })()", () => ({})],
      ["(function () { return typeof arguments + arguments.length })(1, 2)", () => ({})],
      [
        "add(1, 2) + o.m()",
        () => ({
          add: (a: number, b: number) => a + b,
          o: {
            k: 3,
            m(): number {
              return this.k;
            },
          },
        }),
      ],
      ["[1, 2].map((n) => n * k)", () => ({ k: 3 })],
      ["JSON.stringify({ a: Math.max(1, 2), d: new Date(0), r: parseInt('12px') })", () => ({})],
      ["eval('var hidden = 2; hidden + 1')", () => ({})],
      ["new Function('return 1 + 1')()", () => ({})],
      ["(", () => ({})],
      ["throw new TypeError('bad')", () => ({})],
      ["for (var i = 0, s = 0; i < 4; i++) s += i; s", () => ({})],
      ["if (true) { function inner() { return 7 } } inner()", () => ({})],
      ["try { nothing() } catch (error) { error.name + ': ' + error.message }", () => ({})],
      ["delete a; typeof a", () => ({ a: 1 })],
      ["delete b", () => ({})],
      ["var { p, q: [r] } = { p: 1, q: [2] }; p + r", () => ({})],
      ["a.b.c", () => ({ a: { b: { c: "deep" } } })],
      ["Array = 5; Array", () => ({})],
      ["x = 1; (function () { x = 2; var x2 = x; return x2 })()", () => ({})],
      ["exports.value = typeof module; module.exports.other = 1", () => ({ exports: {}, module: { exports: {} } })],
      ["(function (root) { root.lib = 1 })(typeof window !== 'undefined' ? window : this); lib", () => ({})],
      ["async function later() { return 1 } typeof later", () => ({})],
      ["f = function named() { return typeof named }; f()", () => ({})],
      ["010 + 1", () => ({})],
      ["with ({ w: 4 }) w + k", () => ({ k: 1 })],
      ["", () => ({})],
    ];
    // Other tests of the same process may have left some.
    const before = new Set(Object.keys(globalThis));
    const seen = cases.map(([code, make]) => {
      const context = make();
      let outcome: unknown;
      try {
        outcome = [vm.runInNewContext(code, context)];
      } catch (error) {
        outcome = `${(error as Error).name}: ${(error as Error).message}`;
      }
      const left = Object.entries(context).map(([name, value]) => [
        name,
        typeof value === "function" ? "function" : value,
      ]);
      return [code, outcome ?? null, left.sort()];
    });
    return [seen, Object.keys(globalThis).filter((name) => !before.has(name))];
  }, undefined);
});

test("a context keeps what several scripts define, and its object is the same", async () => {
  await expectLikeNode(() => {
    const vm = process.getBuiltinModule("node:vm");
    const context = vm.createContext({ n: 1 }) as Record<string, unknown>;
    const first = new vm.Script("var total = n; function twice(x) { return x * 2 } count = 0");
    const second = new vm.Script("count += 1; total = twice(total); total");
    first.runInContext(context);
    const totals = [second.runInContext(context), second.runInContext(context)];
    context.n = 10;
    vm.runInContext("var later; function gone() {}", context);
    const other = vm.createContext();
    return [
      totals,
      vm.runInContext("[n, count, total]", context),
      typeof context.twice,
      ["later" in context, vm.runInContext("later === undefined && typeof gone", context)],
      vm.runInNewContext(5 as never),
      vm.isContext(context),
      vm.isContext({}),
      vm.isContext(other),
      vm.createContext(context) === context,
      vm.runInContext("typeof count", other),
      vm.compileFunction("return a + b", ["a", "b"])(1, 2),
    ];
  }, undefined);
});

test("wrong arguments fail as in Node", async () => {
  await expectLikeNode(() => {
    const vm = process.getBuiltinModule("node:vm") as unknown as { [name: string]: (...args: unknown[]) => unknown };
    const calls: readonly [string, ...unknown[]][] = [
      ["runInContext", "1", {}],
      ["createContext", 5],
      ["runInNewContext", "1", 5],
      ["isContext", 5],
      ["compileFunction", 5],
      ["compileFunction", "return 1", [5]],
      ["runInContext", 5, {}],
      ["runInContext", "1", null],
    ];
    return calls.map(([name, ...args]) => {
      try {
        return [name, vm[name]?.(...args)];
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        return [name, code, message];
      }
    });
  }, undefined);
});

test("a function with a time limit runs in a context, as function-timeout does it", async () => {
  const value = await inGuest(() => {
    const vm = process.getBuiltinModule("node:vm");
    const script = new vm.Script("returnValue = functionToRun()");
    const context = vm.createContext() as Record<string, unknown>;
    context.functionToRun = () => /a+/.test("baa");
    script.runInNewContext(context, { timeout: 1_000 });
    return [context.returnValue, "returnValue" in globalThis];
  });
  expect(value).toEqual([true, false]);
});

test("a context runs no code where the host has turned dynamic code off", async () => {
  const end = await runGuest("() => process.getBuiltinModule('node:vm').runInNewContext('1')", { features: [] });
  expect(end).toMatchObject({ outcome: "thrown", value: { name: "EvalError" } });
});
