// Tests timers and microtasks in a guest: order, clearing, arguments, limits, and that no timer survives its call.
import { describe, expect, test } from "vitest";
import { bundleCode, expectLikeNode, inGuest, openCode, runGuest } from "../../support/guest.ts";

const ring = (statements: string): Promise<unknown> =>
  inGuest(
    `() => new Promise((done) => { const seen = []; const see = (...args) => seen.push(...args); ${statements} })`,
  );

describe("timers of Node", () => {
  test("have its methods, can be cleared by their number, and start again", async () => {
    await expectLikeNode(async () => {
      const seen: unknown[] = [];
      const wait = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));
      const timer = setTimeout(() => seen.push("fired"), 1);
      seen.push(timer.hasRef(), timer.unref() === timer, timer.hasRef(), timer.ref() === timer, timer.hasRef());
      await wait(20);
      timer.refresh();
      await wait(20);
      clearTimeout(timer);
      timer.refresh();
      const byNumber = setTimeout(() => seen.push("by number"), 5);
      clearTimeout(+byNumber);
      const byText = setInterval(() => seen.push("by text"), 5);
      clearInterval(String(+byText));
      const disposed = setInterval(() => seen.push("disposed"), 5);
      disposed[Symbol.dispose]();
      const closed = setTimeout(() => seen.push("closed"), 5);
      seen.push(closed.close() === closed);
      const immediate = setImmediate(() => seen.push("immediate"));
      seen.push(immediate.hasRef(), immediate.unref() === immediate, immediate.hasRef());
      clearImmediate(immediate);
      for (const wrong of [null, undefined, {}, "x", Number.NaN]) clearTimeout(wrong as never);
      await wait(30);
      return seen;
    }, undefined);
  });

  test("become promises with util.promisify(), and are those of node:timers", async () => {
    await expectLikeNode(async () => {
      const { promisify } = process.getBuiltinModule("node:util");
      const timers = process.getBuiltinModule("node:timers");
      const promises = process.getBuiltinModule("node:timers/promises");
      const stopped = promisify(setTimeout)(1_000, "late", { signal: AbortSignal.abort() }).catch(
        (error: Error) => error.name,
      );
      return [
        await promisify(setTimeout)(1, "after a delay"),
        await promisify(setImmediate)("soon"),
        await stopped,
        promisify(setTimeout) === promises.setTimeout,
        timers.setTimeout === setTimeout && timers.clearInterval === clearInterval,
      ];
    }, undefined);
  });

  test("can be refreshed when no other timer may be started", async () => {
    const run = `() => {
      const first = setTimeout(() => {}, 1000);
      try { for (;;) setTimeout(() => {}, 1000); } catch {}
      return first.refresh() === first;
    }`;
    expect(await inGuest(run)).toBe(true);
  });

  test("reject a callback that is not a function", async () => {
    await expectLikeNode(
      (values) =>
        values.map((run) => {
          try {
            setTimeout(run as never, 1);
            return "accepted";
          } catch (error) {
            return [(error as Error).name, (error as Error & { readonly code?: string }).code];
          }
        }),
      [null, 1, "text"],
    );
  });
});

describe("setTimeout() and related functions", () => {
  test.for<[why: string, statements: string, seen: unknown]>([
    [
      "run after the code that set them, microtasks first",
      "setTimeout(() => { see('timer'); done(seen); }); Promise.resolve().then(() => see('promise')); queueMicrotask(() => see('microtask')); see('code');",
      ["code", "promise", "microtask", "timer"],
    ],
    [
      "fire in the order of their delays",
      // Where the machine stops while they are set, another order is right: they are set again.
      "let ids; do { ids?.map(clearTimeout); const begun = Date.now(); ids = [setTimeout(() => done(seen), 60), setTimeout(see, 40, 'late'), setTimeout(see, 1, 'soon'), setTimeout(see, 20, 'then')]; if (Date.now() - begun < 10) break; } while (true);",
      ["soon", "then", "late"],
    ],
    [
      "with equal delays fire in the order of creation",
      "for (let i = 0; i < 20; i += 1) setTimeout(see, 5, i); setTimeout(() => done(seen), 40);",
      Array.from({ length: 20 }, (_, i) => i),
    ],
    ["pass their arguments on", "setTimeout((...args) => done(args), 0, 1, 'b', { c: 3 });", [1, "b", { c: 3 }]],
    [
      "nest",
      "setTimeout(() => { see(1); setTimeout(() => { see(2); setTimeout(() => { see(3); done(seen); }); }); });",
      [1, 2, 3],
    ],
    [
      "are objects that convert to numbers above 0",
      "const timers = [setTimeout(see), setInterval(see, 1000), setImmediate(see)]; done(timers.map((timer) => [typeof timer, timer > 0, timer.constructor.name]));",
      [
        ["object", true, "Timeout"],
        ["object", true, "Timeout"],
        ["object", true, "Immediate"],
      ],
    ],
    [
      "do not fire after being cleared",
      "const id = setTimeout(see, 5, 'rang'); clearTimeout(id); setTimeout(() => done(seen), 30);",
      [],
    ],
    [
      "are cleared by each other's functions",
      "clearInterval(setTimeout(see, 1, 1)); clearTimeout(setInterval(see, 1, 2)); clearImmediate(setImmediate(see, 3)); setTimeout(() => done(seen), 30);",
      [],
    ],
    [
      "ignore clearing of invalid ids",
      "for (const id of [undefined, null, 0, -1, 99999, 'x', {}, NaN]) clearTimeout(id); done('fine');",
      "fine",
    ],
    [
      "repeat until cleared",
      "let n = 0; const id = setInterval(() => { see(n += 1); if (n === 3) { clearInterval(id); setTimeout(() => done(seen), 20); } }, 1);",
      [1, 2, 3],
    ],
    [
      "are `this` of their callbacks",
      "let n = 0; const interval = setInterval(function () { see(this === interval); if ((n += 1) === 2) { clearInterval(this); setTimeout(() => done(seen), 20); } }, 1); const timer = setTimeout(function () { see(this === timer); }, 1); const immediate = setImmediate(function () { see(this === immediate); });",
      [true, true, true, true],
    ],
    [
      "give accessors of Object.prototype no object of the prelude",
      `const names = ["run", "args", "delayMs", "handle", "intervalMs", "isCleared", "dueAt"];
      for (const name of names)
        Object.defineProperty(Object.prototype, name, { configurable: true, get() { see(name); }, set() { see(name); } });
      const end = () => { for (const name of names) delete Object.prototype[name]; done(seen); };
      const interval = setInterval(() => { clearInterval(interval); setImmediate(() => setTimeout(end, 1)); }, 1);`,
      [],
    ],
    [
      "treat invalid delays as zero",
      "for (const delay of [undefined, null, NaN, -5, 'x', '2', {}, Infinity, 2 ** 31, 1n, Symbol()]) setTimeout(see, delay, String(delay)); setTimeout(() => done(seen.length), 50);",
      11,
    ],
    [
      "continue after one throws",
      "setTimeout(() => { throw new Error('in a timer') }); setTimeout(() => done('on'), 10);",
      "on",
    ],
    [
      "continue after a microtask throws",
      "queueMicrotask(() => { throw new Error('in a microtask') }); setTimeout(() => done('on'), 1);",
      "on",
    ],
  ])("%s", async ([, statements, seen]) => {
    expect(await ring(statements)).toEqual(seen);
  });

  test.for([
    ["setTimeout(1)"],
    ["setTimeout('x')"],
    ["setTimeout()"],
    ["setInterval({})"],
    ["setImmediate(null)"],
    ["queueMicrotask(undefined)"],
  ])("%s is a TypeError", async ([call]) => {
    expect(await inGuest(`() => { try { ${call} } catch (error) { return error.name } }`)).toBe("TypeError");
  });

  test("log what their callbacks throw", async () => {
    const end = await runGuest(
      "() => new Promise((done) => { setTimeout(() => { throw new Error('one') }); queueMicrotask(() => { throw 'two' }); setTimeout(done, 5); })",
    );
    expect(end.logs).toEqual([
      "error: Uncaught in a microtask: two",
      expect.stringMatching(/^error: Uncaught in a timer: Error: one\n/),
    ]);
  });

  test("have a limit on pending timers", async () => {
    const end = await runGuest(
      `() => {
        const ids = [];
        try { for (;;) ids.push(setTimeout(() => {}, 1e6)); } catch (error) {
          clearTimeout(ids.pop());
          setTimeout(() => {}, 1e6);
          return [ids.length + 1, error.name];
        }
      }`,
      { header: { timers: 7 } },
    );
    expect(end.value).toEqual([7, "RangeError"]);
  });

  test("can be set and cleared many times in one call, task by task", async () => {
    const end = await runGuest(
      `async () => {
        let n = 0;
        for (let turn = 0; turn < 30; turn += 1) {
          for (let i = 0; i < 20; i += 1) { clearTimeout(setTimeout(() => {}, 1e6)); n += 1; }
          await new Promise((done) => setTimeout(done, 0));
        }
        return n;
      }`,
      { header: { timers: 5 } },
    );
    expect(end.value).toBe(600);
  });

  test("do not survive their call: an abandoned interval stops", async () => {
    await using tool = await openCode(
      bundleCode(
        "{ default: ({ look }) => { if (look) return rings; setInterval(() => { rings += 1; }, 1); return new Promise((done) => setTimeout(done, 15)); } }",
        "let rings = 0;",
      ),
    );
    await tool.load();
    await tool.call({});
    const [before, after] = [
      await tool.call({ look: true }),
      await new Promise((done) => setTimeout(done, 20)).then(() => tool.call({ look: true })),
    ];
    expect(Number(before.text)).toBeGreaterThan(0);
    expect(after.text).toBe(before.text);
  });

  test("have no effect after the call has ended", async () => {
    await using tool = await openCode(
      bundleCode(
        "{ default: ({ look }, ctx) => { if (look) return rang; ctx.signal.addEventListener('abort', () => { rang = 'heard'; setTimeout(() => { rang = 'rang'; }, 0); }); } }",
        "let rang = 'no';",
      ),
    );
    await tool.load();
    await tool.call({});
    expect((await tool.call({ look: true })).text).toBe('"heard"');
    expect((await tool.call({ look: true })).text).toBe('"heard"');
  });
});

describe("queueMicrotask()", () => {
  test("keeps its order among promises", async () => {
    expect(
      await inGuest(`async () => {
        const seen = [];
        Promise.resolve().then(() => seen.push(1)).then(() => seen.push(4));
        queueMicrotask(() => { seen.push(2); queueMicrotask(() => seen.push(5)); });
        Promise.resolve().then(() => seen.push(3));
        await new Promise((done) => setTimeout(done));
        return seen;
      }`),
    ).toEqual([1, 2, 3, 4, 5]);
  });
});
