// Tests of the frames: chunk boundaries of the stream do not matter, and invalid bytes are rejected at once.

import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Frame,
  FrameError,
  FrameReader,
  FrameWriter,
  MAX_FRAME_BYTES,
} from "../../src/sandbox/protocol/frames.ts";

type Part = string | Uint8Array;
interface Sent {
  readonly message: object;
  readonly parts: readonly Part[];
}

/** Returns a socket and the bytes written to it. */
function collect(): { readonly socket: Socket; readonly written: Buffer[] } {
  const written: Buffer[] = [];
  const socket = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk);
      done();
    },
  });
  return { socket: socket as unknown as Socket, written };
}

async function bytesOf(frames: readonly Sent[]): Promise<Buffer> {
  const { socket, written } = collect();
  const writer = new FrameWriter(socket);
  for (const { message, parts } of frames) writer.write(message, parts);
  await new Promise((resolve) => setImmediate(resolve));
  socket.end();
  await new Promise((resolve) => socket.once("finish", resolve));
  return Buffer.concat(written);
}

const toBuffer = (part: Part): Buffer => Buffer.from(part as string);
const shape = (frames: readonly Frame[]): unknown =>
  frames.map(([message, ...parts]) => [JSON.parse(message.toString()), parts.map((part) => part.toString("hex"))]);
const expected = (frames: readonly Sent[]): unknown =>
  frames.map(({ message, parts }) => [
    JSON.parse(JSON.stringify(message)),
    parts.map((part) => toBuffer(part).toString("hex")),
  ]);

/** Returns a frame with an arbitrary head, for invalid lengths. */
function rawFrame(total: number, count: number, lengths: readonly number[], body = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(8 + lengths.length * 4);
  head.writeUInt32LE(total, 0);
  head.writeUInt32LE(count, 4);
  lengths.forEach((length, index) => {
    head.writeUInt32LE(length, 8 + index * 4);
  });
  return Buffer.concat([head, body]);
}

const part = fc.oneof(fc.string({ unit: "binary", maxLength: 40 }), fc.uint8Array({ maxLength: 200 }));
const sent = fc.record({
  message: fc.dictionary(fc.string(), fc.jsonValue()),
  parts: fc.array(part, { maxLength: 3 }),
});

/** Returns the frames that these bytes complete. */
function read(reader: FrameReader, bytes: Buffer): readonly Frame[] {
  const frames: Frame[] = [];
  reader.push(bytes, (frame) => frames.push(frame));
  return frames;
}

describe("FrameReader.push()", () => {
  test("delivers the valid frames before an invalid one", async () => {
    const good = await bytesOf([{ message: { n: 1 }, parts: ["one"] }]);
    const frames: Frame[] = [];
    const bytes = Buffer.concat([good, rawFrame(0, 1, [0])]);
    expect(() => new FrameReader().push(bytes, (frame) => frames.push(frame))).toThrow(FrameError);
    expect(frames.map((frame) => frame[1]?.toString())).toEqual(["one"]);
  });

  test("returns the written frames for any chunk boundaries", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(sent, { maxLength: 6 }),
        fc.array(fc.nat(), { maxLength: 12 }),
        async (frames, cuts) => {
          const bytes = await bytesOf(frames);
          const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
          const reader = new FrameReader();
          const got = places.slice(1).flatMap((end, index) => read(reader, bytes.subarray(places[index], end)));
          expect(shape(got)).toEqual(expected(frames));
        },
      ),
    );
  });

  test("returns the frames of a stream that arrives byte by byte", async () => {
    const frames = [
      { message: { type: "a", text: "é€😀" }, parts: ["", "text", new Uint8Array([0, 255])] },
      { message: {}, parts: [] },
    ];
    const reader = new FrameReader();
    const got = [...(await bytesOf(frames))].flatMap((byte) => read(reader, Buffer.from([byte])));
    expect(shape(got)).toEqual(expected(frames));
  });

  test("returns parts that do not change when the next chunk arrives", async () => {
    const first = await bytesOf([{ message: { n: 1 }, parts: ["one"] }]);
    const second = await bytesOf([{ message: { n: 2 }, parts: ["two"] }]);
    const reader = new FrameReader();
    const [frame] = read(reader, first);
    read(reader, second);
    expect(frame?.[1]?.toString()).toBe("one");
  });

  test("of a trusted peer, returns the written frames for any chunk boundaries, also when a chunk's memory is reused", async () => {
    const large = fc.tuple(fc.integer({ min: 60_000, max: 200_000 }), fc.nat(255));
    const largeFrame = large.map(([size, value]) => ({ message: {}, parts: [Buffer.alloc(size, value)] }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(sent, largeFrame), { maxLength: 5 }),
        fc.array(fc.nat(), { maxLength: 12 }),
        async (frames, cuts) => {
          const bytes = await bytesOf(frames);
          const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
          const reader = new FrameReader({ trustsLengths: true });
          const memory = Buffer.alloc(bytes.length);
          const got = places.slice(1).flatMap((end, index) => {
            const count = bytes.copy(memory, 0, places[index], end);
            return read(reader, memory.subarray(0, count));
          });
          memory.fill(0xff);
          expect(shape(got)).toEqual(expected(frames));
        },
      ),
    );
  });

  test("returns large parts completely", async () => {
    const large = Buffer.alloc(3 * 1024 * 1024, "x");
    const bytes = await bytesOf([{ message: { large: true }, parts: [large] }]);
    const reader = new FrameReader();
    const whole: Frame[] = [];
    for (let at = 0; at < bytes.length; at += 65_536) whole.push(...read(reader, bytes.subarray(at, at + 65_536)));
    expect(whole[0]?.[1]?.equals(large)).toBe(true);
  });

  test.for<[why: string, bytes: Buffer]>([
    ["a length of zero", rawFrame(0, 1, [0])],
    ["a length too short for a part", rawFrame(7, 1, [0])],
    ["a length above the maximum", rawFrame(MAX_FRAME_BYTES + 1, 1, [0])],
    ["a length of 4 GiB", rawFrame(0xffffffff, 1, [0])],
    ["no parts", rawFrame(8, 0, [0])],
    ["too many parts", rawFrame(4 + 8 * 4, 8, [0, 0, 0, 0, 0, 0, 0, 0])],
    ["4 billion parts", rawFrame(8, 0xffffffff, [0])],
    ["more parts than its head has lengths", rawFrame(8, 4, [0])],
    ["a part that ends after the frame", rawFrame(8, 1, [1])],
    ["a part of 4 GiB", rawFrame(8 + 2, 1, [0xffffffff], Buffer.from("{}"))],
    ["bytes after the last part", rawFrame(8 + 2, 1, [1], Buffer.from("{}"))],
  ])("throws FrameError for %s", ([, bytes]) => {
    expect(() => read(new FrameReader(), bytes)).toThrow(FrameError);
  });

  test("does not allocate memory for a length that is only claimed", () => {
    const reader = new FrameReader();
    const before = process.memoryUsage().arrayBuffers;
    expect(read(reader, rawFrame(MAX_FRAME_BYTES, 1, [0]))).toEqual([]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
  });

  test("accepts a smaller maximum for a less trusted peer", () => {
    expect(() => read(new FrameReader({ maxFrameBytes: 16 }), rawFrame(17, 1, [9], Buffer.alloc(9)))).toThrow(
      FrameError,
    );
    expect(read(new FrameReader({ maxFrameBytes: 16 }), rawFrame(16, 1, [8], Buffer.from('{"a": 1}')))).toHaveLength(1);
  });

  test("turns random bytes into frames or a FrameError", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 20 }), (chunks) => {
        const reader = new FrameReader();
        try {
          for (const chunk of chunks)
            for (const frame of read(reader, Buffer.from(chunk))) expect(frame.length).toBeLessThan(5);
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("turns a frame with one changed byte into frames or a FrameError", async () => {
    const bytes = await bytesOf([{ message: { type: "call", seq: 1 }, parts: ["{}", "x"] }]);
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 0, max: 255 }), (at, value) => {
        const changed = Buffer.from(bytes);
        changed[at] = value;
        try {
          read(new FrameReader(), changed);
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
    );
  });
});

describe("FrameWriter.write()", () => {
  test("throws FrameError for a frame that is too large", () => {
    const writer = new FrameWriter(collect().socket);
    expect(() => writer.write({}, [Buffer.allocUnsafe(MAX_FRAME_BYTES)])).toThrow(FrameError);
  });

  /** Returns a writer whose socket completes one write at a time, on request. */
  function slowWriter() {
    const writes: { readonly bytes: number; readonly take: () => void }[] = [];
    const socket = new Duplex({
      read() {},
      write(chunk: Buffer, _encoding, done) {
        writes.push({ bytes: chunk.length, take: done });
      },
    });
    return { writer: new FrameWriter(socket as unknown as Socket), writes };
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  test("writes small frames of one tick as one buffer", async () => {
    const { writer, writes } = slowWriter();
    for (let index = 0; index < 5; index += 1) writer.write({ index });
    await turn();
    expect(writes.map(({ bytes }) => bytes)).toEqual([5 * (12 + '{"index":0}'.length)]);
  });

  test("reports that the peer cannot have read an incomplete large frame or any later frame", async () => {
    const { writer, writes } = slowWriter();
    const small = writer.write({});
    expect(writer.mayBeRead(small)).toBe(false);
    const large = writer.write({}, ["x".repeat(200_000)]);
    const after = writer.write({});
    await turn();
    const readable = () => [small, large, after].map((frame) => writer.mayBeRead(frame));
    expect(readable()).toEqual([true, false, false]);
    for (let taken = 0; taken < 3; taken += 1) {
      writes[taken]?.take();
      await turn();
      expect(readable()).toEqual([true, false, false]);
    }
    writes[3]?.take();
    await turn();
    expect(readable()).toEqual([true, true, true]);
  });

  test("reports the unsent bytes, and writes nothing to a destroyed socket", async () => {
    const { socket, written } = collect();
    const writer = new FrameWriter(socket);
    writer.write({ held: true });
    expect(writer.pendingBytes).toBeGreaterThan(0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(writer.pendingBytes).toBe(0);
    socket.destroy();
    writer.write({ lost: true });
    expect(Buffer.concat(written).toString()).not.toContain("lost");
  });
});
