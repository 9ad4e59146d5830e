// Compares node:buffer and node:string_decoder in a guest with Node's own.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectLikeNode, type GuestTool, openGuest, runGuest } from "../../../support/guest.ts";

const ENCODINGS = ["utf8", "utf-8", "hex", "base64", "base64url", "latin1", "binary", "ascii", "ucs2", "utf16le"];

interface Sample {
  readonly bytes: readonly number[];
  readonly text: string;
  readonly encodings: readonly string[];
}

function convert({ bytes, text, encodings }: Sample): unknown {
  return encodings.map((name) => {
    const encoding = name as BufferEncoding;
    return [
      Buffer.from(bytes).toString(encoding),
      [...Buffer.from(text, encoding)],
      Buffer.byteLength(text, encoding),
      Buffer.from(bytes).toString(encoding, 1, 3),
      [...Buffer.alloc(5, "ab", encoding)],
    ];
  });
}

test("text of one unit for each character needs little memory", async () => {
  const run = (): unknown => {
    const bytes = Buffer.alloc(4_000_001, 97);
    bytes[3_999_999] = 0xe9;
    const sums: unknown[] = [];
    for (const encoding of ["latin1", "binary", "ascii", "utf16le", "ucs2"] as const) {
      const text = bytes.toString(encoding);
      const back = Buffer.from(text, encoding);
      const written = Buffer.alloc(10).write(text.slice(-8), 1, encoding);
      sums.push([encoding, text.length, text.slice(-3), back.length, back.at(-1), back.at(-2), written]);
    }
    return [sums, bytes.toString("hex").slice(-6)];
  };
  const { value } = await runGuest(run, { memoryMiB: 48 });
  expect(value).toEqual(run());
});

describe("Buffer", () => {
  let guest: GuestTool;
  beforeAll(async () => {
    guest = await openGuest(convert);
  });
  afterAll(() => guest[Symbol.asyncDispose]());

  test.for(["", "a", "ä€😀", "3q2+7w==", "3q2-7w", "deadbeef", "DEADBEEF", "zz", " aGk= ", "\ud800x"])(
    "reads %j in every encoding as Node does",
    async (text) => {
      const sample = { bytes: [0, 65, 0xc3, 0xa4, 0xff, 0xf0, 0x9f, 0x98, 0x80], text, encodings: ENCODINGS };
      expect((await guest.call(sample)).value).toEqual(convert(sample));
    },
  );

  test("writes any bytes in every encoding as Node does", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(255), { maxLength: 40 }), fc.string({ maxLength: 12 }), async (bytes, text) => {
        const sample = { bytes, text, encodings: ["utf8", "hex", "latin1", "ascii", "utf16le"] };
        expect((await guest.call(sample)).value).toEqual(convert(sample));
      }),
      { numRuns: 150 },
    );
  });

  test.for<[why: string, run: () => unknown]>([
    [
      "is a Uint8Array whose slices share memory",
      () => {
        const buffer = Buffer.from([1, 2, 3]);
        buffer.slice(1)[0] = 9;
        buffer.subarray(2)[0] = 8;
        return [
          [...buffer],
          buffer instanceof Uint8Array,
          Buffer.isBuffer(buffer.slice(1)),
          Buffer.isBuffer(new Uint8Array(1)),
        ];
      },
    ],
    [
      "concatenates, compares, finds and fills",
      () => {
        const a = Buffer.from("abc");
        const b = Buffer.from("abd");
        return [
          Buffer.concat([a, b]).toString(),
          Buffer.concat([a, b], 4).toString(),
          Buffer.compare(a, b),
          a.equals(Buffer.from("abc")),
          a.indexOf("b"),
          a.includes("z"),
          a.lastIndexOf("c"),
          Buffer.alloc(4).fill("xy").toString(),
          a.toJSON(),
          a.readUInt16BE(0),
          Buffer.of(1, 2).length,
        ];
      },
    ],
    [
      "reads and writes numbers",
      () => {
        const buffer = Buffer.alloc(32);
        buffer.writeDoubleBE(1.5, 0);
        buffer.writeInt32LE(-5, 8);
        buffer.writeBigUInt64BE(2n ** 60n, 12);
        buffer.writeUIntBE(0x123456, 20, 3);
        buffer.writeFloatLE(0.5, 24);
        return [
          buffer.toString("hex"),
          buffer.readDoubleBE(0),
          buffer.readInt32LE(8),
          String(buffer.readBigUInt64BE(12)),
          buffer.readUIntBE(20, 3),
          buffer.readFloatLE(24),
        ];
      },
    ],
    [
      "writes text at an offset",
      () => {
        const buffer = Buffer.alloc(8);
        const written = [buffer.write("ab", 1), buffer.write("ff00", 4, "hex"), buffer.write("QQ", 6, "base64url")];
        return [written, buffer.toString("hex"), buffer.swap16().toString("hex")];
      },
    ],
    [
      "rejects invalid arguments",
      () =>
        [
          () => Buffer.from(5 as never),
          () => Buffer.from(null as never),
          () => Buffer.alloc("x" as never),
          () => Buffer.alloc(-1),
        ].map((make) => {
          try {
            return String(make());
          } catch (error) {
            return (error as Error).name;
          }
        }),
    ],
    [
      "has the names that packages check",
      () => {
        const buffer = Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]);
        const copied: { [name: string]: unknown } = {};
        for (const name in Buffer) copied[name] = Buffer[name as "from"];
        return [
          Buffer.name,
          buffer.constructor.name,
          String(buffer.readBigUint64LE(0)),
          String(buffer.readBigUint64BE(0)),
          buffer.writeBigUint64LE(5n, 0),
          buffer.toString("hex"),
          ["from", "alloc", "byteLength", "isEncoding"].map((name) => typeof copied[name]),
        ];
      },
    ],
    [
      "is found with its module",
      () => {
        const buffer = process.getBuiltinModule("node:buffer");
        return [
          buffer.Buffer === Buffer,
          buffer.isUtf8(Buffer.from([0xff])),
          buffer.isAscii(Buffer.from("a")),
          buffer.transcode(Buffer.from("€"), "utf8", "latin1").toString("latin1"),
          buffer.constants.MAX_STRING_LENGTH,
          Buffer.isEncoding("base64url"),
          Buffer.isEncoding("nope"),
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});

test("gives errors of conversions the codes that they have in Node", async () => {
  await expectLikeNode(() => {
    const runs: (() => unknown)[] = [
      () => Buffer.from("a", "none" as never),
      () => Buffer.from("a", "" as never),
      () => Buffer.from("a", 5 as never),
      () => Buffer.from("aé", "latin1"),
      () => Buffer.from(5 as never),
      () => Buffer.from(null as never),
      () => Buffer.from(true as never),
      () => Buffer.from(new ArrayBuffer(4), 5),
      () => Buffer.from(new ArrayBuffer(4), 1, 9),
      () => Buffer.byteLength(5 as never),
      () => Buffer.byteLength(new DataView(new ArrayBuffer(3))),
      () => Buffer.from("abc").swap16(),
      () => Buffer.from("abcde").swap32(),
      () => Buffer.from("abcd").swap64(),
      () => Buffer.from("abcd").swap16().toString(),
      () => Buffer.alloc(3, "zz", "hex"),
      () =>
        Buffer.from({
          [Symbol.toPrimitive]: () => {
            throw new TypeError("of the value");
          },
        } as never),
    ];
    return runs.map((run) => {
      try {
        const made = run();
        return made instanceof Uint8Array ? [...made] : made;
      } catch (error) {
        const { name, code, message } = error as Error & { readonly code?: string };
        return [name, code ?? "none", message];
      }
    });
  }, undefined);
});

describe("StringDecoder", () => {
  test("never splits a character, as Node's does not", async () => {
    const run = ({
      pieces,
      encoding,
    }: {
      readonly pieces: readonly (readonly number[])[];
      readonly encoding: string;
    }): unknown => {
      const { StringDecoder } = process.getBuiltinModule("node:string_decoder");
      const decoder = new StringDecoder(encoding as BufferEncoding);
      return [...pieces.map((piece) => decoder.write(Buffer.from(piece))), decoder.end()];
    };
    await using guest = await openGuest(run);
    const text = fc.string({ unit: "binary", maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(
        text,
        fc.array(fc.nat(12), { maxLength: 4 }),
        fc.constantFrom("utf8", "utf16le", "base64", "base64url", "hex", "latin1"),
        async (value, cuts, encoding) => {
          // Node itself splits a surrogate pair after one and a half code units.
          const step = encoding === "utf16le" ? 2 : 1;
          const bytes = [...Buffer.from(value, encoding === "utf16le" ? "utf16le" : "utf8")];
          const places = [0, ...cuts.sort((a, b) => a - b).map((cut) => cut * step), bytes.length];
          const pieces = places.slice(1).map((place, index) => bytes.slice(places[index], place));
          const input = { pieces, encoding };
          expect((await guest.call(input)).value).toEqual(run(input));
        },
      ),
      { numRuns: 200 },
    );
  });
});
