// Tests of ToolIsolate with real isolates: outcomes of loading, describing and calling, disposal, and state between calls.
import ivm from "isolated-vm";
import { describe, expect, test } from "vitest";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { ENGINE_FEATURE_NAMES } from "../../src/sandbox/contract/engine-features.ts";
import { TOOL_SCRIPT_NAME } from "../../src/sandbox/protocol/guest-messages.ts";
import { createEngine } from "../../src/sandbox/worker/isolate/engine.ts";
import { type GuestListener, IGNORE_MESSAGES } from "../../src/sandbox/worker/isolate/guest-call.ts";
import { createPreludeCache, ToolIsolate } from "../../src/sandbox/worker/isolate/tool-isolate.ts";
import {
  bundleCode,
  type GuestSettings,
  HEADER,
  openCode,
  openGuest,
  runGuest,
  sharedEngine,
  toBundle,
} from "../support/guest.ts";
import { activeTimers } from "../support/leftovers.ts";
import { loadCrypto } from "../support/load-crypto.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

const PATIENT_MS = PATIENT_LIMITS.timeoutMs;

const ADD = "{ description: 'Adds', default: ({ a, b }) => ({ sum: a + b }) }";

async function loadCode(code: string, settings: GuestSettings = {}) {
  await using tool = await openCode(code, { deadlineMs: 300, ...settings });
  const end = await tool.load();
  return { end, isDisposed: tool.isolate.isDisposed };
}

describe("ToolIsolate.load()", () => {
  test("ends with ready after the top level has run, including its awaits", async () => {
    const code = bundleCode("{ default: () => n }", "const n = await new Promise((done) => setTimeout(done, 1, 42));");
    await using tool = await openCode(code);
    expect(await tool.load()).toMatchObject({ outcome: "ready", text: "" });
    expect(await tool.call()).toMatchObject({ outcome: "output", text: "42" });
  });

  test("forwards logs of the top level, within separate limits", async () => {
    const code = bundleCode(ADD, "for (let i = 0; i < 150; i += 1) console.warn('line ' + i);");
    const { end } = await loadCode(code, { deadlineMs: 120_000 });
    expect(end.outcome).toBe("ready");
    expect(end.logs.filter((line) => line.startsWith("warn: line"))).toHaveLength(100);
    expect(end.logs.filter((line) => line.startsWith("dropped"))).toHaveLength(50);
  });

  test.for<[why: string, code: string, outcome: string, value: unknown]>([
    [
      "a top level that throws",
      bundleCode(ADD, "throw new TypeError('no')"),
      "thrown",
      { name: "TypeError", message: "no" },
    ],
    [
      "a top level that rejects",
      bundleCode(ADD, "await Promise.reject(new Error('late'))"),
      "thrown",
      { message: "late" },
    ],
    ["a namespace without a tool", bundleCode("{ nothing: 1 }"), "rejected", { name: "Error" }],
    ["a default export that is not a tool", bundleCode("{ default: 42 }"), "rejected", { name: "Error" }],
    ["an object whose execute is not a function", bundleCode("{ default: { execute: 'x' } }"), "rejected", {}],
    ["a missing namespace", "(async () => {})", "rejected", {}],
    [
      "a namespace whose getter throws",
      bundleCode("{ get default() { throw new Error('got') } }"),
      "thrown",
      { message: "got" },
    ],
    ["an execute whose getter throws", bundleCode("{ default: { get execute() { throw 1 } } }"), "thrown", {}],
    ["a syntax error", "(async (register) => {", "isolate-failed", undefined],
    ["a script that throws outside of its function", "throw new Error('early')", "isolate-failed", undefined],
  ])("ends with the right outcome for %s", async ([, code, outcome, value]) => {
    const { end } = await loadCode(code, { deadlineMs: 120_000 });
    expect(end.outcome).toBe(outcome);
    if (value === undefined) expect(end.text).toBe("");
    else expect(end.value).toMatchObject(value as object);
  });

  test.for<[why: string, topLevel: string]>([
    ["loops endlessly", "for (;;);"],
    ["awaits a promise that never settles", "await new Promise(() => {});"],
    ["queues microtasks endlessly", "const again = () => Promise.resolve().then(again); await again();"],
    ["keeps an interval timer", "setInterval(() => {}, 1); await new Promise(() => {});"],
  ])("is stopped by dispose() when the top level %s", async ([, topLevel]) => {
    expect(await loadCode(bundleCode(ADD, topLevel))).toMatchObject({ end: { outcome: "cpu" }, isDisposed: true });
  });
});

describe("ToolIsolate.describe()", () => {
  test.for<[why: string, namespace: string, definition: object]>([
    ["named exports", ADD, { description: "Adds", inputSchema: { type: "object" } }],
    [
      "a default export with execute",
      "{ default: { name: 'x', description: 'd', inputSchema: { type: 'object', required: ['a'] }, limits: { cpuMs: 5 }, execute() {} } }",
      { name: "x", description: "d", inputSchema: { type: "object", required: ["a"] }, limits: { cpuMs: 5 } },
    ],
    [
      "a CommonJS module with a default",
      "{ default: { default: { execute() {} } } }",
      { description: "", inputSchema: { type: "object" } },
    ],
    [
      "schemas of a library",
      `{ default: { inputSchema: { "~standard": { validate: () => ({}), jsonSchema: { input: () => ({ type: "object", title: "in" }) } } },
         outputSchema: { "~standard": { validate: () => ({}), jsonSchema: { output: () => ({ title: "out" }) } } }, execute() {} } }`,
      { description: "", inputSchema: { type: "object", title: "in" }, outputSchema: { title: "out" } },
    ],
    [
      "a library that has no JSON Schema",
      `{ default: { inputSchema: { "~standard": { validate: () => ({}), jsonSchema: { input() { throw new Error("cannot say") } } } }, execute() {} } }`,
      { description: "", inputSchema: { type: "object" } },
    ],
  ])("returns the definition of %s", async ([, namespace, definition]) => {
    await using tool = await openCode(bundleCode(namespace));
    await tool.load();
    const end = await tool.describe();
    expect(end.outcome).toBe("output");
    expect(end.value).toEqual(definition);
  });

  test.for<[why: string, namespace: string, outcome: string]>([
    ["a schema that is not an object", "{ default: { inputSchema: 5, execute() {} } }", "rejected"],
    ["a field that throws", "{ default: { get description() { throw new Error('x') }, execute() {} } }", "thrown"],
    ["a field that is not JSON", "{ default: { limits: { cpuMs: 5n }, execute() {} } }", "rejected"],
    [
      "a cycle",
      "(() => { const o = {}; o.o = o; return { default: { inputSchema: o, execute() {} } } })()",
      "rejected",
    ],
  ])("ends with the right outcome for %s", async ([, namespace, outcome]) => {
    await using tool = await openCode(bundleCode(namespace));
    await tool.load();
    expect((await tool.describe()).outcome).toBe(outcome);
  });
});

describe("ToolIsolate.call()", () => {
  test.for<[why: string, execute: string, outcome: string, value: unknown]>([
    ["a value", "({ a }) => ({ twice: a * 2 })", "output", { twice: 4 }],
    ["a promise", "async ({ a }) => [a]", "output", [2]],
    ["a thenable", "() => ({ then(done) { done('from then') } })", "output", "from then"],
    ["nothing", "() => {}", "output", null],
    ["null", "() => null", "output", null],
    ["a toJSON", "() => ({ toJSON: () => 7 })", "output", 7],
    ["a function", "() => () => {}", "unserializable", { message: "Expected a JSON value, got a function" }],
    ["a symbol", "() => Symbol('s')", "unserializable", { message: "Expected a JSON value, got a symbol" }],
    ["a BigInt", "() => 1n", "unserializable", { message: "Expected a JSON value, got a BigInt" }],
    [
      "a BigInt within",
      "() => ({ a: [1n] })",
      "unserializable",
      { message: "Expected a JSON value, got an object with a BigInt at /a/0" },
    ],
    [
      "a generator",
      "function* () { yield 1 }",
      "unserializable",
      { message: "Expected a JSON value, got a generator" },
    ],
    [
      "a cycle",
      "() => { const o = { x: {} }; o.x.o = o; return o }",
      "unserializable",
      { message: "Expected a JSON value, got an object with a cycle at /x/o" },
    ],
    [
      "a toJSON that throws",
      "() => ({ toJSON() { throw new Error('no') } })",
      "unserializable",
      { message: "Expected a JSON value, got an object that cannot be converted: no" },
    ],
    [
      "a toJSON that throws an object whose getter throws",
      "() => ({ toJSON() { throw { get message() { throw 1 } } } })",
      "unserializable",
      { name: "TypeError" },
    ],
    [
      "a revoked proxy",
      "() => { const p = Proxy.revocable([], {}); p.revoke(); return [p.proxy] }",
      "unserializable",
      {},
    ],
    ["an error", "() => { throw new RangeError('far') }", "thrown", { name: "RangeError", message: "far" }],
    ["an error with a code", "() => { throw Object.assign(new Error('m'), { code: 'E1' }) }", "thrown", { code: "E1" }],
    ["a text", "() => { throw 'text' }", "thrown", { message: "The tool threw a value that is not an Error: text" }],
    [
      "undefined",
      "() => { throw undefined }",
      "thrown",
      { message: "The tool threw a value that is not an Error: undefined" },
    ],
    [
      "an error whose getters throw",
      "() => { throw { get message() { throw 1 }, get name() { throw 1 } } }",
      "thrown",
      { name: "Error" },
    ],
    [
      "a revoked proxy as an error",
      "() => { const p = Proxy.revocable({}, {}); p.revoke(); throw p.proxy }",
      "thrown",
      { name: "Error" },
    ],
    ["a rejection", "() => Promise.reject(new TypeError('t'))", "thrown", { name: "TypeError" }],
  ])("ends with the right outcome for an execute that produces %s", async ([, execute, outcome, value]) => {
    const end = await runGuest(execute, { input: { a: 2 } });
    expect(end.outcome).toBe(outcome);
    if (typeof value === "object" && value !== null) expect(end.value).toMatchObject(value);
    else expect(end.value).toEqual(value);
  });

  test("validates and transforms input and output with the tool's schema library", async () => {
    const schema = (validate: string): string => `{ "~standard": { validate: ${validate} } }`;
    const namespace = `{ default: {
      inputSchema: ${schema("async (value) => value.n > 0 ? { value: { n: value.n * 10 } } : { issues: [{ message: 'too low', path: ['n', { key: 'a/b~c' }] }] }")},
      outputSchema: ${schema("(value) => value < 1000 ? { value: { out: value } } : { issues: [{ message: 'too high' }] }")},
      execute: ({ n }) => n + 1,
    } }`;
    await using tool = await openCode(bundleCode(namespace));
    await tool.load();
    expect(await tool.call({ n: 1 })).toMatchObject({ outcome: "output", value: { out: 11 } });
    expect(await tool.call({ n: 0 })).toMatchObject({
      outcome: "input",
      value: [{ pointer: "/n/a~1b~0c", message: "too low" }],
    });
    expect(await tool.call({ n: 100 })).toMatchObject({
      outcome: "output-schema",
      value: [{ pointer: "", message: "too high" }],
    });
  });

  test.for<[validate: string, outcome: string]>([
    ["() => ({})", "input"],
    ["() => ({ success: true })", "input"],
    ["() => ({ issues: undefined })", "input"],
    ["async () => ({})", "input"],
    ["() => ({ then: (resolve) => resolve({}) })", "input"],
    ["() => ({ value: 1, issues: null })", "input"],
    ["() => ({ value: 1, issues: [] })", "input"],
    ["() => undefined", "thrown"],
    ["() => null", "thrown"],
    ["() => true", "thrown"],
  ])("does not run the tool when its library returns %s", async ([validate, outcome]) => {
    const code = bundleCode(
      `{ default: { inputSchema: { "~standard": { validate: ${validate} } }, execute: () => "ran" } }`,
    );
    await using tool = await openCode(code);
    await tool.load();
    expect((await tool.call()).outcome).toBe(outcome);
  });

  test("reports at most 100 issues", async () => {
    const validate = "() => ({ issues: Array.from({ length: 1000 }, (_, i) => ({ message: 'm' + i, path: [i] })) })";
    const code = bundleCode(`{ default: { inputSchema: { "~standard": { validate: ${validate} } }, execute() {} } }`);
    await using tool = await openCode(code);
    await tool.load();
    expect((await tool.call()).value).toHaveLength(100);
  });

  test("reports the size of an output that is too large instead of sending it", async () => {
    const end = await runGuest("({ n }) => 'x'.repeat(n)", { input: { n: 101 }, header: { outputBytes: 100 } });
    expect(end).toMatchObject({ outcome: "too-large", text: "103" });
  });

  test("truncates the texts of an error", async () => {
    const end = await runGuest<unknown, unknown>(
      "() => { const e = new Error('m'.repeat(1e6)); e.name = 'n'.repeat(1e6); e.stack = 's'.repeat(1e6); throw e; }",
    );
    expect(end.outcome).toBe("thrown");
    expect(end.text.length).toBeLessThan(26_000);
  });

  test.for<[why: string, execute: string]>([
    ["a loop", "() => { for (;;); }"],
    ["a loop after an await", "async () => { await null; for (;;); }"],
    ["a promise that never settles", "() => new Promise(() => {})"],
    ["a thenable that never settles", "() => ({ then() {} })"],
    ["endless microtasks", "async () => { for (;;) await null; }"],
    [
      "a microtask that queues itself",
      "() => new Promise(() => { const again = () => queueMicrotask(again); again(); })",
    ],
    ["endless timers", "() => new Promise(() => { const again = () => setTimeout(again, 0); again(); })"],
    ["a getter of an error that loops", "() => { throw { get message() { for (;;); } } }"],
    ["a toJSON that loops", "() => ({ toJSON() { for (;;); } })"],
  ])("is stopped by dispose() in %s, and no code runs afterwards", async ([, execute]) => {
    await using tool = await openGuest(execute, { deadlineMs: 200 });
    expect((await tool.call()).outcome).toBe("cpu");
    await tool.isolate.dispose();
    expect(tool.isolate.isRunning).toBe(false);
    expect(tool.isolate.isDisposed).toBe(true);
  });

  test.for<[why: string, execute: string]>([
    ["objects", "() => { const all = []; for (;;) all.push({ n: [1, 2, 3] }); }"],
    ["text", "() => { const all = []; for (;;) all.push('x'.repeat(1e5) + all.length); }"],
    ["buffers", "() => { const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1)); }"],
    ["promises", "async () => { const all = []; for (;;) { all.push([all.length]); await null; } }"],
  ])("ends with memory when it fills the heap with %s", async ([, execute]) => {
    await using tool = await openGuest(execute, { memoryMiB: 16 });
    const end = await tool.call();
    // For buffers V8 throws a RangeError before it ends the isolate.
    expect(["memory", "thrown"]).toContain(end.outcome);
    if (end.outcome === "thrown") expect(end.value).toMatchObject({ name: "RangeError" });
  });

  test("ends at once in a disposed isolate", async () => {
    await using tool = await openGuest("() => 1");
    await tool.isolate.dispose("cancelled");
    expect(await tool.call()).toMatchObject({ outcome: "cancelled", text: "" });
  });
});

describe("ToolIsolate.dispose()", () => {
  test("is a no-op the second time and keeps the first reason", async () => {
    await using tool = await openGuest("() => new Promise(() => {})");
    const ended = tool.call();
    await tool.isolate.dispose("cancelled");
    await tool.isolate.dispose("cpu");
    expect((await ended).outcome).toBe("cancelled");
  });

  test("resolves only when the thread has left the guest", async () => {
    await using tool = await openGuest("() => { for (;;); }");
    const ended = tool.call();
    expect(tool.isolate.isRunning).toBe(true);
    const stopped = tool.isolate.dispose("cancelled").then(() => tool.isolate.isRunning);
    expect((await ended).outcome).toBe("cancelled");
    expect(await stopped).toBe(false);
  });

  test("resolves only when no other thread works for the guest, and counts the time until then", async () => {
    await using tool = await openGuest(
      `async () => {
        const key = await crypto.subtle.importKey("raw", new Uint8Array(8), "PBKDF2", false, ["deriveBits"]);
        const pbkdf2 = { name: "PBKDF2", hash: "SHA-512", salt: new Uint8Array(8), iterations: 1_000_000 };
        // Those that have not started are not run: there are enough of them that the call still runs when it is stopped.
        const jobs = Array.from({ length: 60 }, () => crypto.subtle.deriveBits(pbkdf2, key, 512));
        await Promise.all(jobs);
      }`,
    );
    const before = tool.isolate.busyMs;
    const ended = tool.call();
    await expect.poll(() => tool.isolate.busyMs - before, { interval: 5 }).toBeGreaterThan(60);
    expect(tool.isolate.isRunning).toBe(true);
    const stopped = tool.isolate.dispose("cancelled").then(() => tool.isolate.isRunning);
    expect((await ended).outcome).toBe("cancelled");
    expect(tool.isolate.isRunning).toBe(true);
    expect(await stopped).toBe(false);
  });

  test("clears the guest's timers", async () => {
    const before = activeTimers();
    await using tool = await openGuest(
      "() => { for (let i = 0; i < 100; i += 1) setInterval(() => {}, 60_000); return new Promise((done) => setTimeout(done, 1)); }",
    );
    const ended = tool.call();
    await ended;
    await tool.isolate.dispose();
    expect(activeTimers()).toBeLessThanOrEqual(before);
  });
});

describe("ToolIsolate between two calls", () => {
  test("keeps the state of the module", async () => {
    await using tool = await openGuest("(() => { let n = 0; return () => (n += 1); })()");
    expect([(await tool.call()).text, (await tool.call()).text]).toEqual(["1", "2"]);
  });

  test("clears timers, so that none fires in the next call", async () => {
    await using tool = await openGuest<{ first: boolean }, unknown>(
      `({ first }) => {
        if (first) { setTimeout(() => console.log("late"), 5); setInterval(() => console.log("again"), 1); return "first"; }
        return new Promise((done) => setTimeout(done, 40, "second"));
      }`,
    );
    expect((await tool.call({ first: true })).text).toBe('"first"');
    expect(await tool.isolate.settle(PATIENT_MS)).toBe(true);
    tool.isolate.detachCall();
    const second = await tool.call({ first: false });
    expect(second).toMatchObject({ text: '"second"', logs: [] });
  });

  test("forgets capability calls, so that a late response has no effect", async () => {
    let answer: (() => void) | undefined;
    await using tool = await openGuest<{ first: boolean }, unknown>(
      `({ first }, ctx) => {
        if (first) { ctx.kv("slow").then((got) => console.log("woken", got)); return "first"; }
        return ctx.log("ping").then(() => "second");
      }`,
      {
        header: { granted: ["kv"] },
        capabilities: {
          kv: () =>
            new Promise((resolve) => {
              answer = () => resolve({ ok: true, value: "late" });
            }),
        },
      },
    );
    expect((await tool.call({ first: true })).text).toBe('"first"');
    answer?.();
    const second = await tool.call({ first: false });
    expect(second).toMatchObject({ text: '"second"', logs: [] });
  });

  test("resets the console's groups, counters and timers", async () => {
    await using tool = await openGuest(
      "() => { console.group('g'); console.count('c'); console.time('t'); console.log('in'); return null; }",
    );
    const first = await tool.call();
    const second = await tool.call();
    expect(first.logs).toEqual(["info: g", "info:   c: 1", "info:   in"]);
    expect(second.logs).toEqual(first.logs);
  });

  test("resets the limits for each call", async () => {
    await using tool = await openGuest("() => { console.log('a'); console.log('b'); return null; }", {
      header: { logLines: 2 },
    });
    for (let index = 0; index < 3; index += 1) {
      expect((await tool.call()).logs).toEqual(["info: a", "info: b"]);
    }
  });

  test("rejects the use of an earlier call's ctx", async () => {
    await using tool = await openGuest<{ first: boolean }, unknown>(
      `(() => { let kept; return async ({ first }, ctx) => {
        if (first) { kept = ctx; return "kept"; }
        kept.progress({ progress: 1 });
        return await kept.kv(1).catch((error) => [error.name, error.code, kept.signal.aborted, ctx.signal.aborted]);
      }; })()`,
      { header: { granted: ["kv"] } },
    );
    await tool.call({ first: true });
    const second = await tool.call({ first: false });
    expect(second.value).toEqual(["CapabilityError", "CAPABILITY_DENIED", true, false]);
    expect(second.progress).toEqual([]);
    expect(tool.requests).toEqual([]);
  });

  test("aborts ctx.signal when the call ends", async () => {
    await using tool = await openGuest<{ first: boolean }, unknown>(
      "(() => { let kept; return ({ first }, ctx) => { if (first) { kept = ctx.signal; return kept.aborted; } return [kept.aborted, kept.reason.name]; }; })()",
    );
    expect((await tool.call({ first: true })).value).toBe(false);
    expect((await tool.call({ first: false })).value).toEqual([true, "AbortError"]);
  });

  test("settles when the thread has left the guest", async () => {
    await using tool = await openGuest("() => { setTimeout(() => {}, 1); return 1; }");
    expect((await tool.call()).text).toBe("1");
    expect(await tool.isolate.settle(PATIENT_MS)).toBe(true);
    expect(tool.isolate.isRunning).toBe(false);
  });

  test("does not settle while the guest keeps running after its result", async () => {
    // The abort of ctx.signal comes after the result: a listener that loops keeps the thread in the guest.
    await using tool = await openGuest("(input, ctx) => { ctx.signal.onabort = () => { for (;;); }; return 1; }");
    expect((await tool.call()).text).toBe("1");
    expect(await tool.isolate.settle()).toBe(false);
    await tool.isolate.dispose();
    expect(tool.isolate.isRunning).toBe(false);
  });

  test("ignores rejections of detached promises in the next call", async () => {
    await using tool = await openGuest<{ first: boolean }, unknown>(
      `({ first }) => {
        if (!first) return "second";
        void Promise.reject(new Error("detached"));
        void (async () => { await null; throw new Error("detached too"); })();
        return "first";
      }`,
    );
    expect((await tool.call({ first: true })).text).toBe('"first"');
    expect(await tool.call({ first: false })).toMatchObject({ outcome: "output", text: '"second"' });
  });
});

describe("ToolIsolate.makeCodeCache()", () => {
  test("creates a cache that V8 accepts for the same tool", async () => {
    const code = bundleCode(ADD, "function lazily(n) { return n * 2; } lazily(1);");
    await using warm = await openCode(code);
    await warm.load();
    await warm.call({ a: 1, b: 2 });
    await warm.isolate.settle(PATIENT_MS);
    const cache = warm.isolate.makeCodeCache(toBundle(code));
    expect(cache.byteLength).toBeGreaterThan(0);

    const isolate = new ivm.Isolate();
    const cachedData = new ivm.ExternalCopy(new Uint8Array(cache).buffer);
    const script = isolate.compileScriptSync(code, { filename: TOOL_SCRIPT_NAME, cachedData });
    expect((script as unknown as { cachedDataRejected?: boolean }).cachedDataRejected).toBe(false);
    isolate.dispose();

    await using cached = await openCode(code);
    expect((await cached.load(toBundle(code, cache))).outcome).toBe("ready");
    expect((await cached.call({ a: 1, b: 2 })).value).toEqual({ sum: 3 });
  });

  test("ignores a cache of other code", async () => {
    await using other = await openGuest("() => 'other'");
    await other.call();
    await other.isolate.settle(PATIENT_MS);
    const cache = other.isolate.makeCodeCache(toBundle(other.code));
    const code = bundleCode(ADD);
    await using tool = await openCode(code);
    expect((await tool.load(toBundle(code, cache))).outcome).toBe("ready");
    expect((await tool.call({ a: 1, b: 2 })).value).toEqual({ sum: 3 });
  });
});

describe("the prelude's code cache", () => {
  const KINDS = [
    { features: [], coarseTime: false },
    { features: ENGINE_FEATURE_NAMES, coarseTime: false },
    { features: [], coarseTime: true },
  ];

  test.each(KINDS)("serves isolates with $features and coarseTime $coarseTime", async (kind) => {
    await using tool = await openCode(bundleCode(ADD), kind);
    expect((await tool.load()).outcome).toBe("ready");
    expect((await tool.call({ a: 1, b: 2 })).value).toEqual({ sum: 3 });
  });

  test("contains the functions of a call in addition to those of boot", async () => {
    const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
    const compiled = createEngine({ preludeSource, readPlatformModule, loadCrypto, preludeCache: new Uint8Array(0) });
    const isolate = new ToolIsolate(compiled, { memoryMiB: 16, features: [], coarseTime: false });
    isolate.boot();
    const atBoot = isolate.makeCodeCache(toBundle(preludeSource));
    await isolate.dispose();
    const made = createPreludeCache({ preludeSource, readPlatformModule, loadCrypto });
    expect(made.byteLength).toBeGreaterThan(atBoot.byteLength + 4_096);
  });

  test("is ignored if it is invalid", async () => {
    const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
    const engine = createEngine({
      preludeSource,
      readPlatformModule,
      loadCrypto,
      preludeCache: new Uint8Array(5_000).fill(7),
    });
    const isolate = new ToolIsolate(engine, { memoryMiB: 16, features: [], coarseTime: false });
    isolate.boot();
    expect((await isolate.load(toBundle(bundleCode(ADD)), IGNORE_MESSAGES)).outcome).toBe("ready");
    await isolate.dispose();
  });
});

describe("ToolIsolate's meters", () => {
  test("measure time and heap, and return 0 after disposal", async () => {
    await using tool = await openGuest("() => { let n = 0; for (let i = 0; i < 1e7; i += 1) n += i; return n; }");
    await tool.call();
    await tool.isolate.settle(PATIENT_MS);
    expect(tool.isolate.busyMs).toBeGreaterThan(0);
    expect(tool.isolate.heapBytes).toBeGreaterThan(100_000);
    await tool.isolate.dispose();
    expect([tool.isolate.busyMs, tool.isolate.heapBytes]).toEqual([0, 0]);
  });

  test("read the heap again after a call", async () => {
    await using tool = await openGuest("(input) => (input.hold ? new Array(1e6).fill(1.5).length : 0)");
    const heapAfter = async (hold: boolean): Promise<number> => {
      await tool.call({ hold });
      expect(await tool.isolate.settle(PATIENT_MS)).toBe(true);
      return tool.isolate.heapBytes;
    };
    const small = await heapAfter(false);
    expect(await heapAfter(true)).toBeGreaterThan(small + 1_000_000);
  });

  test("are separate for isolates of one engine", async () => {
    const engine = await sharedEngine();
    const isolates = Array.from(
      { length: 5 },
      () => new ToolIsolate(engine, { memoryMiB: 16, features: [], coarseTime: false }),
    );
    expect(isolates.map((isolate) => isolate.isRunning)).toEqual([false, false, false, false, false]);
    await Promise.all(isolates.map((isolate) => isolate.dispose()));
    expect(isolates.every((isolate) => isolate.isDisposed)).toBe(true);
  });
});

describe("an answer that the guest processes on the main thread", () => {
  const READS = "async (_, { kv }) => { for (let i = 0; i < 3; i += 1) await kv('key'); return 'read'; }";

  test("brings the next request with it, also if the call began on another thread", async () => {
    await using tool = await openGuest(READS, { header: { granted: ["kv"] } });
    const events: string[] = [];
    const requested = Promise.withResolvers<void>();
    const listener: GuestListener = {
      ...IGNORE_MESSAGES,
      onCapability: (requestId) => {
        events.push(`request ${requestId}`);
        requested.resolve();
      },
      onLeft: () => events.push("left"),
    };
    const header = JSON.stringify({ ...HEADER, granted: ["kv"] });
    const end = tool.isolate.call({ header, input: "{}", callId: "c1", tenantId: "acme" }, listener);
    await requested.promise;
    await tool.isolate.settle(PATIENT_MS);
    for (const id of [1, 2]) {
      const until = { at: performance.now() + 60_000, reason: "cancelled" } as const;
      tool.isolate.deliver(id, JSON.stringify({ ok: true, value: null }), until);
      // Deliveries of one turn of the event loop share an entry, which is made in a microtask.
      await Promise.resolve();
      expect(events.splice(0).slice(-2)).toEqual([`request ${id + 1}`, "left"]);
    }
    tool.isolate.deliver(3, JSON.stringify({ ok: true, value: null }));
    expect(await end).toMatchObject({ outcome: "output", text: '"read"' });
  });
});
