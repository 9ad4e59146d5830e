// Compares structuredClone in a guest with Node's own where Node has the same rules.
import { runInThisContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { inGuest } from "../../support/guest.ts";

/** Describes a value in JSON: its class, its members, their order, and repeated references. */
function describeValue(value: unknown): unknown {
  const seen = new Map<object, number>();
  const look = (item: unknown): unknown => {
    if (typeof item === "bigint") return `${item}n`;
    if (typeof item === "number") return Object.is(item, -0) ? "-0" : String(item);
    if (typeof item !== "object" || item === null) return [typeof item, String(item)];
    const known = seen.get(item);
    if (known !== undefined) return `#${known}`;
    seen.set(item, seen.size);
    const kind = Object.prototype.toString.call(item);
    const proto = Object.getPrototypeOf(item)?.constructor?.name;
    if (item instanceof Error) {
      const { name, message, cause } = item;
      return {
        kind,
        proto,
        name,
        message,
        own: Object.getOwnPropertyNames(item).sort(),
        stack: typeof item.stack,
        cause: look(cause),
      };
    }
    if (item instanceof Date) return { kind, time: look(item.getTime()) };
    if (item instanceof RegExp) return { kind, text: String(item), lastIndex: item.lastIndex };
    if (item instanceof Map) return { kind, entries: [...item].map(look) };
    if (item instanceof Set) return { kind, items: [...item].map(look) };
    if (item instanceof ArrayBuffer) return { kind, bytes: [...new Uint8Array(item)] };
    if (ArrayBuffer.isView(item)) {
      const buffer = look(item.buffer);
      return { kind, buffer, at: item.byteOffset, length: item.byteLength };
    }
    const primitive = typeof item.valueOf() === "object" ? undefined : look(item.valueOf());
    const keys = Object.keys(item).map((key) => [key, look((item as Record<string, unknown>)[key])]);
    return { kind, proto, primitive, keys, length: (item as { length?: number }).length };
  };
  return look(value);
}

const source = (expression: string): string => `() => {
  const describeValue = ${describeValue};
  try { return describeValue(structuredClone(${expression})); } catch (error) { return { error: error.name, dom: error instanceof DOMException, code: error.code }; }
}`;
const here = (expression: string): unknown => JSON.parse(JSON.stringify(runInThisContext(`(${source(expression)})()`)));

const CASES: readonly string[] = [
  "1",
  "-0",
  "NaN",
  "10n",
  "'text'",
  "true",
  "null",
  "undefined",
  "{}",
  "[]",
  "{ a: 1, b: 'x', c: null, d: undefined }",
  "{ b: 1, a: 2, 1: 3, 0: 4 }",
  "[1, [2, [3, { four: 4 }]]]",
  "[1, , 3]",
  "Object.assign([1, 2], { extra: true })",
  "(() => { const list = []; list.length = 5; return list; })()",
  "(() => { const o = { name: 'o' }; o.self = o; return o; })()",
  "(() => { const a = []; a.push(a, [a]); return a; })()",
  "(() => { const shared = { n: 1 }; return [shared, shared, { shared }]; })()",
  "(() => { const m = new Map(); m.set(m, m); return m; })()",
  "(() => { const s = new Set(); s.add(s).add(1); return s; })()",
  "new Map([['a', { b: 1 }], [{ key: 1 }, 'v']])",
  "new Set([1, 'two', { three: 3 }])",
  "new Date(86400000)",
  "new Date(NaN)",
  "/a[b-z]+\\/x/giu",
  "(() => { const r = /x/g; r.lastIndex = 5; return r; })()",
  "new Boolean(false)",
  "new Number(-0)",
  "new String('boxed')",
  "Object(10n)",
  "new ArrayBuffer(3)",
  "new Uint8Array([1, 2, 3])",
  "new Uint8Array([1, 2, 3, 4]).subarray(1, 3)",
  "new Float64Array([1.5, NaN])",
  "new BigInt64Array([1n, -1n])",
  "new Float32Array(2)",
  "new Uint8ClampedArray([300])",
  "new DataView(new ArrayBuffer(8), 2, 4)",
  "(() => { const b = new ArrayBuffer(4); return [b, new Uint8Array(b), new DataView(b, 1)]; })()",
  "(() => { const v = new Uint8Array(4); return [v, v]; })()",
  "new Error('m')",
  "new TypeError('m', { cause: { a: 1 } })",
  "new RangeError('m', { cause: new Error('inner') })",
  "new (class MyError extends Error { name = 'MyError'; extra = 1 })('m')",
  "Object.assign(new SyntaxError('m'), { name: 'Odd' })",
  "Object.assign(new Error('m'), { name: 'TypeError' })",
  "new AggregateError([1], 'm')",
  "(() => { const e = new Error('x'); e.cause = e; return e; })()",
  "new (class Point { constructor() { this.x = 1; } get y() { return 2; } })()",
  "Object.create({ inherited: 1 })",
  "Object.create(null)",
  "{ get computed() { return 42; } }",
  "Object.defineProperty({ seen: 1 }, 'hidden', { value: 2 })",
  "{ [Symbol('s')]: 1, t: 2 }",
  "(function () { return arguments; })(1, 2)",
  "{ [Symbol.toStringTag]: 'Date', t: 1 }",
  "Object.create(Date.prototype)",
  "{ [Symbol.toStringTag]: 'Map' }",
  "(() => { class Tagged extends Map { get [Symbol.toStringTag]() { return 'Odd'; } } return new Tagged([[1, 2]]); })()",
  'JSON.parse(\'{"__proto__": { "polluted": true }}\')',
  "Function.prototype.call",
  "() => {}",
  "Symbol('x')",
  "{ deep: [{ f() {} }] }",
  "new Map([[1, () => {}]])",
  "Object(Symbol('x'))",
  "Promise.resolve()",
  "new WeakMap()",
  "new WeakSet()",
  "new WeakRef({})",
  "(function* () {})()",
  "new Proxy({ a: 1 }, { get() { throw new RangeError('trap'); } })",
  "{ get bad() { throw new TypeError('getter'); } }",
  "1, { transfer: [] }",
  "1, {}",
  "1, undefined",
  "1, { transfer: [{}] }",
  "1, { transfer: [1] }",
  "(globalThis.b = new ArrayBuffer(2)), { transfer: [b, b] }",
];

/** Cases in which Node differs deliberately, with the value that a guest sees. */
const OWN_RULES: { readonly [expression: string]: unknown } = {
  // V8 rejects them, the standard has no such rule.
  "(function () { return arguments; })(1, 2)": {
    kind: "[object Object]",
    proto: "Object",
    keys: [
      ["0", "1"],
      ["1", "2"],
    ],
  },
  // Node adds a code to the standard's TypeError.
  "1, { transfer: [1] }": { error: "TypeError", dom: false },
  // Node rejects any proxy. Without V8's help a proxy is not distinguishable from its target, and its traps run.
  "new Proxy({ a: 1 }, { get() { throw new RangeError('trap'); } })": { error: "RangeError", dom: false },
};

describe("structuredClone()", () => {
  test.for(CASES.map((expression) => [expression] as const))("%s", async ([expression]) => {
    expect(await inGuest(source(expression))).toEqual(OWN_RULES[expression] ?? here(expression));
  });

  test("clones a DOMException", async () => {
    const run = (): unknown => {
      const { error } = structuredClone({ error: new DOMException("gone", "AbortError") });
      return [error instanceof DOMException, error.name, error.message, error.code, typeof error.stack];
    };
    expect(await inGuest(`${run}`)).toEqual(run());
  });

  test("creates an independent copy", async () => {
    expect(
      await inGuest(`() => {
        const original = { list: [1], bytes: new Uint8Array([1]), map: new Map([['k', {}]]) };
        const copy = structuredClone(original);
        copy.list.push(2); copy.bytes[0] = 9; copy.map.get('k').x = 1;
        return [original.list, original.bytes[0], original.map.get('k')];
      }`),
    ).toEqual([[1], 1, {}]);
  });

  test("moves transferred buffers", async () => {
    expect(
      await inGuest(`() => {
        const bytes = new Uint8Array([1, 2, 3]);
        const copy = structuredClone({ bytes, again: bytes.buffer }, { transfer: [bytes.buffer] });
        return [bytes.byteLength, bytes.buffer.detached, [...copy.bytes], copy.bytes.buffer === copy.again];
      }`),
    ).toEqual([0, true, [1, 2, 3], true]);
  });

  test("keeps all buffers if the list is rejected", async () => {
    expect(
      await inGuest(`() => {
        const buffer = new ArrayBuffer(2);
        try { structuredClone(1, { transfer: [buffer, {}] }); } catch (error) { return [error.name, buffer.byteLength]; }
      }`),
    ).toEqual(["DataCloneError", 2]);
  });

  test("keeps all buffers if the value is rejected", async () => {
    expect(
      await inGuest(`() => {
        const buffer = new ArrayBuffer(2);
        try { structuredClone([buffer, () => {}], { transfer: [buffer] }); } catch (error) { return [error.name, buffer.byteLength]; }
      }`),
    ).toEqual(["DataCloneError", 2]);
  });

  test("rejects a detached buffer", async () => {
    expect(
      await inGuest(`() => {
        const buffer = new ArrayBuffer(2);
        buffer.transfer();
        return [() => structuredClone(buffer), () => structuredClone(1, { transfer: [buffer] })].map((run) => { try { run(); } catch (error) { return error.name; } });
      }`),
    ).toEqual(["DataCloneError", "DataCloneError"]);
  });

  test("needs an argument", async () => {
    expect(await inGuest("() => { try { structuredClone() } catch (error) { return error.name } }")).toBe("TypeError");
  });
});
