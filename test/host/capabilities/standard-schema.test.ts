// Standard Schemas of capabilities: only a result with a value and without issues admits an input or an output.

import { setTimeout as pause } from "node:timers/promises";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { describe, expect, onTestFinished, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { openBroker } from "../../support/broker.ts";
import {
  CALLBACK_ERROR_MESSAGE,
  FAILING_CALLBACKS,
  inOtherRealm,
  toThenable,
} from "../../support/failing-callbacks.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

type Validate = (value: unknown) => unknown;
const schemaOf = (validate: Validate): StandardSchemaV1 =>
  ({ "~standard": { version: 1, vendor: "test", validate } }) as StandardSchemaV1;

/** A capability whose schemas answer as stated, and the inputs that its handler got. */
function probeOf(input: Validate, output: Validate = (value) => ({ value })) {
  const handled: unknown[] = [];
  const capability = defineCapability({
    name: "probe",
    inputSchema: schemaOf(input),
    outputSchema: schemaOf(output),
    handler: (value) => {
      handled.push(value);
      return "secret output";
    },
  });
  return { ...openBroker(capability), handled };
}

class Failure {
  get issues(): readonly object[] {
    return [{ message: "not so" }];
  }
}

/** Answers of a schema to a value that it does not accept. */
const INVALID: readonly (readonly [name: string, validate: Validate, message: RegExp])[] = [
  ["issues", () => ({ issues: [{ message: "not so", path: ["a", { key: "b/c" }] }] }), /\/a\/b~1c: not so$/],
  ["a promise of issues", async () => ({ issues: [{ message: "not so" }] }), /not so$/],
  ["a thenable of issues", () => toThenable((resolve) => resolve({ issues: [{ message: "not so" }] })), /not so$/],
  ["a promise of another realm", () => inOtherRealm('Promise.resolve({ issues: [{ message: "not so" }] })'), /not so$/],
  ["issues and a value", () => ({ value: 1, issues: [{ message: "not so" }] }), /not so$/],
  ["an empty list of issues", () => ({ value: 1, issues: [] }), /invalid$/],
  ["null as issues", () => ({ value: 1, issues: null }), /invalid$/],
  ["false as issues", () => ({ value: 1, issues: false }), /invalid$/],
  ["text as issues", () => ({ value: 1, issues: "wrong" }), /invalid$/],
  ["issues that are null", () => ({ value: 1, issues: [null] }), /invalid$/],
  ["issues without a message", () => ({ issues: [{ path: [null, Symbol("s")] }] }), /invalid$/],
  ["issues whose path is no list", () => ({ issues: [{ message: "not so", path: null }] }), /not so$/],
  ["an instance with a getter", () => new Failure(), /not so$/],
];

/** Invalid results, and schemas that fail. */
const BROKEN: readonly (readonly [name: string, validate: Validate])[] = [
  ["returns undefined", () => undefined],
  ["returns null", () => null],
  ["returns true", () => true],
  ["returns the value itself", (value) => value],
  ["returns an object without fields", () => ({})],
  ["returns success: true", () => ({ success: true, data: 1 })],
  ["promises undefined", async () => undefined],
  ["promises an object without fields", async () => ({})],
  ["returns a thenable of undefined", () => toThenable((resolve) => resolve(undefined))],
  ["returns a promise as value", () => ({ value: Promise.resolve(1) })],
  ["returns issues that cannot be read", () => inOtherRealm("({ get issues() { throw new Error() }, value: 1 })")],
  ...FAILING_CALLBACKS,
];

describe("the input schema of a capability", () => {
  test.for(INVALID)("rejects an input with %s", async ([, validate, message]) => {
    const { ask, handled } = probeOf(validate);
    expect(await ask("probe")).toMatchObject({
      ok: false,
      code: "PARAM_INVALID",
      message: expect.stringMatching(message),
    });
    expect(handled).toEqual([]);
  });

  test.for(BROKEN)("rejects every input if it %s, and reports it to the operator", async ([, validate]) => {
    const rejections = watchRejections();
    const { ask, handled, reported } = probeOf(validate);
    const answer = await ask("probe");
    expect(answer).toEqual({ ok: false, code: "TOOL_FAILED", message: 'The capability "probe" failed' });
    expect(JSON.stringify(answer)).not.toContain(CALLBACK_ERROR_MESSAGE);
    expect(handled).toEqual([]);
    expect(reported).toHaveLength(1);
    expect(await rejections()).toEqual([]);
  });

  test("rejects an input if it has not answered when the call ends", async () => {
    const { ask, handled, end } = probeOf(() => toThenable(() => {}));
    const answer = ask("probe");
    end();
    expect(await answer).toMatchObject({ ok: false, code: "CANCELLED" });
    expect(handled).toEqual([]);
  });

  test.for<[string, Validate]>([
    ["a value", (value) => ({ value })],
    ["an undefined issues field", (value) => ({ value, issues: undefined })],
    ["a promise", async (value) => ({ value })],
    ["a thenable", (value) => toThenable((resolve) => resolve({ value }))],
    [
      "a promise of another realm",
      (value) => (inOtherRealm("(value) => Promise.resolve({ value })") as Validate)(value),
    ],
  ])("admits an input with %s", async ([, validate]) => {
    const { ask, handled } = probeOf(validate);
    expect(await ask("probe", { n: 1 })).toEqual({ ok: true, value: "secret output" });
    expect(handled).toEqual([{ n: 1 }]);
  });
});

describe("the output schema of a capability", () => {
  const admit: Validate = (value) => ({ value });

  test.for(INVALID)("rejects an output with %s", async ([, validate]) => {
    const answer = await probeOf(admit, validate).ask("probe");
    expect(answer).toMatchObject({ ok: false, code: "OUTPUT_INVALID" });
    expect(JSON.stringify(answer)).not.toContain("secret");
  });

  test.for(BROKEN)("rejects every output if it %s", async ([, validate]) => {
    const answer = await probeOf(admit, validate).ask("probe");
    expect(answer).toMatchObject({ ok: false, code: "TOOL_FAILED" });
    expect(JSON.stringify(answer)).not.toContain("secret");
  });
});

describe("the handler of a capability", () => {
  const capabilityOf = (handler: () => unknown) =>
    defineCapability({ name: "probe", inputSchema: {}, outputSchema: {}, handler });

  test.for(FAILING_CALLBACKS)("a handler that %s fails its own request only", async ([, handler]) => {
    const rejections = watchRejections();
    const { ask, reported } = openBroker(capabilityOf(handler));
    expect(await ask("probe")).toEqual({ ok: false, code: "TOOL_FAILED", message: 'The capability "probe" failed' });
    expect(reported).toHaveLength(1);
    expect(await rejections()).toEqual([]);
  });

  test.for<[string, () => unknown]>([
    ["a thenable", () => toThenable((resolve) => resolve(7))],
    ["a promise of another realm", () => inOtherRealm("Promise.resolve(7)")],
  ])("may return %s", async ([, handler]) => {
    expect(await openBroker(capabilityOf(handler)).ask("probe")).toEqual({ ok: true, value: 7 });
  });

  test("a handler that never settles fails when the call ends, and is not called after that", async () => {
    let calls = 0;
    const { ask, end } = openBroker(
      capabilityOf(() => {
        calls += 1;
        return new Promise(() => {});
      }),
    );
    const answer = ask("probe");
    end();
    expect(await answer).toMatchObject({ ok: false, code: "CANCELLED" });
    expect(await ask("probe")).toMatchObject({ ok: false, code: "CANCELLED" });
    expect(calls).toBe(1);
  });

  test("can handle many requests at once without a warning", async () => {
    const warnings: Error[] = [];
    const listener = (warning: Error): void => void warnings.push(warning);
    process.on("warning", listener);
    onTestFinished(() => {
      process.off("warning", listener);
    });
    const { ask, end } = openBroker(capabilityOf(() => new Promise(() => {})));
    const answers = Array.from({ length: 50 }, () => ask("probe"));
    await pause(0);
    end();
    for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ code: "CANCELLED" });
    expect(warnings).toEqual([]);
  });

  test("a handler that throws INTERNAL reports the reason to the operator, and not to the tool", async () => {
    const { ask, reported } = openBroker(
      capabilityOf(() => {
        throw new ToolError("INTERNAL", "The database at db-7 is gone");
      }),
    );
    expect(await ask("probe")).toEqual({ ok: false, code: "INTERNAL", message: 'The capability "probe" failed' });
    expect(reported).toMatchObject([{ message: "The database at db-7 is gone" }]);
  });
});
