// Attack: change the intrinsics that the prelude uses. A guest poisons prototypes and globals before its call; the prelude must still
// end each call once, correctly, with its texts and limits as documented.
import { describe, expect, test } from "vitest";
import { GuestErrorSchema, GuestIssuesSchema } from "../../../src/sandbox/protocol/worker-messages.ts";
import { bundleCode, openCode } from "../../support/guest.ts";

const KEYS = [
  "value",
  "get",
  "set",
  "writable",
  "enumerable",
  "configurable",
  "issues",
  "text",
  "problem",
  "name",
  "message",
  "stack",
  "code",
  "ok",
  "header",
  "active",
  "run",
  "args",
  "listener",
  "once",
  "removed",
  "outcome",
  "progress",
  "total",
  "path",
  "pointer",
  "resolve",
  "reject",
  "isLog",
  "units",
  "budget",
  "seen",
  "serial",
  "callId",
  "granted",
  "denied",
  "length",
] as const;

/** Run at the top level, before any call. */
const POISONS: readonly [name: string, poison: string][] = [
  ["nothing", ""],
  ...KEYS.map((key): [string, string] => [
    `Object.prototype.${key}, a value`,
    `Object.defineProperty(Object.prototype, "${key}", { __proto__: null, value: "forged", writable: true, configurable: true, enumerable: true });`,
  ]),
  ...KEYS.map((key): [string, string] => [
    `Object.prototype.${key}, an accessor that throws`,
    `Object.defineProperty(Object.prototype, "${key}", { __proto__: null, get() { throw new Error("got ${key}"); }, set() { throw new Error("set ${key}"); }, configurable: true });`,
  ]),
  [
    "Object.prototype.then",
    "Object.prototype.then = function (done) { delete Object.prototype.then; done('forged'); };",
  ],
  [
    "Object.prototype.then that never settles",
    "Object.defineProperty(Object.prototype, 'then', { __proto__: null, value() {}, configurable: true });",
  ],
  ["Array.prototype.then", "Array.prototype.then = (done) => done(['output', 'forged']);"],
  [
    "Object.prototype.toJSON",
    "Object.defineProperty(Object.prototype, 'toJSON', { __proto__: null, value: () => 'forged', configurable: true });",
  ],
  [
    "Object.prototype.toJSON that gives nothing",
    "Object.defineProperty(Object.prototype, 'toJSON', { __proto__: null, value: () => undefined, configurable: true });",
  ],
  ["Array.prototype.toJSON", "Array.prototype.toJSON = () => 'forged';"],
  ["String.prototype.toJSON", "String.prototype.toJSON = () => 'forged'; Number.prototype.toJSON = () => 'forged';"],
  [
    "Object.prototype[Symbol.toStringTag]",
    "Object.defineProperty(Object.prototype, Symbol.toStringTag, { __proto__: null, value: 'Map', configurable: true });",
  ],
  [
    "Object.prototype[Symbol.toPrimitive]",
    "Object.defineProperty(Object.prototype, Symbol.toPrimitive, { __proto__: null, value() { throw 1; }, configurable: true });",
  ],
  ["Array.prototype[Symbol.iterator]", "Array.prototype[Symbol.iterator] = function* () { yield 'forged'; };"],
  [
    "Array.prototype[Symbol.iterator] that throws",
    "Array.prototype[Symbol.iterator] = () => { throw new Error('iterated'); };",
  ],
  ["the array iterator's next", "Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({ done: true });"],
  [
    "setters on Array.prototype's indices",
    "for (let i = 0; i < 8; i += 1) Object.defineProperty(Array.prototype, i, { __proto__: null, get: () => 'forged', set() { throw new Error('set'); }, configurable: true });",
  ],
  [
    "every method of Array.prototype",
    "for (const key of Object.getOwnPropertyNames(Array.prototype)) if (typeof Array.prototype[key] === 'function') Array.prototype[key] = () => { throw new Error(key); };",
  ],
  [
    "every method of String.prototype",
    "for (const key of Object.getOwnPropertyNames(String.prototype)) if (key !== 'repeat') String.prototype[key] = () => { throw new Error(key); };",
  ],
  [
    "every method of Map.prototype",
    "for (const key of ['get', 'set', 'has', 'delete', 'clear', 'forEach', 'entries']) Map.prototype[key] = () => 'forged';",
  ],
  [
    "the size of Map.prototype",
    "Object.defineProperty(Map.prototype, 'size', { __proto__: null, get: () => 1e9, configurable: true });",
  ],
  [
    "every method of Set and WeakMap",
    "for (const kind of [Set, WeakMap]) for (const key of Object.getOwnPropertyNames(kind.prototype)) if (key !== 'constructor' && key !== 'size') kind.prototype[key] = () => 'forged';",
  ],
  ["Function.prototype.call", "Function.prototype.call = () => 'forged';"],
  ["Function.prototype.apply", "Function.prototype.apply = () => 'forged';"],
  ["Function.prototype.bind", "Function.prototype.bind = () => () => 'forged';"],
  ["Function.prototype.toString", "Function.prototype.toString = () => { throw 1; };"],
  ["JSON.stringify", "JSON.stringify = () => '\"forged\"';"],
  ["JSON.parse", "JSON.parse = () => ({ forged: true });"],
  ["JSON", "globalThis.JSON = undefined;"],
  [
    "every function of Reflect",
    "for (const key of Object.getOwnPropertyNames(Reflect)) Reflect[key] = () => { throw new Error(key); };",
  ],
  [
    "every function of Object",
    "for (const key of Object.getOwnPropertyNames(Object)) if (typeof Object[key] === 'function' && key !== 'prototype') Object[key] = () => { throw new Error(key); };",
  ],
  [
    "Symbol.species of Promise and Array",
    "for (const kind of [Promise, Array]) Object.defineProperty(kind, Symbol.species, { __proto__: null, get: () => class { constructor() { throw new Error('species'); } }, configurable: true });",
  ],
  ["Promise.prototype.then", "Promise.prototype.then = () => 'forged';"],
  ["Promise.prototype.catch and finally", "Promise.prototype.catch = Promise.prototype.finally = () => 'forged';"],
  ["Promise.resolve and reject", "Promise.resolve = Promise.reject = () => 'forged';"],
  ["the global Promise", "globalThis.Promise = class { constructor() { throw new Error('Promise'); } };"],
  [
    "the global Error and its kin",
    "globalThis.Error = globalThis.TypeError = globalThis.RangeError = class { constructor() { throw 1; } };",
  ],
  [
    "Error.prototype.name and message",
    "Error.prototype.name = { toString() { throw 1; } }; Error.prototype.message = 1n;",
  ],
  [
    "Error.prepareStackTrace that throws",
    "Error.prepareStackTrace = () => { throw new globalThis.Error('prepared'); };",
  ],
  ["Error.prepareStackTrace that gives an object", "Error.prepareStackTrace = () => ({ length: 1e9 });"],
  [
    "Error.stackTraceLimit",
    "Object.defineProperty(Error, 'stackTraceLimit', { __proto__: null, get() { throw 1; } });",
  ],
  [
    "Symbol.hasInstance of Error",
    "Object.defineProperty(Error, Symbol.hasInstance, { __proto__: null, value() { throw 1; } });",
  ],
  ["RegExp.prototype.exec", "RegExp.prototype.exec = RegExp.prototype.test = () => { throw new Error('exec'); };"],
  [
    "the globals that the prelude gave",
    "for (const key of ['console', 'setTimeout', 'AbortController', 'AbortSignal', 'DOMException', 'Event', 'EventTarget', 'structuredClone']) if (key !== 'console' && key !== 'setTimeout') globalThis[key] = 'forged';",
  ],
  [
    "AbortController.prototype.abort",
    "AbortController.prototype.abort = EventTarget.prototype.dispatchEvent = () => { for (;;); };",
  ],
  [
    "another prototype of AbortSignal",
    "Object.setPrototypeOf(AbortSignal, class { constructor() { return { forged: true }; } });",
  ],
  [
    "another prototype of Object.prototype's children",
    "Object.setPrototypeOf(Array.prototype, null); Object.setPrototypeOf(Function.prototype, null);",
  ],
  [
    "a frozen global object",
    "Object.freeze(globalThis); Object.freeze(Object.prototype); Object.freeze(Array.prototype);",
  ],
  [
    "Date.now and Math",
    "Date.now = () => 'forged'; for (const key of ['min', 'max', 'trunc', 'floor']) Math[key] = () => NaN;",
  ],
];

interface Scenario {
  readonly execute: string;
  readonly outcome: string;
  /** Whether the text that leaves is what it should be. */
  check(text: string): void;
}

const isError = (text: string, fields: object = {}): void => {
  expect(GuestErrorSchema.parse(JSON.parse(text))).toMatchObject(fields);
};

/** The code of each call. It uses literals only, so that a poison cannot change the guest's own data. */
const SCENARIOS: { readonly [name: string]: Scenario } = {
  output: { execute: "return 'fine';", outcome: "output", check: (text) => expect(text).toBe('"fine"') },
  nothing: { execute: "return;", outcome: "output", check: (text) => expect(text).toBe("null") },
  thrown: {
    execute: "throw boom;",
    outcome: "thrown",
    check: (text) => isError(text),
  },
  primitive: { execute: "throw 'just text';", outcome: "thrown", check: (text) => isError(text, { name: "Error" }) },
  unserializable: {
    execute: "return 1n;",
    outcome: "unserializable",
    check: (text) => isError(text, { name: "TypeError" }),
  },
  "too large": {
    execute: "return 'x'.repeat(5000);",
    outcome: "too-large",
    check: (text) => expect(text).toBe("5002"),
  },
  input: {
    execute: "return 1;",
    outcome: "input",
    check: (text) => expect(GuestIssuesSchema.parse(JSON.parse(text))).toEqual([{ pointer: "/a/0", message: "bad" }]),
  },
};

/** The tool's own objects have no prototype and were made first: what is poisoned is what the prelude stands on. */
const TOOL = `{ default: {
  __proto__: null,
  get inputSchema() { return mode === "input" ? schema : undefined; },
  outputSchema: undefined,
  execute(input, ctx) {
    void ctx.callId;
    if (mode === "signal") void ctx.signal.aborted;
    MODES
  },
} }`;

const BEFORE = `
  let mode = "output";
  const boom = new Error("boom");
  const issue = { __proto__: null, message: "bad", path: ["a", 0] };
  const issues = [issue];
  const answer = { __proto__: null, issues };
  const schema = { __proto__: null, "~standard": { __proto__: null, validate: () => answer } };
`;

function toolCode(poison: string): string {
  const modes = Object.entries(SCENARIOS).map(
    ([name, { execute }]) => `if (mode === ${JSON.stringify(name)}) { ${execute} }`,
  );
  const namespace = TOOL.replace("MODES", () => modes.join("\n")).replace(
    "execute(input, ctx) {",
    "execute(input, ctx) { if (input?.next !== undefined) { mode = input.next; return 'set'; }",
  );
  return bundleCode(namespace, BEFORE + poison);
}

describe("The prelude keeps its promises after a guest has poisoned", () => {
  test.for(POISONS)("%s", async ([, poison]) => {
    await using tool = await openCode(toolCode(poison), {
      header: { outputBytes: 4_096, granted: ["kv"], denied: ["fetch"] },
      deadlineMs: 120_000,
    });
    const loaded = await tool.load();
    expect(loaded.outcome).toBe("ready");
    for (const [name, { outcome, check }] of Object.entries(SCENARIOS)) {
      expect(["mode", name, (await tool.call({ next: name })).outcome]).toEqual(["mode", name, "output"]);
      const end = await tool.call();
      expect([name, end.outcome]).toEqual([name, outcome]);
      check(end.text);
      // The library's denial stays in place until the mode changes, and it stands before execute.
      if (name === "input") break;
    }
  });
});

/** Poisons under which a tool's own awaits still work: then the asynchronous half of the prelude must work as well. */
const BREAKS_GUEST = /Promise|then|species|constructor|every function of|accessor that throws|every method of Array/;

describe("The prelude's asynchronous half works after a guest has poisoned", () => {
  test.for(POISONS.filter(([name]) => !BREAKS_GUEST.test(name)))("%s", async ([, poison]) => {
    const namespace = `{ default: async (input, ctx) => {
      const answer = await ctx.kv("in");
      let denial;
      try { await ctx.fetch("x"); } catch (error) { denial = error.code; }
      await new NativePromise((done) => setTimeout(done, 1));
      console.log("line", 1);
      ctx.progress({ progress: 0.5 });
      return answer === "answer" && denial === "CAPABILITY_DENIED" ? "right" : "wrong: " + answer + " " + denial;
    } }`;
    await using tool = await openCode(bundleCode(namespace, `const NativePromise = Promise;\n${poison}`), {
      header: { granted: ["kv"], denied: ["fetch"] },
      capabilities: { kv: () => ({ ok: true, value: "answer" }) },
      deadlineMs: 120_000,
    });
    expect((await tool.load()).outcome).toBe("ready");
    for (let round = 0; round < 2; round += 1) {
      const end = await tool.call();
      expect([end.outcome, end.text, end.logs]).toEqual([
        "output",
        expect.stringMatching(/^"(right|forged)"$/),
        ["info: line 1"],
      ]);
      // What JSON makes of a report is the guest's own affair once it has a toJSON for everything.
      expect(end.progress).toHaveLength(1);
    }
  });
});

describe("A denial of a capability", () => {
  test.for<[name: string, forge: string]>([
    [
      "by its name and code",
      "throw Object.assign(new Error('m'), { name: 'CapabilityError', code: 'QUOTA_EXCEEDED', capabilityCode: 'QUOTA_EXCEEDED' })",
    ],
    ["by a prototype", "Object.prototype.capabilityCode = 'QUOTA_EXCEEDED'; throw new Error('m')"],
    ["by a proxy of a real one", "try { await ctx.fetch() } catch (error) { throw new Proxy(error, {}) }"],
    ["by a copy of a real one", "try { await ctx.fetch() } catch (error) { throw Object.create(error) }"],
    ["by WeakMap.prototype.get", "WeakMap.prototype.get = () => 'QUOTA_EXCEEDED'; throw new Error('m')"],
  ])("cannot be forged %s", async ([, forge]) => {
    await using tool = await openCode(bundleCode(`{ default: async (input, ctx) => { ${forge} } }`), {
      header: { denied: ["fetch"] },
    });
    await tool.load();
    const end = await tool.call();
    expect(end.outcome).toBe("thrown");
    expect(GuestErrorSchema.parse(JSON.parse(end.text)).capabilityCode).toBeUndefined();
  });

  test("is known when it is the prelude's own", async () => {
    await using tool = await openCode(bundleCode("{ default: (input, ctx) => ctx.fetch() }"), {
      header: { denied: ["fetch"] },
    });
    await tool.load();
    expect((await tool.call()).value).toMatchObject({ name: "CapabilityError", capabilityCode: "CAPABILITY_DENIED" });
  });
});
