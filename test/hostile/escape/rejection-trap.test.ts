// vm2 was escaped through its handling of an unhandled rejection. Here the reason is an object whose every read is a trap.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("unhandled rejections with hostile reasons", {
  source: `Error.prepareStackTrace = () => { throw new Error('prepared'); };
const trap = () => { throw new Error('trap'); };
const hostile = () => new Proxy(function () {}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap, apply: trap, construct: trap });
export default async () => { for (let n = 0; n < 50; n += 1) { Promise.reject(hostile()); (async () => { throw hostile(); })(); new Promise(() => { throw hostile(); }); setTimeout(() => { Promise.reject(hostile()); throw hostile(); }, 1); queueMicrotask(() => { throw hostile(); }); } await new Promise((done) => setTimeout(done, 50)); return 'fine'; };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe("fine"),
});
