// Compares MessageChannel, MessagePort and their events in a guest with Node's own where it has them.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, openGuest, runGuest } from "../../support/guest.ts";

const like = (run: () => unknown): Promise<void> => expectLikeNode(run, undefined);

describe("MessagePort", () => {
  test("sends copies, in order, each in a separate task", () =>
    like(async () => {
      const seen: unknown[] = [];
      const { port1, port2 } = new MessageChannel();
      const given = { list: [1], map: new Map([["a", 1]]) };
      await new Promise<void>((resolve) => {
        port2.onmessage = ({ data, ports, origin }) => {
          seen.push(data === given, data, origin, ports.length);
          void Promise.resolve().then(() => seen.push("microtask"));
          if (data === "last") resolve();
        };
        port1.postMessage(given);
        given.list.push(2);
        port1.postMessage("second");
        port1.postMessage("last");
        seen.push("sent");
      });
      port1.close();
      return seen;
    }));

  test("has the methods of Node's event emitters, whose listeners get the message", () =>
    like(async () => {
      const { MessageChannel, receiveMessageOnPort } = process.getBuiltinModule("node:worker_threads");
      const { port1, port2 } = new MessageChannel();
      const seen: unknown[] = [];
      port1.postMessage({ a: 1 });
      port1.postMessage("second");
      seen.push(receiveMessageOnPort(port2), receiveMessageOnPort(port1));
      const listener = (...values: unknown[]): unknown => seen.push(["on", ...values]);
      seen.push(port2.on("message", listener) === port2, port2.on("message", listener) === port2);
      port2.once("message", (value) => seen.push(["once", value]));
      port1.postMessage("third");
      await new Promise<void>((resolve) => port2.once("message", () => setTimeout(resolve, 20)));
      seen.push(port2.listenerCount("message"), port2.emit("message", "own"), port2.emit("none", undefined));
      port2.off("message", listener);
      seen.push(port2.listenerCount("message"), receiveMessageOnPort(port2));
      port1.postMessage("fourth");
      seen.push(receiveMessageOnPort(port2));
      const closed = new Promise((resolve) =>
        port2.addListener("close", (...values: unknown[]) => resolve((values[0] as Event)?.type)),
      );
      port1.close();
      seen.push(await closed);
      port2.removeAllListeners();
      try {
        receiveMessageOnPort({} as never);
      } catch (error) {
        const { name, code, message } = error as Error & { readonly code: string };
        seen.push([name, code, message]);
      }
      return seen;
    }));

  // Node starts a port when a listener is added.
  test("keeps messages until it is started", async () => {
    const seen = await inGuest(async () => {
      const { port1, port2 } = new MessageChannel();
      const log: unknown[] = [];
      port2.addEventListener("message", (event) => log.push((event as MessageEvent).data));
      port1.postMessage(1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      log.push("started");
      port2.start();
      while (log.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
      return log;
    });
    expect(seen).toEqual(["started", 1]);
  });

  test("transfers buffers, and ports with their pending messages", () =>
    like(async () => {
      const outer = new MessageChannel();
      const inner = new MessageChannel();
      const buffer = new ArrayBuffer(8);
      inner.port1.postMessage("was waiting");
      const { data, ports } = await new Promise<MessageEvent>((resolve) => {
        outer.port2.onmessage = resolve;
        outer.port1.postMessage({ buffer, port: inner.port2 }, [buffer, inner.port2]);
      });
      const { port } = data as { port: MessagePort };
      const message = await new Promise<unknown>((resolve) => {
        port.onmessage = (event) => resolve(event.data);
      });
      outer.port1.close();
      inner.port1.close();
      return [message, ports[0] === port, buffer.byteLength, (data as { buffer: ArrayBuffer }).buffer.byteLength];
    }));

  test("notifies its other end when it is closed, and sends no more", async () => {
    const seen = await inGuest(async () => {
      const { port1, port2 } = new MessageChannel();
      const log: unknown[] = [];
      port2.onmessage = ({ data }) => log.push(data);
      port1.postMessage("before");
      await new Promise<void>((resolve) => {
        port2.addEventListener("close", () => resolve());
        port1.close();
      });
      port1.postMessage("after");
      port2.postMessage("after");
      await new Promise((resolve) => setTimeout(resolve, 10));
      return log;
    });
    expect(seen).toEqual(["before"]);
  });

  test.for<[expression: string, name: string]>([
    ["port1.postMessage(() => {})", "DataCloneError"],
    ["port1.postMessage(port1)", "DataCloneError"],
    ["port1.postMessage(1, [port1])", "DataCloneError"],
    ["structuredClone(port2)", "DataCloneError"],
    ["structuredClone(port2, { transfer: [port2, port2] })", "DataCloneError"],
    [
      "(structuredClone(port2, { transfer: [port2] }), structuredClone(port2, { transfer: [port2] }))",
      "DataCloneError",
    ],
    ["port1.postMessage()", "TypeError"],
    ["new MessagePort()", "TypeError"],
    ["MessagePort.prototype.start.call({})", "TypeError"],
  ])("rejects %s", async ([expression, name]) => {
    const run = `() => {
      const { port1, port2 } = new MessageChannel();
      try { ${expression}; } catch (error) { return error.name; }
    }`;
    expect(await inGuest(run)).toBe(name);
  });

  test("carries more messages than the limit on timers", async () => {
    const run = (count: number): Promise<number> => {
      const { port1, port2 } = new MessageChannel();
      return new Promise((resolve) => {
        let sum = 0;
        port2.onmessage = ({ data }) => {
          sum += data as number;
          if (data === count) resolve(sum);
        };
        for (let index = 1; index <= count; index += 1) port1.postMessage(index);
      });
    };
    const { value } = await runGuest<number, number>(run, { input: 300, header: { timers: 2 } });
    expect(value).toBe((300 * 301) / 2);
  });

  test("leaves no message for the next call of its isolate", async () => {
    await using tool = await openGuest((leaves: boolean) => {
      const { port1, port2 } = new MessageChannel();
      return new Promise<string>((resolve) => {
        port2.onmessage = ({ data }) => resolve(data as string);
        if (leaves) resolve("left");
        port1.postMessage("came");
        port1.postMessage("came");
      });
    });
    expect((await tool.call(true)).value).toBe("left");
    expect((await tool.call(false)).value).toBe("came");
  });
});

describe("events of messages and errors", () => {
  test("have the values of their constructors", () =>
    like(() => {
      const message = new MessageEvent("message", { data: { a: 1 }, origin: "o", lastEventId: "5", cancelable: true });
      const { data, origin, lastEventId, source, ports, cancelable } = message;
      return [data, origin, lastEventId, source, ports, cancelable, new MessageEvent("x").data];
    }));

  test("ErrorEvent and PromiseRejectionEvent", async () => {
    const found = await inGuest(`() => {
      const { message, filename, lineno, colno, error } = new ErrorEvent("error", { message: "m", lineno: 3, error: 5 });
      const { reason, promise, type } = new PromiseRejectionEvent("x", { promise: 1, reason: "r" });
      return [message, filename, lineno, colno, error, reason, promise, type, new ErrorEvent("e") instanceof Event];
    }`);
    expect(found).toEqual(["m", "", 3, 0, 5, "r", 1, "x", true]);
  });
});

describe("an uncaught exception", () => {
  test.for([
    "reportError(new RangeError('boom'))",
    "setTimeout(() => { throw new RangeError('boom'); })",
    "queueMicrotask(() => { throw new RangeError('boom'); })",
    "new EventTarget().dispatchEvent(new Event('x')); const t = new EventTarget(); t.addEventListener('x', () => { throw new RangeError('boom'); }); t.dispatchEvent(new Event('x'))",
  ])("is passed to onerror, or logged: %s", async (code) => {
    const wait = "await new Promise((resolve) => setTimeout(resolve, 10));";
    const handled = `async () => {
      const seen = [];
      globalThis.onerror = (...args) => { seen.push(args[4].message); return true; };
      ${code}; ${wait}
      return seen;
    }`;
    expect(await runGuest(handled)).toMatchObject({ value: ["boom"], logs: [] });
    for (const onerror of ["null", "() => false", "() => { throw new Error('handler'); }"]) {
      const { logs } = await runGuest(`async () => { globalThis.onerror = ${onerror}; ${code}; ${wait} }`);
      expect(logs).toEqual([expect.stringMatching(/^error: Uncaught .*RangeError: boom/)]);
    }
  });
});
