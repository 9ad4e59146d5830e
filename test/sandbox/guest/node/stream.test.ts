// Compares node:stream, node:readline and node:zlib in a guest with Node's own.
import { randomBytes } from "node:crypto";
import zlib from "node:zlib";
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

type Case = [why: string, run: () => unknown];

describe("node:stream", () => {
  test.for<Case>([
    [
      "pipes through transforms to the end",
      async () => {
        const { Readable, Transform, Writable, pipeline } = process.getBuiltinModule("node:stream");
        const seen: string[] = [];
        const upper = new Transform({
          transform(chunk, _encoding, done) {
            done(null, String(chunk).toUpperCase());
          },
          flush(done) {
            done(null, "!");
          },
        });
        const sink = new Writable({
          write(chunk, _encoding, done) {
            seen.push(String(chunk));
            done();
          },
        });
        const error = await new Promise((resolve) => pipeline(Readable.from(["a", "b"]), upper, sink, resolve));
        return [seen.join(""), error ?? null];
      },
    ],
    [
      "keeps as many bytes as in Node before it waits",
      async () => {
        const stream = process.getBuiltinModule("node:stream");
        const { text } = process.getBuiltinModule("node:stream/consumers");
        const { PassThrough, Readable, Writable } = stream;
        const passed = new PassThrough();
        // Nothing reads yet.
        await stream.promises.pipeline(Readable.from([Buffer.alloc(40_000, 97)]), passed);
        const sink = new Writable({ write: () => {} });
        return [
          (await text(passed)).length,
          new Readable().readableHighWaterMark,
          new Readable({ objectMode: true }).readableHighWaterMark,
          stream.getDefaultHighWaterMark(false),
          [sink.write(Buffer.alloc(20_000)), sink.write(Buffer.alloc(46_000))],
          process.getBuiltinModule("node:zlib").createGzip().readableHighWaterMark,
          process.getBuiltinModule("node:fs").createWriteStream("/tmp/high-water-mark").writableHighWaterMark,
        ];
      },
    ],
    [
      "gives the bytes of text to web streams",
      async () => {
        const { Duplex, Writable } = process.getBuiltinModule("node:stream");
        const { buffer } = process.getBuiltinModule("node:stream/consumers");
        const { gunzipSync } = process.getBuiltinModule("node:zlib");
        const zipped = Duplex.fromWeb(new CompressionStream("gzip") as never);
        zipped.end("text");
        const seen: unknown[] = [];
        const sink = Writable.fromWeb(new WritableStream({ write: (chunk) => void seen.push(typeof chunk) }));
        sink.write("é", "latin1");
        await new Promise((resolve) => sink.end(resolve));
        return [gunzipSync(await buffer(zipped)).toString(), seen];
      },
    ],
    [
      "tells the state of web streams, and when they end",
      async () => {
        const stream = process.getBuiltinModule("node:stream") as typeof import("node:stream") & {
          readonly isWritable: (value: unknown) => boolean | null;
          readonly isDisturbed: (value: unknown) => boolean;
        };
        const { finished, isDisturbed, isErrored, isReadable, isWritable } = stream;
        const end = (value: unknown): Promise<unknown> =>
          new Promise((resolve) => finished(value as never, (error) => resolve(error?.message ?? "ended")));
        const open = new ReadableStream({ pull: (controller) => controller.enqueue("a") }, { highWaterMark: 0 });
        const before = [isReadable(open as never), isErrored(open as never), isDisturbed(open)];
        const ends = end(open);
        const reader = open.getReader();
        await reader.read();
        await reader.cancel();
        const closed = new ReadableStream({ start: (controller) => controller.close() });
        const failed = new ReadableStream({ start: (controller) => controller.error(new Error("broken")) });
        const sink = new WritableStream();
        const isOpen = isWritable(sink);
        const sinkEnds = end(sink);
        await sink.close();
        const broken = new WritableStream();
        const breaks = end(broken);
        await broken.abort(new Error("stopped"));
        return [
          before,
          [isReadable(open as never), isDisturbed(open), await ends, await end(closed)],
          [isErrored(failed as never), isReadable(failed as never), await end(failed)],
          [isOpen, isWritable(sink), await sinkEnds, await breaks, isErrored(broken as never)],
        ];
      },
    ],
    [
      "connects two streams with duplexPair",
      async () => {
        const { duplexPair } = process.getBuiltinModule("node:stream") as unknown as {
          duplexPair(options?: object): [import("node:stream").Duplex, import("node:stream").Duplex];
        };
        const [left, right] = duplexPair({ highWaterMark: 4 });
        const seen: string[] = [];
        right.on("data", (chunk) => {
          seen.push(String(chunk));
          right.write(`${chunk}!`);
        });
        right.on("end", () => right.end("bye"));
        left.write("first");
        left.end("second");
        const answers: string[] = [];
        for await (const chunk of left) answers.push(String(chunk));
        return [seen, answers.join(""), left.writableFinished, right.readableEnded];
      },
    ],
    [
      "copies a web stream with ReadableStreamTee",
      async () => {
        const { ReadableStreamTee } = process.getBuiltinModule("node:stream/web") as unknown as {
          ReadableStreamTee(stream: ReadableStream, isCloned?: boolean): [ReadableStream, ReadableStream];
        };
        const copies: boolean[] = [];
        for (const isCloned of [false, true]) {
          const chunk = { a: 1 };
          const source = new ReadableStream({
            start(controller) {
              controller.enqueue(chunk);
              controller.close();
            },
          });
          const [first, second] = ReadableStreamTee(source, isCloned);
          const [one, two] = await Promise.all([first.getReader().read(), second.getReader().read()]);
          copies.push(one.value === chunk, two.value === chunk, two.value.a === 1);
        }
        return copies;
      },
    ],
    [
      "has the names that packages check",
      () => {
        const { Stream, Readable, Writable, Duplex, Transform, PassThrough } = process.getBuiltinModule("node:stream");
        const { AsyncResource } = process.getBuiltinModule("node:async_hooks");
        const classes = [Stream, Readable, Writable, Duplex, Transform, PassThrough, AsyncResource];
        return [...classes.map(({ name }) => name), new PassThrough().constructor.name];
      },
    ],
    [
      "iterates, maps and collects",
      async () => {
        const { Readable, PassThrough } = process.getBuiltinModule("node:stream");
        const { text, json, buffer } = process.getBuiltinModule("node:stream/consumers");
        const chunks: unknown[] = [];
        for await (const chunk of Readable.from([1, 2, 3]).map((x: number) => x * 2)) chunks.push(chunk);
        const pass = new PassThrough({ encoding: "utf8" });
        pass.write("ä");
        pass.end("b");
        return [
          chunks,
          await text(pass),
          await json(Readable.from(['{"a":', "1}"])),
          [...(await buffer(Readable.from([Buffer.from("x"), Buffer.from("y")])))],
          await Readable.from([1, 2, 3, 4])
            .filter((x: number) => x % 2 === 0)
            .toArray(),
        ];
      },
    ],
    [
      "fails as a whole",
      async () => {
        const { Readable, PassThrough } = process.getBuiltinModule("node:stream");
        const { pipeline, finished } = process.getBuiltinModule("node:stream/promises");
        const broken = Readable.from(
          (async function* () {
            yield "a";
            throw new TypeError("broken");
          })(),
        );
        const sink = new PassThrough();
        sink.resume();
        const message = await pipeline(broken, sink).catch((error: Error) => [error.name, error.message]);
        const early = new PassThrough();
        const closed = finished(early).catch((error: Error) => (error as { code?: string }).code);
        early.destroy();
        return [message, sink.destroyed, await closed];
      },
    ],
    [
      "applies backpressure to a fast writer",
      async () => {
        const { Writable } = process.getBuiltinModule("node:stream");
        const sink = new Writable({
          highWaterMark: 3,
          write(_chunk, _encoding, done) {
            setTimeout(done, 1);
          },
        });
        const first = sink.write("ab");
        const second = sink.write("cd");
        await new Promise((resolve) => sink.once("drain", resolve));
        sink.end();
        await new Promise((resolve) => sink.once("finish", resolve));
        return [first, second, sink.writableFinished, sink.writableEnded];
      },
    ],
    [
      "converts to and from web streams",
      async () => {
        const { Readable, Writable } = process.getBuiltinModule("node:stream");
        const web = new ReadableStream({
          start(controller) {
            controller.enqueue("a");
            controller.enqueue("b");
            controller.close();
          },
        });
        const there: unknown[] = await Readable.fromWeb(web as never, { objectMode: true }).toArray();
        const back: unknown[] = [];
        for await (const chunk of Readable.toWeb(Readable.from(["c", "d"])) as never as AsyncIterable<unknown>)
          back.push(chunk);
        const written: unknown[] = [];
        const sink = new WritableStream({
          write(chunk) {
            written.push(chunk);
          },
        });
        await new Promise((resolve) =>
          Writable.fromWeb(sink as never, { objectMode: true }).end("e", () => resolve(null)),
        );
        return [there, back, written];
      },
    ],
    [
      "can be inherited from as in old packages",
      async () => {
        const stream = process.getBuiltinModule("node:stream");
        const { inherits } = process.getBuiltinModule("node:util");
        function Counter(this: { _left: number }): void {
          (stream.Readable as never as { call(self: unknown): void }).call(this);
          this._left = 3;
        }
        inherits(Counter as never, stream.Readable as never);
        Counter.prototype._read = function () {
          this._left -= 1;
          this.push(this._left < 0 ? null : String(this._left));
        };
        const { Counter: Made } = { Counter: Counter as unknown as new () => AsyncIterable<unknown> };
        let text = "";
        for await (const chunk of new Made()) text += chunk;
        return [text, new Made() instanceof stream, (stream as { Stream?: unknown }).Stream === stream];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });

  test("readline reads the lines of a stream", async () => {
    await expectLikeNode(async () => {
      const { Readable } = process.getBuiltinModule("node:stream");
      const { createInterface } = process.getBuiltinModule("node:readline");
      const lines: string[] = [];
      for await (const line of createInterface({ input: Readable.from(["a\nb", "c\r\n", "d"]) })) lines.push(line);
      const events: string[] = [];
      const reader = createInterface({ input: Readable.from([Buffer.from("ä\n€")]) });
      reader.on("line", (line) => events.push(line));
      await new Promise((resolve) => reader.on("close", () => resolve(null)));
      return [lines, events];
    }, undefined);
  });
});

describe("node:zlib", () => {
  const text = "a text that repeats itself, a text that repeats itself, ".repeat(40);

  test("decompresses Node's output, and Node decompresses the guest's", async () => {
    const noise = randomBytes(20_000).toString("base64");
    const run = ({
      plain,
      packed,
    }: {
      readonly plain: string;
      readonly packed: readonly [string, string][];
    }): unknown => {
      const here = process.getBuiltinModule("node:zlib") as unknown as {
        readonly [name: string]: (x: unknown, o?: object) => Buffer;
      };
      return [
        packed.map(([name, data]) => here[`${name}Sync`]?.(Buffer.from(data, "base64")).toString() === plain),
        ["gzip", "deflate", "deflateRaw"].map((name) => here[`${name}Sync`]?.(plain, { level: 9 }).toString("base64")),
      ];
    };
    for (const plain of [text, noise, ""]) {
      const packed = [
        ["gunzip", zlib.gzipSync(plain).toString("base64")],
        ["inflate", zlib.deflateSync(plain, { level: 1 }).toString("base64")],
        ["inflateRaw", zlib.deflateRawSync(plain).toString("base64")],
        ["unzip", zlib.gzipSync(plain).toString("base64")],
        ["unzip", zlib.deflateSync(plain).toString("base64")],
      ] as [string, string][];
      const [read, made] = (await inGuest(run, { plain, packed })) as [boolean[], [string, string, string]];
      expect(read).toEqual([true, true, true, true, true]);
      const [gzip, deflate, raw] = made.map((data) => Buffer.from(data, "base64")) as [Buffer, Buffer, Buffer];
      expect(zlib.gunzipSync(gzip).toString()).toBe(plain);
      expect(zlib.inflateSync(deflate).toString()).toBe(plain);
      expect(zlib.inflateRawSync(raw).toString()).toBe(plain);
    }
  });

  test.for<Case>([
    [
      "works as a stream, with callbacks and with promises",
      async () => {
        const { createGzip, createGunzip, gzip, gunzip, deflate } = process.getBuiltinModule("node:zlib");
        const { Readable } = process.getBuiltinModule("node:stream");
        const { promisify } = process.getBuiltinModule("node:util");
        const chunks: string[] = [];
        const parts = Array.from({ length: 50 }, (_, index) => `part ${index} `);
        for await (const chunk of Readable.from(parts).pipe(createGzip()).pipe(createGunzip()))
          chunks.push(String(chunk));
        const packed = (await promisify(gzip)("hello")) as Buffer;
        const { Gzip } = process.getBuiltinModule("node:zlib") as unknown as { Gzip: new () => NodeJS.ReadWriteStream };
        class Mine extends Gzip {}
        chunks.push(String(new Mine() instanceof Gzip));
        const callback = await new Promise((resolve) =>
          deflate("x", (error, result) => resolve([error, result.length > 0])),
        );
        return [chunks.join(""), String(await promisify(gunzip)(packed)), callback];
      },
    ],
    [
      "flushes its output",
      async () => {
        const { createDeflate, createInflate } = process.getBuiltinModule("node:zlib");
        const deflate = createDeflate();
        const inflate = createInflate();
        deflate.pipe(inflate);
        deflate.write("early");
        deflate.flush();
        const first = await new Promise((resolve) => inflate.once("data", (chunk) => resolve(String(chunk))));
        return first;
      },
    ],
    [
      "reports damaged data",
      () => {
        const { gunzipSync, inflateSync, gzipSync, deflateSync, crc32 } = process.getBuiltinModule("node:zlib");
        const outcome = (run: () => unknown): unknown => {
          try {
            return String(run());
          } catch (error) {
            const { message, code, errno } = error as { [name: string]: unknown };
            return [message, code, errno];
          }
        };
        const whole = gzipSync("hello hello hello");
        return [
          outcome(() => gunzipSync(Buffer.from("not packed"))),
          outcome(() => inflateSync(Buffer.from("not packed"))),
          outcome(() => gunzipSync(whole.subarray(0, -5))),
          outcome(() => inflateSync(deflateSync("x"), { maxOutputLength: 10 })),
          outcome(() => gunzipSync(gzipSync("x".repeat(100)), { maxOutputLength: 10 }))?.constructor === Array,
          outcome(() => gunzipSync(Buffer.concat([gzipSync("a"), gzipSync("b")]))),
          outcome(() =>
            inflateSync(deflateSync("x", { dictionary: Buffer.from("abc") }), { dictionary: Buffer.from("abc") }),
          ),
          crc32("hello"),
          crc32(Buffer.from("world"), crc32("hello ")),
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});
