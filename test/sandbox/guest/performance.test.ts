// Compares performance and navigator in a guest with Node's own: marks, measures and their observers.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../support/guest.ts";

const like = (run: () => unknown): Promise<void> => expectLikeNode(run, undefined);

describe("performance", () => {
  test("returns whole milliseconds since its origin", async () => {
    const found = await inGuest(() => {
      const { timeOrigin } = performance;
      // The machine may stop between two readings.
      const before = Date.now();
      const now = timeOrigin + performance.now();
      const after = Date.now();
      return {
        isWhole: Number.isInteger(performance.now()) && Number.isInteger(timeOrigin),
        isNear: now > before - 100 && now < after + 100,
        json: performance.toJSON().timeOrigin === timeOrigin,
        isTarget: performance instanceof EventTarget && performance instanceof Performance,
        isEventTime: new Event("x").timeStamp - performance.now() < 5,
      };
    });
    expect(found).toEqual({ isWhole: true, isNear: true, json: true, isTarget: true, isEventTime: true });
  });

  test("stores marks and measures in the order of their times", () =>
    like(() => {
      performance.clearMarks();
      performance.clearMeasures();
      performance.mark("b", { startTime: 20, detail: { a: [1] } });
      performance.mark("a", { startTime: 10 });
      performance.mark("b", { startTime: 30 });
      performance.measure("from a", "a", "b");
      performance.measure("options", { start: 5, duration: 7, detail: "d" });
      performance.measure("back", { end: "b", duration: 10 });
      const plain = (entries: readonly PerformanceEntry[]): unknown[] =>
        entries.map((entry) => {
          const { name, entryType, startTime, duration } = entry;
          return [name, entryType, startTime, duration, (entry as PerformanceMark).detail];
        });
      const all = plain(performance.getEntries().filter(({ entryType }) => /^m/.test(entryType)));
      const named = plain(performance.getEntriesByName("b", "mark"));
      const measures = plain(performance.getEntriesByType("measure"));
      performance.clearMarks("b");
      performance.clearMeasures();
      return [all, named, measures, plain(performance.getEntriesByType("mark")), performance.getEntriesByName("back")];
    }));

  test.for<[expression: string, name: string]>([
    ["performance.mark()", "TypeError"],
    ["performance.mark('a', { startTime: -1 })", "TypeError"],
    ["performance.mark('a', { detail: () => {} })", "DataCloneError"],
    ["performance.measure('a', 'no such mark')", "SyntaxError"],
    ["performance.measure('a', { start: 1, end: 2, duration: 3 })", "TypeError"],
    ["performance.measure('a', { start: 1 }, 'b')", "TypeError"],
    ["performance.measure('a', { duration: 1 })", "TypeError"],
    ["new Performance()", "TypeError"],
    ["new PerformanceEntry()", "TypeError"],
    ["new PerformanceObserver()", "TypeError"],
    ["new PerformanceObserver(() => {}).observe({})", "TypeError"],
  ])("rejects %s", async ([expression, name]) => {
    expect(await inGuest(`() => { try { ${expression}; } catch (error) { return error.name; } }`)).toBe(name);
  });

  test("notifies its observers in a separate task", () =>
    like(async () => {
      const seen: unknown[] = [];
      performance.clearMarks();
      performance.clearMeasures();
      performance.mark("early");
      await new Promise<void>((resolve) => {
        const observer = new PerformanceObserver((list, self) => {
          seen.push(
            list.getEntries().map(({ name }) => name),
            self === observer,
          );
          observer.disconnect();
          resolve();
        });
        observer.observe({ type: "mark", buffered: true });
        observer.observe({ type: "measure" });
        performance.mark("late");
        performance.measure("a measure");
        seen.push("observing");
      });
      performance.mark("never seen");
      return seen;
    }));
});

test("navigator identifies the runtime, and nothing of the machine", async () => {
  const members = () => [navigator.platform, navigator.language, navigator.languages, navigator.hardwareConcurrency];
  expect(await inGuest(() => [navigator.userAgent, String(navigator)])).toEqual(["Glovebox", "[object Navigator]"]);
  expect(await inGuest(members)).toEqual(["", "en-US", ["en-US"], 1]);
  expect(members().map((value) => typeof value)).toEqual(["string", "string", "object", "number"]);
});
