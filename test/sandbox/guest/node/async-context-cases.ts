// Cases for the propagation of an AsyncLocalStorage, which run in Node and, bundled, in a guest. async-context.test.ts compares the
// results. Each case returns the stores that it has seen, in order.
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { pbkdf2, randomBytes } from "node:crypto";
import { channel, tracingChannel } from "node:diagnostics_channel";
import { EventEmitter, EventEmitterAsyncResource, on, once } from "node:events";
import { promises as fs, readFile } from "node:fs";
import { finished, PassThrough, Readable, Transform, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import timers from "node:timers";
import { setTimeout as sleep, setInterval as ticks, setImmediate as turn } from "node:timers/promises";
import { callbackify, promisify } from "node:util";
import { gzip } from "node:zlib";

type Case = () => unknown;

const als = new AsyncLocalStorage<string>();
const store = (): string => als.getStore() ?? "-";
const later = (ms = 1): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Returns the store that a callback sees if it is passed in context `a` and called later. */
const seenBy = (hand: (see: () => void) => unknown): Promise<string> =>
  new Promise((resolve) => als.run("a", () => void hand(() => resolve(store()))));

const { fromAsync } = Array as unknown as {
  fromAsync(items: Iterable<unknown> | AsyncIterable<unknown>, map?: (item: unknown) => unknown): Promise<unknown[]>;
};

async function nested(depth: number): Promise<string> {
  await null;
  return depth === 0 ? store() : await nested(depth - 1);
}

async function* letters(): AsyncGenerator<string> {
  yield `1${store()}`;
  await null;
  yield `2${store()}`;
  await later();
  yield `3${store()}`;
}

class Account {
  name = "acc";
  async where(): Promise<string> {
    await null;
    return `${this.name}:${store()}`;
  }
  static async make(): Promise<string> {
    await null;
    return `static:${store()}`;
  }
  inArrow = async (): Promise<string> => {
    await null;
    return store();
  };
}
class Savings extends Account {
  override async where(): Promise<string> {
    await null;
    return `${await super.where()}:${store()}`;
  }
}

export const cases: { readonly [name: string]: Case } = {
  "await of a value": () => als.run("a", async () => [store(), await null, store()]),
  "await of a promise": () => als.run("a", async () => [await Promise.resolve(1), store()]),
  "await of a timer": () => als.run("a", async () => [await later(), store()]),
  "nested awaits": () => als.run("a", async () => [await await Promise.resolve(Promise.resolve(1)), store()]),
  "await in an arrow that is an expression": () => als.run("a", async () => (await null) ?? store()),
  "await in a template, a call, an array": () =>
    als.run("a", async () => [`${await null}${store()}`, [await 1, store()], String(await store())]),
  "await in arguments keeps their order": () =>
    als.run("a", async () =>
      ((...all: unknown[]) => all)(
        store(),
        await als.run("b", async () => {
          await null;
          return store();
        }),
        store(),
      ),
    ),
  "await of a rejected promise, caught": () =>
    als.run("a", async () => {
      try {
        await Promise.reject(new Error("x"));
      } catch {
        return store();
      }
      return "?";
    }),
  "await of a rejected promise, in finally": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      await (async () => {
        try {
          await Promise.reject(new Error("x"));
        } finally {
          seen.push(store());
          await null;
          seen.push(store());
        }
      })().catch(() => seen.push(`caught ${store()}`));
      return [...seen, store()];
    }),
  "a later throw, caught": () =>
    als.run("a", async () => {
      try {
        await null;
        als.enterWith("b");
        throw new Error("x");
      } catch {
        return store();
      } finally {
        als.enterWith("c");
      }
    }),
  "deep calls": () => als.run("a", () => nested(20)),
  "methods, statics, super and fields": () =>
    als.run("a", async () => [
      await new Savings().where(),
      await Account.make(),
      await new Account().inArrow(),
      store(),
    ]),
  "two concurrent flows": async () => {
    const flow = (name: string, ms: number): Promise<string[]> =>
      als.run(name, async () => {
        const seen = [store()];
        for (let index = 0; index < 3; index += 1) {
          await later(ms);
          seen.push(store());
          await null;
          seen.push(store());
        }
        return seen;
      });
    return [...(await Promise.all([flow("a", 1), flow("b", 1), flow("c", 2)])), store()];
  },
  "a hundred concurrent flows of microtasks": async () => {
    const flow = (name: string): Promise<boolean> =>
      als.run(name, async () => {
        for (let index = 0; index < 10; index += 1) {
          await null;
          if (store() !== name) return false;
        }
        return true;
      });
    return (await Promise.all(Array.from({ length: 100 }, (_, index) => flow(`n${index}`)))).every(Boolean);
  },
  "outside after run": async () => {
    const running = als.run("a", () => later());
    const seen = [store()];
    await null;
    seen.push(store());
    await running;
    return [...seen, store()];
  },
  "run within run": () =>
    als.run("a", async () => {
      const inner = await als.run("b", async () => {
        await null;
        return store();
      });
      return [inner, store()];
    }),
  exit: () =>
    als.run("a", async () => [
      await als.exit(async () => {
        await null;
        return store();
      }),
      store(),
    ]),
  "enterWith within a function, seen by its caller": async () => {
    const enter = async (): Promise<void> => {
      als.enterWith("e");
      await null;
    };
    return await als.run("a", async () => {
      const entered = enter();
      const seen = [store()];
      await entered;
      return [...seen, store()];
    });
  },
  "enterWith after an await, not seen by its caller": () =>
    als.run("a", async () => {
      const enter = async (): Promise<string> => {
        await null;
        als.enterWith("e");
        await null;
        return store();
      };
      return [await enter(), store()];
    }),
  "enterWith applies to later code": () =>
    als.run("a", async () => {
      als.enterWith("e");
      const inTimer = new Promise((resolve) => setTimeout(() => resolve(store()), 1));
      await null;
      return [store(), await inTimer, store()];
    }),
  "enterWith in a callback ends with it": async () => {
    const first = new Promise<void>((resolve) =>
      setTimeout(() => {
        als.enterWith("t");
        resolve();
      }, 1),
    );
    await first;
    const seen = [store()];
    await new Promise<void>((resolve) => setTimeout(() => resolve(void seen.push(store())), 1));
    return seen;
  },
  "enterWith does not affect earlier callbacks": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      const before = Promise.resolve().then(() => seen.push(store()));
      als.enterWith("b");
      await before;
      return [...seen, store()];
    }),
  disable: () => {
    const own = new AsyncLocalStorage<string>();
    return own.run("a", async () => {
      await null;
      own.disable();
      const off = own.getStore() ?? "-";
      const again = own.run("b", () => own.getStore());
      return [off, again];
    });
  },
  "defaultValue and name": async () => {
    const own = new AsyncLocalStorage({ defaultValue: "d", name: "n" });
    const inner = await own.run("x", async () => {
      await null;
      return own.getStore();
    });
    return [own.getStore(), own.name, inner, own.run(undefined as never, () => own.getStore() ?? "undefined")];
  },
  "two storages": () => {
    const other = new AsyncLocalStorage<number>();
    return als.run("a", () =>
      other.run(1, async () => {
        await null;
        const inner = await als.run("b", async () => {
          await null;
          return [store(), other.getStore()];
        });
        return [inner, store(), other.getStore(), als.exit(() => [store(), other.getStore()])];
      }),
    );
  },
  snapshot: async () => {
    const snapshot = als.run("a", () => AsyncLocalStorage.snapshot());
    await null;
    return [
      snapshot(store),
      await snapshot(async () => {
        await null;
        return store();
      }),
      store(),
    ];
  },
  "AsyncLocalStorage.bind": async () => {
    const bound = als.run("a", () =>
      AsyncLocalStorage.bind(async (x: number) => {
        await null;
        return [x, store()];
      }),
    );
    return [await als.run("b", () => bound(1)), store()];
  },
  AsyncResource: async () => {
    const resource = als.run("a", () => new AsyncResource("X"));
    const bound = als.run("b", () => AsyncResource.bind(() => store()));
    return [
      await resource.runInAsyncScope(
        async (x: number) => {
          await null;
          return [x, store()];
        },
        undefined,
        1,
      ),
      bound(),
      resource.bind(() => store())(),
      store(),
    ];
  },
  "AsyncResource in a pool": async () => {
    class Job extends AsyncResource {
      readonly #done: (value: string) => void;
      constructor(done: (value: string) => void) {
        super("Job");
        this.#done = done;
      }
      finish(): void {
        this.runInAsyncScope(this.#done, null, "done");
      }
    }
    const seen: string[] = [];
    const job = als.run("a", () => new Job((value) => seen.push(value, store())));
    await later();
    als.run("pool", () => job.finish());
    return seen;
  },
  "then, catch, finally": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      await Promise.resolve()
        .then(() => seen.push(store()))
        .then(() => Promise.reject(new Error("x")))
        .catch(() => seen.push(store()))
        .finally(() => seen.push(store()));
      return seen;
    }),
  "a promise of another context": async () => {
    let resolve: (value: string) => void = () => undefined;
    const promise = als.run("a", () => new Promise<string>((done) => (resolve = done)));
    const waiting = als.run("b", async () => [await promise, store()]);
    als.run("c", () => resolve("x"));
    return await waiting;
  },
  "all, allSettled, race, any": () =>
    als.run("a", async () => {
      const one = async (): Promise<string> => {
        await later();
        return store();
      };
      return [
        await Promise.all([one(), one()]),
        (await Promise.allSettled([one()])).length,
        await Promise.race([one()]),
        await Promise.any([one()]),
        store(),
      ];
    }),
  "Promise.withResolvers and Promise.try": () =>
    als.run("a", async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      setTimeout(resolve, 1);
      await promise;
      return [
        store(),
        await (Promise as unknown as { try<T>(run: () => T): T }).try(async () => {
          await null;
          return store();
        }),
      ];
    }),
  "a thenable that is awaited": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      const thenable = {
        // biome-ignore lint/suspicious/noThenProperty: the case tests a thenable
        then(resolve: (value: string) => void): void {
          seen.push(store());
          setTimeout(() => resolve(store()), 1);
        },
      };
      return [await thenable, ...seen, store()];
    }),
  "a subclass of Promise that is awaited": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      class Lazy extends Promise<string> {
        // biome-ignore lint/suspicious/noThenProperty: the case tests a thenable
        override then<A = string, B = never>(
          done?: ((value: string) => A | PromiseLike<A>) | null,
          failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
        ): Promise<A | B> {
          seen.push(store());
          return super.then(done, failed);
        }
      }
      return [await new Lazy((resolve) => resolve("x")), ...seen, store()];
    }),
  "order of microtasks": async () => {
    const seen: string[] = [];
    const walk = async (name: string): Promise<void> => {
      for (let index = 0; index < 3; index += 1) {
        await null;
        seen.push(name + index);
      }
    };
    await Promise.all([
      walk("a"),
      Promise.resolve()
        .then(() => seen.push("t0"))
        .then(() => seen.push("t1")),
      walk("b"),
    ]);
    return seen;
  },
  "for await over a generator": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      for await (const letter of letters()) seen.push(letter, store());
      return [...seen, store()];
    }),
  "for await over plain values and promises": () =>
    als.run("a", async () => {
      const seen: unknown[] = [];
      for await (const value of [1, Promise.resolve(2), later()]) seen.push(value ?? "-", store());
      return [...seen, store()];
    }),
  "for await with break, continue and labels": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      outer: for await (const letter of letters()) {
        for await (const other of letters()) {
          if (other.startsWith("2")) continue outer;
          seen.push(letter + other, store());
        }
      }
      seen.push(store());
      for await (const letter of letters()) {
        seen.push(letter);
        break;
      }
      return [...seen, store()];
    }),
  "for await as the only statement": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      if (seen.length === 0) for await (const letter of letters()) seen.push(letter);
      else seen.push("never");
      return [...seen, store()];
    }),
  "for await over an iterator that fails": () =>
    als.run("a", async () => {
      async function* failing(): AsyncGenerator<number> {
        yield 1;
        await null;
        throw new Error("x");
      }
      const seen: unknown[] = [];
      try {
        for await (const value of failing()) seen.push(value, store());
      } catch {
        seen.push(`caught ${store()}`);
      }
      return seen;
    }),
  "for await over rejected promises": () =>
    als.run("a", async () => {
      const seen: unknown[] = [];
      try {
        for await (const value of [1, Promise.reject(new Error("x"))]) seen.push(value, store());
      } catch (error) {
        seen.push((error as Error).message, store());
      }
      try {
        for await (const value of 5 as unknown as AsyncIterable<number>) seen.push(value);
      } catch (error) {
        seen.push((error as Error).name, store());
      }
      return seen;
    }),
  "a generator resumes in its reader's context": async () => {
    const generator = letters();
    return [
      await als.run("a", () => generator.next()),
      await als.run("b", () => generator.next()),
      await als.run("c", () => generator.next()),
      store(),
    ];
  },
  "a generator that is returned early": async () => {
    const seen: string[] = [];
    async function* guarded(): AsyncGenerator<number> {
      try {
        yield 1;
        yield 2;
      } finally {
        seen.push(store());
        await null;
        seen.push(store());
      }
    }
    await als.run("a", async () => {
      for await (const _ of guarded()) break;
      seen.push(store());
    });
    return seen;
  },
  "a generator that is thrown into": async () => {
    const seen: string[] = [];
    async function* guarded(): AsyncGenerator<number> {
      try {
        yield 1;
      } catch {
        seen.push(store());
        await null;
        seen.push(store());
      }
    }
    const generator = guarded();
    await als.run("a", () => generator.next());
    await als.run("b", () => generator.throw(new Error("x")));
    return seen;
  },
  "yield*": () =>
    als.run("a", async () => {
      async function* outer(): AsyncGenerator<string, string> {
        yield* letters();
        yield* [store(), "plain"];
        return store();
      }
      const seen: unknown[] = [];
      const generator = outer();
      for (;;) {
        const { done, value } = await generator.next();
        seen.push(value, store());
        if (done) return seen;
      }
    }),
  "values sent to a generator": () =>
    als.run("a", async () => {
      async function* echo(): AsyncGenerator<string, void, string> {
        let word = "";
        for (;;) word = yield `${word}${store()}`;
      }
      const generator = echo();
      return [(await generator.next("x")).value, (await generator.next("y")).value, (await generator.return()).done];
    }),
  "await using": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      const open = (name: string): AsyncDisposable => ({
        async [Symbol.asyncDispose]() {
          seen.push(name, store());
          await later();
          seen.push(name, store());
        },
      });
      {
        await using first = open("1");
        await using second = open("2");
        seen.push(typeof first, typeof second, store());
      }
      return [...seen, store()];
    }),
  "functions that are declared twice": () =>
    als.run("a", async () => {
      await null;
      var twice = 1;
      return [inner(), twice, store()];
      function inner(): string {
        return store();
      }
    }),
  "a directive is kept": () =>
    als.run("a", async function (this: unknown) {
      await null;
      return [typeof this, store()];
    }),
  "arguments are kept": () =>
    als.run("a", () =>
      (async function (..._given: number[]) {
        await null;
        // biome-ignore lint/complexity/noArguments: that is the case
        return [arguments.length, store()];
      })(1, 2, 3),
    ),
  "Array.fromAsync": () =>
    als.run("a", async () => [
      await fromAsync(letters()),
      await fromAsync([1, 2], async (value) => {
        await null;
        return `${value}${store()}`;
      }),
      store(),
    ]),
  setTimeout: () => seenBy((see) => setTimeout(see, 1)),
  setInterval: () =>
    seenBy((see) => {
      const timer = setInterval(() => {
        clearInterval(timer);
        see();
      }, 1);
    }),
  setImmediate: () => seenBy((see) => setImmediate(see)),
  queueMicrotask: () => seenBy((see) => queueMicrotask(see)),
  "process.nextTick": () => seenBy((see) => process.nextTick(see)),
  "node:timers/promises": () => als.run("a", async () => [await sleep(1, "x"), store(), await turn("y"), store()]),
  "util.promisify": () =>
    als.run("a", async () => {
      const wait = promisify((done: (error: null, value: string) => void) => setTimeout(() => done(null, store()), 1));
      return [await wait(), store()];
    }),
  "a listener of an EventEmitter": async () => {
    const emitter = new EventEmitter();
    const seen: string[] = [];
    als.run("a", () => emitter.on("x", () => seen.push(store())));
    als.run("b", () => emitter.emit("x"));
    emitter.emit("x");
    return seen;
  },
  "events.once and events.on": () =>
    als.run("a", async () => {
      const emitter = new EventEmitter();
      setTimeout(() => als.run("b", () => emitter.emit("x", 1)), 1);
      const [value] = await once(emitter, "x");
      const seen: unknown[] = [value, store()];
      setTimeout(() => als.run("c", () => emitter.emit("y", 2)), 1);
      for await (const [other] of on(emitter, "y")) {
        seen.push(other, store());
        break;
      }
      return [...seen, store()];
    }),
  "a listener of an EventTarget": async () => {
    const target = new EventTarget();
    const seen: string[] = [];
    als.run("a", () => target.addEventListener("x", () => seen.push(store())));
    als.run("b", () => target.dispatchEvent(new Event("x")));
    return seen;
  },
  "a listener of an AbortSignal": async () => {
    const controller = new AbortController();
    const seen: string[] = [];
    als.run("a", () => controller.signal.addEventListener("abort", () => seen.push(store())));
    als.run("b", () => controller.abort());
    return seen;
  },
  "AbortSignal.any": async () => {
    const controller = new AbortController();
    const seen: string[] = [];
    als.run("a", () => {
      AbortSignal.any([controller.signal]).onabort = () => seen.push(store());
    });
    als.run("b", () => controller.abort());
    return seen;
  },
  "AbortSignal.timeout": async () => {
    const signal = als.run("a", () => AbortSignal.timeout(1));
    return await new Promise((resolve) => als.run("b", () => signal.addEventListener("abort", () => resolve(store()))));
  },
  "a message of a MessagePort": async () => {
    const { port1, port2 } = als.run("channel", () => new MessageChannel());
    const seen = new Promise((resolve) =>
      als.run("listener", () => {
        port2.onmessage = () => resolve(store());
      }),
    );
    als.run("sender", () => port1.postMessage("x"));
    const found = await seen;
    port1.close();
    return found;
  },
  "a ReadableStream's reader": () =>
    als.run("a", async () => {
      const stream = new ReadableStream({
        async pull(controller) {
          await later();
          controller.enqueue("x");
          controller.close();
        },
      });
      const seen: unknown[] = [];
      for await (const value of stream) seen.push(value, store());
      return [...seen, store()];
    }),
  "a TransformStream between": () =>
    als.run("a", async () => {
      const upper = new TransformStream<string, string>({
        async transform(chunk, controller) {
          await null;
          controller.enqueue(chunk.toUpperCase());
        },
      });
      const seen: unknown[] = [];
      for await (const value of ReadableStream.from(["x", "y"]).pipeThrough(upper)) seen.push(value, store());
      return seen;
    }),
  "text of a Response and a Blob": () =>
    als.run("a", async () => [await new Response("x").text(), store(), await new Blob(["y"]).text(), store()]),
  "node:stream, read by for await": () =>
    als.run("a", async () => {
      const seen: unknown[] = [];
      for await (const value of Readable.from(["x", "y"])) seen.push(value, store());
      return [...seen, store()];
    }),
  "node:stream, data and end": () =>
    als.run(
      "a",
      () =>
        new Promise((resolve) => {
          const seen: unknown[] = [];
          const stream = new PassThrough();
          stream.on("data", (chunk) => seen.push(String(chunk), store()));
          stream.on("end", () => resolve([...seen, store()]));
          setTimeout(() => stream.end("x"), 1);
        }),
    ),
  "node:stream, pipeline": () =>
    als.run("a", async () => {
      const seen: unknown[] = [];
      await pipeline(
        Readable.from(["x", "y"]),
        new Transform({
          objectMode: true,
          transform(chunk, _encoding, done) {
            seen.push(store());
            setTimeout(() => done(null, chunk), 1);
          },
        }),
        new Writable({
          objectMode: true,
          write(chunk, _encoding, done) {
            seen.push(chunk, store());
            done();
          },
        }),
      );
      return [...seen, store()];
    }),
  "node:stream, finished": () =>
    seenBy((see) => {
      const stream = Readable.from(["x"]);
      finished(stream, () => see());
      stream.resume();
    }),
  "node:fs, callback and promise": () =>
    als.run("a", async () => {
      const inCallback = await new Promise((resolve) => readFile("/nowhere", () => resolve(store())));
      await fs.readFile("/nowhere").catch(() => undefined);
      return [inCallback, store()];
    }),
  "crypto.subtle": () =>
    als.run("a", async () => [(await crypto.subtle.digest("SHA-256", new Uint8Array(1))).byteLength, store()]),
  "callbacks of node:zlib and node:crypto": async () => [
    await seenBy((see) => gzip("x", see)),
    await seenBy((see) => randomBytes(4, see)),
    await seenBy((see) => pbkdf2("x", "y", 1, 8, "sha256", see)),
  ],
  "node:timers": async () => [
    await seenBy((see) => timers.setTimeout(see, 1)),
    await seenBy((see) => timers.setImmediate(see)),
  ],
  "setInterval of node:timers/promises": () =>
    als.run("a", async () => {
      const seen: string[] = [];
      for await (const _ of ticks(1)) {
        seen.push(store());
        if (seen.length === 2) break;
      }
      return seen;
    }),
  "util.callbackify": () => seenBy((see) => callbackify(async () => store())(() => see())),
  "a source's start and pull": async () => {
    const seen: string[] = [];
    const stream = als.run(
      "made",
      () =>
        new ReadableStream({
          start: () => void seen.push(`start ${store()}`),
          pull(controller) {
            seen.push(`pull ${store()}`);
            controller.enqueue("x");
            if (seen.length > 3) controller.close();
          },
        }),
    );
    await als.run("read", async () => {
      for await (const _ of stream) seen.push(store());
    });
    return [seen[0], seen.filter((one) => one === "read").length > 0];
  },
  "a sink's write, from a writer": async () => {
    const seen: string[] = [];
    const stream = als.run("made", () => new WritableStream({ write: () => void seen.push("write") }));
    return await als.run("write", async () => {
      const writer = stream.getWriter();
      await writer.write("x");
      await writer.close();
      return [...seen, store()];
    });
  },
  EventEmitterAsyncResource: () => {
    const emitter = als.run("a", () => new EventEmitterAsyncResource({ name: "X" }));
    const seen: string[] = [];
    emitter.on("x", () => seen.push(store()));
    als.run("b", () => emitter.emit("x"));
    return seen;
  },
  withScope: () => {
    const own = new AsyncLocalStorage<string>() as AsyncLocalStorage<string> & { withScope(store: string): Disposable };
    return own.run("a", async () => {
      const seen: unknown[] = [];
      {
        using _scope = own.withScope("b");
        seen.push(own.getStore());
        await null;
        seen.push(own.getStore());
      }
      return [...seen, own.getStore()];
    });
  },
  "a hundred thousand awaits": () =>
    als.run("a", async () => {
      for (let index = 0; index < 100_000; index += 1) await null;
      return store();
    }),
  "structuredClone and other synchronous functions change nothing": () =>
    als.run("a", async () => {
      await null;
      structuredClone({});
      JSON.parse("{}", (_key, value) => value ?? store());
      return [[1].map(() => store()), store()];
    }),
  "diagnostics_channel.bindStore": () => {
    const things = channel("things");
    things.bindStore(als, (data) => `stored ${(data as { id: number }).id}`);
    try {
      return things.runStores({ id: 1 }, async () => {
        await null;
        return store();
      });
    } finally {
      things.unbindStore(als);
    }
  },
  "diagnostics_channel.tracePromise": async () => {
    const seen: string[] = [];
    const tracing = tracingChannel("traced");
    const handlers = {
      start: () => seen.push(`start ${store()}`),
      end: () => seen.push(`end ${store()}`),
      asyncStart: () => seen.push(`asyncStart ${store()}`),
      asyncEnd: () => seen.push(`asyncEnd ${store()}`),
      error: () => seen.push(`error ${store()}`),
    };
    tracing.subscribe(handlers as never);
    await als.run("a", () =>
      tracing.tracePromise(async () => {
        await null;
        return 1;
      }),
    );
    tracing.unsubscribe(handlers as never);
    return seen;
  },
  "an error propagates unchanged": async () => {
    const fail = async (): Promise<never> => {
      await null;
      throw new TypeError(store());
    };
    return await als.run("a", async () => {
      const reason = await fail().catch((error: Error) => error.message);
      const [settled] = await Promise.allSettled([fail()]);
      return [reason, settled.status, store()];
    });
  },
};
