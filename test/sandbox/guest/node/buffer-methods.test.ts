// Compares methods of Buffer in a guest with Node's own for arguments of any type: results, changed bytes, and errors with their codes and messages.
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GuestTool, openGuest } from "../../../support/guest.ts";

/** An argument as JSON: `["number", "NaN"]`, `["bytes", [1, 2]]`. */
type Argument = readonly [type: string, value?: unknown];
interface Operation {
  readonly method: string;
  readonly isStatic?: boolean;
  readonly bytes: readonly number[];
  readonly args: readonly Argument[];
}

/** Runs in a guest and in Node: it must not use anything else from around it. */
function apply(operations: readonly Operation[]): unknown {
  const read = ([type, value]: Argument): unknown => {
    if (type === "number") return Number(value);
    if (type === "bigint") return BigInt(value as string);
    if (type === "bytes") return Buffer.from(value as number[]);
    if (type === "plain bytes") return new Uint8Array(value as number[]);
    if (type === "list") return (value as Argument[]).map(read);
    if (type === "undefined") return undefined;
    return value;
  };
  const write = (value: unknown): unknown => {
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
    if (Array.isArray(value)) return value.map(write);
    return value instanceof Uint8Array ? [Buffer.isBuffer(value), ...value] : value;
  };
  return operations.map(({ method, isStatic = false, bytes, args }) => {
    const buffer = Buffer.from(bytes);
    const target = (isStatic ? Buffer : buffer) as unknown as Record<string, (...args: unknown[]) => unknown>;
    const given = args.map(read);
    try {
      const result = target[method]?.(...given);
      return [write(result === buffer ? "itself" : result), [...buffer], given.map(write)];
    } catch (error) {
      const { name, code, message } = error as Error & { readonly code?: string };
      return [name, code, message];
    }
  });
}

let guest: GuestTool;
beforeAll(async () => {
  guest = await openGuest(apply);
});
afterAll(() => guest[Symbol.asyncDispose]());

const NUMBERS = [
  "0",
  "1",
  "2",
  "3",
  "5",
  "7",
  "8",
  "-1",
  "-3",
  "1.5",
  "NaN",
  "Infinity",
  "-Infinity",
  "255",
  "256",
  "-129",
];
// Node writes very large numbers as `1e+_300` in its errors, so they are left out.
const LARGE = ["65536", "4294967295", "4294967296", "-2147483649", "281474976710656", "9007199254740992", "-0"];
const bytes = fc.array(fc.constantFrom(0, 1, 97, 98, 127, 128, 255), { maxLength: 10 });
const number = fc.constantFrom(...NUMBERS).map((value): Argument => ["number", value]);
const value = fc.constantFrom(...NUMBERS, ...LARGE).map((text): Argument => ["number", text]);
const other = fc.constantFrom<Argument>(["undefined"], ["null", null], ["text", "1"], ["object", {}], ["bool", true]);
/** Node's error for an object as an encoding inspects it. */
const notEncoding = fc.constantFrom<Argument>(["undefined"], ["null", null], ["bool", true], ["number", "1"]);
const encoding = fc.constantFrom<Argument>(
  ["text", "utf8"],
  ["text", "latin1"],
  ["text", "ucs2"],
  ["text", "hex"],
  ["text", "x"],
);
const content = bytes.chain((list) =>
  fc.constantFrom<Argument>(["bytes", list], ["plain bytes", list], ["text", String.fromCharCode(...list)]),
);
/** Node finds half of a code unit in UTF-16 at other places in each release. */
const searched = bytes.chain((list) => {
  const whole = list.slice(0, list.length - (list.length % 2));
  return fc.constantFrom<Argument>(["bytes", whole], ["plain bytes", whole], ["text", String.fromCharCode(...list)]);
});
const bigint = fc
  .constantFrom(
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "-9223372036854775809",
  )
  .map((text): Argument => ["bigint", text]);
const offset = fc.oneof({ arbitrary: number, weight: 6 }, other);

const upTo = (...arguments_: readonly fc.Arbitrary<Argument>[]): fc.Arbitrary<Argument[]> =>
  fc.tuple(fc.nat(arguments_.length), fc.tuple(...arguments_)).map(([count, list]) => list.slice(0, count));

const ENDS = ["LE", "BE"];
const sized = ["UInt16", "Int16", "UInt32", "Int32", "Float", "Double"].flatMap((name) =>
  ENDS.map((end) => name + end),
);
const fixed = ["UInt8", "Int8", ...sized, "Uint8", "Uint32LE"];
const variable = ["UIntLE", "UIntBE", "IntLE", "IntBE"];
const big = ["BigInt64LE", "BigInt64BE", "BigUInt64LE", "BigUInt64BE"];
const named = (prefix: string, names: readonly string[]): fc.Arbitrary<string> =>
  fc.constantFrom(...names.map((name) => prefix + name));

const operation = (
  method: fc.Arbitrary<string>,
  args: fc.Arbitrary<Argument[]>,
  isStatic = false,
): fc.Arbitrary<Operation> => fc.record({ method, bytes, args, isStatic: fc.constant(isStatic) });

const OPERATIONS: Readonly<Record<string, fc.Arbitrary<Operation>>> = {
  "numbers of a fixed size": fc.oneof(
    operation(named("read", [...fixed, ...big]), upTo(offset)),
    operation(named("write", fixed), upTo(fc.oneof(value, other), offset)),
    operation(named("write", big), upTo(bigint, offset)),
  ),
  "numbers of one to six bytes": fc.oneof(
    operation(named("read", variable), upTo(offset, offset)),
    operation(named("write", variable), upTo(fc.oneof(value, other), offset, offset)),
  ),
  searches: operation(
    fc.constantFrom("indexOf", "lastIndexOf", "includes"),
    upTo(fc.oneof(searched, number, other), fc.oneof(offset, encoding), encoding),
  ),
  "comparisons and copies": fc.oneof(
    operation(fc.constantFrom("compare", "copy"), upTo(fc.oneof(content, other), offset, offset, offset, offset)),
    operation(fc.constant("equals"), upTo(fc.oneof(content, other))),
    operation(fc.constant("compare"), upTo(fc.oneof(content, other), fc.oneof(content, other)), true),
    operation(
      fc.constant("concat"),
      upTo(
        fc.oneof(
          fc
            .array(fc.oneof({ arbitrary: content, weight: 4 }, other), { maxLength: 3 })
            .map((list): Argument => ["list", list]),
          other,
        ),
        offset,
      ),
      true,
    ),
  ),
  "text and sizes": fc.oneof(
    operation(fc.constant("toString"), upTo(fc.oneof(encoding, notEncoding), offset, offset)),
    operation(
      fc.constant("write"),
      upTo(fc.oneof(content, other), fc.oneof(offset, encoding), fc.oneof(offset, encoding), encoding),
    ),
    operation(
      fc.constantFrom("alloc", "allocUnsafeSlow"),
      upTo(fc.oneof(fc.constantFrom<Argument>(["number", "0"], ["number", "-1"], ["number", "NaN"]), other)),
      true,
    ),
    operation(fc.constant("inspect"), fc.constant([])),
  ),
};

test.for(Object.keys(OPERATIONS))("%s are as in Node, for arguments of any type", async (name) => {
  const operations = fc.array(OPERATIONS[name] as fc.Arbitrary<Operation>, { minLength: 40, maxLength: 80 });
  await fc.assert(
    fc.asyncProperty(operations, async (list) => {
      const { value: seen } = await guest.call(list);
      const expected = apply(list) as readonly unknown[];
      const index = expected.findIndex((one, at) => JSON.stringify(one) !== JSON.stringify((seen as unknown[])[at]));
      expect(index < 0 ? "as in Node" : [list[index], (seen as unknown[])[index]]).toEqual(
        index < 0 ? "as in Node" : [list[index], JSON.parse(JSON.stringify(expected[index]))],
      );
    }),
    { numRuns: 25 },
  );
});

test("an inspected buffer says how many bytes are left out", async () => {
  const list = [49, 50, 51, 53].map((length) => ({ method: "inspect", bytes: new Array(length).fill(1), args: [] }));
  expect((await guest.call(list)).value).toEqual(apply(list));
});

test("text is written in whole characters, also where more bytes follow", async () => {
  const texts = ["é", "a€", "\u{1f600}b", "\ud800a", "a\udc00"];
  const operations = texts.flatMap((text) =>
    ["utf8", "utf16le", "latin1"].flatMap((name) =>
      [0, 1, 2, 3, 4, 5].map(
        (length): Operation => ({
          method: "write",
          bytes: [0, 0, 0, 0, 0, 0, 0],
          args: [
            ["text", text],
            ["number", "1"],
            ["number", String(length)],
            ["text", name],
          ],
        }),
      ),
    ),
  );
  const { value } = await guest.call(operations);
  expect(value).toEqual(JSON.parse(JSON.stringify(apply(operations))));
});
