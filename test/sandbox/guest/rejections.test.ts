// Tests unhandled rejections: the reason is logged as long as the call runs.
import { describe, expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

describe("an unhandled rejection", () => {
  test.for<[string, () => unknown, readonly unknown[]]>([
    [
      "an error, with its stack",
      () => Promise.reject(new TypeError("lost")),
      [/^error: Uncaught \(in a promise\): TypeError: lost\n +at .*glovebox:/],
    ],
    ["a text", () => Promise.reject("why"), [/^error: Uncaught \(in a promise\): why$/]],
    [
      "an exception of an async function",
      () =>
        (async () => {
          await null;
          throw new RangeError("deep");
        })(),
      [/RangeError: deep/],
    ],
    [
      "handled in the same task",
      () => {
        const lost = Promise.reject(new Error("x"));
        queueMicrotask(() => lost.catch(() => undefined));
      },
      [],
    ],
    ["the one that comes of then()", () => Promise.reject(new Error("first")).then(() => 1), [/Error: first/]],
    [
      "a hostile reason",
      () =>
        Promise.reject({
          get message() {
            throw new Error("trap");
          },
          toString: () => "told",
        }),
      [/^error: Uncaught/],
    ],
    [
      "an error with a hostile stack getter",
      () => {
        const error = new Error("x");
        Object.defineProperty(error, "stack", {
          get: () => {
            throw error;
          },
        });
        void Promise.reject(error);
      },
      [/^error: Uncaught/],
    ],
  ])("is logged: %s", async ([, leave, lines]) => {
    const runFor = (ms: number) =>
      runGuest(`async () => { (${leave})(); await new Promise((resolve) => setTimeout(resolve, ${ms})); return 1; }`);
    let end = await runFor(5);
    // On a busy machine, the timer may fire before the rejection is reported.
    for (let ms = 50; ms <= 50_000 && end.logs.length < lines.length; ms *= 10) end = await runFor(ms);
    expect(end.value).toBe(1);
    expect(end.logs.join()).not.toMatch(/boundary|node_modules|\.ts:/);
    expect(end.logs).toEqual(lines.map((line) => expect.stringMatching(line as RegExp)));
  });

  test("is not logged after its call has ended, nor in the next call", async () => {
    const end = await runGuest(`() => { Promise.reject(new Error("late")); return 1; }`);
    expect([end.value, end.logs]).toEqual([1, []]);
  });
});
