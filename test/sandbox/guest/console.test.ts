// Tests console in a guest: levels, limits, and Node's formats. A guest's values cannot flood the host.
import { Console } from "node:console";
import { Writable } from "node:stream";
import { format } from "node:util";
import { describe, expect, test } from "vitest";
import { openGuest, runGuest } from "../../support/guest.ts";

/** Returns the lines that these statements log. */
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
    ["dir", "info: 'x'"],
    ["dirxml", "info: x"],
    ["table", "info: x"],
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
  ])("runs %j", async ([statements, lines]) => {
    expect(await linesOf(statements)).toEqual(lines);
  });

  test("measures time between two calls", async () => {
    expect(
      await linesOf("console.time('t'); console.timeLog('t', 1); console.timeEnd('t'); console.timeEnd('t');"),
    ).toEqual([expect.stringMatching(/^info: t: \d+ms 1$/), expect.stringMatching(/^info: t: \d+ms$/)]);
  });
});

/** Sent to the guest as source text, and evaluated here. */
const here = (code: string): unknown[] => new Function(`return [${code}]`)() as unknown[];

describe("console.log() formats as Node does", () => {
  test.for<[expression: string]>([
    ["'a', 'b', 1, true, null, undefined"],
    ["'%s is %d', 'x', 4.5"],
    ["'%i %f', '42.9', '1.5'"],
    ["'%d %d', 'x', {}"],
    ["'%d', 5n"],
    ["'%j', { a: [1] }"],
    ["'%j', (() => { const o = {}; o.o = o; return o })()"],
    ["'%o and %O', { a: 1 }, [2]"],
    ["'%s', { a: 1 }"],
    ["'%s', Symbol('x')"],
    ["'a%cb', 'color: red'"],
    ["'100%'"],
    ["'100%% %s', 'x'"],
    ["'%%'"],
    ["'%s'"],
    ["'%s %s', 'one'"],
    ["'%x %s', 'one'"],
    ["'%s', 'one', 'two', 3"],
    ["1, '%s', 'x'"],
    ["-0, 0, 1e21, NaN, Infinity"],
    ["10n, Symbol('s'), Symbol.iterator"],
    ["{}, [], new Map(), new Set()"],
    ["{ a: 'x', 'b-c': [1, [2, { d: 3 }]] }"],
    ["{ a: { b: { c: { d: { e: 1 } } } } }"],
    ["[[[[[1]]]]]"],
    ["(() => { const o = { x: {} }; o.x.o = o; return o })()"],
    ["(() => { const s = {}; return { a: s, b: s } })()"],
    ["new Map([['a', { b: 1 }], [2, new Set([3])]])"],
    ["new Date(0), new Date(NaN), /x\\/y/gi"],
    ["new Uint8Array([1, 2]), new Float64Array(1)"],
    ["function named() {}, () => {}, class Klass {}"],
    ["new (class Point { constructor() { this.x = 1 } })()"],
    ["Object.create(null)"],
    ["[1, , 3]"],
    ["Object.assign([], { 0: 'a' })"],
    ["{ get a() { throw new Error('ran') }, set b(v) {} }"],
    ["Object.defineProperty([], 0, { get() { throw new Error('ran') } })"],
    ["Object.create(Map.prototype)"],
    ["{ toString() { throw 1 }, toJSON() { throw 1 }, valueOf() { throw 1 } }"],
    ["Array.from({ length: 102 }, (_, i) => i).length, Array(102).fill(0)"],
    ["'%s %s %s %s', null, undefined, -0, 5n"],
    ["'%s', class A {}, function f() {}"],
    ["'%s', new (class B { toString() { return 'own' } })()"],
    ["'%s', new Error('e').message"],
    ["'%d %i %f', 5n, 5n, 'x'"],
    ["'%i', 1e21"],
    ["'%o', [1, { a: 2 }]"],
    ["'%O', { a: { b: { c: { d: 1 } } } }"],
    ["{ a: 1n, b: Symbol('s'), c: undefined, [Symbol('k')]: 1 }"],
    ['"it\'s", ["it\'s"]'],
    ["['a'.repeat(30), 'b'.repeat(30), 'c'.repeat(30)]"],
    ["Array.from({ length: 120 }, (_, i) => i)"],
    ["Object.fromEntries(Array.from({ length: 30 }, (_, i) => ['key' + i, i]))"],
    ["new Set([[1, 2], new Map([['k', new Set()]])])"],
    ["[undefined, null, , NaN]"],
    ["new (class extends Map { constructor() { super([[1, 2]]) } })()"],
    ["Object.assign(() => {}, { a: 1 })"],
    ["new WeakMap(), new Date(0)"],
    ["[1.5, -0, 0]"],
    ["'multi\\nline', ['multi\\nline']"],
    ["new Boolean(true), new String('abc'), new Number(-0)"],
  ])("%s", async ([expression]) => {
    expect(await textOf(expression)).toBe(format(...here(expression)));
  });
});

/** Returns the output of Node's own console as one text. */
function nodeText(statements: string): string {
  let text = "";
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      text += chunk.toString();
      done();
    },
  });
  new Function("console", statements)(new Console({ stdout: stream, stderr: stream, colorMode: false }));
  return text.replace(/\n$/, "");
}

describe("console behaves as in Node", () => {
  test.for([
    "console.table([[1, 2], [3, 4]])",
    "console.table([{ a: 1, b: 'x' }, { a: 2, c: true }])",
    "console.table({ first: { a: 1 }, second: { a: [1, 2, 3, 4, 5], b: { deep: { er: 1 } } } })",
    "console.table([1, 'two', { three: 3 }, null])",
    "console.table([{ a: 1, b: 2 }], ['b', 'none'])",
    "console.table(new Map([['k', 1], [{ a: 1 }, 'v']]))",
    "console.table(new Set([1, 'two', [3]]))",
    "console.table(new Map([['k', 1]]).entries()); console.table(new Set([5]).values())",
    "console.table([]); console.table({}); console.table(5); console.table('text'); console.table(null)",
    "console.table([{ '名前': '日本語', b: '😀' }, { '名前': 'é', b: 'e\u0301' }])",
    "console.group('a', { b: 1 }); console.log('two\\nlines'); console.group(); console.table([1]); console.groupEnd(); console.groupEnd(); console.log('out')",
    "console.dir({ a: { b: { c: { d: 1 } } } }, { depth: 0 }); console.dir('text'); console.dir([1], { showHidden: true })",
    "console.assert(false); console.assert(false, 'a %s', 'b'); console.assert(false, { a: 1 }, 2); console.assert(true, 'no')",
    "console.count(); console.count('x'); console.count(5); console.count(); console.countReset(); console.count(undefined)",
    "console.log(); console.info('%s', 'a', 'b'); console.debug(1, { a: 1 }); console.dirxml([1], 'x'); console.warn('%%', 1)",
  ])("%s", async (statements) => {
    const lines = await linesOf(statements);
    expect(lines.map((line) => line.replace(/^\w+: /, "")).join("\n")).toBe(nodeText(statements));
  });

  test("trace() logs the location of its call in the tool", async () => {
    const [line] = await linesOf("console.trace('at %s', 'here');");
    expect(line).toMatch(/^debug: Trace: at here\n {4}at default \(glovebox:\/\/\/tool\.js:\d+:\d+\)$/);
  });

  test("a label is converted to text, and an exception of the conversion is thrown", async () => {
    const statements =
      "const label = { toString: () => 'mine' }; console.count(label); try { console.time({ toString() { throw new RangeError('no'); } }); } catch (error) { console.log(error.name); }";
    expect(await linesOf(statements)).toEqual(["info: mine: 1", "info: RangeError"]);
  });
});

describe("console.log() of hostile values", () => {
  test.for<[expression: string, text: string]>([
    ["new Proxy({}, { ownKeys() { throw 1 } })", "[a value that cannot be shown]"],
    ["(() => { const p = Proxy.revocable({}, {}); p.revoke(); return p.proxy })()", "[a value that cannot be shown]"],
    ["{ [Symbol.for('nodejs.util.inspect.custom')]() { throw 1 } }", "{}"],
  ])("%s", async ([expression, text]) => {
    expect(await textOf(expression)).toBe(text);
  });

  test("an error with its stack and cause, without frames of the prelude", async () => {
    const text = await textOf("new TypeError('outer', { cause: new RangeError('inner') })");
    expect(text).toMatch(/^TypeError: outer\n {4}at .*glovebox:\/\/\/tool\.js:\d+:\d+/);
    expect(text).toContain("  [cause]: RangeError: inner\n      at default");
    expect(text).not.toContain("prelude");
  });

  test("console.log() shows an error whose message imitates a stack", async () => {
    expect(await textOf("Object.defineProperty(new Error('m'), 'stack', { value: '' })")).toBe("[Error: m]");
  });

  test.for<[why: string, expression: string]>([
    ["a million keys", "Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => ['k' + i, i]))"],
    ["a long text", "'x'.repeat(5e6)"],
    ["long texts in lists", "Array(100).fill('y'.repeat(1e5))"],
    ["a wide tree", "(() => { const t = (d) => d === 0 ? 'leaf' : Array(30).fill(t(d - 1)); return t(5) })()"],
    ["a large map", "new Map(Array.from({ length: 1e5 }, (_, i) => [i, 'v'.repeat(100)]))"],
    ["many arguments", "...Array(10000).fill('z'.repeat(100))"],
  ])("%s within the limit of one line", async ([, expression]) => {
    expect((await textOf(expression)).length).toBeLessThanOrEqual(32_768 + 1);
  });

  test("console.log() shows lone surrogates as replacement characters", async () => {
    expect(await textOf("'a\\ud800b'")).toBe("a\ufffdb");
  });
});

describe("console's limits", () => {
  test("limit the lines of a call to logLines, and report the number of dropped ones", async () => {
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

  test("limit the text of a call to logBytes", async () => {
    const end = await runGuest("() => { for (let i = 0; i < 5; i += 1) console.log('x'.repeat(40)); }", {
      header: { logBytes: 100 },
    });
    const kept = end.logs.filter((line) => line.startsWith("info: "));
    expect(kept.map((line) => line.length)).toEqual([46, 46, 27]);
    expect(end.logs.filter((line) => line === "dropped: ")).toHaveLength(2);
  });

  test("include the lines of ctx.log", async () => {
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
