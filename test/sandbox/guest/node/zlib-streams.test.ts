// Compares the streams of node:zlib in a guest with Node's own: closed and changed while they work, and used through their internals.
import { describe, test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

type Case = readonly [title: string, run: () => unknown];

/** How pngjs and minizlib use undocumented parts of a stream. */
const INNER_CASES: readonly Case[] = [
  [
    "a class that is applied to another object has the binding, as pngjs needs it",
    () => {
      const zlib = process.getBuiltinModule("node:zlib") as never as Record<string, (...args: unknown[]) => Buffer>;
      const { inherits } = process.getBuiltinModule("node:util");
      type Inner = {
        _handle: { writeSync: (...args: unknown[]) => void };
        _writeState: Uint32Array;
        _outBuffer: Buffer;
        _outOffset: number;
        _chunkSize: number;
      };
      const Inflate = function (this: object, options: object) {
        Reflect.apply(zlib.Inflate as never, this, [options]);
      };
      inherits(Inflate, zlib.Inflate as never);
      const inflate = Reflect.construct(Inflate, [{ chunkSize: 64 }]) as Inner;
      const input = zlib.deflateSync?.("hello ".repeat(20)) as Buffer;
      const { _outBuffer: output, _chunkSize: size } = inflate;
      const steps: unknown[] = [];
      let offset = 0;
      for (let left = 64, index = 0; index < 3; index += 1) {
        inflate._handle.writeSync(4, input, offset, input.length - offset, output, 0, size);
        [, left = 0] = inflate._writeState;
        offset = input.length - left;
        steps.push([...inflate._writeState, output.subarray(0, size - (inflate._writeState[0] ?? 0)).toString()]);
      }
      return [size, inflate._outOffset, steps];
    },
  ],
  [
    "the binding stays open for the next piece, as minizlib needs it",
    () => {
      type Inner = {
        _handle: { close: () => void } | null;
        close: () => void;
        _processChunk: (chunk: Buffer, flush: number) => Buffer;
      };
      const zlib = process.getBuiltinModule("node:zlib");
      const gunzip = zlib.createGunzip() as unknown as Inner;
      const packed = zlib.gzipSync("one two three ".repeat(50));
      let text = "";
      for (const piece of [packed.subarray(0, 20), packed.subarray(20)]) {
        const { _handle: handle } = gunzip;
        if (handle === null) return "closed";
        const { close } = handle;
        handle.close = () => {};
        text += String(gunzip._processChunk(piece, zlib.constants.Z_SYNC_FLUSH));
        gunzip._handle = handle;
        handle.close = close;
      }
      gunzip.close();
      return [text, gunzip._handle];
    },
  ],
  [
    "the binding is closed after a synchronous chunk",
    () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const stream = zlib.createDeflate() as unknown as {
        _handle: unknown;
        _processChunk: (...args: unknown[]) => Buffer;
      };
      const packed = stream._processChunk(Buffer.from("x"), 4);
      return [zlib.inflateSync(packed).toString(), stream._handle];
    },
  ],
  [
    "without new, and as the constructor of a subclass",
    () => {
      const zlib = process.getBuiltinModule("node:zlib") as never as Record<string, new () => object>;
      const names = ["Deflate", "Inflate", "Gzip", "Gunzip", "DeflateRaw", "InflateRaw", "Unzip"];
      return names.map((name) => {
        const Made = zlib[name] as new () => object;
        class Mine extends Made {}
        const mine = new Mine();
        return [
          Made.name,
          mine.constructor.name,
          mine instanceof Made,
          (Made as never as () => object)() instanceof Made,
        ];
      });
    },
  ],
];

const CLOSE_CASES: readonly Case[] = [
  [
    "closes while a write is pending",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const events: string[] = [];
      const makers = [zlib.createGzip, zlib.createGunzip, zlib.createDeflateRaw, zlib.createBrotliCompress];
      for (const make of makers) {
        const stream = make();
        const input = make === zlib.createGunzip ? zlib.gzipSync("x") : Buffer.from("x");
        stream.on("data", () => events.push("data"));
        stream.on("error", (error) => events.push(error.message));
        const written = new Promise<void>((resolve) => {
          stream.write(input, (error) => {
            events.push(`written ${(error as { code?: string } | null)?.code}`);
            resolve();
          });
        });
        await new Promise((resolve) => {
          stream.on("close", resolve);
          stream.close();
        });
        events.push("close");
        await written;
      }
      // Node's thread pool determines the order of these events.
      return events.sort();
    },
  ],
  [
    "close() reports a stream that ended too early, and one that did not",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const early = zlib.createGzip();
      const first = await new Promise((resolve) => early.close(resolve as never));
      const late = zlib.createGzip();
      late.end("x");
      for await (const _ of late);
      const second = await new Promise((resolve) => late.close(resolve as never));
      return [(first as { code: string }).code, second ?? null, early.destroyed, late.destroyed];
    },
  ],
  [
    "ends an iteration early",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const stream = zlib.createInflate();
      stream.end(zlib.deflateSync(Buffer.alloc(1_000_000)));
      let first = 0;
      for await (const chunk of stream) {
        first = (chunk as Buffer).length;
        break;
      }
      return [first > 0, stream.destroyed];
    },
  ],
  [
    "cannot be written or reset when it is closed",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const stream = zlib.createGzip();
      stream.close();
      const error = await new Promise((resolve) => {
        stream.on("error", () => {});
        stream.write("x", resolve as never);
      });
      let reset = "";
      try {
        (stream as unknown as { reset: () => void }).reset();
      } catch (thrown) {
        reset = (thrown as Error).message.split("\n")[0] ?? "";
      }
      return [(error as { code: string }).code, reset];
    },
  ],
];

const DATA_CASES: readonly Case[] = [
  [
    "processes more than its buffers hold with a slow reader",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const { Writable, Readable } = process.getBuiltinModule("node:stream");
      const { pipeline } = process.getBuiltinModule("node:stream/promises");
      const { createHash } = process.getBuiltinModule("node:crypto");
      const hash = createHash("sha256");
      let size = 0;
      const sink = new Writable({
        highWaterMark: 1,
        write: (chunk: Buffer, _encoding, done) => {
          size += chunk.length;
          hash.update(chunk);
          queueMicrotask(done);
        },
      });
      const parts = Array.from({ length: 40 }, (_, index) => Buffer.alloc(20_000, `part ${index} `));
      await pipeline(
        Readable.from(parts),
        zlib.createGzip({ chunkSize: 64 }),
        zlib.createUnzip({ chunkSize: 100 }),
        sink,
      );
      return [size, hash.digest("hex")];
    },
  ],
  [
    "changes its level between writes",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const stream = zlib.createDeflate({ level: 0 });
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      const text = "the same again and again ".repeat(400);
      stream.write(text);
      await new Promise<void>((resolve) => stream.params(9, zlib.constants.Z_DEFAULT_STRATEGY, resolve));
      const plain = Buffer.concat(chunks).length;
      stream.write(text);
      await new Promise<void>((resolve) => stream.params(0, zlib.constants.Z_DEFAULT_STRATEGY, resolve));
      stream.end(text);
      await new Promise((resolve) => stream.on("end", resolve));
      const whole = Buffer.concat(chunks);
      return [
        plain > text.length,
        whole.length < 2.2 * text.length,
        zlib.inflateSync(whole).toString() === text.repeat(3),
      ];
    },
  ],
  [
    "reads the members of an archive in any pieces, and ignores trailing bytes",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const outcomes: unknown[] = [];
      const members = Buffer.concat([zlib.gzipSync("one "), zlib.gzipSync("two "), Buffer.from([0, 0, 1, 2])]);
      for (const make of [zlib.createGunzip, zlib.createUnzip]) {
        for (const size of [1, 7, 1_000]) {
          const stream = make();
          let text = "";
          stream.on("data", (chunk) => {
            text += String(chunk);
          });
          for (let at = 0; at < members.length; at += size) stream.write(members.subarray(at, at + size));
          stream.end();
          outcomes.push(
            await new Promise((resolve) =>
              stream.on("end", () => resolve(text)).on("error", (e) => resolve(e.message)),
            ),
          );
        }
      }
      return outcomes;
    },
  ],
  [
    "counts the bytes read",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const packed = Buffer.concat([zlib.deflateSync("abc"), Buffer.from("trailing")]);
      const stream = zlib.createInflate();
      stream.end(packed);
      for await (const _ of stream);
      const { buffer, engine } = zlib.inflateSync(packed, { info: true }) as never as {
        buffer: Buffer;
        engine: { bytesWritten: number };
      };
      return [stream.bytesWritten, String(buffer), engine.bytesWritten];
    },
  ],
  [
    "reports invalid input and options",
    async () => {
      const zlib = process.getBuiltinModule("node:zlib");
      const codeOf = (run: () => unknown): unknown => {
        try {
          return String(run());
        } catch (error) {
          const { code, message } = error as { code: string; message: string };
          return [code, message];
        }
      };
      const fail = (stream: NodeJS.ReadWriteStream, input: Buffer) =>
        new Promise((resolve) => {
          stream.on("error", (error: { code?: string; errno?: number; message: string }) =>
            resolve([error.code, error.errno, error.message]),
          );
          stream.on("data", () => {}).on("end", () => resolve("end"));
          stream.end(input);
        });
      const dictionary = Buffer.from("some words");
      const packed = zlib.deflateSync("some words again", { dictionary });
      return [
        codeOf(() => zlib.createGzip({ windowBits: 8 })),
        codeOf(() => zlib.createGzip({ level: 10 })),
        codeOf(() => zlib.createGzip({ chunkSize: 1 })),
        codeOf(() => zlib.createGzip({ flush: 9 })),
        codeOf(() => zlib.createInflate({ dictionary: "x" as never })),
        codeOf(() => zlib.inflateSync(packed)),
        codeOf(() => zlib.inflateSync(packed, { dictionary: Buffer.from("other") })),
        codeOf(() => zlib.inflateSync(packed, { dictionary })),
        codeOf(() => zlib.inflateRawSync(zlib.deflateRawSync("some words", { dictionary }), { dictionary })),
        codeOf(() => zlib.deflateSync("x".repeat(10_000), { maxOutputLength: 3 })),
        await fail(zlib.createGunzip(), Buffer.from("no archive")),
        await fail(zlib.createGunzip(), zlib.gzipSync("whole").subarray(0, -3)),
        await fail(zlib.createInflate(), packed),
        await fail(zlib.createInflate({ finishFlush: zlib.constants.Z_SYNC_FLUSH }), packed.subarray(0, 3)),
        await fail(zlib.createUnzip(), Buffer.alloc(0)),
      ];
    },
  ],
];

describe.for([
  ["the internals", INNER_CASES],
  ["a zlib stream", CLOSE_CASES],
  ["its data", DATA_CASES],
] as const)("%s", ([, cases]) => {
  test.for(cases)("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});
