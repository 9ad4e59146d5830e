// Tests what ctx.waitFor accepts, and what its errors say.
import { expect, test } from "vitest";
import { parseWait } from "../../../src/host/runs/run-wait.ts";

const NOW = 1_000;
const parse = (input: unknown) => parseWait(7, JSON.stringify(input), NOW);

test.for<[unknown, object]>([
  [{ event: "paid" }, { kind: "event", name: "paid" }],
  [
    { event: "paid", timeoutMs: 5 },
    { kind: "event", name: "paid", until: 1_005 },
  ],
  [{ approval: "Refund?" }, { kind: "approval", message: "Refund?" }],
  [{ durationMs: 10 }, { kind: "duration", until: 1_010 }],
])("accepts %j", ([input, wait]) => {
  expect(parse(input)).toEqual({ id: 7, ...wait });
});

test.for<[unknown, RegExp]>([
  [{ approval: { message: "Refund?" } }, /^The input of capability waitFor: \/approval: .*expected string/],
  [{ approval: "" }, /\/approval: /],
  [{ event: "paid", timeout: 5 }, /"timeout"/],
  [{ event: "paid", timeoutMs: "5" }, /\/timeoutMs: .*expected number/],
  [{ durationMs: 1.5 }, /\/durationMs: .*expected int/],
  [{ durationMs: 1, event: "x" }, /"durationMs"/],
  [{}, /Expected \{ event: NAME \}, \{ approval: QUESTION \} or \{ durationMs: NUMBER \}, got an object/],
  ["paid", /got a string/],
  [null, /got null/],
])("rejects %j", ([input, message]) => {
  expect(() => parse(input)).toThrow(
    expect.objectContaining({ code: "PARAM_INVALID", message: expect.stringMatching(message) }),
  );
});
