// console in a guest: levels, formats, caps; what it is given can neither run code unasked nor fill the host.
import { describe, expect, test } from "vitest";
import { openGuest, runGuest } from "../../support/guest.ts";

/** The lines that these statements log. */
async function linesOf(statements: string): Promise<readonly string[]> {
  const end = await runGuest(`async () => { ${statements} }`);
  expect(end.outcome).toBe("output");
  return end.logs;
}
const textOf = async (expression: string): Promise<string> =>
  (await linesOf(`console.log(${expression});`)).join("\n").replace(/^info: /, "");

describe("console", () => {
  test.for<[method: string, line: string]>([
    ["debug", "debug: x"],
    ["log", "info: x"],
    ["info", "info: x"],
    ["warn", "warn: x"],
    ["error", "error: x"],
    ["dir", "info: x"],
    ["dirxml", "info: x"],
    ["table", "info: x"],
    ["trace", "debug: Trace: x"],
    ["group", "info: x"],
    ["groupCollapsed", "info: x"],
  ])("%s() writes %j", async ([method, line]) => {
    expect(await linesOf(`console.${method}("x");`)).toEqual([line]);
  });

  test.for<[statements: string, lines: readonly string[]]>([
    [
      "console.assert(true, 'x'); console.assert(false); console.assert(0, 'a', 1);",
      ["error: Assertion failed", "error: Assertion failed: a 1"],
    ],
    [
      "console.count(); console.count('a'); console.count(); console.countReset(); console.count();",
      ["info: default: 1", "info: a: 1", "info: default: 2", "info: default: 1"],
    ],
    [
      "console.group('a'); console.log('b'); console.group(); console.log('c'); console.groupEnd(); console.groupEnd(); console.groupEnd(); console.log('d');",
      ["info: a", "info:   b", "info:     c", "info: d"],
    ],
    ["console.timeEnd('none'); console.clear(); console.log();", ["info: "]],
    ["const { log } = console; log('detached');", ["info: detached"]],
  ])("does what %j says", async ([statements, lines]) => {
    expect(await linesOf(statements)).toEqual(lines);
  });

  test("measures time between two calls", async () => {
    expect(
      await linesOf("console.time('t'); console.timeLog('t', 1); console.timeEnd('t'); console.timeEnd('t');"),
    ).toEqual([expect.stringMatching(/^info: t: \d+ms 1$/), expect.stringMatching(/^info: t: \d+ms$/)]);
  });
});

describe("console.log() formats", () => {
  test.for<[expression: string, text: string]>([
    ["'a', 'b', 1, true, null, undefined", "a b 1 true null undefined"],
    ["'%s is %d', 'x', 4.5", "x is 4.5"],
    ["'%i %f', '42.9', '1.5'", "42 1.5"],
    ["'%d %d', 'x', {}", "NaN NaN"],
    ["'%d', 5n", "5"],
    ["'%j', { a: [1] }", '{"a":[1]}'],
    ["'%j', (() => { const o = {}; o.o = o; return o })()", "[Circular]"],
    ["'%o and %O', { a: 1 }, [2]", "{ a: 1 } and [ 2 ]"],
    ["'%s', { a: 1 }", "{ a: 1 }"],
    ["'%s', Symbol('x')", "Symbol(x)"],
    ["'a%cb', 'color: red'", "ab"],
    ["'100%'", "100%"],
    ["'100%% %s', 'x'", "100% x"],
    ["'%%'", "%%"],
    ["'%s'", "%s"],
    ["'%s %s', 'one'", "one %s"],
    ["'%x %s', 'one'", "%x one"],
    ["'%s', 'one', 'two', 3", "one two 3"],
    ["1, '%s', 'x'", "1 %s x"],
    ["-0, 0, 1e21, NaN, Infinity", "-0 0 1e+21 NaN Infinity"],
    ["10n, Symbol('s'), Symbol.iterator", "10n Symbol(s) Symbol(Symbol.iterator)"],
    ["{}, [], new Map(), new Set()", "{} [] Map(0) {} Set(0) {}"],
    ["{ a: 'x', 'b-c': [1, [2, { d: 3 }]] }", "{ a: 'x', 'b-c': [ 1, [ 2, { d: 3 } ] ] }"],
    ["{ a: { b: { c: { d: { e: 1 } } } } }", "{ a: { b: { c: { d: [Object] } } } }"],
    ["[[[[[1]]]]]", "[ [ [ [ [Array] ] ] ] ]"],
    ["(() => { const o = { x: {} }; o.x.o = o; return o })()", "{ x: { o: [Circular] } }"],
    ["(() => { const s = {}; return { a: s, b: s } })()", "{ a: {}, b: {} }"],
    ["new Map([['a', { b: 1 }], [2, new Set([3])]])", "Map(2) { 'a' => { b: 1 }, 2 => Set(1) { 3 } }"],
    ["new Date(0), new Date(NaN), /x\\/y/gi", "1970-01-01T00:00:00.000Z Invalid Date /x\\/y/gi"],
    ["new Uint8Array([1, 2]), new Float64Array(1)", "Uint8Array(2) [ 1, 2 ] Float64Array(1) [ 0 ]"],
    ["function named() {}, () => {}, class Klass {}", "[Function: named] [Function (anonymous)] [Function: Klass]"],
    ["new (class Point { constructor() { this.x = 1 } })()", "Point { x: 1 }"],
    ["Object.create(null)", "[Object: null prototype] {}"],
    ["[1, , 3]", "[ 1, <empty>, 3 ]"],
    ["Object.assign([], { 0: 'a' })", "[ 'a' ]"],
    ["{ get a() { throw new Error('ran') }, set b(v) {} }", "{ a: [Getter], b: [Setter] }"],
    ["Object.defineProperty([], 0, { get() { throw new Error('ran') } })", "[ [Getter] ]"],
    ["{ [Symbol.toStringTag]: 'Map' }", "{}"],
    ["Object.create(Map.prototype)", "Map {}"],
    ["new Proxy({}, { ownKeys() { throw 1 } })", "[a value that cannot be shown]"],
    ["(() => { const p = Proxy.revocable({}, {}); p.revoke(); return p.proxy })()", "[a value that cannot be shown]"],
    ["Promise.resolve(1)", "Promise {}"],
    [
      "{ toString() { throw 1 }, toJSON() { throw 1 }, valueOf() { throw 1 } }",
      "{ toString: [Function: toString], toJSON: [Function: toJSON], valueOf: [Function: valueOf] }",
    ],
    [
      "Array.from({ length: 102 }, (_, i) => i).length, Array(102).fill(0)",
      `102 [ ${Array(100).fill(0).join(", ")}, … 2 more ]`,
    ],
  ])("%s", async ([expression, text]) => {
    expect(await textOf(expression)).toBe(text);
  });

  test("an error with its stack, its cause, and no frame of the prelude", async () => {
    const text = await textOf("new TypeError('outer', { cause: new RangeError('inner') })");
    expect(text).toMatch(/^TypeError: outer\n {4}at .*glovebox:\/\/\/tool\.js:\d+:\d+/);
    expect(text).toContain("{ [cause]: RangeError: inner");
    expect(text).not.toContain("prelude");
  });

  test("an error that hides its stack by its message", async () => {
    expect(await textOf("Object.defineProperty(new Error('m'), 'stack', { value: '' })")).toBe("[Error: m]");
  });

  test.for<[why: string, expression: string]>([
    ["a million keys", "Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => ['k' + i, i]))"],
    ["a long text", "'x'.repeat(5e6)"],
    ["long texts in lists", "Array(100).fill('y'.repeat(1e5))"],
    ["a wide tree", "(() => { const t = (d) => d === 0 ? 'leaf' : Array(50).fill(t(d - 1)); return t(5) })()"],
    ["a large map", "new Map(Array.from({ length: 1e5 }, (_, i) => [i, 'v'.repeat(100)]))"],
    ["many arguments", "...Array(10000).fill('z'.repeat(100))"],
  ])("%s within one line's cap", async ([, expression]) => {
    expect((await textOf(expression)).length).toBeLessThanOrEqual(32_768 + 1);
  });

  test("lone surrogates as what can be sent", async () => {
    expect(await textOf("'a\\ud800b'")).toBe("a\ufffdb");
  });
});

describe("console's caps", () => {
  test("keep a call's lines to logLines, and tell of the rest", async () => {
    const end = await runGuest("() => { for (let i = 0; i < 12; i += 1) console.log(i); }", {
      header: { logLines: 5 },
    });
    expect(end.logs).toEqual([
      "info: 0",
      "info: 1",
      "info: 2",
      "info: 3",
      "info: 4",
      ...Array<string>(7).fill("dropped: "),
    ]);
  });

  test("keep a call's text to logBytes", async () => {
    const end = await runGuest("() => { for (let i = 0; i < 5; i += 1) console.log('x'.repeat(40)); }", {
      header: { logBytes: 100 },
    });
    const kept = end.logs.filter((line) => line.startsWith("info: "));
    expect(kept.map((line) => line.length)).toEqual([46, 46, 27]);
    expect(end.logs.filter((line) => line === "dropped: ")).toHaveLength(2);
  });

  test("count what ctx.log writes as well", async () => {
    await using tool = await openGuest(
      "async (input, ctx) => { for (let i = 0; i < 3; i += 1) console.log(i); for (let i = 0; i < 3; i += 1) await ctx.log(i); }",
      { header: { logLines: 4 } },
    );
    const end = await tool.call();
    expect(end.outcome).toBe("output");
    expect(tool.requests.map(({ name }) => name)).toEqual(["log"]);
    expect(end.logs.filter((line) => line === "dropped: ")).toHaveLength(2);
  });
});

describe("ctx.log()", () => {
  test("sends level, message and data as JSON", async () => {
    await using tool = await openGuest(
      "async (input, ctx) => { await ctx.log('a', { n: 1 }); await ctx.log.error(new Map()); await ctx.log.debug(5); return (await ctx.log.warn('w')) ?? 'nothing'; }",
    );
    expect((await tool.call()).text).toBe('"nothing"');
    expect(tool.requests.map(({ text }) => JSON.parse(text))).toEqual([
      { level: "info", message: "a", data: { n: 1 } },
      { level: "error", message: "{}" },
      { level: "debug", message: "5" },
      { level: "warn", message: "w" },
    ]);
  });

  test("needs no await, however many lines are written at once", async () => {
    await using tool = await openGuest(
      "async (input, ctx) => { for (let i = 0; i < 150; i += 1) ctx.log.info(i); return 'done'; }",
    );
    const end = await tool.call();
    expect(end.text).toBe('"done"');
    expect(tool.requests).toHaveLength(150);
  });
});
