// Values that are not options objects, for tests that every public function rejects them.
import { expect } from "vitest";
import { inOtherRealm } from "./failing-callbacks.ts";

class Options {
  readonly tenantId = "acme";
}

/** Values other than plain objects, and how an error describes them. */
export const NOT_PLAIN: readonly (readonly [kind: string, make: () => unknown])[] = [
  ["a string", () => "acme"],
  ["null", () => null],
  ["a number", () => 5],
  ["an array", () => [{ tenantId: "acme" }]],
  ["a Promise", () => Promise.resolve({ tenantId: "acme" })],
  ["a Promise", () => inOtherRealm("Promise.resolve({})")],
  ["a Map", () => new Map([["tenantId", "acme"]])],
  ["an instance of Options", () => new Options()],
  ["an object that is not plain", () => Object.create({ tenantId: "acme" })],
];

/** Returns the error that an action throws or rejects with, at once or later. */
export async function failureOfAction(action: () => unknown): Promise<unknown> {
  try {
    await action();
  } catch (thrown) {
    return thrown;
  }
  return "no failure";
}

/** Expects a function to reject every value of {@link NOT_PLAIN}, and each of these options, with PARAM_INVALID and the path. */
export async function expectStrict(
  call: (options: unknown) => unknown,
  bad: readonly (readonly [options: unknown, message: string])[],
): Promise<void> {
  for (const [kind, make] of NOT_PLAIN) {
    const error = await failureOfAction(() => call(make()));
    const message = `options: Expected a plain object, got ${kind}`;
    expect([kind, error]).toMatchObject([kind, { code: "PARAM_INVALID", message }]);
  }
  for (const [options, message] of bad) {
    const error = await failureOfAction(() => call(options));
    const expected = { code: "PARAM_INVALID", message: expect.stringContaining(message) };
    expect([options, error]).toMatchObject([options, expected]);
  }
}
