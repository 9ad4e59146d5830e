// Tests the coarse clock: it stands still while a guest runs and advances when the worker enters. Apart from that, Date and Intl are V8's
// own.
import { describe, expect, test } from "vitest";
import { bundleCode, openCode, runGuest } from "../../support/guest.ts";

/** All clocks of a guest, as expressions that read them. */
const CLOCKS: { readonly [name: string]: string } = {
  "Date.now": "Date.now()",
  "new Date": "new Date().getTime()",
  "new Date, as text": "new Date().toISOString()",
  "new Date, in a locale": "new Date().toLocaleTimeString('en', { fractionalSecondDigits: 3 })",
  Date: "Date()",
  "Date, by apply": "Reflect.apply(Date, undefined, [2000, 1])",
  "performance.now": "performance.now()",
  "Event.timeStamp": "new Event('x').timeStamp",
  "Intl format": "formatter.format()",
  "Intl format, of undefined": "formatter.format(undefined)",
  "Intl formatToParts": "formatter.formatToParts().map(({ value }) => value).join('')",
  "Intl formatToParts, of undefined": "formatter.formatToParts(undefined).map(({ value }) => value).join('')",
  "Temporal.Now.instant": "String(Temporal.Now.instant())",
  "Temporal.Now.zonedDateTimeISO": "String(Temporal.Now.zonedDateTimeISO())",
  "Temporal.Now.zonedDateTimeISO, of a zone": "String(Temporal.Now.zonedDateTimeISO('Asia/Tokyo'))",
  "Temporal.Now.plainDateTimeISO": "String(Temporal.Now.plainDateTimeISO())",
  "Temporal.Now.plainTimeISO": "String(Temporal.Now.plainTimeISO())",
  "Date.prototype.toTemporalInstant": "String(new Date().toTemporalInstant())",
};

const hasTemporal = "Temporal" in globalThis;
const CLOCK_NAMES = Object.keys(CLOCKS).filter((name) => hasTemporal || !name.includes("Temporal"));

/** Guest source: `read()` reads every clock; `spin()` is busy for about 100 ms without reading one. */
const PREPARE = `
  const formatter = new Intl.DateTimeFormat("en", { minute: "numeric", second: "numeric", fractionalSecondDigits: 3 });
  const read = () => [${CLOCK_NAMES.map((name) => CLOCKS[name]).join(", ")}];
  const spin = () => { let x = 0; for (let i = 0; i < 6e7; i += 1) x = (x + i) % 7; return x; };
  const moved = (a, b) => a.flatMap((reading, index) => (reading === b[index] ? [] : [index]));`;

async function movedIn(between: string, settings: Parameters<typeof runGuest>[1]): Promise<readonly string[]> {
  const end = await runGuest(
    `async (_, ctx) => { ${PREPARE} const before = read(); ${between}; return moved(before, read()); }`,
    settings,
  );
  expect(end).toMatchObject({ outcome: "output" });
  return (end.value as readonly number[]).map((index) => CLOCK_NAMES[index] ?? "");
}

describe("The coarse clock", () => {
  test("stands still while the guest is busy, for every clock", async () => {
    const began = performance.now();
    expect(await movedIn("spin()", { coarseTime: true })).toEqual([]);
    expect(performance.now() - began).toBeGreaterThan(50);
  });

  test("stands still through any number of microtasks", async () => {
    expect(
      await movedIn("for (let i = 0; i < 1e5; i += 1) await null; spin(); await null", { coarseTime: true }),
    ).toEqual([]);
  });

  test("has advanced after a timer, for every clock", async () => {
    const wait = "await new Promise((done) => setTimeout(done, 1_100))";
    expect(await movedIn(wait, { coarseTime: true })).toEqual(CLOCK_NAMES);
  });

  test("has advanced after a capability's response", async () => {
    const answer = (): Promise<{ ok: true; value: null }> =>
      new Promise((resolve) => setTimeout(() => resolve({ ok: true, value: null }), 20));
    const settings = { coarseTime: true, header: { granted: ["kv"] }, capabilities: { kv: answer } };
    const names = await movedIn("await ctx.kv(1)", settings);
    expect(names).toEqual(expect.arrayContaining(["Date.now", "new Date", "performance.now", "Intl format"]));
  });

  test("advances between two calls, and each call sees its own time from its first line", async () => {
    await using tool = await openCode(
      bundleCode("{ default: () => [loaded, Date.now()] }", "const loaded = Date.now();"),
      {
        coarseTime: true,
      },
    );
    await tool.load();
    const before = Date.now();
    const [loaded, first] = (await tool.call<[number, number]>()).value;
    await new Promise((done) => setTimeout(done, 5));
    const [, second] = (await tool.call<[number, number]>()).value;
    expect(loaded).toBeLessThanOrEqual(before);
    expect(first).toBeGreaterThanOrEqual(before);
    expect(second).toBeGreaterThan(first);
    expect(second).toBeLessThanOrEqual(Date.now());
  });

  test("makes console.time report no time", async () => {
    const end = await runGuest(`() => { ${PREPARE} console.time("a"); spin(); console.timeEnd("a"); }`, {
      coarseTime: true,
    });
    expect(end.logs).toEqual(["info: a: 0ms"]);
  });

  test("returns the same time from all clocks", async () => {
    const end = await runGuest(
      `() => {
        ${PREPARE}
        const ms = Date.now();
        const day = typeof Temporal === "undefined" ? undefined : String(Temporal.Now.plainDateISO());
        return [
          new Date().getTime() === ms, Date() === new Date(ms).toString(), formatter.format() === formatter.format(ms),
          performance.timeOrigin + performance.now() === ms, day === undefined || day === new Date(ms).toISOString().slice(0, 10),
          typeof Temporal === "undefined" || Temporal.Now.instant().epochMilliseconds === ms,
          typeof Temporal === "undefined" || Temporal.Now.timeZoneId() === Intl.DateTimeFormat().resolvedOptions().timeZone,
        ];
      }`,
      { coarseTime: true },
    );
    expect(end.value).toEqual(Array.from({ length: 7 }, () => true));
  });

  test("is V8's own if not enabled: every clock advances", async () => {
    expect(await movedIn("spin(); await new Promise((done) => setTimeout(done, 1_000))", {})).toEqual(CLOCK_NAMES);
    expect(await movedIn("spin()", {})).toEqual(expect.arrayContaining(["Date.now", "performance.now", "Intl format"]));
  });
});

/** Features that must be V8's own under any clock. */
const LIKE_V8 = `() => {
  const outcome = (run) => { try { return run(); } catch (error) { return error.name; } };
  const shape = (target) => Reflect.ownKeys(target).map((key) => {
    const { value, get, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(target, key);
    const fn = typeof value === "function" ? value : get;
    return [String(key), typeof value, writable, enumerable, configurable, fn?.name, fn?.length];
  });
  class Later extends Date { shift(ms) { return new this.constructor(this.getTime() + ms); } }
  const formatter = new Intl.DateTimeFormat("en", { timeZone: "UTC", dateStyle: "short", timeStyle: "medium" });
  const legacy = Intl.DateTimeFormat.call(Object.create(Intl.DateTimeFormat.prototype));
  return [
    shape(Date), shape(Date.prototype), shape(Intl.DateTimeFormat.prototype), typeof Temporal === "undefined" || shape(Temporal.Now),
    Object.getOwnPropertyDescriptor(globalThis, "Date").enumerable, Object.prototype.toString.call(new Date()), typeof Date, typeof Date(),
    Date.UTC(2020, 1, 2, 3, 4, 5, 6), Date.parse("2020-02-03T04:05:06Z"), new Date(2020, 1).getMonth(), new Date(0).toISOString(),
    new Date("2020-02-03").getTime(), new Date(new Date(5)).getTime(), new Date(undefined).getTime(), new Date(null).getTime(),
    outcome(() => new Date(1n)), outcome(() => new Date(Symbol())), outcome(() => Date.prototype.getTime.call({})), outcome(() => new Date.now()),
    new Date() instanceof Date, new Later(0) instanceof Later, new Later(0) instanceof Date, new Later(1).shift(2).getTime(),
    new Later(0).constructor === Later, Date.prototype.constructor === Date, Object.getPrototypeOf(Date) === Function.prototype,
    Object.getPrototypeOf(new Date()) === Date.prototype, Object.getPrototypeOf(Reflect.construct(Date, [], Later)) === Later.prototype,
    Object.getPrototypeOf(Reflect.construct(Date, [], Object)) === Object.prototype, Date.prototype.getTime.call(Reflect.construct(Date, [7], Object)),
    outcome(() => Reflect.construct(Date, [], () => {})), JSON.stringify({ at: new Date(0) }), structuredClone(new Date(3)).getTime(),
    structuredClone(new Date(3)) instanceof Date, \`\${new Date(0).getTime()}\`, new Date(0) + 1 === new Date(0).toString() + "1", new Date(5) - 1,
    formatter.format === formatter.format, formatter.format.name, formatter.format.length, formatter.format(0), formatter.format(null),
    [0, 86400000].map(formatter.format), formatter.formatToParts(0), formatter.formatRange(0, 1000), typeof legacy.format(),
    outcome(() => formatter.format("x")), outcome(() => formatter.formatRange()), outcome(() => formatter.formatRange(undefined, 0)),
    outcome(() => formatter.formatRangeToParts()), outcome(() => Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, "format").get.call({})),
    outcome(() => Intl.DateTimeFormat.prototype.formatToParts.call({})), outcome(() => new formatter.format()),
    typeof Temporal === "undefined" || outcome(() => Temporal.Now.zonedDateTimeISO("Nowhere/Here")),
    typeof Temporal === "undefined" || Temporal.Now.zonedDateTimeISO("Asia/Tokyo").timeZoneId,
    typeof Temporal === "undefined" || outcome(() => new Temporal.Now.instant()),
  ];
}`;

test("all other features of Date, Intl and Temporal are V8's own under the coarse clock", async () => {
  const [coarse, fine] = [await runGuest(LIKE_V8, { coarseTime: true }), await runGuest(LIKE_V8)];
  expect([coarse.outcome, fine.outcome]).toEqual(["output", "output"]);
  expect(coarse.value).toEqual(fine.value);
});
