// Tests that values of callers, hooks, host functions and capabilities are measured while they are read, and that reading stops at the
// limit. The tests count reads, because their duration depends on the machine.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { toTextWithBytes } from "../../../src/host/contract/tool-value.ts";
import { checkValueSize, ValueTooLargeError } from "../../../src/host/contract/value-size.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const KiB = 1024;
const LIMIT = 256 * KiB;

/** Returns an object with `keys` keys of long texts. `reads()` returns how many of them were read. */
function counted(
  keys: number,
  value: unknown = "x".repeat(1_000),
): { readonly value: object; readonly reads: () => number } {
  let reads = 0;
  const names = Array.from({ length: keys }, (_, index) => `key${index}`);
  const target = Object.fromEntries(names.map((name) => [name, 0]));
  const proxy = new Proxy(target, {
    get(_target, key) {
      if (typeof key === "string" && key.startsWith("key")) reads += 1;
      return key in target ? value : undefined;
    },
  });
  return { value: proxy, reads: () => reads };
}

function countedArray(
  length: number,
  item: () => unknown,
): { readonly value: readonly unknown[]; readonly reads: () => number } {
  let reads = 0;
  const proxy = new Proxy([] as unknown[], {
    get(_target, key) {
      if (key === "length") return length;
      if (typeof key === "string" && /^\d+$/.test(key)) {
        reads += 1;
        return item();
      }
      return undefined;
    },
  });
  return { value: proxy, reads: () => reads };
}

const tooLarge = (value: unknown, limits = { bytes: LIMIT, values: 1_000_000 }): unknown => {
  try {
    return toTextWithBytes(value, limits);
  } catch (thrown) {
    return thrown;
  }
};

describe("toTextWithBytes()", () => {
  test("stops reading properties at the limit", () => {
    const { value, reads } = counted(50_000);
    expect(tooLarge(value)).toBeInstanceOf(ValueTooLargeError);
    expect(reads()).toBeLessThan(LIMIT / 1_000 + 10);
  });

  test("reads no item of a list that is too long", () => {
    const { value, reads } = countedArray(10_000_000, () => 1);
    expect(tooLarge(value)).toMatchObject({ name: "ValueTooLargeError", limit: "bytes" });
    expect(reads()).toBe(0);
    expect(tooLarge(new Array(4_000_000_000))).toBeInstanceOf(ValueTooLargeError);
  });

  test("stops within a list of lists or objects", () => {
    for (const item of [() => ["x".repeat(100)], () => ({ a: "x".repeat(100) })]) {
      const { value, reads } = countedArray(50_000, item);
      expect(tooLarge(value)).toBeInstanceOf(ValueTooLargeError);
      expect(reads()).toBeLessThanOrEqual(50_000);
    }
  });

  test("counts the result of toJSON while it is serialized", () => {
    const { value, reads } = counted(50_000);
    expect(tooLarge({ toJSON: () => value })).toBeInstanceOf(ValueTooLargeError);
    expect(reads()).toBeLessThan(LIMIT / 1_000 + 10);
  });

  test("counts a proxy that has more keys at the second read", () => {
    let looks = 0;
    let reads = 0;
    const value = new Proxy(
      {},
      {
        ownKeys: () => (looks++ === 0 ? [] : Array.from({ length: 5_000 }, (_, index) => `key${index}`)),
        getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }),
        get: (_target, key) => {
          if (key === "toJSON") return undefined;
          reads += 1;
          return "x".repeat(1_000);
        },
      },
    );
    expect(tooLarge(value)).toBeInstanceOf(ValueTooLargeError);
    expect(reads).toBeLessThan(LIMIT / 1_000 + 10);
  });

  test("stops at an object that is repeated in many places", () => {
    let value: unknown = "ab";
    for (let level = 0; level < 60; level += 1) value = [value, value];
    expect(tooLarge(value)).toBeInstanceOf(ValueTooLargeError);
  });

  test("stops at the limit of values even if they are omitted from the JSON", () => {
    const { value, reads } = counted(200_000, () => 1);
    const read = (): unknown => checkValueSize(value, { bytes: LIMIT, values: 100_000 });
    expect(read).toThrow(expect.objectContaining({ limit: "values" }));
    expect(reads()).toBeLessThan(100_010);
  });

  test.for<[name: string, value: () => unknown]>([
    ["one long text", () => "x".repeat(500 * 1024 * KiB)],
    ["a long text in a list", () => [["x".repeat(LIMIT)]]],
    ["a long key", () => ({ ["k".repeat(LIMIT)]: 1 })],
    ["a boxed text", () => ({ a: new String("x".repeat(LIMIT)) })],
    ["bytes", () => ({ a: new Uint8Array(LIMIT + 1) })],
    ["a Buffer", () => ({ a: Buffer.alloc(LIMIT + 1) })],
    ["an ArrayBuffer", () => [new ArrayBuffer(LIMIT + 1)]],
    ["floats", () => ({ a: new Float64Array(LIMIT) })],
    ["bytes in many parts", () => Array.from({ length: 100 }, () => new Uint8Array(LIMIT / 50))],
    ["deep nesting", () => Array.from({ length: LIMIT }).reduce<unknown>((inner) => [inner], 1)],
    [
      "a cycle",
      () => {
        const self: unknown[] = [];
        self.push(self, self);
        return self;
      },
    ],
  ])("stops at %s", ([, value]) => {
    expect(tooLarge(value())).toBeInstanceOf(RangeError);
  });

  test("never overestimates the size of the JSON", () => {
    const values: unknown[] = [
      null,
      true,
      1,
      -1.5e300,
      "",
      "\ud800",
      "é😀",
      [],
      {},
      [[]],
      [{}],
      [undefined, () => 1, Symbol("s"), Number.NaN],
      new Array(5),
      { a: undefined, b: () => 1, c: Symbol("s") },
      { "": 0 },
      new Date(0),
      new Date(Number.NaN),
      new Map([[1, 2]]),
      new Set([1]),
      /x/,
      new Error("x"),
      new URL("https://a.b/"),
      new String("ab"),
      new Number(1),
      new Boolean(false),
      new Float32Array(3),
      new BigInt64Array(0),
      { toJSON: () => 1 },
      { toJSON: () => undefined },
      Object.create({ inherited: 1 }),
      Object.defineProperty({}, "hidden", { value: "x".repeat(100), enumerable: false }),
      [1, "a", null, [true, { b: [2, 3] }]],
      new Proxy({ a: [1] }, {}),
    ];
    for (const value of values) {
      const bytes = Buffer.byteLength(JSON.stringify(value) ?? "");
      expect(() => checkValueSize(value, { bytes: Math.max(bytes, 2), values: 100 })).not.toThrow();
      expect(toTextWithBytes(value, { bytes: 10 }).text).toBe(JSON.stringify(value));
    }
  });
});

describe("a large value", () => {
  let glovebox: Glovebox;
  const large = counted(50_000, "x".repeat(1_000));
  const list = countedArray(10_000_000, () => ({ a: 1 }));
  let given: () => unknown = () => null;
  beforeAll(async () => {
    const any = { inputSchema: {}, outputSchema: {} };
    glovebox = await makeGlovebox({
      limits: { inputBytes: LIMIT, outputBytes: LIMIT, timeoutMs: 60_000 },
      capabilities: [defineCapability({ name: "fill", ...any, handler: () => given() as never })],
      hooks: [
        {
          name: "swap",
          validate: ({ call }) => (call.toolName === "modified" ? { modify: { arguments: given() } } : undefined),
          result: ({ call }) => (call.toolName === "swapped" ? { modify: { output: given() } } : undefined),
        },
      ],
    });
    await glovebox.addTool({ name: "sandboxed", source: "export default (input) => Object.keys(input).length" });
    await glovebox.addTool(
      {
        name: "calls",
        source:
          "export default async (i, { fill }) => { try { return await fill(); } catch (error) { return error.code; } }",
      },
      { grant: ["fill"] },
    );
    for (const name of ["modified", "swapped"]) await glovebox.addTool({ name, source: "export default () => 1" });
    glovebox.router.register("own", {}, () => given());
  });
  afterAll(() => glovebox.close());

  const cases = [
    ["an object of 50,000 keys", () => large],
    ["a list of 10,000,000 items", () => list],
  ] as const;

  test.for(cases)(
    "is not read beyond the limit in arguments of a tool, a host function, a batch or an invocation: %s",
    async ([, make]) => {
      const { value, reads } = make();
      for (const toolName of ["sandboxed", "own"]) {
        const before = reads();
        const error = errorOf(await glovebox.execute({ id: "c", toolName, arguments: { value } as never }));
        expect(error).toMatchObject({
          code: "PARAM_INVALID",
          message: expect.stringContaining(`at most ${LIMIT} bytes of JSON, got more`),
        });
        expect(error.details).toMatchObject({ limitBytes: LIMIT });
        expect(reads() - before).toBeLessThan(LIMIT / 100);
      }
      const before = reads();
      const invocation = { toolName: "sandboxed", inputs: { value }, tenantId: "default" };
      for (const result of [
        await glovebox.invoker.execute(invocation as never),
        ...(await glovebox.invoker.executeBatch([invocation] as never)),
      ]) {
        expect(codeOf(result)).toBe("PARAM_INVALID");
      }
      expect(reads() - before).toBeLessThan(LIMIT / 50);
    },
  );

  test.for(cases)(
    "is not read beyond the limit in the result of a host function, a capability or a hook: %s",
    async ([, make]) => {
      const { value, reads } = make();
      given = () => value;
      for (const [toolName, code] of [
        ["own", "OUTPUT_TOO_LARGE"],
        ["calls", "OUTPUT_TOO_LARGE"],
        ["modified", "PARAM_INVALID"],
        ["swapped", "OUTPUT_TOO_LARGE"],
      ] as const) {
        const before = reads();
        const result = await glovebox.execute({ id: "c", toolName });
        expect(result.success ? outputOf(result) : codeOf(result)).toBe(code);
        expect(reads() - before).toBeLessThan(LIMIT / 100);
      }
    },
  );

  test("is not read beyond the limit in the input of a session's run", async () => {
    await using session = await glovebox.openSession();
    const before = large.reads();
    const result = await session.run("1", { input: { value: large.value } as never });
    expect(codeOf(result)).toBe("PARAM_INVALID");
    expect(large.reads() - before).toBeLessThan(LIMIT / 100);
  });

  test("is reported with its size if that is known, and with a cycle or BigInt in it", async () => {
    const cycle: { [key: string]: unknown } = {};
    cycle.self = cycle;
    const run = async (value: unknown): Promise<string> =>
      errorOf(await glovebox.execute({ id: "c", toolName: "sandboxed", arguments: { value } as never })).message;
    expect(await run(cycle)).toContain("a cycle at /value/self");
    expect(await run(1n)).toContain("a BigInt at /value");
    await using small = await makeGlovebox({ limits: { inputBytes: 100, timeoutMs: 60_000 } });
    await small.addTool({ name: "small", source: "export default () => 1" });
    const error = errorOf(await small.execute({ id: "c", toolName: "small", arguments: { text: "x".repeat(200) } }));
    expect(error.message).toContain("expected at most 100 bytes of JSON, got 211");
  });

  test("is accepted within the limit", async () => {
    const value = Array.from({ length: 10_000 }, (_, index) => index);
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "sandboxed", arguments: { value } }))).toBe(1);
  });
});
