// Attack: read a precise clock in spite of the coarse one. No value that a guest can call, construct or reach may advance while it runs.
import { describe, expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";
import { REACH, ROOTS } from "./reach.ts";

const SPIN = "const spin = () => { let x = 0; for (let i = 0; i < 3e7; i += 1) x = (x + i) % 7; return x; };";
const FORMATTER = "new Intl.DateTimeFormat('en', { second: 'numeric', fractionalSecondDigits: 3 })";
/** Catches the functions and receivers on the stack while `make` runs code of the guest's. */
const onStack = (make: string): string =>
  `(() => {
    const found = [];
    Error.prepareStackTrace = (_, sites) => sites;
    Error.stackTraceLimit = 100;
    const note = () => { for (const site of new Error().stack) found.push(site.getFunction(), site.getThis()); return 0; };
    ${make};
    return found.filter((item) => typeof item === "function").map((item) => { try { return new item().getTime(); } catch { return 0; } }).join();
  })()`;

/** Each is an expression of a reading: a number, or text. */
const ATTEMPTS: readonly [name: string, reading: string][] = [
  ["the prototype's constructor", "new Date.prototype.constructor().getTime()"],
  ["an instance's constructor", "new (new Date(0).constructor)().getTime()"],
  ["the constructor of a clone", "new (structuredClone(new Date(0)).constructor)().getTime()"],
  ["a clone of now", "structuredClone(new Date()).getTime()"],
  ["a subclass", "new (class extends Date {})().getTime()"],
  ["a subclass that calls super", "new (class extends Date { constructor() { super(); } })().getTime()"],
  ["a static of a subclass", "(class extends Date { static at() { return super.now(); } }).at()"],
  ["the parent of a subclass", "new (Object.getPrototypeOf(class extends Date {}))().getTime()"],
  ["Reflect.construct", "Reflect.construct(Date, []).getTime()"],
  ["Reflect.construct, another new.target", "Date.prototype.getTime.call(Reflect.construct(Date, [], Object))"],
  [
    "Reflect.construct, as new.target",
    "(() => { try { return Date.prototype.getTime.call(Reflect.construct(Object, [], Date)); } catch { return 0; } })()",
  ],
  ["a proxy as new.target", "Date.prototype.getTime.call(Reflect.construct(Date, [], new Proxy(Date, {})))"],
  ["a proxy of Date", "new (new Proxy(Date, {}))().getTime()"],
  ["a bound Date", "new (Date.bind(null))().getTime()"],
  ["Date.call", "Date.call(null) + Date.call(new Date(0))"],
  ["Date.apply", "Date.apply(null, [])"],
  ["Date as a tag", "String(Date`x`)"],
  ["an empty spread", "new Date(...[]).getTime()"],
  ["now, bound and called", "Date.now.bind({})() + Date.now.call(null) * 0"],
  [
    "an element put in the way of arguments",
    "(Array.prototype[0] = undefined, (() => { try { return new Date().getTime() + Date.now(); } finally { delete Array.prototype[0]; } })())",
  ],
  [
    "an iterator put in the way of arguments",
    `((f, old) => { Array.prototype[Symbol.iterator] = function* () {}; try { return f.format() + f.format(undefined); } finally { Array.prototype[Symbol.iterator] = old; } })(${FORMATTER}, Array.prototype[Symbol.iterator])`,
  ],
  [
    "traps put on Object.prototype",
    "((keep) => { for (const trap of ['apply', 'construct', 'get']) Object.defineProperty(Object.prototype, trap, { configurable: true, value: (target) => { keep.push(target); return target; } }); try { return new Date().getTime() + Date.now() + keep.length; } finally { for (const trap of ['apply', 'construct', 'get']) delete Object.prototype[trap]; } })([])",
  ],
  [
    "the constructor after it was deleted",
    "(() => { const { constructor } = Date.prototype; delete Date.prototype.constructor; try { return [new Date().constructor === Object, new constructor().getTime()].join(); } finally { Date.prototype.constructor = constructor; } })()",
  ],
  [
    "now after it was deleted",
    "(() => { const { now } = Date; delete Date.now; try { return [typeof Date.now, now()].join(); } finally { Date.now = now; } })()",
  ],
  ["the functions on the stack of a valueOf", onStack("new Date({ valueOf: note })")],
  [
    "the functions on the stack of a new.target's getter",
    onStack(
      "Reflect.construct(Date, [], new Proxy(function () {}, { get(t, k, r) { note(); return Reflect.get(t, k, r); } }))",
    ),
  ],
  ["the functions on the stack of a formatter", onStack(`${FORMATTER}.format({ valueOf: note })`)],
  [
    "the functions on the stack of Temporal",
    onStack("try { Temporal.Now.zonedDateTimeISO({ get x() { return note(); } }) } catch {}"),
  ],
  ["the species", "String(Date[Symbol.species])"],
  [
    "the text of its functions",
    "[Date, Date.now, Intl.DateTimeFormat.prototype.formatToParts, Date.prototype.constructor].map((f) => Function.prototype.toString.call(f)).join()",
  ],
  ["a formatter", `${FORMATTER}.format()`],
  [
    "a formatter's getter",
    `Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, "format").get.call(${FORMATTER})()`,
  ],
  ["a formatter's getter, by Reflect.get", `Reflect.get(Intl.DateTimeFormat.prototype, "format", ${FORMATTER})()`],
  [
    "a formatter made the old way",
    "Intl.DateTimeFormat.call(Object.create(Intl.DateTimeFormat.prototype), 'en', { second: 'numeric', fractionalSecondDigits: 3 }).format()",
  ],
  [
    "a formatter of a subclass",
    "new (class extends Intl.DateTimeFormat {})('en', { second: 'numeric', fractionalSecondDigits: 3 }).format()",
  ],
  ["format as a callback", `[undefined].map(${FORMATTER}.format).join()`],
  ["format, bound", `${FORMATTER}.format.bind(null)()`],
  ["formatToParts", `JSON.stringify(${FORMATTER}.formatToParts())`],
  ["formatRange", `(() => { try { return ${FORMATTER}.formatRange(undefined, undefined); } catch { return ""; } })()`],
  [
    "formatRangeToParts",
    `(() => { try { return JSON.stringify(${FORMATTER}.formatRangeToParts()); } catch { return ""; } })()`,
  ],
  ["toLocaleString", "new Date().toLocaleTimeString('en', { fractionalSecondDigits: 3 })"],
  [
    "toLocaleString of undefined",
    "(() => { try { return Date.prototype.toLocaleString.call(undefined); } catch { return ''; } })()",
  ],
  [
    "Temporal, each of its clocks",
    "Reflect.ownKeys(globalThis.Temporal?.Now ?? {}).map((key) => typeof Temporal.Now[key] === 'function' ? String(Temporal.Now[key]()) : '').join()",
  ],
  ["Temporal, its nanoseconds", "String(globalThis.Temporal?.Now.instant().epochNanoseconds)"],
  ["toTemporalInstant", "String(new Date().toTemporalInstant?.())"],
  ["performance", "performance.now() + performance.timeOrigin"],
  ["an event", "new Event('x').timeStamp + new CustomEvent('x').timeStamp"],
];

describe("Under the coarse clock time stands still", () => {
  test.for(ATTEMPTS)("time stands still for %s", async ([, reading]) => {
    const end = await runGuest(
      `() => { ${SPIN} const read = () => ${reading}; const before = read(); spin(); return [before, read()]; }`,
      { coarseTime: true },
    );
    expect(end).toMatchObject({ outcome: "output" });
    const [before, after] = end.value as readonly unknown[];
    expect(after).toBe(before);
  });

  test("time stands still for all that can be reached, called and constructed", async () => {
    const end = await runGuest(
      `() => {
        ${SPIN} ${REACH}
        const began = Date.now();
        // The time when the isolate started, which does not change.
        const { timeOrigin } = performance;
        spin();
        const told = [];
        const toMs = (value) => {
          if (typeof value === "number") return value;
          if (typeof value === "bigint") return Number(value / 1_000_000n);
          if (typeof value === "string") return Date.parse(value.replace(/\\[.*/, ""));
          if (typeof value !== "object" || value === null) return NaN;
          try { return Date.prototype.getTime.call(value); } catch {}
          return value.epochMilliseconds ?? NaN;
        };
        const all = reach(${ROOTS});
        for (const item of all) {
          if (typeof item !== "function" || /^(set|clear|queue)/.test(item.name)) continue;
          for (const run of [() => item(), () => new item(), () => Reflect.construct(item, [], Object), () => item.call(new Date()), () => item.call(new Intl.DateTimeFormat())]) {
            try {
              const ms = toMs(run());
              if (Math.abs(ms - began) < 3_600_000) told.push([item.name, ms === began || ms === timeOrigin || ms % 1000 === 0]);
            } catch {}
          }
        }
        return { size: all.length, told: told.length, wrong: told.filter(([, right]) => !right) };
      }`,
      { coarseTime: true },
    );
    expect(end).toMatchObject({ outcome: "output" });
    const { size, told, wrong } = end.value as {
      readonly size: number;
      readonly told: number;
      readonly wrong: unknown;
    };
    expect(wrong).toEqual([]);
    expect(size).toBeGreaterThan(800);
    expect(told).toBeGreaterThan(5);
  });

  test("Atomics.wait passes time that no clock shows, with every feature granted", async () => {
    const end = await runGuest(
      `() => {
        const began = Date.now();
        const cell = new Int32Array(new SharedArrayBuffer(4));
        const waited = Atomics.wait(cell, 0, 0, 60);
        return [waited, Date.now() - began, new Function("return new Date().getTime()")() - began, eval("performance.timeOrigin + performance.now()") - began];
      }`,
      { coarseTime: true, features: ["sharedArrayBuffer", "atomics", "stringToCode"] },
    );
    expect(end.value).toEqual(["timed-out", 0, 0, 0]);
  });
});
