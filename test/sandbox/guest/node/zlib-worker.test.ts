// Brotli and Zstandard in a guest, in node:zlib and in the compression streams: against Node's own answers, and against bombs.
import * as zlib from "node:zlib";
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, runGuest } from "../../../support/guest.ts";

const TEXT = "How much wood would a woodchuck chuck? ".repeat(200);
const PACKED = {
  brotli: zlib.brotliCompressSync(TEXT).toString("base64"),
  zstd: zlib.zstdCompressSync(TEXT).toString("base64"),
};
type Packed = typeof PACKED;

describe("Brotli and Zstandard of node:zlib in a guest and in Node", () => {
  test.for<readonly [string, (packed: Packed) => unknown]>([
    [
      "at once and by callbacks",
      async (packed) => {
        const zlib = process.getBuiltinModule("node:zlib");
        const { promisify } = process.getBuiltinModule("node:util");
        const text = "text ".repeat(300);
        const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_MODE, BROTLI_MODE_TEXT, ZSTD_c_compressionLevel } = zlib.constants;
        const params = { [BROTLI_PARAM_QUALITY]: 4, [BROTLI_PARAM_MODE]: BROTLI_MODE_TEXT };
        const [brotli, zstd] = [Buffer.from(packed.brotli, "base64"), Buffer.from(packed.zstd, "base64")];
        return [
          zlib.brotliDecompressSync(brotli).toString(),
          zlib.zstdDecompressSync(zstd).toString().length,
          zlib.brotliCompressSync(text).toString("hex"),
          zlib.brotliCompressSync(text, { params }).toString("hex"),
          zlib.zstdCompressSync(text).toString("hex"),
          (await promisify(zlib.brotliDecompress)(brotli)).toString() === zlib.brotliDecompressSync(brotli).toString(),
          (await promisify(zlib.zstdDecompress)(zstd)).length,
          (await promisify(zlib.brotliCompress)(text)).toString("hex"),
          zlib.zstdDecompressSync(zlib.zstdCompressSync(text, { params: { [ZSTD_c_compressionLevel]: 7 } })).length,
          zlib.brotliDecompressSync(await promisify(zlib.brotliCompress)(Buffer.alloc(3_000_000, "ab"))).length,
          zlib.brotliDecompressSync(zlib.brotliCompressSync("")).length,
        ];
      },
    ],
    [
      "as streams",
      async (packed) => {
        const zlib = process.getBuiltinModule("node:zlib");
        const { pipeline } = process.getBuiltinModule("node:stream/promises");
        const { Readable, Writable } = process.getBuiltinModule("node:stream");
        const through = async (input: Iterable<unknown>, ...streams: NodeJS.ReadWriteStream[]) => {
          const parts: Buffer[] = [];
          const sink = new Writable({
            write(chunk: Buffer, _encoding, done) {
              parts.push(chunk);
              done();
            },
          });
          await pipeline([Readable.from(input), ...streams, sink] as never);
          return Buffer.concat(parts);
        };
        const letters = Array.from({ length: 300 }, (_, index) => Buffer.alloc(5_000, index));
        const packedBytes = Buffer.from(packed.brotli, "base64");
        const bytes = Array.from(packedBytes, (byte) => Buffer.of(byte));
        const flushed = await new Promise<string>((resolve) => {
          const pack = zlib.createBrotliCompress();
          const unpack = pack.pipe(zlib.createBrotliDecompress());
          unpack.on("data", (part: Buffer) => resolve(part.toString()));
          pack.write("now");
          pack.flush();
        });
        const Made = zlib.BrotliDecompress as unknown as { (): object; new (): object };
        return [
          (await through(bytes, zlib.createBrotliDecompress())).toString(),
          (await through(letters, zlib.createBrotliCompress(), zlib.createBrotliDecompress())).equals(
            Buffer.concat(letters),
          ),
          (await through(letters, zlib.createZstdCompress(), zlib.createZstdDecompress())).equals(
            Buffer.concat(letters),
          ),
          (await through([packedBytes, Buffer.from("trailing")], zlib.createBrotliDecompress())).length,
          flushed,
          new Made() instanceof zlib.BrotliDecompress,
        ];
      },
    ],
    [
      "with errors",
      async (packed) => {
        const zlib = process.getBuiltinModule("node:zlib");
        const { promisify } = process.getBuiltinModule("node:util");
        const [brotli, zstd] = [Buffer.from(packed.brotli, "base64"), Buffer.from(packed.zstd, "base64")];
        const refused = async (run: () => unknown) => {
          try {
            return String(await run());
          } catch (error) {
            const { name, code, message } = error as NodeJS.ErrnoException;
            return [name, code, message];
          }
        };
        return await Promise.all(
          [
            () => zlib.brotliDecompressSync(Buffer.from("not packed at all")),
            () => zlib.brotliDecompressSync(brotli.subarray(0, 20)),
            () => zlib.zstdDecompressSync(Buffer.from("not packed at all")),
            () => promisify(zlib.brotliDecompress)(brotli.subarray(0, 20)),
            () => promisify(zlib.zstdDecompress)(Buffer.from("not packed at all")),
            () => zlib.zstdDecompressSync(zstd, { maxOutputLength: 100 }),
            () => promisify(zlib.brotliDecompress)(brotli, { maxOutputLength: 100 }),
            () => zlib.brotliCompressSync(5 as never),
          ].map(refused),
        );
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run as (packed: Packed) => unknown, PACKED);
  });
});

describe("CompressionStream's Brotli", () => {
  test("gives what it has before its input ends", async () => {
    const read = await inGuest(async (packed: string) => {
      const stream = new DecompressionStream("brotli" as never);
      const writer = stream.writable.getWriter();
      const reader = stream.readable.pipeThrough(new TextDecoderStream()).getReader();
      void writer.write(Buffer.from(packed, "base64"));
      let text = "";
      while (text.length < 7_800) text += (await reader.read()).value;
      return text.length;
    }, PACKED.brotli);
    expect(read).toBe(TEXT.length);
  });

  test("gives what is whole before it tells of what follows it", async () => {
    const seen = await inGuest(async (packed: string) => {
      const stream = new DecompressionStream("brotli" as never);
      const writer = stream.writable.getWriter();
      const reader = stream.readable.getReader();
      void writer.write(Buffer.concat([Buffer.from(packed, "base64"), Buffer.of(0)])).catch(() => {});
      const { value } = await reader.read();
      return [value?.length, await reader.read().then(String, (error: Error) => error.name)];
    }, PACKED.brotli);
    expect(seen).toEqual([TEXT.length, "TypeError"]);
  });

  test("makes room when it is cancelled, aborted or broken", async () => {
    const length = await inGuest(async (packed: string) => {
      const bytes = Buffer.from(packed, "base64");
      for (let round = 0; round < 30; round += 1) {
        const stream = new DecompressionStream("brotli" as never);
        const writer = stream.writable.getWriter();
        const reader = stream.readable.getReader();
        const read = reader.read().catch(() => {});
        const written = writer.write(round % 3 === 2 ? Buffer.alloc(9, 255) : bytes.subarray(0, 30)).catch(() => {});
        if (round % 3 === 0) await reader.cancel();
        else if (round % 3 === 1) await writer.abort();
        await Promise.all([written, read]);
      }
      const made = new Response(bytes).body?.pipeThrough(new DecompressionStream("brotli" as never));
      return (await new Response(made).text()).length;
    }, PACKED.brotli);
    expect(length).toBe(TEXT.length);
  });

  test("takes more than one job may have", async () => {
    const size = await inGuest(async () => {
      const source = new ReadableStream({
        start(controller) {
          for (let part = 0; part < 12; part += 1) controller.enqueue(new Uint8Array(1_000_000).fill(part));
          controller.close();
        },
      });
      const packed = source.pipeThrough(new CompressionStream("brotli" as never));
      let length = 0;
      for await (const part of packed.pipeThrough(new DecompressionStream("brotli" as never))) length += part.length;
      return length;
    });
    expect(size).toBe(12_000_000);
  });
});

describe("what unpacks to gigabytes", () => {
  const bomb = zlib
    .brotliCompressSync(Buffer.alloc(64 * 1024 * 1024), { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } })
    .toString("base64");

  test("is refused where the guest waits", async () => {
    const said = await inGuest((packed: string) => {
      const { brotliDecompressSync } = process.getBuiltinModule("node:zlib");
      try {
        return brotliDecompressSync(Buffer.from(packed, "base64"), { maxOutputLength: 2 ** 30 }).length;
      } catch (error) {
        return (error as NodeJS.ErrnoException).code;
      }
    }, bomb);
    expect(said).toBe("ERR_BUFFER_TOO_LARGE");
  });

  test("waits in the worker for a reader that reads a little", async () => {
    const seen = await inGuest(async (packed: string) => {
      const { createBrotliDecompress } = process.getBuiltinModule("node:zlib");
      const stream = createBrotliDecompress();
      stream.end(Buffer.from(packed, "base64"));
      const [first] = (await stream.take(1).toArray()) as Buffer[];
      return [(first?.length ?? 0) > 0, stream.readableLength < 3 * 1024 * 1024];
    }, bomb);
    expect(seen).toEqual([true, true]);
  });

  test("ends the isolate that keeps all of it, and nothing else", async () => {
    const end = await runGuest(
      async (packed: string) => {
        const kept: unknown[] = [];
        for (let round = 0; round < 8; round += 1) {
          const stream = new DecompressionStream("brotli" as never);
          const writer = stream.writable.getWriter();
          void writer.write(Buffer.from(packed, "base64")).catch(() => {});
          for await (const part of stream.readable) kept.push(part);
        }
        return kept.length;
      },
      { input: bomb, memoryMiB: 32 } as never,
    );
    expect(end.outcome).not.toBe("output");
    expect(await inGuest(() => 1)).toBe(1);
  });

  test("parameters that cost gigabytes are refused, as are more codecs than there is room for", async () => {
    const said = await inGuest(() => {
      const zlib = process.getBuiltinModule("node:zlib");
      const { BROTLI_PARAM_LARGE_WINDOW, ZSTD_c_hashLog } = zlib.constants;
      const kept: unknown[] = [];
      return [
        () => zlib.brotliCompressSync("x", { params: { [BROTLI_PARAM_LARGE_WINDOW]: 1 } }),
        () => zlib.zstdCompressSync("x", { params: { [ZSTD_c_hashLog]: 30 } }),
        () => {
          for (;;) kept.push(zlib.createBrotliCompress());
        },
      ].map((run) => {
        try {
          run();
          return "done";
        } catch (error) {
          return (error as Error).message;
        }
      });
    });
    expect(said).toEqual([
      expect.stringMatching(/not supported/),
      expect.stringMatching(/not supported/),
      expect.stringMatching(/16 .* streams/),
    ]);
  });
});
