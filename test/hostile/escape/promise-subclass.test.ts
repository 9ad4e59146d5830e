// The result of execute is awaited: a promise of another class, or with another constructor, has its own then and species.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

test.for([
  [
    "a subclass",
    "class Evil extends Promise { then(...args) { seen.push(...args); return super.then(...args); } static get [Symbol.species]() { seen.push('species'); return Evil; } } return Evil.resolve('fine');",
  ],
  [
    "a constructor getter",
    "return Object.defineProperty(Promise.resolve('fine'), 'constructor', { get() { seen.push('constructor'); return class { constructor(run) { run(() => {}, () => {}); } }; } });",
  ],
  [
    "an own then",
    "return Object.assign(Promise.resolve('fine'), { then(done, fail) { seen.push(done, fail); done('fine'); done('forged'); fail('forged'); } });",
  ],
  [
    "a thenable that calls back twice, and late",
    "return { then(done, fail) { seen.push(done, fail); done('fine'); setTimeout(() => { done('late'); fail('late'); }, 1); throw new Error('after'); } };",
  ],
])("%s: the call ends once, and nothing of the prelude's is handed over", async ([, body]) => {
  const end = await runGuest(`async (input, ctx) => {
    const seen = [];
    const value = await (async () => { ${body} })();
    const strange = seen.filter((item) => typeof item === "function" && !/native code/.test(Function.prototype.toString.call(item)));
    return [value, strange.length];
  }`);
  expect(end).toMatchObject({ outcome: "output", value: ["fine", 0] });
  const whole = await runGuest(`(input, ctx) => { const seen = globalThis.seen = []; ${body} }`);
  expect(whole).toMatchObject({ outcome: "output", value: "fine" });
});
