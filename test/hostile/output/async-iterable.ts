// An async iterable is a stream that the tool itself iterates, on its own time. A synchronous iterable is serialized, not iterated.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("an iterator whose next loops", {
  source: `export default () => ({ [Symbol.iterator]() { for (;;); }, next() { for (;;); }, fine: 1 });`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual({ fine: 1 }),
});

testAttack("an async iterator that loops", {
  source: `export default () => ({ [Symbol.asyncIterator]() { for (;;); } });`,
  codes: ["TOOL_TIMEOUT", "CPU_LIMIT"],
});

testAttack("an endless stream without a reader", {
  source: `export default async function* () { for (;;) yield "x".repeat(1000); }`,
  codes: ["OUTPUT_TOO_LARGE"],
});

testAttack("an iterator that answers with traps", {
  source: `export default () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Proxy({}, { get() { throw { toString() { for (;;); } }; } }) }) });`,
  codes: ["TOOL_FAILED", "TOOL_TIMEOUT"],
});

testAttack("a tool that tampers with the transport of chunks and bytes", {
  source: `
    Array.prototype[Symbol.iterator] = () => { throw new Error("iterated"); };
    Object.defineProperty(Uint8Array.prototype, "toJSON", { get: () => () => "mine", set() {}, configurable: true });
    Object.prototype.toJSON = undefined; Object.prototype.done = true; Object.prototype.mark = "mine";
    Promise.prototype.then = new Proxy(Promise.prototype.then, { apply: (f, self, args) => Reflect.apply(f, self, args) });
    export default async function* () { yield new Uint8Array(1); yield 2; }`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBeInstanceOf(Array),
});
