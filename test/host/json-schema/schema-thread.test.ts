// The thread that checks large values: the same answers as in the host's thread, one at a time, and no thread is left behind.
import { afterAll, describe, expect, test } from "vitest";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { SchemaThread } from "../../../src/host/json-schema/worker/schema-thread.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";

const thread = new SchemaThread();
afterAll(() => thread[Symbol.asyncDispose]());
const slow = compileSchema({ items: { allOf: Array(4_000).fill({ type: "number" }) } });
const slowText = `[${"1,".repeat(500_000)}1]`;

describe("SchemaThread.validate()", () => {
  test.for<[string, unknown, string]>([
    ["what fits", { type: "object", properties: { a: { type: "number" } } }, '{"a":1}'],
    ["what does not", { type: "object", properties: { a: { type: "number" } } }, '{"a":"é"}'],
    [
      "a schema with names of Object.prototype",
      JSON.parse('{"properties":{"__proto__":{"const":1},"toString":false}}'),
      '{"toString":1}',
    ],
    ["references", { $ref: "#/$defs/a", $defs: { a: { items: { $ref: "#" }, maxItems: 1 } } }, "[[[1,2]]]"],
    ["true", true, "1"],
    ["false", false, "1"],
  ])("returns the same result as the host's thread for %s", async ([, schema, text]) => {
    const compiled = compileSchema(schema);
    const expected = compiled.validate(JSON.parse(text));
    expect(await thread.validate(compiled, text, undefined)).toEqual(expected);
    expect(await thread.validate(compiled, Buffer.from(text), undefined)).toEqual(expected);
  });

  test("answers concurrent checks with their own results", async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, n) => thread.validate(compileSchema({ minimum: 10 }), String(n), undefined)),
    );
    expect(outcomes.map(({ valid }) => valid)).toEqual(outcomes.map((_, n) => n >= 10));
  });

  test("stops a check that takes too long, and runs the next", async () => {
    expect(await thread.validate(slow, slowText, undefined)).toMatchObject({ stopped: true, reason: "time" });
    expect(await thread.validate(compileSchema({ type: "number" }), "1", undefined)).toEqual({ valid: true });
  });

  test("rejects with its signal's reason, whether it waits or runs, and runs the next", async () => {
    const reason = new ToolError("CANCELLED", "enough");
    const controller = new AbortController();
    const running = thread.validate(slow, slowText, controller.signal);
    const waiting = thread.validate(slow, slowText, controller.signal);
    const next = thread.validate(compileSchema({ type: "number" }), "1", undefined);
    // Before either can have ended.
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(running).rejects.toBe(reason);
    expect(await next).toEqual({ valid: true });
    await expect(thread.validate(slow, "1", AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test("starts again after it was disposed, also twice", async () => {
    await using other = new SchemaThread();
    const compiled = compileSchema({ type: "number" });
    expect(await other.validate(compiled, "1", undefined)).toEqual({ valid: true });
    await other[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    expect(await other.validate(compiled, "1", undefined)).toEqual({ valid: true });
  });
});
