// Attack: obtain an object or function of the prelude or the host, through errors, stacks, callers, or the chain of
// constructors and prototypes of everything that a guest receives.
import { describe, expect, test } from "vitest";
import { DYNAMIC_CODE } from "../../support/dynamic-code.ts";
import { HEADER, runGuest } from "../../support/guest.ts";

const SETTINGS = {
  header: { granted: ["kv"], denied: ["fetch"], maxPendingCapabilityCalls: 2 },
  capabilities: {
    kv: (input: unknown) =>
      input === "fail"
        ? ({ ok: false, code: "INTERNAL", message: "The capability failed" } as const)
        : ({ ok: true, value: { deep: [{ er: "x" }] } } as const),
  },
};

/** All values that the prelude passes to a guest, as expressions. */
const GIVEN: readonly [name: string, expression: string][] = [
  ["ctx", "ctx"],
  ["ctx.log", "ctx.log"],
  ["ctx.log.warn", "ctx.log.warn"],
  ["ctx.progress", "ctx.progress"],
  ["ctx.signal", "ctx.signal"],
  ["ctx.signal's getter", "Object.getOwnPropertyDescriptor(ctx, 'signal').get"],
  ["a capability", "ctx.kv"],
  ["a capability's promise", "ctx.kv(1)"],
  ["a capability's answer", "await ctx.kv(1)"],
  ["a capability's failure", "await ctx.kv('fail').catch((error) => error)"],
  ["a capability that was denied", "await ctx.fetch().catch((error) => error)"],
  ["a capability past its quota", "await Promise.all([ctx.kv(1), ctx.kv(2), ctx.kv(3)]).catch((error) => error)"],
  ["a capability whose input is no JSON", "await ctx.kv(1n).catch((error) => error)"],
  ["a log's promise", "ctx.log('x')"],
  ["input", "input"],
  ["console", "console"],
  ["console.log", "console.log"],
  ["performance", "performance"],
  ["performance.now", "performance.now"],
  ["setTimeout", "setTimeout"],
  ["a timer's id", "setTimeout(() => {}, 0)"],
  ["an error of setTimeout", "(() => { try { setTimeout(1) } catch (error) { return error } })()"],
  ["an error of eval", "(() => { try { eval('(') } catch (error) { return error } })()"],
  ["an error of import()", "await import('x').catch((error) => error)"],
  ["an error of JSON.parse", "(() => { try { JSON.parse('{') } catch (error) { return error } })()"],
  ["an overflow of the stack", "(() => { try { (function f() { f() })() } catch (error) { return error } })()"],
  [
    "an overflow within the prelude",
    "(() => { let got; (function f() { try { f() } catch (error) { try { console.log({ a: 1 }) } catch (inner) { got ??= inner } } })(); return got ?? {} })()",
  ],
  ["an error of progress", "(() => { try { ctx.progress() } catch (error) { return error } })()"],
  ["AbortSignal.abort()", "AbortSignal.abort()"],
  ["AbortSignal.abort().reason", "AbortSignal.abort().reason"],
  ["AbortController", "new AbortController()"],
  ["an Event", "new Event('x')"],
  ["an EventTarget", "new EventTarget()"],
  ["DOMException", "DOMException"],
  ["an error of atob", "(() => { try { atob('*') } catch (error) { return error } })()"],
  ["an error of structuredClone", "(() => { try { structuredClone(() => {}) } catch (error) { return error } })()"],
  ["a structured clone", "structuredClone({ a: [new Map([[1, new Date(0)]])] })"],
  ["TextEncoder", "new TextEncoder()"],
  ["TextDecoder", "new TextDecoder()"],
  ["an error of TextDecoder", "(() => { try { new TextDecoder('x') } catch (error) { return error } })()"],
  ["URL", "new URL('https://a.b/')"],
  ["an error of URL", "(() => { try { new URL('x') } catch (error) { return error } })()"],
  ["URLSearchParams", "new URLSearchParams('a=1')"],
  ["the getter of a lazy global", "Object.getOwnPropertyDescriptor(globalThis, 'URLSearchParams').get ?? {}"],
  ["the setter of a lazy global", "Object.getOwnPropertyDescriptor(globalThis, 'EventTarget').set ?? {}"],
  ["the global object", "globalThis"],
  ["this of a sloppy function", "(function () { return this })()"],
  ["arguments of execute", "arguments"],
];

describe("Nothing of another realm lies behind", () => {
  test.for(GIVEN)("%s", async ([, expression]) => {
    const end = await runGuest(
      `async function (input, ctx) {
        const given = ${expression};
        const problems = [];
        const seen = new Set();
        const own = new Set([Object.prototype, Function.prototype, null]);
        const walk = (value, path, depth) => {
          if ((typeof value !== "object" && typeof value !== "function") || value === null || seen.has(value) || depth > 6) return;
          seen.add(value);
          if (seen.size > 5000) return;
          // The end of every chain is this realm's own Object.prototype, or null.
          let top = value;
          for (let next = Object.getPrototypeOf(top); next !== null; next = Object.getPrototypeOf(next)) top = next;
          if (top !== Object.prototype && top !== value) problems.push(path + ": another realm");
          // Every function belongs to this realm, and creates code only in this realm.
          const maker = typeof value === "function" ? value : value.constructor;
          if (typeof maker === "function") {
            if (!(maker instanceof Function) && maker !== Function.prototype) problems.push(path + ": a stranger's function");
            let made;
            try { made = maker.constructor("return this"); } catch {}
            if (typeof made === "function" && made !== maker) {
              let got;
              try { got = made(); } catch {}
              // An async function gives a promise of this realm, a generator an iterator.
              const isOurs = made instanceof Function && (got === undefined || got === globalThis || got instanceof Object);
              if (!isOurs || !${DYNAMIC_CODE} && got === globalThis) problems.push(path + ": makes code");
            }
          }
          walk(Object.getPrototypeOf(value), path + ".__proto__", depth + 1);
          for (const key of Reflect.ownKeys(value)) {
            if (value === globalThis && /^(Object|Function|Array)$/.test(String(key))) continue;
            let descriptor;
            try { descriptor = Object.getOwnPropertyDescriptor(value, key); } catch { continue; }
            for (const part of ["value", "get", "set"]) walk(descriptor?.[part], path + "." + String(key), depth + 1);
          }
        };
        walk(given, "given", 0);
        return { problems, size: seen.size };
      }`,
      { ...SETTINGS, input: { a: { b: [1] } } },
    );
    expect(end.outcome).toBe("output");
    expect((end.value as { readonly problems: readonly string[] }).problems).toEqual([]);
  });

  test("a text that an error carries: no path and no frame of the host", async () => {
    const end = await runGuest(
      `async (input, ctx) => {
        const texts = [];
        const note = (error) => texts.push(String(error?.stack), String(error?.message));
        for (const run of [() => eval("("), () => new URL("x"), () => atob("*"), () => setTimeout(1), () => structuredClone(() => {}), () => ctx.progress(), () => new TextDecoder("x"), () => new ArrayBuffer(-1), () => null.x]) {
          try { run(); } catch (error) { note(error); }
        }
        await import("x").catch(note);
        await ctx.kv("fail").catch(note);
        await ctx.fetch().catch(note);
        (function f() { try { f(); } catch (error) { note(error); } })();
        return texts.join("\\n");
      }`,
      SETTINGS,
    );
    expect(end.outcome).toBe("output");
    expect(String(end.value)).not.toMatch(/\/work\/|node_modules|node:|isolated[-_]vm|\/home\/|file:/);
  });
});

/** Each runs guest code while the prelude is on the stack. `note` is the guest's sloppy function that looks around. */
const ON_STACK: readonly [name: string, attempt: string][] = [
  ["execute itself", "note()"],
  [
    "a getter that console.log reads",
    "console.log({ [Symbol.toStringTag]: 'x', get [Symbol.toStringTag]() { note(); return 'x' } })",
  ],
  [
    "a proxy that console.log walks",
    "console.log(new Proxy({}, { ownKeys: note, getPrototypeOf: function () { note(); return null } }))",
  ],
  [
    "a getter of a stack that console.log reads",
    "console.log(Object.defineProperty(new Error('x'), 'stack', { get: note }))",
  ],
  ["a toJSON that a capability calls", "await ctx.kv({ toJSON: note })"],
  ["a getter of a progress report", "ctx.progress({ get progress() { note(); return 1 } })"],
  ["a valueOf of a delay", "setTimeout(() => {}, { valueOf: note })"],
  ["a listener", "{ const t = new EventTarget(); t.addEventListener('x', note); t.dispatchEvent(new Event('x')) }"],
  ["an abort listener", "{ const c = new AbortController(); c.signal.onabort = note; c.abort() }"],
  ["an iterator of AbortSignal.any", "try { AbortSignal.any({ [Symbol.iterator]: note }) } catch {}"],
  ["a timer", "await new Promise((done) => setTimeout(function () { note(); done() }, 0))"],
  ["a microtask", "await new Promise((done) => queueMicrotask(function () { note(); done() }))"],
  ["a getter that structuredClone reads", "structuredClone({ get x() { note(); return 1 } })"],
  ["a toString of a label", "try { new TextDecoder({ toString: note }) } catch {}"],
  ["a toString of text", "new TextEncoder().encode({ toString: note })"],
  ["a toString of base64", "try { btoa({ toString: note }) } catch {}"],
  ["a valueOf of a length", "new ArrayBuffer({ valueOf: note })"],
  ["a thenable that is awaited", "await { then: function (done) { note(); done() } }"],
  [
    "a method that the URL chunk calls as it loads",
    "{ const define = Object.defineProperty; Object.defineProperty = function (...args) { note(); return define(...args) }; new URL('http://ä.example/'); Object.defineProperty = define }",
  ],
  ["a toString of a URL", "try { new URL({ toString: note }) } catch {}"],
  [
    "a stack that is prepared",
    "{ const old = Error.prepareStackTrace; Error.prepareStackTrace = function (e, s) { look(s); return s }; try { eval('(') } catch (error) { void error.stack } Error.prepareStackTrace = old }",
  ],
];

describe("The stack reveals no caller from", () => {
  test.for(ON_STACK)("%s", async ([, attempt]) => {
    // Sloppy functions, since strict ones hide more.
    const end = await runGuest(
      `async function execute(input, ctx) {
        const found = new Set();
        let looked = 0;
        const look = function (sites) {
          looked += 1;
          for (const site of sites) {
            for (const name of ["getThis", "getFunction", "getTypeName", "getEvalOrigin", "getScriptNameOrSourceURL"]) {
              const got = site[name]?.();
              if ((typeof got === "object" && got !== null) || typeof got === "function") found.add(got);
            }
            found.add(site.constructor);
          }
        };
        const note = function () {
          const old = Error.prepareStackTrace;
          Error.prepareStackTrace = (error, sites) => { look(sites); return ""; };
          Error.stackTraceLimit = 200;
          void new Error().stack;
          const target = {};
          Error.captureStackTrace(target);
          void target.stack;
          Error.prepareStackTrace = old;
          // The callers, as sloppy functions know them.
          for (let at = note, depth = 0; at !== null && at !== undefined && depth < 50; depth += 1) {
            try { at = at.caller; } catch { break; }
            if (at !== null && at !== undefined) { found.add(at); try { for (const arg of at.arguments ?? []) found.add(arg); } catch {} }
          }
          try { found.add(arguments.callee.caller); } catch {}
          return 1;
        };
        ${attempt};
        // May be found: the guest's own three, Object behind a call site, and the resolving functions of a promise.
        const known = new Set([execute, note, look, Object]);
        const strangers = [];
        for (const item of found) {
          if (typeof item !== "function" || known.has(item)) continue;
          const source = Function.prototype.toString.call(item);
          if (source === "function () { [native code] }" && item.length === 1) continue;
          if (/native code/.test(source) ? !/CallSite/.test(source) : /postToHost|ReflectApply|callState|defineValue|MapPrototype/.test(source)) strangers.push(source.slice(0, 80));
        }
        return { looked, strangers };
      }`,
      SETTINGS,
    );
    expect(end.outcome).toBe("output");
    const { looked, strangers } = end.value as { readonly looked: number; readonly strangers: readonly string[] };
    expect(looked).toBeGreaterThan(0);
    expect(strangers).toEqual([]);
  });
});

describe("A guest cannot", () => {
  test.for<[name: string, attempt: string, value: unknown]>([
    [
      "change ctx.log for the next call",
      "(() => { try { ctx.log.info = 1 } catch {} return typeof ctx.log.info })()",
      "function",
    ],
    [
      "find Node behind process",
      "['binding', 'dlopen', 'kill', '_linkedBinding'].map((name) => { try { return typeof process[name]('fs'); } catch (error) { return typeof error; } }).join()",
      "object,object,object,object",
    ],
    [
      "make an AbortSignal",
      "(() => { try { return String(new AbortSignal()) } catch (error) { return error.name } })()",
      "TypeError",
    ],
    [
      "make an AbortSignal by a symbol of its own",
      "(() => { try { return String(new AbortSignal(Symbol('construct'))) } catch (error) { return error.name } })()",
      "TypeError",
    ],
    [
      "reach what abort() is made of",
      "Object.getOwnPropertyNames(AbortSignal).sort().join()",
      "abort,any,length,name,prototype,timeout",
    ],
    [
      "reach what an Event is made of",
      "Object.getOwnPropertyNames(Event).sort().join()",
      "AT_TARGET,BUBBLING_PHASE,CAPTURING_PHASE,NONE,length,name,prototype",
    ],
    [
      "use a member of another class on its own object",
      "(() => { try { return Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted').get.call({}) } catch (error) { return error.name } })()",
      "TypeError",
    ],
  ])("%s", async ([, attempt, value]) => {
    expect((await runGuest(`(input, ctx) => ${attempt}`, SETTINGS)).value).toEqual(value);
  });

  test("post more than its caps allow, however it goes about it", async () => {
    const end = await runGuest(
      `(input, ctx) => {
        for (let i = 0; i < 5000; i += 1) ctx.progress({ progress: i });
        for (let i = 0; i < 20000; i += 1) console.log("x".repeat(100));
        let timers = 0;
        try { for (;;) { clearTimeout(setTimeout(() => {}, 1e6)); timers += 1; } } catch (error) { return [error.name, timers]; }
      }`,
      { header: { timers: 20, logLines: 50 } },
    );
    expect(end.outcome).toBe("output");
    expect(end.progress).toHaveLength(1_000);
    expect(end.logs.filter((line) => line.startsWith("info"))).toHaveLength(50);
    expect(end.logs.length).toBeLessThanOrEqual(500);
    expect(end.value).toEqual(["RangeError", expect.any(Number)]);
    expect((end.value as [string, number])[1]).toBeLessThanOrEqual(200);
  });

  test("lay more text in the worker's way than one call's largest input", async () => {
    const end = await runGuest(
      `async (input, ctx) => {
        const text = "x".repeat(20 * 1024 * 1024);
        const results = await Promise.allSettled([ctx.kv(text), ctx.kv(text), ctx.kv(text), ctx.kv(text)]);
        return results.map((result) => result.reason?.code ?? "sent");
      }`,
      { ...SETTINGS, header: { ...HEADER, granted: ["kv"] }, memoryMiB: 256 },
    );
    expect(end.value).toEqual(["sent", "sent", "sent", "QUOTA_EXCEEDED"]);
  });
});
