// Legacy ways to define accessors (__defineGetter__, __defineSetter__, __proto__) on names that the prelude and its envelopes use.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

const NAMES = [
  "ok",
  "value",
  "code",
  "message",
  "outcome",
  "text",
  "problem",
  "get",
  "set",
  "then",
  "toJSON",
  "name",
  "stack",
  "issues",
  "granted",
  "denied",
  "active",
  "serial",
  "resolve",
  "reject",
  "0",
  "1",
  "length",
];

test("accessors on every name of an envelope do not change the answer, the denial or the result", async () => {
  const end = await runGuest(
    `async (input, ctx) => {
    for (const name of ${JSON.stringify(NAMES)}) for (const at of [Object.prototype, Array.prototype, Error.prototype, Promise.prototype]) {
      if (Object.hasOwn(at, name)) continue;
      try { at.__defineSetter__(name, function (value) { throw new Error("set " + name); }); at.__defineGetter__(name, () => undefined); } catch {}
    }
    let denial; try { await ctx.fetch(1); } catch (error) { denial = error; }
    const plain = { __proto__: null };
    Reflect.defineProperty(plain, "a", { __proto__: null, value: await ctx.kv(1), enumerable: true });
    Reflect.defineProperty(plain, "b", { __proto__: null, value: denial.name, enumerable: true });
    return plain;
  }`,
    { header: { granted: ["kv"], denied: ["fetch"] }, capabilities: { kv: () => ({ ok: true, value: "answer" }) } },
  );
  expect(end).toMatchObject({ outcome: "output", value: { a: "answer", b: "CapabilityError" } });
});
