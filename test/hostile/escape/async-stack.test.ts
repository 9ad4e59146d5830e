// Stacks of asynchronous calls have call sites for functions that have already returned, including those of the prelude.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

test("async call sites reveal neither functions nor receivers of the prelude", async () => {
  const end = await runGuest(
    `async (input, ctx) => {
    const got = [];
    Error.stackTraceLimit = 200;
    Error.prepareStackTrace = (error, sites) => { for (const site of sites) for (const name of ["getThis", "getFunction", "getPromiseIndex", "getEvalOrigin", "getMethodName"]) { const value = site[name]?.(); if (typeof value === "function" || (typeof value === "object" && value !== null)) got.push(value); } return ""; };
    const look = async () => { await null; await ctx.kv(1); await new Promise((done) => setTimeout(done, 1)); void new Error("x").stack; };
    await Promise.all([look(), Promise.any([look()]), Promise.allSettled([look()])]);
    let timer;
    await new Promise((done) => { timer = setTimeout(async () => { await look(); done(); }, 0); });
    // Node passes a timer to its callback as the receiver, and the tool has it already.
    return got.filter((item) => typeof item === "object" ? item !== globalThis && item !== timer : !/got.filter/.test(Function.prototype.toString.call(item)) && /postToHost|callState|MapPrototype|PromisePrototypeThen|ReflectApply/.test(Function.prototype.toString.call(item))).length;
  }`,
    { header: { granted: ["kv"] } },
  );
  expect(end).toMatchObject({ outcome: "output", value: 0 });
});
