// Compares node:v8 in a guest with Node's own. What cannot be serialized, and what is no serialization, must fail as in Node.
import { describe, test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

type Case = [why: string, run: () => unknown];

describe("node:v8", () => {
  test.for<Case>([
    [
      "serializes values to the bytes of Node",
      () => {
        const { serialize } = process.getBuiltinModule("node:v8");
        const error = new TypeError("wrong", { cause: { a: 1 } });
        error.stack = "its stack";
        const circular: { [key: string]: unknown } = { list: [] };
        circular.self = circular;
        const values: unknown[] = [
          [undefined, null, true, false, "", "latin é", "two bytes ł", `odd${"ł".repeat(70)}`],
          [1.5, -0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53 + 2],
          { numbers: [0, -1, 127, 2 ** 30], a: 2 ** 31, b: -(2 ** 31), c: -129 },
          [0n, -5n, 2n ** 64n, -(2n ** 70n)],
          { 5: 1, 4294967294: 2, 4294967295: 3, "05": 4, ł: 5, nested: { deep: [{ a: [] }] } },
          Object.assign(new Array(3), { 0: 1, 2: 3 }),
          Object.assign([1, 2], { more: "x" }),
          [],
          [new Date(0), /a"b/gimsuy, /a/dv, Object(1), Object("x"), Object(true), Object(false), Object(1n)],
          new Map<unknown, unknown>([
            [1, { a: 1 }],
            ["x", new Set([1, "y"])],
          ]),
          error,
          [new Uint8Array([1, 2]), Buffer.from("hi"), new Float64Array([1.5]), new DataView(new ArrayBuffer(3), 1)],
          [new BigInt64Array(1), new Uint8ClampedArray(2), new Uint16Array(new ArrayBuffer(8), 2, 2)],
          new ArrayBuffer(2),
          circular,
          Object.create(null),
        ];
        return values.map((value) => serialize(value).toString("hex"));
      },
    ],
    [
      "reads what it has written",
      () => {
        const v8 = process.getBuiltinModule("node:v8");
        const { inspect } = process.getBuiltinModule("node:util");
        const shared = { a: 1 };
        const error = Object.assign(new RangeError("wrong", { cause: [1] }), { stack: "its stack" });
        const value = {
          list: Object.assign(new Array<unknown>(5), [shared, shared], { 3: "ł", 4: "é" }),
          numbers: [1, -1, 1.5, -0, 2 ** 40, 10n, -(2n ** 65n)],
          map: new Map<unknown, unknown>([[shared, new Set(["x"])]]),
          dates: [new Date(5), /x/gi, Object("s"), Object(2n)],
          bytes: [Buffer.from("hi"), new Uint16Array([1, 2]), new BigInt64Array([3n]), new ArrayBuffer(1)],
          ["__proto__"]: "own",
        };
        const copy = v8.deserialize(v8.serialize(value)) as typeof value;
        const failed = v8.deserialize(v8.serialize(error)) as RangeError;
        return [
          inspect(copy, { depth: 5 }),
          copy.list[0] === copy.list[1],
          copy.map.has(copy.list[0]),
          Buffer.isBuffer(copy.bytes[0]),
          [failed.name, failed.message, failed.stack, failed.cause, failed instanceof RangeError],
        ];
      },
    ],
    [
      "rejects what cannot be copied",
      () => {
        const v8 = process.getBuiltinModule("node:v8");
        class Socket {
          read = (): void => {};
        }
        const values: unknown[] = [() => 1, Symbol("x"), Promise.resolve(), { a: new WeakMap() }, new Socket()];
        return values.map((value) => {
          try {
            return v8.serialize(value).length;
          } catch (error) {
            return [(error as Error).name, (error as Error).message];
          }
        });
      },
    ],
    [
      "has a serializer and a deserializer for formats of one's own",
      () => {
        const v8 = process.getBuiltinModule("node:v8");
        const attempt = (run: () => unknown): unknown => {
          try {
            return run();
          } catch (error) {
            return [(error as Error).name, (error as { code?: string }).code, (error as Error).message];
          }
        };
        const buffer = new ArrayBuffer(4);
        const serializer = new v8.Serializer();
        serializer.writeHeader();
        serializer.transferArrayBuffer(3, buffer);
        serializer.writeValue([buffer, new Uint8Array([1, 2, 3, 4]).subarray(1, 3)]);
        serializer.writeUint32(4_000_000_000);
        serializer.writeUint64(1, 2);
        serializer.writeDouble(1.5);
        serializer.writeRawBytes(Buffer.from("raw"));
        const bytes = serializer.releaseBuffer();
        const reader = new v8.Deserializer(bytes);
        reader.transferArrayBuffer(3, buffer);
        const header = reader.readHeader();
        const [kept, view] = reader.readValue() as [ArrayBuffer, Uint8Array];
        const host = new v8.Serializer();
        return [
          bytes.toString("hex"),
          [header, reader.getWireFormatVersion(), kept === buffer, [...view], view.byteOffset],
          [reader.readUint32(), reader.readUint64(), reader.readDouble(), reader.readRawBytes(3).toString()],
          attempt(() => reader.readUint32()),
          attempt(() => reader.readDouble()),
          attempt(() => reader.readRawBytes(5)),
          attempt(() => new v8.Deserializer("x" as never)),
          attempt(() => host.writeRawBytes("x" as never)),
          Array.isArray(attempt(() => (v8.Serializer as unknown as () => void)())),
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });

  test("rejects bytes that are no serialization", async () => {
    await expectLikeNode(() => {
      const { deserialize, serialize } = process.getBuiltinModule("node:v8");
      const date = new Date(0);
      const valid = serialize({ list: [1, "text ł", new Map([[1, 2n]])], date, bytes: Buffer.from("abc") });
      const attempt = (bytes: Uint8Array): unknown => {
        try {
          return typeof deserialize(bytes);
        } catch (error) {
          return (error as Error).message;
        }
      };
      const texts = [
        "",
        "00",
        "ff0f",
        "ff7f49",
        "ff0fff",
        "ff0f41ffffffff0f",
        "ff0f42ffffffff0f",
        "ff0f22ff01",
        "ff0f5e05",
      ];
      const lengths = Array.from({ length: valid.length }, (_, length) => length);
      return [
        ...texts.map((text) => attempt(Buffer.from(text, "hex"))),
        ...lengths.map((length) => attempt(valid.subarray(0, length))),
      ];
    }, undefined);
  });
});
