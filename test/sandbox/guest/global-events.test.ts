// Tests other globals of ECMA-429: the global object as an EventTarget, blob URLs, BroadcastChannel. Compares them with Node where it has
// them.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, openGuest, runGuest } from "../../support/guest.ts";

describe("the global object as an EventTarget", () => {
  test("dispatches uncaught exceptions, and logs them unless a listener handles them", async () => {
    const end = await runGuest(async () => {
      const scope = globalThis as unknown as EventTarget & typeof globalThis;
      const seen: unknown[] = [];
      scope.addEventListener("error", (event) => {
        const { type, message, error, target, cancelable, isTrusted } = event as ErrorEvent;
        seen.push([type, message, (error as Error).name, target === scope, cancelable, isTrusted]);
        if ((error as Error).message === "handled") event.preventDefault();
      });
      const { reportError } = globalThis as unknown as { reportError(error: unknown): void };
      reportError(new RangeError("handled"));
      setTimeout(() => {
        throw new TypeError("in a timer");
      }, 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
      scope.addEventListener("error", () => {
        throw new Error("a listener's own");
      });
      reportError(new Error("last"));
      return seen;
    });
    expect(end.value).toEqual([
      ["error", expect.any(String), "RangeError", true, true, true],
      ["error", expect.any(String), "TypeError", true, true, true],
      ["error", expect.any(String), "Error", true, true, true],
    ]);
    expect(end.logs.map((line) => line.split("\n")[0])).toEqual([
      "error: Uncaught in a timer: TypeError: in a timer",
      "error: Uncaught in an event listener: Error: a listener's own",
      "error: Uncaught (reported): Error: last",
    ]);
  });

  test("dispatches events of a tool", async () => {
    const end = await inGuest(() => {
      const scope = globalThis as unknown as EventTarget;
      const seen: unknown[] = [];
      const listener = function (this: unknown, event: Event): void {
        seen.push(this === globalThis, event.currentTarget === scope);
        event.preventDefault();
      };
      scope.addEventListener("mine", listener, { once: true });
      seen.push(scope.dispatchEvent(new Event("mine", { cancelable: true })), scope.dispatchEvent(new Event("mine")));
      scope.addEventListener("mine", listener);
      scope.removeEventListener("mine", listener);
      seen.push(scope.dispatchEvent(new Event("mine", { cancelable: true })));
      return seen;
    });
    expect(end).toEqual([true, true, false, true, true]);
  });
});

describe("URL.createObjectURL()", () => {
  test("creates a URL for a blob, as in Node", async () => {
    await expectLikeNode(async () => {
      const { resolveObjectURL } = process.getBuiltinModule("node:buffer");
      const blob = new Blob(["héllo"], { type: "text/plain" });
      const url = URL.createObjectURL(blob);
      const found = resolveObjectURL(url);
      const seen: unknown[] = [/^blob:/.test(url), found?.size, found?.type, await found?.text()];
      const response = await fetch(`${url}#part`);
      seen.push(
        response.status,
        response.headers.get("content-type"),
        response.headers.get("content-length"),
        await response.text(),
      );
      const attempts = [
        () => fetch(url, { method: "POST" }),
        () => URL.createObjectURL({} as never),
        () => fetch("blob:null/nothing"),
      ];
      for (const attempt of attempts) {
        try {
          await attempt();
          seen.push("fine");
        } catch (error) {
          seen.push((error as Error).name);
        }
      }
      URL.revokeObjectURL(url);
      URL.revokeObjectURL("blob:unknown");
      seen.push(
        resolveObjectURL(url) === undefined,
        await fetch(url).then(
          () => "fine",
          (error: Error) => error.name,
        ),
      );
      return seen;
    }, undefined);
  });

  test("is valid until its call ends", async () => {
    await using tool = await openGuest(
      "async ({ url }) => url ? await fetch(url).then((response) => response.text(), () => 'gone') : URL.createObjectURL(new Blob(['x']))",
    );
    const { value: url } = await tool.call<string>({});
    expect(url).toMatch(/^blob:null\/[0-9a-f-]{36}$/);
    expect((await tool.call({ url }, "c2")).value).toBe("gone");
  });
});

describe("BroadcastChannel", () => {
  test("sends to the other channels of its name, as in Node", async () => {
    await expectLikeNode(async () => {
      const seen: unknown[] = [];
      const [a, b, c, other] = ["x", "x", "x", "y"].map((name) => new BroadcastChannel(name)) as [
        BroadcastChannel,
        BroadcastChannel,
        BroadcastChannel,
        BroadcastChannel,
      ];
      for (const [name, channel] of Object.entries({ a, b, c, other })) {
        channel.onmessage = (event): void => {
          seen.push([name, event.type, (event as MessageEvent).data]);
        };
      }
      const arrived = async (messages: number): Promise<void> => {
        while (seen.filter(Array.isArray).length < messages) await new Promise((resolve) => setTimeout(resolve, 5));
      };
      const value = { deep: new Map([[1, "one"]]) };
      a.postMessage(value.deep.get(1));
      value.deep.clear();
      a.postMessage(new Date(0));
      seen.push("sent");
      for (const attempt of [
        () => a.postMessage(() => 1),
        () => new (BroadcastChannel as never as new () => object)(),
      ]) {
        try {
          attempt();
        } catch (error) {
          seen.push((error as Error).name);
        }
      }
      await arrived(4);
      c.close();
      b.postMessage(2);
      try {
        c.postMessage(3);
      } catch (error) {
        seen.push((error as Error).name);
      }
      await arrived(5);
      for (const channel of [a, b, other]) channel.close();
      // Node delivers all messages of one channel, then those of the next. The standard delivers one message to all channels first.
      return [a.name, ...seen.map((one) => JSON.stringify(one)).sort()];
    }, undefined);
  });
});
