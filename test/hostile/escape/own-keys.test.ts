// Checks every own key of the global object, symbols included, and of ctx. A name that is not on the list has not been reviewed.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";
import { GUEST_GLOBALS } from "./globals.ts";

test("the global object has the listed names, no symbol but the tag's, and nothing that can be enumerated", async () => {
  const end = await runGuest(`(input, ctx) => ({
    names: Reflect.ownKeys(globalThis).filter((key) => typeof key === "string").sort(),
    symbols: Reflect.ownKeys(globalThis).filter((key) => typeof key === "symbol").map(String),
    enumerable: Object.keys(globalThis),
    ctx: Reflect.ownKeys(ctx).map(String).sort(),
    // An empty object that notes which missing names are read.
    above: Reflect.ownKeys(Object.getPrototypeOf(ctx)).length === 0,
  })`);
  const listed = GUEST_GLOBALS.filter((name) => name !== "constructor");
  expect(end.value).toEqual({
    names: expect.toSatisfy((names: string[]) => names.every((name) => listed.includes(name)), "on the list"),
    symbols: expect.toSatisfy(
      (symbols: string[]) => symbols.every((name) => name === "Symbol(Symbol.toStringTag)"),
      "the tag",
    ),
    enumerable: [],
    ctx: ["callId", "log", "progress", "signal", "span", "tenantId"],
    above: true,
  });
});
