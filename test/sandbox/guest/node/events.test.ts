// Compares node:events in a guest with Node's own.
import { test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

test.for<[why: string, run: () => unknown]>([
  [
    "calls listeners in order, with their arguments and itself as this",
    () => {
      const { EventEmitter } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter();
      const seen: unknown[] = [];
      emitter.on("x", function (this: unknown, ...args: unknown[]) {
        seen.push(["on", this === emitter, args]);
      });
      emitter.prependListener("x", () => seen.push("first"));
      emitter.once("x", () => seen.push("once"));
      emitter.prependOnceListener("x", () => seen.push("first once"));
      return [emitter.emit("x", 1, 2), emitter.emit("x"), emitter.emit("y"), seen];
    },
  ],
  [
    "lists the listeners of emitters, targets and signals",
    () => {
      const { EventEmitter, getEventListeners } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter();
      const target = new EventTarget();
      const { signal } = new AbortController();
      const listener = (): void => {};
      const object = { handleEvent: listener };
      emitter.on("x", listener);
      target.addEventListener("x", listener);
      target.addEventListener("x", object);
      signal.addEventListener("abort", listener, { once: true });
      const listed = getEventListeners(target, "x") as unknown[];
      let code: unknown;
      try {
        getEventListeners({} as EventTarget, "x");
      } catch (error) {
        code = (error as { code?: string }).code;
      }
      return [
        getEventListeners(emitter, "x").length,
        listed[0] === listener,
        listed[1] === object,
        listed.length,
        getEventListeners(target, "y"),
        getEventListeners(signal, "abort").length,
        code,
      ];
    },
  ],
  [
    "throws an error event without a listener, and shows what is no error",
    () => {
      const { EventEmitter } = process.getBuiltinModule("node:events");
      return [{ a: [1] }, "text", undefined, 5, new TypeError("own")].map((value) => {
        try {
          return new EventEmitter().emit("error", value);
        } catch (error) {
          const { name, message, code } = error as Error & { readonly code?: string };
          return [name, message, code];
        }
      });
    },
  ],
  [
    "lists its listeners",
    () => {
      const { EventEmitter } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter();
      const listener = (): void => {};
      emitter.on("a", listener).once("a", listener).on("b", listener);
      const before = [emitter.eventNames(), emitter.listenerCount("a"), emitter.rawListeners("a").length];
      const same = emitter.listeners("a").every((one) => one === listener);
      emitter.off("a", listener);
      const after = emitter.listenerCount("a");
      emitter.removeAllListeners("a");
      return [before, same, after, emitter.eventNames(), emitter.getMaxListeners(), EventEmitter.defaultMaxListeners];
    },
  ],
  [
    "reports added and removed listeners",
    () => {
      const { EventEmitter } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter();
      const seen: unknown[] = [];
      emitter.on("newListener", (name) => seen.push(["new", name]));
      emitter.on("removeListener", (name) => seen.push(["removed", name]));
      const listener = (): void => {};
      emitter.on("x", listener);
      emitter.once("y", () => {});
      emitter.emit("y");
      emitter.removeListener("x", listener);
      emitter.on("z", listener);
      emitter.removeAllListeners();
      return seen;
    },
  ],
  [
    "throws an error without a listener",
    () => {
      const { EventEmitter, errorMonitor } = process.getBuiltinModule("node:events");
      const seen: unknown[] = [];
      const emitter = new EventEmitter();
      emitter.on(errorMonitor, (error) => seen.push(["monitor", (error as Error).message]));
      for (const error of [new TypeError("a"), "text"]) {
        try {
          new EventEmitter().emit("error", error);
        } catch (thrown) {
          const { name, message, code, context } = thrown as { [name: string]: unknown };
          seen.push([name, message, code, context]);
        }
      }
      try {
        emitter.emit("error", new Error("b"));
      } catch (thrown) {
        seen.push((thrown as Error).message);
      }
      return seen;
    },
  ],
  [
    "can be inherited from as in old packages",
    () => {
      const EventEmitter = process.getBuiltinModule("node:events") as unknown as {
        new (): { on(name: string, run: (x: number) => void): void; emit(name: string, x: number): void };
        call(self: unknown): void;
        EventEmitter: unknown;
      };
      const { inherits } = process.getBuiltinModule("node:util");
      function Old(this: unknown): void {
        EventEmitter.call(this);
      }
      inherits(Old as never, EventEmitter as never);
      class New extends EventEmitter {}
      const seen: unknown[] = [];
      for (const Class of [Old, New]) {
        const made = new (Class as unknown as typeof EventEmitter)();
        made.on("x", (x) => seen.push(x));
        made.emit("x", 1);
        seen.push(made instanceof EventEmitter, Object.keys(made).sort());
      }
      return [seen, EventEmitter === EventEmitter.EventEmitter];
    },
  ],
  [
    "rejects a listener that is not a function",
    () => {
      const { EventEmitter } = process.getBuiltinModule("node:events");
      return [null, 1, {}, undefined].map((listener) => {
        try {
          return String(new EventEmitter().on("x", listener as never));
        } catch (error) {
          return [(error as Error).name, (error as Error).message, (error as { code?: string }).code];
        }
      });
    },
  ],
  [
    "waits for one event, and stops on abort",
    async () => {
      const { EventEmitter, once } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter();
      queueMicrotask(() => emitter.emit("x", 1, 2));
      const first = await once(emitter, "x");
      queueMicrotask(() => emitter.emit("error", new Error("no")));
      const second = await once(emitter, "x").catch((error: Error) => error.message);
      const third = await once(emitter, "x", { signal: AbortSignal.abort() }).catch((error: Error) => error.name);
      return [first, second, third, emitter.eventNames()];
    },
  ],
  [
    "iterates over events",
    async () => {
      const { EventEmitter, on } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter();
      queueMicrotask(() => {
        emitter.emit("x", 1);
        emitter.emit("x", 2);
        emitter.emit("end");
      });
      const seen: unknown[] = [];
      for await (const value of on(emitter, "x", { close: ["end"] })) seen.push(value);
      return [seen, emitter.eventNames()];
    },
  ],
  [
    "captures rejections if the option is set",
    async () => {
      const { EventEmitter } = process.getBuiltinModule("node:events");
      const emitter = new EventEmitter({ captureRejections: true });
      emitter.on("x", async () => {
        throw new Error("late");
      });
      const caught = new Promise((resolve) => {
        emitter.on("error", (error) => resolve((error as Error).message));
      });
      emitter.emit("x");
      return await caught;
    },
  ],
])("an EventEmitter %s", async ([, run]) => {
  await expectLikeNode(run, undefined);
});
