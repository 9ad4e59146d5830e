// Compares node:util, node:assert, node:url, node:querystring and node:timers in a guest with Node's own.
import { describe, test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

type Case = [why: string, run: () => unknown];

describe("node:util", () => {
  test.for<Case>([
    [
      "converts between promises and callbacks",
      async () => {
        const { promisify, callbackify } = process.getBuiltinModule("node:util");
        const add = promisify((a: number, b: number, done: (e: Error | null, sum?: number) => void) =>
          done(null, a + b),
        );
        const fail = promisify((done: (e: Error) => void) => done(new Error("no")));
        const custom = Object.assign(() => {}, { [promisify.custom]: () => Promise.resolve("custom") });
        const back = await new Promise((resolve) => {
          callbackify(async (x: number) => x * 2)(21, (error, value) => resolve([error, value]));
        });
        const backError = await new Promise((resolve) => {
          callbackify(async () => {
            throw new Error("late");
          })((error) => resolve(error.message));
        });
        return [
          await add(1, 2),
          await fail().catch((e: Error) => e.message),
          await promisify(custom)(),
          back,
          backError,
        ];
      },
    ],
    [
      "inherits, deprecates and names types",
      () => {
        const { inherits, types, isDeepStrictEqual, isArray } = process.getBuiltinModule("node:util");
        function A(): void {}
        function B(): void {}
        inherits(B as never, A as never);
        const values: unknown[] = [
          new Date(),
          /x/,
          new Map(),
          new Set(),
          Promise.resolve(),
          new Error("x"),
          new Uint8Array(1),
        ];
        const more: unknown[] = [
          async () => {},
          function* () {},
          Object(1),
          new WeakMap(),
          new ArrayBuffer(1),
          new DataView(new ArrayBuffer(1)),
        ];
        const names = [
          "isDate",
          "isRegExp",
          "isMap",
          "isSet",
          "isPromise",
          "isNativeError",
          "isUint8Array",
          "isTypedArray",
        ];
        names.push(
          "isAsyncFunction",
          "isGeneratorFunction",
          "isBoxedPrimitive",
          "isWeakMap",
          "isArrayBuffer",
          "isAnyArrayBuffer",
        );
        names.push("isDataView", "isArrayBufferView", "isNumberObject");
        const tests = types as unknown as { readonly [name: string]: (value: unknown) => boolean };
        return [
          (B as unknown as { super_: unknown }).super_ === A,
          [
            ...values,
            ...more,
            {
              get [Symbol.toStringTag]() {
                return "Date";
              },
            },
            null,
          ].map((value) => names.filter((name) => tests[name]?.(value))),
          isArray([]),
          isDeepStrictEqual(new Map([[{ a: 1 }, [1]]]), new Map([[{ a: 1 }, [1]]])),
        ];
      },
    ],
    [
      "inspects values",
      () => {
        const { inspect, format } = process.getBuiltinModule("node:util");
        class Point {
          x = 1;
        }
        const circular: { [name: string]: unknown } = { a: [1, "two", null, undefined] };
        circular.self = circular;
        return [
          inspect(circular),
          inspect(new Map<unknown, unknown>([["k", new Set([1])]])),
          inspect(new Point()),
          inspect({ a: { b: { c: { d: 1 } } } }),
          inspect({ a: { b: { c: { d: 1 } } } }, { depth: null, compact: false }),
          inspect("it's"),
          inspect([1, ...new Array(1), 3].with(0, 2)),
          inspect(new Array(3)),
          inspect(Symbol("s")),
          inspect({ [inspect.custom]: () => "shown" }),
          inspect(new Uint8Array([1, 2])),
          inspect(Buffer.from("hi")),
          inspect(() => {}),
          inspect(class X extends Point {}),
          inspect(new Date(0)),
          inspect(123456789.123, { numericSeparator: true }),
          format("%s %d %i %f %j %o %O %%", "a", "1", 2.5, "3.5", { a: 1 }, [1], { b: 2 }, "rest", { c: 3 }),
        ];
      },
    ],
    [
      "inspects objects of the web platform",
      async () => {
        const { format, inspect } = process.getBuiltinModule("node:util");
        const cookies = new Headers();
        cookies.append("set-cookie", "a=1");
        cookies.append("set-cookie", "b=2");
        const long = new URLSearchParams({ a: "1", name: "x".repeat(40), other: "y".repeat(30) });
        const raw = new Uint8Array(16);
        return [
          inspect(new URL("http://u:p@x:81/a?a=1&b=2#h")),
          inspect({ url: new URL("http://x/?a=1") }),
          inspect([new URLSearchParams("a=1&b=2"), new URLSearchParams()]),
          inspect(long),
          inspect(new Blob(["x"], { type: "a/b" })),
          inspect(new File(["x"], "n", { lastModified: 1 })),
          inspect({ controller: new AbortController(), signal: AbortSignal.abort() }),
          inspect(new ReadableStream()),
          inspect(new ReadableStream({ type: "bytes" })),
          inspect(new WritableStream()),
          inspect(await crypto.subtle.importKey("raw", raw, "AES-GCM", true, ["encrypt"])),
          /'a=1, b=2'/.test(inspect(cookies)),
          format("%s %s %s", new URL("http://x/"), new URLSearchParams("a=1"), new Map([[1, 2]])),
          typeof URL,
          typeof URLSearchParams,
        ];
      },
    ],
    [
      "tells apart URLs and keys that differ",
      () => {
        const { isDeepStrictEqual } = process.getBuiltinModule("node:util");
        const { createSecretKey } = process.getBuiltinModule("node:crypto");
        const key = (text: string): object => createSecretKey(Buffer.from(text));
        return [
          isDeepStrictEqual(new URL("http://a"), new URL("http://a")),
          isDeepStrictEqual({ url: new URL("http://a") }, { url: new URL("http://b") }),
          isDeepStrictEqual(key("a"), key("a")),
          isDeepStrictEqual(key("a"), key("b")),
        ];
      },
    ],
    [
      "styles text for a terminal only, unless it is forced to",
      () => {
        const { styleText } = process.getBuiltinModule("node:util");
        const on = (): void => {};
        const streams = [
          { on, write: on, isTTY: true },
          { on, write: on, isTTY: true, getColorDepth: () => 1 },
          { on, write: on, isTTY: false },
          new ReadableStream(),
          {},
          null,
        ];
        const outcomes = streams.map((stream) => {
          try {
            return styleText("red", "x", { stream: stream as never });
          } catch (error) {
            return [(error as Error).message, (error as { code?: string }).code];
          }
        });
        const { FORCE_COLOR } = process.env;
        const forced = ["1", "", "true", "3", "0", "false", "5"].map((value) => {
          process.env.FORCE_COLOR = value;
          return styleText("red", "x", { stream: streams[2] as never });
        });
        delete process.env.FORCE_COLOR;
        if (FORCE_COLOR !== undefined) process.env.FORCE_COLOR = FORCE_COLOR;
        return [outcomes, forced];
      },
    ],
    [
      "parses arguments and styles text",
      () => {
        const { parseArgs, styleText, stripVTControlCharacters, parseEnv, toUSVString } =
          process.getBuiltinModule("node:util");
        const options = {
          name: { type: "string", short: "n" },
          verbose: { type: "boolean", short: "v" },
          tag: { type: "string", multiple: true },
        } as const;
        const read = (args: string[], extra: object = {}): unknown => {
          try {
            const { values, positionals, tokens } = parseArgs({ args, options, ...extra } as unknown as {
              tokens: true;
            });
            return [{ ...values }, positionals, tokens?.map((token) => ({ value: "none", ...token }))];
          } catch (error) {
            return (error as { code?: string }).code;
          }
        };
        return [
          read(["--name", "x", "-v", "--tag=a", "--tag", "b"]),
          read(["-nx", "--", "-v"], { allowPositionals: true }),
          read(["-vnx"]),
          read(["--no-verbose"], { allowNegative: true }),
          read(["--unknown"]),
          read(["--unknown"], { strict: false }),
          read(["rest"]),
          read(["--name"]),
          read(["--name", "-v"]),
          read(["--name", "-v"], { strict: false }),
          read(["--no-other"], { allowNegative: true }),
          read(["--no-verbose=1"], { allowNegative: true, strict: false }),
          read(["-vn", "x", "--tag=a", "--no-verbose", "b", "--", "-v"], {
            tokens: true,
            allowNegative: true,
            allowPositionals: true,
          }),
          read(["--other", "-xy=1", "-n=1"], { tokens: true, strict: false }),
          styleText("red", "x", { validateStream: false }),
          styleText(["bold", "underline"], "x", { validateStream: false }),
          stripVTControlCharacters("\u001b[31mx\u001b[39m"),
          parseEnv("A=1\nB='x y'\n# no\nexport C=\"a\\nb\"\nD = z # comment"),
          toUSVString("a\ud800"),
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});

describe("node:assert", () => {
  test("passes and fails as in Node", async () => {
    await expectLikeNode(() => {
      const assert = process.getBuiltinModule("node:assert");
      const pairs: [unknown, unknown][] = [
        [1, 1],
        [1, "1"],
        [Number.NaN, Number.NaN],
        [0, -0],
        [{ a: 1 }, { a: 1 }],
        [{ a: 1 }, { a: "1" }],
        [{ a: 1, b: undefined }, { a: 1 }],
        [
          [1, 2],
          [1, 2],
        ],
        [[1, 2], { 0: 1, 1: 2 }],
        [new Map([[1, { a: 1 }]]), new Map([[1, { a: 1 }]])],
        [new Map([[{}, 1]]), new Map([[{}, 1]])],
        [new Set([{ a: 1 }, 2]), new Set([2, { a: 1 }])],
        [new Set([1]), new Set(["1"])],
        [new Date(1), new Date(1)],
        [new Date(1), new Date(2)],
        [/a/g, /a/i],
        [new Error("a"), new Error("a")],
        [new Error("a"), new TypeError("a")],
        [Buffer.from("a"), Buffer.from("a")],
        [new Uint8Array([1]), Buffer.from([1])],
        [null, undefined],
        [Object(1), Object(1)],
        [Object.create(null), {}],
        [Symbol.for("a"), Symbol.for("a")],
        [new Array(1), [undefined]],
        [{ a: { b: [1, { c: 2 }] } }, { a: { b: [1, { c: 2 }] } }],
      ];
      const checks = [
        "equal",
        "strictEqual",
        "deepEqual",
        "deepStrictEqual",
        "notDeepStrictEqual",
        "notEqual",
      ] as const;
      return pairs.map(([a, b]) =>
        checks.map((check) => {
          try {
            (assert[check] as (a: unknown, b: unknown) => void)(a, b);
            return true;
          } catch (error) {
            return (error as { code?: string; operator?: string }).code;
          }
        }),
      );
    }, undefined);
  });

  test.for<Case>([
    [
      "reports the expected value",
      () => {
        const assert = process.getBuiltinModule("node:assert");
        const text = (run: () => unknown): unknown => {
          try {
            return run() ?? "fine";
          } catch (error) {
            const { name, message, code, operator, generatedMessage } = error as { [name: string]: unknown };
            return [name, message, code, operator, generatedMessage];
          }
        };
        const thrower = (): never => {
          throw new TypeError("bad");
        };
        return [
          text(() => assert.strictEqual(1, 2)),
          text(() => assert.equal(1, 2)),
          text(() => assert.notStrictEqual(1, 1)),
          text(() => assert.fail("no")),
          text(() => assert(true)),
          text(() => assert.ok(0, "is zero")),
          text(() => assert.ifError(null)),
          text(() => assert.ifError(new Error("x"))),
          text(() => assert.match("abc", /x/)),
          text(() => assert.throws(() => {})),
          ...[new TypeError("bad"), "bad", 5].map((thrown) =>
            text(() =>
              assert.throws(() => {
                throw thrown;
              }, RangeError),
            ),
          ),
          text(() => assert.throws(thrower, () => false)),
          text(() =>
            assert.throws(thrower, function isBad() {
              return 0;
            } as never),
          ),
          text(() => assert.throws(thrower, RangeError, "note")),
          text(() => assert.strict.equal(1, "1" as never)),
        ];
      },
    ],
    [
      "checks exceptions",
      async () => {
        const assert = process.getBuiltinModule("node:assert");
        const thrower = (): never => {
          throw Object.assign(new TypeError("bad thing"), { code: "E" });
        };
        const holds = async (run: () => unknown): Promise<boolean> => {
          try {
            await run();
            return true;
          } catch {
            return false;
          }
        };
        return await Promise.all([
          holds(() => assert.throws(thrower)),
          holds(() => assert.throws(thrower, TypeError)),
          holds(() => assert.throws(thrower, RangeError)),
          holds(() => assert.throws(thrower, /bad/)),
          holds(() => assert.throws(thrower, /good/)),
          holds(() => assert.throws(thrower, { code: "E", message: /thing/ })),
          holds(() => assert.throws(thrower, { code: "F" })),
          holds(() => assert.throws(thrower, (error: Error) => error instanceof TypeError)),
          holds(() => assert.doesNotThrow(thrower)),
          holds(() => assert.rejects(Promise.reject(new Error("x")), /x/)),
          holds(() => assert.rejects(async () => {})),
          holds(() => assert.doesNotReject(Promise.resolve())),
        ]);
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});

describe("node:url and node:querystring", () => {
  test.for<Case>([
    [
      "parse and format legacy URLs",
      () => {
        const url = process.getBuiltinModule("node:url");
        const urls = [
          "http://user:pw@example.com:8080/a/b?x=1&y=2#h",
          "/a?b",
          "mailto:a@b.c",
          "//host/x",
          "HTTP://EX.com",
        ];
        return [
          urls.map((text) => ({ ...url.parse(text) })),
          urls.map((text) => url.format(url.parse(text))),
          JSON.parse(JSON.stringify(url.parse("http://h/?a=1&a=2", true).query)),
          url.resolve("http://a.com/b/c", "../d"),
          url.resolve("/one/two/three", "four"),
          url.format({ protocol: "https", hostname: "h", pathname: "/p", query: { a: "1" } }),
          url.format({ pathname: "/p", query: { a: ["1", "2"], b: {}, c: "d e" } as never }),
          [...(url as unknown as { fileURLToPathBuffer(path: string): Buffer }).fileURLToPathBuffer("file:///a%20b")],
        ];
      },
    ],
    [
      "convert between paths and URLs",
      () => {
        const { fileURLToPath, pathToFileURL, format, urlToHttpOptions, domainToASCII, domainToUnicode } =
          process.getBuiltinModule("node:url");
        const code = (run: () => unknown): unknown => {
          try {
            return run();
          } catch (error) {
            return (error as { code?: string }).code;
          }
        };
        const { protocol, hostname, path, port, auth } = urlToHttpOptions(new URL("http://u:p@[::1]:81/a?b"));
        return [
          fileURLToPath("file:///a%20b/c"),
          pathToFileURL("/a b/#c?%").href,
          code(() => fileURLToPath("http://x")),
          code(() => fileURLToPath("file://host/x")),
          format(new URL("http://u:p@xn--4gbrim.xn--wgbh1c/a?b#c"), {
            auth: false,
            fragment: false,
            unicode: true,
          }),
          [protocol, hostname, path, port, auth],
          domainToASCII("español.com"),
          domainToUnicode("xn--espaol-zwa.com"),
        ];
      },
    ],
    [
      "parse and format query strings",
      () => {
        const qs = process.getBuiltinModule("node:querystring");
        const texts = ["a=1&b=2&a=3", "a", "=x", "&&", "a=%zz&b=%E4", "a+b=c%20d", "a:1;b:2", "__proto__=1"];
        return [
          texts.map((text) => ({ ...qs.parse(text) })),
          { ...qs.parse("a:1;b:2", ";", ":") },
          { ...qs.parse("a=1&b=2&c=3", undefined, undefined, { maxKeys: 2 }) },
          qs.stringify({ a: [1, "x y"], b: true, c: null, d: undefined, e: "ä&=" } as never),
          qs.stringify({ a: 1 }, ";", ":"),
          qs.escape("a b*"),
          qs.unescape("%41%zz"),
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});

describe("node:timers", () => {
  test.for<Case>([
    [
      "returns timer objects",
      async () => {
        const { setTimeout: start, clearTimeout: stop, setImmediate: soon } = process.getBuiltinModule("node:timers");
        const seen: unknown[] = [];
        const stopped = start(() => seen.push("stopped"), 1);
        const timer = start((...args: unknown[]) => seen.push(args), 1, "a", "b");
        seen.push(timer.unref() === timer, timer.hasRef(), timer.ref().hasRef(), typeof +timer);
        stop(stopped);
        soon(() => seen.push("soon"));
        await new Promise((resolve) => start(resolve, 20));
        // After a pause of the machine, all timers are due before the immediate runs.
        await new Promise((resolve) => soon(resolve));
        return seen.map((one) => (one === "soon" ? "soon" : one)).sort();
      },
    ],
    [
      "has timers as promises",
      async () => {
        const {
          setTimeout: sleep,
          setInterval: ticks,
          setImmediate: turn,
          scheduler,
        } = process.getBuiltinModule("node:timers/promises");
        const seen: unknown[] = [await sleep(1, "slept"), await turn("turned")];
        for await (const value of ticks(1, "tick")) if (seen.push(value) >= 4) break;
        await scheduler.wait(1);
        const controller = new AbortController();
        const aborted = sleep(10_000, undefined, { signal: controller.signal }).catch((e: Error) => [
          e.name,
          (e as { code?: string }).code,
        ]);
        controller.abort();
        return [seen, await aborted];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});
