// Tests node:process, node:os, node:async_hooks and the unsupported built-ins in a guest.
import { builtinModules } from "node:module";
import { describe, expect, test } from "vitest";
import { NODE_BUILTINS } from "../../../../src/sandbox/contract/node-builtins.ts";
import { expectLikeNode, inGuest, runGuest } from "../../../support/guest.ts";

describe("process", () => {
  test("is harmless, and has the version of the oldest supported Node", async () => {
    expect(
      await inGuest(() => [
        process.env,
        [process.versions.node, Boolean(process.versions.v8), process.versions.node.split(".").map(Number)],
        process.cwd(),
        process.platform,
        (process as { browser?: unknown }).browser ?? "unset",
        process.version,
        process.release.name,
        process.argv.length,
        Object.prototype.toString.call(process),
        process.exitCode ?? "unset",
        typeof process.hrtime.bigint(),
        process.memoryUsage().rss,
      ]),
    ).toEqual([
      {},
      ["24.0.0", false, [24, 0, 0]],
      "/",
      "linux",
      "unset",
      "v24.0.0",
      "node",
      2,
      "[object process]",
      "unset",
      "bigint",
      0,
    ]);
  });

  test.for(["exit", "abort", "kill", "chdir", "dlopen", "binding"])("%s throws with a reason", async (name) => {
    const end = await runGuest(`() => process.${name}(1, 2)`);
    expect(end).toMatchObject({ outcome: "thrown", value: { code: "ERR_SANDBOX_UNSUPPORTED" } });
    expect(end.value).toMatchObject({ message: expect.stringMatching(new RegExp(`process\\.${name}`)) });
  });

  test("runs ticks before timers, in order, with arguments", async () => {
    await expectLikeNode(async () => {
      const seen: unknown[] = [];
      setTimeout(() => seen.push("timer"), 0);
      process.nextTick((a: unknown, b: unknown) => seen.push([a, b]), 1, 2);
      process.nextTick(() => seen.push("second"));
      await new Promise((resolve) => setTimeout(resolve, 5));
      return seen;
    }, undefined);
  });

  test("accepts listeners, and logs its output", async () => {
    const end = await runGuest(() => {
      const seen: unknown[] = [];
      const chained = process.on("custom" as never, ((x: unknown) => seen.push(x)) as never) === process;
      process.emit("custom" as never, 1 as never);
      process.stdout.write("to stdout\n");
      process.stderr.write("to stderr");
      process.emitWarning("careful");
      return [chained, seen, process.listenerCount("custom"), process.stdout.isTTY];
    });
    expect(end.value).toEqual([true, [1], 1, false]);
    expect(end.logs).toEqual(["info: to stdout", "error: to stderr", "warn: Warning: careful"]);
  });
});

describe("process.env", () => {
  /** Statements that change `env`. The result is their error, or the values that they return and leave. */
  test.for<readonly [what: string, statements: string]>([
    ["numbers become text", "env.X = 5"],
    ["undefined becomes text", "env.X = undefined"],
    ["null becomes text", "env.X = null"],
    ["objects become text", "env.X = { toString: () => 'text' }"],
    ["lone surrogates are replaced", "env.X = '\\ud800'"],
    ["Object.assign converts", "Object.assign(env, { X: 1n, Y: [1, 2] })"],
    ["symbols are rejected as values", "env.X = Symbol('x')"],
    ["symbols are rejected as names", "env[Symbol('x')] = 1"],
    ["symbols are absent", "return [env[Symbol.toStringTag], Symbol.iterator in env, delete env[Symbol.iterator]]"],
    ["__proto__ is a name", "env.__proto__ = { X: 1 }; return [env.X, Object.keys(env).includes('__proto__')]"],
    ["deletes", "env.X = 1; return [delete env.X, delete env.Y, 'X' in env]"],
    ["impossible names are ignored", "env[''] = 1; env['=X'] = 1; env['X=Y'] = 1"],
    ["a complete descriptor is accepted", "define({ value: 1, writable: true, enumerable: true, configurable: true })"],
    ["a descriptor of a value alone is rejected", "env.X = 1; define({ value: 2 })"],
    [
      "a read-only descriptor is rejected",
      "define({ value: 1, writable: false, enumerable: true, configurable: true })",
    ],
    ["a hidden descriptor is rejected", "define({ value: 1, writable: true, configurable: true })"],
    ["a descriptor without a value is rejected", "define({ writable: true, enumerable: true, configurable: true })"],
    ["a getter is rejected", "define({ get: () => 1, enumerable: true, configurable: true })"],
    ["a setter is rejected", "define({ set() {} })"],
    ["Reflect.defineProperty rejects, too", "Reflect.defineProperty(env, 'X', { value: 1 })"],
    ["Reflect.preventExtensions fails", "return Reflect.preventExtensions(env)"],
    ["descriptors are ordinary", "env.X = 1; return Object.getOwnPropertyDescriptor(env, 'X')"],
    [
      "inheriting objects have properties of their own",
      "const own = Object.create(env); own.X = 1; return [own, env.X]",
    ],
    ["it can be copied", "env.X = 1; return [{ ...env }.X, JSON.parse(JSON.stringify(env)).X, structuredClone(env).X]"],
  ])("%s, as in Node", async ([, statements]) => {
    await expectLikeNode((body: string) => {
      const { env } = process;
      const before = Object.keys(env).filter((name) => name.startsWith("X") || name === "Y");
      for (const name of before) delete env[name];
      const define = (descriptor: PropertyDescriptor): unknown => Object.defineProperty(env, "X", descriptor);
      try {
        const value: unknown = new Function("env", "define", body)(env, define);
        return [value ?? null, env.X ?? null, env.Y ?? null, env[""] ?? null, env["=X"] ?? null, env["X=Y"] ?? null];
      } catch (error) {
        const { name, code, message } = error as NodeJS.ErrnoException;
        return [name, code ?? null, message];
      } finally {
        delete env.X;
        delete env.Y;
        Reflect.deleteProperty(env, "__proto__");
      }
    }, statements);
  });

  test("rejects Object.freeze", async () => {
    expect(await runGuest("() => Object.freeze(process.env)")).toMatchObject({ outcome: "thrown" });
  });

  test("does not look at polluted prototypes", async () => {
    expect(
      await inGuest(() => {
        const { env } = process;
        const seen: unknown[] = [];
        for (const trap of ["get", "has", "ownKeys", "getOwnPropertyDescriptor", "deleteProperty"]) {
          (Object.prototype as Record<string, unknown>)[trap] = () => seen.push(trap);
        }
        env.X = 5 as never;
        return [seen, [env.X, "X" in env, Object.keys(env), delete env.X]];
      }),
    ).toEqual([[], ["5", true, ["X"], true]]);
  });
});

describe("the table of built-ins", () => {
  test("has every built-in of Node", () => {
    const names = builtinModules.map((name) => name.replace(/^node:/, "")).sort();
    expect(names.filter((name) => !NODE_BUILTINS.has(name))).toEqual([]);
  });

  test.for([...NODE_BUILTINS.keys()])("%s can be loaded", async (name) => {
    const end = await runGuest(`() => typeof process.getBuiltinModule("node:${name}")`);
    expect(end.logs).toEqual([]);
    expect(["function", "object"]).toContain(end.value);
  });

  test.for([
    ["net", "connect", /sockets; use fetch/],
    ["tls", "connect", /use fetch/],
    ["http2", "connect", /use fetch/],
    ["dgram", "createSocket", /use fetch/],
    ["dns", "lookup", /use fetch/],
    ["child_process", "execSync", /cannot start processes/],
    ["worker_threads", "Worker", /cannot start processes or threads/],
    ["cluster", "fork", /cannot start processes/],
    ["vm", "measureMemory", /cannot control the engine/],
    ["v8", "setFlagsFromString", /cannot control the engine/],
    ["inspector", "open", /cannot control the engine/],
    ["sqlite", "DatabaseSync", /no database files/],
    ["wasi", "WASI", /no files/],
    ["module", "register", /bundled at build time/],
  ] as const)("%s.%s throws with an alternative", async ([module, name, words]) => {
    const call = /^[A-Z]/.test(name) ? `new module.${name}("x")` : `module.${name}("x")`;
    const end = await runGuest(`() => { const module = process.getBuiltinModule("node:${module}"); return ${call}; }`);
    expect(end).toMatchObject({ outcome: "thrown", value: { code: "ERR_SANDBOX_UNSUPPORTED" } });
    expect(end.value).toMatchObject({ message: expect.stringMatching(words) });
  });

  test("vm evaluates scripts in the tool's own context", async () => {
    await expectLikeNode(() => {
      const vm = process.getBuiltinModule("node:vm");
      const script = new vm.Script("globalThis.count = (globalThis.count ?? 0) + 1");
      const fails = (code: string): string => {
        try {
          return String(vm.runInThisContext(code));
        } catch (error) {
          return (error as Error).name;
        }
      };
      const local = 1;
      const results = [script.runInThisContext(), script.runInThisContext(), fails("typeof local"), fails("}"), local];
      Reflect.deleteProperty(globalThis, "count");
      return [results, Array.isArray(vm.runInThisContext("[1, 2]")), vm.isContext({})];
    }, undefined);
  });

  test("vm fails where the host has turned dynamic code off", async () => {
    const end = await runGuest("() => process.getBuiltinModule('node:vm').runInThisContext('1')", { features: [] });
    expect(end).toMatchObject({ outcome: "thrown", value: { name: expect.stringMatching(/EvalError|TypeError/) } });
  });

  test("has the members that packages read while they load", async () => {
    expect(
      await inGuest(() => {
        const get = (name: string): { readonly [key: string]: never } => process.getBuiltinModule(name) as never;
        const { STATUS_CODES, METHODS, Agent } = get("http") as unknown as {
          STATUS_CODES: object;
          METHODS: string[];
          Agent: new () => object;
        };
        class Mine extends Agent {}
        const { isIP, isIPv6, Socket } = get("net") as unknown as {
          isIP(x: string): number;
          isIPv6(x: string): boolean;
          Socket: new () => object;
        };
        class Sub extends Socket {}
        const { createRequire } = get("module") as unknown as { createRequire(x: string): (id: string) => unknown };
        let missing: unknown;
        try {
          createRequire("file:///x")("lodash");
        } catch (error) {
          missing = (error as { code?: string }).code;
        }
        return [
          Object.keys(STATUS_CODES).length > 50,
          METHODS.includes("GET"),
          new Mine() instanceof Agent,
          [isIP("1.2.3.4"), isIP("::1"), isIP("x"), isIP("1.2.3.256"), isIPv6("fe80::1%eth0"), isIP("01.2.3.4")],
          Sub.prototype instanceof Socket,
          get("worker_threads").isMainThread,
          (get("tty") as unknown as { isatty(): boolean }).isatty(),
          (get("os") as unknown as { EOL: string }).EOL,
          createRequire("file:///x")("path") === get("path"),
          missing,
        ];
      }),
    ).toEqual([true, true, true, [4, 6, 0, 0, true, 0], true, true, false, "\n", true, "MODULE_NOT_FOUND"]);
  });
});

describe("node:async_hooks", () => {
  test.for<[why: string, run: () => unknown]>([
    [
      "keeps a store through callbacks",
      async () => {
        const { AsyncLocalStorage, AsyncResource } = process.getBuiltinModule("node:async_hooks");
        const storage = new AsyncLocalStorage<string>();
        const seen: unknown[] = [];
        const note = (name: string) => (): void => {
          seen.push([name, storage.getStore() ?? null]);
        };
        let bound: () => void = () => {};
        let snapshot: (run: () => void) => void = () => {};
        let resource: { runInAsyncScope(run: () => void): void } | undefined;
        storage.run("a", () => {
          setTimeout(note("timeout"), 1);
          setImmediate(note("immediate"));
          queueMicrotask(note("microtask"));
          process.nextTick(note("tick"));
          void Promise.resolve().then(note("then")).finally(note("finally"));
          Promise.reject(new Error("x")).catch(note("catch"));
          bound = AsyncLocalStorage.bind(note("bound"));
          snapshot = AsyncLocalStorage.snapshot() as typeof snapshot;
          resource = new AsyncResource("X");
          storage.run("b", note("nested"));
          storage.exit(note("exit"));
          note("after")();
        });
        note("outside")();
        bound();
        snapshot(note("snapshot"));
        resource?.runInAsyncScope(note("resource"));
        await new Promise((resolve) => setTimeout(resolve, 20));
        // After a pause of the machine, all timers are due before the immediate runs.
        await new Promise((resolve) => setImmediate(resolve));
        return seen.map((one) => JSON.stringify(one)).sort();
      },
    ],
    [
      "has channels that report whether they have subscribers",
      () => {
        const { channel, tracingChannel, hasSubscribers } = process.getBuiltinModule("node:diagnostics_channel");
        const seen: unknown[] = [];
        const listener = (message: unknown, name: unknown): void => {
          seen.push([message, name]);
        };
        channel("x").subscribe(listener);
        channel("x").publish({ a: 1 });
        const before = hasSubscribers("x");
        channel("x").unsubscribe(listener);
        const tracing = tracingChannel("t");
        tracing.subscribe({
          start: () => seen.push("start"),
          end: () => seen.push("end"),
          error: () => seen.push("error"),
        } as never);
        const result = tracing.traceSync(() => 42, {});
        return [seen, before, hasSubscribers("x"), result];
      },
    ],
    [
      "traces calls with callbacks, results that are no promises, and errors",
      async () => {
        const { tracingChannel, channel } = process.getBuiltinModule("node:diagnostics_channel");
        const { AsyncLocalStorage } = process.getBuiltinModule("node:async_hooks");
        const seen: unknown[] = [];
        const tracing = tracingChannel("traced");
        const storage = new AsyncLocalStorage<object>();
        const note = (phase: string) => (message: unknown) => {
          seen.push([phase, { ...(message as object) }, storage.getStore() ?? null]);
        };
        const handlers = {
          start: note("start"),
          end: note("end"),
          asyncStart: note("asyncStart"),
          asyncEnd: note("asyncEnd"),
          error: note("error"),
        };
        const untraced = tracing.traceCallback(
          (a: number, done: (error: null, value: number) => void) => done(null, a),
          -1,
          {},
          null,
          7,
          (_: null, value: number) => seen.push(value),
        );
        tracing.subscribe(handlers as never);
        tracing.start.bindStore(storage, (data) => ({ started: Object.keys(data as object) }) as never);
        const later = (name: string, fail: boolean): Promise<unknown> =>
          new Promise((resolve) => {
            tracing.traceCallback(
              (_first: string, done: (error: unknown, value?: unknown) => void, _last: number) => {
                setTimeout(() => (fail ? done("failed") : done(null, "value")), 1);
              },
              1,
              { name },
              null,
              "first",
              (error: unknown, value: unknown) => resolve([error, value ?? null]),
              3,
            );
          });
        const callbacks = [await later("good", false), await later("bad", true)];
        const fail = (run: () => unknown): unknown => {
          try {
            return run();
          } catch (error) {
            return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
          }
        };
        const errors = [
          fail(() => tracing.traceCallback((_callback: unknown) => {}, -1, {}, null, 5)),
          fail(() =>
            tracing.traceSync(
              () => {
                throw new Error("sync");
              },
              { name: "sync" },
            ),
          ),
          fail(() =>
            tracing.tracePromise(
              (() => {
                throw new Error("early");
              }) as never,
              { name: "early" },
            ),
          ),
          fail(() => channel(5 as never)),
          fail(() => tracingChannel({ start: 5 } as never)),
        ];
        const settled = await Promise.allSettled([
          tracing.tracePromise(async () => "async", { name: "async" }),
          tracing.tracePromise(
            async () => {
              throw new Error("late");
            },
            { name: "late" },
          ),
        ]);
        const outcomes = settled.map((one) => ("value" in one ? one.value : (one.reason as Error).message));
        const subscribed = [tracing.hasSubscribers, channel("tracing:traced:end").hasSubscribers];
        tracing.start.unbindStore(storage);
        const unsubscribed = [
          tracing.unsubscribe(handlers as never),
          tracing.unsubscribe(handlers as never),
          tracing.hasSubscribers,
        ];
        const shown = seen.map((one) =>
          JSON.stringify(one, (_key, value) => (value instanceof Error ? value.message : value)),
        );
        return [untraced ?? null, callbacks, errors, outcomes, subscribed, unsubscribed, shown];
      },
    ],
    [
      "publishes to all subscribers of a channel, to which one may be subscribed twice",
      () => {
        const { channel } = process.getBuiltinModule("node:diagnostics_channel");
        const seen: string[] = [];
        const one = channel("all");
        const add = (name: string) => () => {
          seen.push(name);
        };
        const [a, b] = [add("a"), add("b")];
        for (const subscriber of [a, b, a]) one.subscribe(subscriber);
        one.publish(1);
        const removed = [one.unsubscribe(a), one.unsubscribe(add("c"))];
        one.publish(2);
        return [seen, removed, channel("all") === one, one.name];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});

test("a subscriber of a channel that throws disturbs neither the publisher nor other subscribers", async () => {
  const end = await runGuest(async () => {
    const { channel } = process.getBuiltinModule("node:diagnostics_channel");
    const seen: unknown[] = [];
    channel("throws").subscribe(() => {
      throw new Error("from a subscriber");
    });
    channel("throws").subscribe((message) => void seen.push(message));
    channel("throws").publish("message");
    await new Promise((resolve) => setTimeout(resolve, 1));
    return seen;
  });
  expect(end).toMatchObject({ outcome: "output", value: ["message"] });
  expect(end.logs.join()).toContain("from a subscriber");
});

test("a bounded channel publishes before and after a call, as in Node 26", async () => {
  const { value } = await runGuest(() => {
    interface Bounded {
      readonly hasSubscribers: boolean;
      subscribe(handlers: object): void;
      unsubscribe(handlers: object): boolean;
      run(context: object, run: () => unknown): unknown;
    }
    const { boundedChannel, channel } = process.getBuiltinModule("node:diagnostics_channel") as unknown as {
      boundedChannel(name: string): Bounded;
      channel(name: string): { subscribe(run: () => void): void; withStoreScope(data: unknown): Disposable };
    };
    const seen: unknown[] = [];
    const bounded = boundedChannel("b");
    const handlers = { start: (m: object) => seen.push({ start: m }), end: (m: object) => seen.push({ end: m }) };
    bounded.subscribe(handlers);
    const result = bounded.run({ a: 1 }, () => {
      seen.push("runs");
      return 5;
    });
    const left = [bounded.unsubscribe(handlers), bounded.hasSubscribers];
    channel("scope").subscribe(() => seen.push("scope"));
    channel("scope").withStoreScope({})[Symbol.dispose]();
    return [seen, result, left];
  });
  expect(value).toEqual([[{ start: { a: 1 } }, "runs", { end: { a: 1 } }, "scope"], 5, [true, false]]);
});
