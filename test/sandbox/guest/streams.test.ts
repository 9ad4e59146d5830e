// Compares the streams of the web platform in a guest with Node's own.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../support/guest.ts";

const like = (run: () => unknown): Promise<void> => expectLikeNode(run, undefined);

describe("ReadableStream", () => {
  test("is read by a reader, by iteration and through tee, from any iterable", () =>
    like(async () => {
      const seen: unknown[] = [];
      const stream = new ReadableStream<number>({
        start(controller) {
          seen.push(controller.desiredSize);
          for (const item of [1, 2, 3]) controller.enqueue(item);
          controller.close();
        },
      });
      const [left, right] = stream.tee();
      for await (const item of left) seen.push(item);
      const reader = right.getReader();
      for (let read = await reader.read(); !read.done; read = await reader.read()) seen.push(read.value);
      for await (const item of ReadableStream.from(["a", "b"])) seen.push(item);
      seen.push(stream.locked, await reader.closed);
      return seen;
    }));

  test("fills buffers of its reader", () =>
    like(async () => {
      const stream = new ReadableStream({
        type: "bytes",
        pull(controller) {
          const view = controller.byobRequest?.view as Uint8Array;
          view.set([1, 2, 3]);
          controller.byobRequest?.respond(3);
        },
      });
      const reader = stream.getReader({ mode: "byob" });
      const { value, done } = await reader.read(new Uint8Array(8));
      return [Array.from(value ?? []), value?.buffer.byteLength, done];
    }));

  test("pulls only on demand, and notifies its source of a cancellation", () =>
    like(async () => {
      const seen: unknown[] = [];
      const source = {
        pull: (controller: ReadableStreamDefaultController) => {
          seen.push("pull");
          controller.enqueue("x");
        },
        cancel: (reason: unknown) => {
          seen.push(reason);
        },
      };
      const stream = new ReadableStream(source, new CountQueuingStrategy({ highWaterMark: 2 }));
      await new Promise((resolve) => setTimeout(resolve, 5));
      seen.push("waits");
      await stream.cancel("enough");
      return seen;
    }));

  test("has an iterator that inherits from the engine's", async () => {
    const isOne = await inGuest(() => {
      const prototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype)) as object;
      return Object.prototype.isPrototypeOf.call(prototype, new ReadableStream().values());
    });
    expect(isOne).toBe(true);
  });
});

describe("pipes", () => {
  test("go through transforms to a writer, in order, and close it", () =>
    like(async () => {
      const seen: unknown[] = [];
      const double = new TransformStream<number, number>({
        transform: (item, controller) => controller.enqueue(item * 2),
        flush: (controller) => controller.enqueue(-1),
      });
      const sink = new WritableStream<number>({
        write: (item) => {
          seen.push(item);
        },
        close: () => {
          seen.push("closed");
        },
      });
      await ReadableStream.from([1, 2, 3]).pipeThrough(double).pipeTo(sink);
      return seen;
    }));

  test("end with the guest's own AbortSignal and DOMException", () =>
    like(async () => {
      const controller = new AbortController();
      const seen: unknown[] = [];
      const sink = new WritableStream({
        start: (it) => {
          seen.push(it.signal instanceof AbortSignal);
        },
        abort: (reason) => {
          seen.push((reason as Error).name);
        },
      });
      const piped = new ReadableStream().pipeTo(sink, { signal: controller.signal });
      controller.abort();
      const error = await piped.catch((thrown: unknown) => thrown);
      seen.push(error instanceof DOMException, (error as Error).name);
      return seen;
    }));

  test("propagate an error in both directions", () =>
    like(async () => {
      const seen: unknown[] = [];
      const failing = new WritableStream({
        write: () => {
          throw new RangeError("full");
        },
      });
      const source = new ReadableStream({
        pull: (controller) => controller.enqueue(1),
        cancel: (reason) => {
          seen.push((reason as Error).message);
        },
      });
      seen.push(await source.pipeTo(failing).catch((error: unknown) => (error as Error).name));
      return seen;
    }));
});

test("has every class of the standard under its name", async () => {
  const names = Object.getOwnPropertyNames(globalThis).filter((name) => /Stream(?!ify)|QueuingStrategy/.test(name));
  const wanted = names.filter((name) => !/^(Text|Compression|Decompression)/.test(name));
  expect(wanted.length).toBe(13);
  const found = await inGuest<readonly string[], unknown>(
    (all) => all.map((name) => (globalThis as never as { [name: string]: { name: string } })[name]?.name),
    wanted,
  );
  expect(found).toEqual(wanted);
});
