// Compares TextEncoder, TextDecoder, atob and btoa in a guest with Node's own.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectLikeNode, type GuestTool, inGuest, openGuest } from "../../support/guest.ts";

interface DecodeCase {
  readonly label?: string | undefined;
  readonly chunks: readonly (readonly number[])[];
  readonly fatal?: boolean;
  readonly ignoreBOM?: boolean;
}

/** Decodes chunks as one stream. Returns the name of an error. */
function decode({ label, chunks, fatal, ignoreBOM }: DecodeCase): unknown {
  try {
    const decoder = new TextDecoder(label ?? "utf-8", { fatal: fatal ?? false, ignoreBOM: ignoreBOM ?? false });
    const texts = chunks.map((chunk, index) =>
      decoder.decode(new Uint8Array(chunk), { stream: index < chunks.length - 1 }),
    );
    return { texts, encoding: decoder.encoding, fatal: decoder.fatal, ignoreBOM: decoder.ignoreBOM };
  } catch (error) {
    const { name, code } = error as Error & { readonly code?: string };
    return [name, code];
  }
}

/** Texts cross as lists of UTF-16 code units, because JSON handles lone surrogates badly. */
function encode(units: readonly number[]): unknown {
  const text = String.fromCharCode(...units);
  const room = new Uint8Array(5);
  const { read, written } = new TextEncoder().encodeInto(text, room);
  return { bytes: [...new TextEncoder().encode(text)], read, written, room: [...room] };
}

function base64(text: string): unknown {
  const attempt = (run: (value: string) => string): unknown => {
    try {
      return [...run(text)].map((unit) => unit.charCodeAt(0));
    } catch (error) {
      return (error as Error).name;
    }
  };
  return { decoded: attempt(atob), encoded: attempt(btoa) };
}

/** Difficult cases of the standard, and those of table 3-8 of the Unicode standard. */
const UTF8: readonly [why: string, bytes: readonly number[]][] = [
  ["nothing", []],
  ["ASCII", [0x61, 0x62]],
  ["a zero", [0]],
  ["two bytes", [0xc3, 0xa9]],
  ["three bytes", [0xe2, 0x82, 0xac]],
  ["four bytes", [0xf0, 0x9f, 0x98, 0x80]],
  ["the last code point", [0xf4, 0x8f, 0xbf, 0xbf]],
  ["past the last code point", [0xf4, 0x90, 0x80, 0x80]],
  ["a five-byte form", [0xf8, 0x88, 0x80, 0x80, 0x80]],
  ["a six-byte form", [0xfc, 0x84, 0x80, 0x80, 0x80, 0x80]],
  ["0xFE and 0xFF", [0xfe, 0xff]],
  ["an overlong slash of two bytes", [0xc0, 0xaf]],
  ["an overlong slash of three bytes", [0xe0, 0x80, 0xaf]],
  ["an overlong slash of four bytes", [0xf0, 0x80, 0x80, 0xaf]],
  ["an overlong last of two bytes", [0xc1, 0xbf]],
  ["a surrogate", [0xed, 0xa0, 0x80]],
  ["a pair of surrogates", [0xed, 0xa1, 0x8c, 0xed, 0xbe, 0xb4]],
  ["the code point below the surrogates", [0xed, 0x9f, 0xbf]],
  ["a continuation alone", [0x80]],
  ["five continuations", [0x80, 0x80, 0x80, 0x80, 0x80]],
  ["a start alone", [0xc3]],
  ["a start, then ASCII", [0xc3, 0x61]],
  ["two of three bytes", [0xe2, 0x82]],
  ["two of three bytes, then ASCII", [0xe2, 0x82, 0x61]],
  ["three of four bytes", [0xf0, 0x9f, 0x98]],
  ["three of four bytes, then a start", [0xf0, 0x9f, 0x98, 0xc3, 0xa9]],
  ["Unicode table 3-8", [0x61, 0xf1, 0x80, 0x80, 0xe1, 0x80, 0xc2, 0x62, 0x80, 0x63, 0x80, 0xbf, 0x64]],
  ["a byte order mark", [0xef, 0xbb, 0xbf, 0x61]],
  ["two byte order marks", [0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf]],
  ["a byte order mark that is not first", [0x61, 0xef, 0xbb, 0xbf]],
  ["half a byte order mark", [0xef, 0xbb]],
  ["an error, then a byte order mark", [0xff, 0xef, 0xbb, 0xbf]],
  ["a long run of ASCII with one error", [...Array.from({ length: 100 }, (_, i) => 32 + (i % 90)), 0xff, 0x61]],
];

const bytes = fc.uint8Array({ maxLength: 64 });
/** Bytes that are nearly UTF-8: complete characters that are cut and joined. */
const nearly = fc
  .array(
    fc.oneof(
      fc.string({ unit: "binary", maxLength: 6 }).map((text) => [...Buffer.from(text)]),
      fc.constantFrom([0xff], [0xc3], [0xe2, 0x82], [0xf0, 0x9f], [0xed, 0xa0], [0x80]),
    ),
  )
  .map((parts) => parts.flat());

describe("TextDecoder.decode()", () => {
  let guest: GuestTool;
  beforeAll(async () => {
    guest = await openGuest(`(cases) => cases.map(${decode})`);
  });
  afterAll(() => guest[Symbol.asyncDispose]());
  const expectSame = async (cases: readonly DecodeCase[]): Promise<void> => {
    const end = await guest.call(cases);
    expect(end.outcome).toBe("output");
    expect(end.value).toEqual(JSON.parse(JSON.stringify(cases.map(decode))));
  };

  test.for(UTF8)("decodes %s as Node does", async ([, sample]) => {
    const settings = [{}, { fatal: true }, { ignoreBOM: true }, { fatal: true, ignoreBOM: true }];
    await expectSame(settings.map((setting) => ({ chunks: [sample], ...setting })));
  });

  // Node 26 treats a second byte order mark at the start of a chunk as the first one. The standard has "BOM seen".
  test.for(UTF8.filter(([why]) => why !== "two byte order marks"))(
    "decodes %s as a stream, cut at every offset",
    async ([, sample]) => {
      await expectSame(sample.map((_, at) => ({ chunks: [sample.slice(0, at), sample.slice(at)] })));
    },
  );

  test("decodes any bytes in any pieces as Node does", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            bytes.map((list) => [...list]),
            nearly,
          ),
          { maxLength: 4 },
        ),
        fc.boolean(),
        async (chunks, fatal) => {
          await expectSame([
            { chunks, fatal },
            { chunks: [chunks.flat()], fatal, ignoreBOM: true },
            { label: "utf-16le", chunks, fatal },
            { label: "utf-16be", chunks },
            { label: "windows-1252", chunks },
          ]);
        },
      ),
      { numRuns: 150 },
    );
  });

  test("decodes megabytes", async () => {
    const text = await inGuest((size: number) => {
      const all = new TextEncoder().encode("añb€c😀 plain text in between ".repeat(size));
      const back = new TextDecoder().decode(all);
      return [back.length, back === "añb€c😀 plain text in between ".repeat(size)];
    }, 50_000);
    expect(text).toEqual([50_000 * 30, true]);
  });

  test.for([
    ["utf8"],
    [" UTF-8\n"],
    ["unicode-1-1-utf-8"],
    ["x-unicode20utf8"],
    ["UTF-16"],
    ["utf-16BE"],
    ["ucs-2"],
    ["unicode"],
    ["unicodefffe"],
    ["latin1"],
    ["ASCII"],
    ["us-ascii"],
    ["iso-8859-1"],
    ["iso_8859-1:1987"],
    ["cp819"],
    ["x-cp1252"],
    ["utf-7"],
    ["utf-32"],
    [""],
    ["__proto__"],
    ["constructor"],
  ])("accepts or rejects the label %j as Node does", async ([label]) => {
    await expectSame([{ label, chunks: [[0xe9, 0x80, 0x61, 0x62]] }]);
  });

  test.for<[why: string, expression: string, expected: string]>([
    ["nothing", "new TextDecoder().decode()", ""],
    ["an ArrayBuffer", "new TextDecoder().decode(new Uint8Array([97, 98]).buffer)", "ab"],
    ["a part of a buffer", "new TextDecoder().decode(new Uint8Array([97, 98, 99]).subarray(1, 2))", "b"],
    ["a DataView", "new TextDecoder().decode(new DataView(new Uint8Array([97, 98, 99]).buffer, 1))", "bc"],
    ["another typed array", "new TextDecoder().decode(new Uint16Array([0x6261]))", "ab"],
    ["text", "(() => { try { return new TextDecoder().decode('ab') } catch (e) { return e.name } })()", "TypeError"],
    ["a list", "(() => { try { return new TextDecoder().decode([97]) } catch (e) { return e.name } })()", "TypeError"],
    ["its tag", "String(new TextDecoder())", "[object TextDecoder]"],
  ])("accepts %s", async ([, expression, expected]) => {
    expect(await inGuest(`() => ${expression}`)).toBe(expected);
  });

  test("removes one byte order mark from a stream, and no more", async () => {
    const mark = [0xef, 0xbb, 0xbf];
    const end = await guest.call([{ chunks: [mark, mark, [0x61]] }]);
    expect(end.value).toMatchObject([{ texts: ["", "\ufeff", "a"] }]);
  });

  test("starts with a new state after an error", async () => {
    await expectLikeNode(() => {
      const decoder = new TextDecoder("utf-8", { fatal: true });
      const texts: string[] = [];
      for (const chunk of [[0xe2], [0x61], [0x62], [0xe2, 0x82], [0xac]]) {
        try {
          texts.push(decoder.decode(new Uint8Array(chunk), { stream: true }));
        } catch (error) {
          texts.push((error as Error).name);
        }
      }
      return texts;
    }, undefined);
  });
});

describe("TextEncoder", () => {
  test("encodes any text as Node does, lone surrogates included", async () => {
    await using guest = await openGuest(encode);
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.integer({ min: 0, max: 0xffff }),
            fc.integer({ min: 0xd800, max: 0xdfff }),
            fc.integer({ min: 32, max: 126 }),
          ),
          { maxLength: 30 },
        ),
        async (units) => {
          expect((await guest.call(units)).value).toEqual(encode(units));
        },
      ),
      { numRuns: 200 },
    );
  });

  test("has its encoding, an empty default, and rejects other arrays", async () => {
    await expectLikeNode(() => {
      const encoder = new TextEncoder();
      const name = (run: () => unknown): unknown => {
        try {
          return run();
        } catch (error) {
          return (error as Error).name;
        }
      };
      return [
        encoder.encoding,
        encoder.encode().length,
        [...encoder.encode(undefined)],
        [...encoder.encode(null as unknown as string)],
        name(() => encoder.encodeInto("a", new Uint16Array(2) as unknown as Uint8Array)),
        name(() => encoder.encodeInto("a", [] as unknown as Uint8Array)),
        encoder.encodeInto("é€", new Uint8Array(4)),
        Object.prototype.toString.call(encoder),
      ];
    }, undefined);
  });
});

describe("atob() and btoa()", () => {
  let guest: GuestTool;
  beforeAll(async () => {
    guest = await openGuest(base64);
  });
  afterAll(() => guest[Symbol.asyncDispose]());

  test.for<[text: string]>([
    [""],
    ["YQ=="],
    ["YWI="],
    ["YWJj"],
    ["YQ"],
    ["YWI"],
    ["Y"],
    ["YQ="],
    ["YQ==="],
    ["=YQ="],
    ["Y=Q="],
    ["===="],
    ["=="],
    ["="],
    [" Y Q = = "],
    ["\tYQ\n==\r\f"],
    ["YQ\v=="],
    ["YQ\u00a0=="],
    ["Y-_Q"],
    ["Y+/Q"],
    ["Zg=="],
    ["Zh=="],
    ["é"],
    ["Ā"],
    ["\u0000\u00ff"],
    ["😀"],
    ["YWJj".repeat(5_000)],
  ])("convert %j as Node's do", async ([text]) => {
    expect((await guest.call(text)).value).toEqual(base64(text));
  });

  test("convert any text as Node's do, and are inverse", async () => {
    const alphabet = fc.constantFrom(..."ABCabc019+/=- \n\t*é");
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.string({ unit: alphabet, maxLength: 24 }), fc.string({ unit: "binary" }), fc.base64String()),
        async (text) => {
          expect((await guest.call(text)).value).toEqual(base64(text));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("need an argument", async () => {
    expect(
      await inGuest("() => [atob, btoa].map((run) => { try { run() } catch (error) { return error.name } })"),
    ).toEqual(["TypeError", "TypeError"]);
  });
});
