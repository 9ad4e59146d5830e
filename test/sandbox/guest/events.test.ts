// Compares Event, EventTarget, AbortController, AbortSignal, DOMException, performance and self in a guest with Node's own.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, runGuest } from "../../support/guest.ts";

const like = (run: () => unknown): Promise<void> => expectLikeNode(run, undefined);

describe("EventTarget", () => {
  test("calls its listeners in order, each once, functions and objects", () =>
    like(() => {
      const seen: unknown[] = [];
      const target = new EventTarget();
      const first = (event: Event): unknown => seen.push(["first", event.type, event.target === target]);
      const object = {
        handleEvent(event: Event) {
          seen.push(["object", this === object, event.type]);
        },
      };
      target.addEventListener("x", first);
      target.addEventListener("x", object);
      target.addEventListener("x", first);
      target.addEventListener("x", function (this: unknown) {
        seen.push(["this", this === target]);
      });
      target.addEventListener("y", () => seen.push("never"));
      const event = new Event("x");
      seen.push(target.dispatchEvent(event), event.currentTarget);
      return seen;
    }));

  // Node 26 also calls listeners that are added during a dispatch. The standard has "clone of listeners".
  test("skips removed listeners, and defers added ones, during a dispatch", async () => {
    expect(
      await inGuest(() => {
        const seen: unknown[] = [];
        const target = new EventTarget();
        const second = (): unknown => seen.push("second");
        target.addEventListener("x", (event) => {
          seen.push("first", event.currentTarget === target);
          target.removeEventListener("x", second);
          target.addEventListener("x", () => seen.push("added"));
        });
        target.addEventListener("x", second);
        target.dispatchEvent(new Event("x"));
        seen.push("again");
        target.dispatchEvent(new Event("x"));
        return seen;
      }),
    ).toEqual(["first", true, "again", "first", true, "added"]);
  });

  test("supports once and signal", () =>
    like(() => {
      const seen: unknown[] = [];
      const target = new EventTarget();
      const { signal, abort } = ((controller) => ({ signal: controller.signal, abort: () => controller.abort() }))(
        new AbortController(),
      );
      target.addEventListener("x", () => seen.push("once"), { once: true });
      target.addEventListener("x", () => seen.push("until"), { signal });
      target.addEventListener("x", () => seen.push("never"), { signal: AbortSignal.abort() });
      target.dispatchEvent(new Event("x"));
      target.dispatchEvent(new Event("x"));
      abort();
      target.dispatchEvent(new Event("x"));
      return seen;
    }));

  test("can be stopped and prevented", () =>
    like(() => {
      const seen: unknown[] = [];
      const target = new EventTarget();
      target.addEventListener("x", (event) => {
        seen.push("stops");
        event.preventDefault();
        event.stopImmediatePropagation();
      });
      target.addEventListener("x", () => seen.push("never"));
      const event = new Event("x", { cancelable: true });
      const plain = new Event("x");
      seen.push(
        target.dispatchEvent(event),
        event.defaultPrevented,
        target.dispatchEvent(plain),
        plain.defaultPrevented,
      );
      return seen;
    }));

  // Node 26 keeps the flag. The standard resets it after the dispatch.
  test("dispatches a stopped event again", async () => {
    expect(
      await inGuest(() => {
        const seen: unknown[] = [];
        const target = new EventTarget();
        target.addEventListener("x", (event) => {
          seen.push("stops");
          event.stopImmediatePropagation();
        });
        target.addEventListener("x", () => seen.push("never"));
        const event = new Event("x");
        target.dispatchEvent(event);
        target.dispatchEvent(event);
        return seen;
      }),
    ).toEqual(["stops", "stops"]);
  });

  test("continues after a listener that throws", async () => {
    expect(
      await inGuest(`() => {
        const seen = [];
        const target = new EventTarget();
        target.addEventListener("x", () => { throw new Error("listener"); });
        target.addEventListener("x", { handleEvent: 5 });
        target.addEventListener("x", () => seen.push("after"));
        return [target.dispatchEvent(new Event("x")), seen];
      }`),
    ).toEqual([true, ["after"]]);
  });

  test.for<[why: string, expression: string, error: string]>([
    ["an object that is not an event", "new EventTarget().dispatchEvent({ type: 'x' })", "TypeError"],
    ["nothing", "new EventTarget().dispatchEvent()", "TypeError"],
    ["a listener that is text", "new EventTarget().addEventListener('x', 'y')", "TypeError"],
    [
      "an object that is not a signal",
      "new EventTarget().addEventListener('x', () => {}, { signal: {} })",
      "TypeError",
    ],
    ["a call without new", "EventTarget()", "TypeError"],
    [
      "an event that is being dispatched",
      "(() => { const t = new EventTarget(); let got; t.addEventListener('x', (e) => { try { t.dispatchEvent(e); } catch (error) { got = error; } }); t.dispatchEvent(new Event('x')); throw got; })()",
      "InvalidStateError",
    ],
  ])("rejects %s", async ([, expression, error]) => {
    expect(await inGuest(`() => { try { return ${expression}; } catch (error) { return error.name; } }`)).toBe(error);
  });

  test("can be extended by the guest", () =>
    like(() => {
      class Emitter extends EventTarget {
        count = 0;
        emit(): boolean {
          this.count += 1;
          return this.dispatchEvent(new CustomEvent("tick", { detail: this.count }));
        }
      }
      const seen: unknown[] = [];
      const emitter = new Emitter();
      emitter.addEventListener("tick", (event) => seen.push((event as CustomEvent<number>).detail));
      emitter.emit();
      emitter.emit();
      return [seen, emitter instanceof EventTarget, new CustomEvent("x").detail];
    }));
});

describe("AbortController and AbortSignal", () => {
  test("abort once, with a reason", () =>
    like(() => {
      const seen: unknown[] = [];
      const controller = new AbortController();
      const { signal } = controller;
      signal.onabort = function (this: AbortSignal, event) {
        seen.push(["onabort", event.type, event.target === signal, this === signal]);
      };
      signal.addEventListener("abort", () => seen.push(["listener", signal.aborted, signal.reason]));
      seen.push(signal.aborted, signal.reason ?? "none", signal.throwIfAborted() ?? "fine");
      controller.abort("why");
      controller.abort("again");
      try {
        signal.throwIfAborted();
      } catch (reason) {
        seen.push(["thrown", reason]);
      }
      return [seen, signal.reason, Object.prototype.toString.call(signal), signal instanceof EventTarget];
    }));

  test("use an AbortError as the default reason", () =>
    like(() => {
      const controller = new AbortController();
      controller.abort();
      const { name, code } = controller.signal.reason as DOMException;
      return [
        name,
        code,
        controller.signal.reason instanceof DOMException,
        AbortSignal.abort(null).reason,
        AbortSignal.abort().aborted,
      ];
    }));

  test("replace and remove onabort", () =>
    like(() => {
      const seen: unknown[] = [];
      const one = new AbortController();
      one.signal.onabort = () => seen.push("first");
      one.signal.onabort = () => seen.push("second");
      one.abort();
      const two = new AbortController();
      two.signal.onabort = () => seen.push("never");
      two.signal.onabort = null;
      two.abort();
      return [seen, two.signal.onabort];
    }));

  test("AbortSignal.any() aborts with the first signal", async () => {
    const seenInGuest = await inGuest(() => {
      const [a, b] = [new AbortController(), new AbortController()];
      const joined = AbortSignal.any([a.signal, b.signal]);
      const chained = AbortSignal.any([joined, new AbortController().signal]);
      const seen: unknown[] = [joined.aborted];
      joined.addEventListener("abort", () => seen.push(["joined", joined.reason]));
      b.abort("b");
      a.abort("a");
      seen.push(chained.aborted, chained.reason, AbortSignal.any([]).aborted);
      seen.push(AbortSignal.any([AbortSignal.abort(1), AbortSignal.abort(2)]).reason);
      return seen;
    });
    // As in the standard. In Node 24 the reason of `chained` is "a".
    expect(seenInGuest).toEqual([false, ["joined", "b"], true, "b", false, 1]);
  });

  test("AbortSignal.any() rejects an object that is not a signal", async () => {
    expect(
      await inGuest(
        "() => [[{}], [1], 5].map((list) => { try { AbortSignal.any(list); } catch (error) { return error.name; } })",
      ),
    ).toEqual(["TypeError", "TypeError", "TypeError"]);
  });

  test("AbortSignal.timeout() aborts with a TimeoutError", () =>
    like(
      () =>
        new Promise((resolve) => {
          const signal = AbortSignal.timeout(5);
          signal.addEventListener("abort", () => {
            const { name, code } = signal.reason as DOMException;
            resolve([signal.aborted, name, code]);
          });
        }),
    ));

  test("AbortSignal.timeout() does not use the guest's setTimeout", async () => {
    expect(
      await inGuest(
        "() => { globalThis.setTimeout = () => { throw new Error('forged'); }; return new Promise((done) => { AbortSignal.timeout(1).onabort = (event) => done(event.target.reason.name); }); }",
      ),
    ).toBe("TimeoutError");
  });
});

describe("DOMException", () => {
  test("has name, message, code and class", () =>
    like(() => {
      const made = [
        new DOMException(),
        new DOMException("m"),
        new DOMException("m", "AbortError"),
        new DOMException("m", "DataCloneError"),
        new DOMException("m", "OddError"),
        new DOMException("m", "toString"),
      ];
      return made.map((error) => [
        error.name,
        error.message,
        error.code,
        String(error),
        error instanceof Error,
        Object.prototype.toString.call(error),
        typeof error.stack,
      ]);
    }));

  test("takes the name and the cause from an object", () =>
    like(() => {
      const inherited = Object.create({ name: "TimeoutError", cause: 3 }) as object;
      const options = [
        { name: "AbortError" },
        { name: "AbortError", cause: { a: 1 } },
        { name: "OddError", cause: undefined },
        { name: null },
        inherited,
        null,
        5,
      ];
      return options.map((one) => {
        const error = new DOMException("m", one as never);
        const cause = Object.getOwnPropertyDescriptor(error, "cause") ?? null;
        return [error.name, error.code, String(error), cause, "cause" in error];
      });
    }));

  test("is called Error if the object has no name", async () => {
    const { value } = await runGuest(() => {
      const { name, code, cause } = new DOMException("m", { cause: 1 } as never);
      return [name, code, cause];
    });
    expect(value).toEqual(["Error", 0, 1]);
  });

  test.for(["new DOMException(Symbol())", "new DOMException('m', { name: Symbol() })"])("%s throws", async (code) => {
    expect(await runGuest(`() => ${code}`)).toMatchObject({ outcome: "thrown", value: { name: "TypeError" } });
  });
});

describe("performance and self", () => {
  test("report the time since the isolate started, and the global object", async () => {
    const [now, later, origin, isSelf] = await inGuest<unknown, [number, number, number, boolean]>(`async () => {
      const now = performance.now();
      await new Promise((done) => setTimeout(done, 15));
      return [now, performance.now(), performance.timeOrigin, self === globalThis && self.self === self];
    }`);
    expect(now).toBeGreaterThanOrEqual(0);
    expect(later - now).toBeGreaterThanOrEqual(10);
    expect(Math.abs(Date.now() - origin)).toBeLessThan(60_000);
    expect(isSelf).toBe(true);
  });
});

describe("A web global", () => {
  const NAMES = [
    "console",
    "URL",
    "URLSearchParams",
    "TextEncoder",
    "TextDecoder",
    "AbortController",
    "AbortSignal",
    "Event",
    "CustomEvent",
    "EventTarget",
    "DOMException",
    "performance",
    "navigator",
    "URLPattern",
    "ReadableStream",
    "TextDecoderStream",
    "CompressionStream",
    "Blob",
    "File",
    "MessageChannel",
    "MessagePort",
    "MessageEvent",
    "PerformanceObserver",
  ];

  test.for(NAMES.map((name) => [name] as const))(
    "%s is a plain property once touched, and can be replaced before",
    async ([name]) => {
      const end = await inGuest(`() => {
      const before = Object.keys(globalThis).includes("${name}");
      const first = globalThis.${name};
      const { writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(globalThis, "${name}");
      return [before, first === globalThis.${name}, writable, enumerable, configurable, typeof first === "function" ? first.name : "${name}"];
    }`);
      expect(end).toEqual([false, true, true, false, true, name]);
      expect(await inGuest(`() => { globalThis.${name} = 42; return ${name}; }`)).toBe(42);
    },
  );

  test.for([["structuredClone"], ["atob"], ["btoa"], ["setTimeout"], ["queueMicrotask"], ["onerror"], ["self"]])(
    "%s is not enumerable, and can be replaced",
    async ([name]) => {
      expect(
        await inGuest(
          `() => { const { enumerable, writable } = Object.getOwnPropertyDescriptor(globalThis, "${name}"); globalThis.${name} = 42; return [enumerable, writable, ${name}]; }`,
        ),
      ).toEqual([false, true, 42]);
    },
  );
});
