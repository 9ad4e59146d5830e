// Compares CompressionStream and DecompressionStream in a guest with node:zlib.
import {
  brotliCompressSync,
  brotliDecompressSync,
  deflateRawSync,
  deflateSync,
  gunzipSync,
  gzipSync,
  inflateRawSync,
  inflateSync,
} from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GuestTool, inGuest, openGuest } from "../../support/guest.ts";

const FORMATS = {
  gzip: { pack: gzipSync, unpack: gunzipSync },
  deflate: { pack: deflateSync, unpack: inflateSync },
  "deflate-raw": { pack: deflateRawSync, unpack: inflateRawSync },
  brotli: { pack: brotliCompressSync, unpack: brotliDecompressSync },
} as const;
type Format = keyof typeof FORMATS;
const NAMES = Object.keys(FORMATS) as Format[];

interface Job {
  readonly kind: "pack" | "unpack";
  readonly format: string;
  /** Chunks as Latin-1 text. */
  readonly chunks: readonly string[];
}

/** Runs in the guest. Returns the output as Latin-1 text, and the name of an error. */
async function convert({ kind, format, chunks }: Job): Promise<{ text: string; error?: string }> {
  let text = "";
  try {
    const stream =
      kind === "pack" ? new CompressionStream(format as "gzip") : new DecompressionStream(format as "gzip");
    const parts = chunks.map((chunk) => Uint8Array.from(chunk, (character) => character.charCodeAt(0)));
    for await (const bytes of ReadableStream.from(parts).pipeThrough(stream as never)) {
      for (const byte of bytes as Uint8Array) text += String.fromCharCode(byte);
    }
    return { text };
  } catch (error) {
    return { text, error: (error as Error).name };
  }
}

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");
const cut = (text: string, size: number): string[] => text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];

let tool: GuestTool;
const run = async (job: Job): Promise<{ text: string; error?: string }> =>
  (await tool.call<{ text: string; error?: string }>(job)).value;

beforeAll(async () => {
  tool = await openGuest(convert, { memoryMiB: 128 });
});
afterAll(async () => {
  await tool[Symbol.asyncDispose]();
});

describe.for(NAMES)("%s", (format) => {
  const { pack, unpack } = FORMATS[format];

  test("compresses any data in any pieces so that zlib reads it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 3_000 }), fc.integer({ min: 1, max: 2_000 }), async (bytes, size) => {
        const { text } = await run({ kind: "pack", format, chunks: cut(latin1(bytes), size) });
        expect(latin1(unpack(Buffer.from(text, "latin1")))).toBe(latin1(bytes));
      }),
      { numRuns: 15 },
    );
  });

  test("decompresses zlib's output in pieces of any size", async () => {
    const original = latin1(Buffer.from("The quick brown fox. ".repeat(8_000)));
    for (const size of [1_000_000, 100, 1]) {
      const chunks = cut(latin1(pack(Buffer.from(original, "latin1"))), size);
      expect((await run({ kind: "unpack", format, chunks })).text === original).toBe(true);
    }
  });

  test("compresses well", async () => {
    const { text } = await run({ kind: "pack", format, chunks: ["a".repeat(100_000)] });
    expect(text.length).toBeLessThan(500);
  });

  // Brotli has no checksum: a changed byte is another literal.
  const brokenAt = format === "brotli" ? 0 : 12;
  const PACKED = latin1(pack(Buffer.from("some text, some text")));
  test.for<[what: string, bytes: string]>([
    ["no data", ""],
    ["truncated data", PACKED.slice(0, -1)],
    ["an extra byte", `${PACKED}\0`],
    ["a second stream after the first", PACKED + PACKED],
    ["something else", "not compressed"],
    ["a broken block", `${PACKED.slice(0, brokenAt)}\xff\xff\xff${PACKED.slice(brokenAt + 3)}`],
  ])("rejects %s", async ([, bytes]) => {
    for (const size of [1_000, 1]) {
      expect((await run({ kind: "unpack", format, chunks: cut(bytes, size) })).error).toBe("TypeError");
    }
  });
});

test.for(["new CompressionStream()", "new DecompressionStream('GZIP')", "new CompressionStream('lzma')"])(
  "%s is rejected",
  async (expression) => {
    expect(await inGuest(`() => { try { ${expression}; } catch (error) { return error.name; } }`)).toBe("TypeError");
  },
);
