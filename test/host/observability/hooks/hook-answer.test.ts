// Malformed answers of guards: an answer that rejects always rejects, and a failing guard denies the call.
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../../src/host/contract/tool-call.ts";
import type { Hook } from "../../../../src/host/observability/hooks/hook-events.ts";
import { ToolRouter, type ToolRouterOptions } from "../../../../src/host/routing/tool-router.ts";
import { ToolError } from "../../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS, inOtherRealm, toThenable } from "../../../support/failing-callbacks.ts";
import { codeOf, errorOf, expectPublishable, outputOf } from "../../../support/host-zone.ts";
import { watchRejections } from "../../../support/unhandled-rejections.ts";

const STAGES = ["validate", "prepare", "execute", "afterExecute", "result"] as const;
type Stage = (typeof STAGES)[number];
/** The tool has run before these stages. */
const AFTER_THE_TOOL: readonly Stage[] = ["afterExecute", "result"];
const never = new Promise<never>(() => {});

function routerOf(hook: object, options: ToolRouterOptions = {}) {
  const paid: unknown[] = [];
  const reported: ToolError[] = [];
  const hooks = [{ name: "guard", timeoutMs: 30, ...hook } as Hook];
  const router = new ToolRouter({ ...options, hooks, onInternalError: (error) => reported.push(error) });
  router.register("pay", {}, (input) => {
    paid.push(input);
    return "paid";
  });
  const call = (context?: CallContext): Promise<ToolResult> =>
    router.execute({ id: "c1", toolName: "pay", arguments: { amount: 5 } }, context);
  return { call, paid, reported };
}

const cycle: { self?: unknown } = {};
cycle.self = cycle;
const throwing = (key: string): object =>
  Object.defineProperty({}, key, {
    enumerable: true,
    get: () => fail(),
  });
const fail = (): never => {
  throw new Error("not readable");
};
class Limits {
  readonly spent = 3;
}

/** Rejections, and the code and message that the caller receives. */
const REJECTIONS: readonly (readonly [name: string, reject: unknown, code: string, message: RegExp])[] = [
  [
    "a message of 10,001 characters",
    { code: "QUOTA_EXCEEDED", message: "x".repeat(10_001) },
    "QUOTA_EXCEEDED",
    /^x+…$/,
  ],
  ["no message", { code: "QUOTA_EXCEEDED" }, "QUOTA_EXCEEDED", /^Hook "guard" rejected the call$/],
  ["an empty message", { code: "QUOTA_EXCEEDED", message: "" }, "QUOTA_EXCEEDED", /^Hook "guard" rejected the call$/],
  ["a message that is not a string", { code: "QUOTA_EXCEEDED", message: 5 }, "QUOTA_EXCEEDED", /^Hook "guard"/],
  ["a message that cannot be read", throwing("message"), "CAPABILITY_DENIED", /^Hook "guard"/],
  ["a lone surrogate", { message: "\ud800" }, "CAPABILITY_DENIED", /^\ufffd$/],
  ["no code", { message: "No" }, "CAPABILITY_DENIED", /^No$/],
  ["an unknown code", { code: "NO", message: "No" }, "CAPABILITY_DENIED", /^No$/],
  [
    "the name of an Object.prototype member as the code",
    { code: "toString", message: "No" },
    "CAPABILITY_DENIED",
    /^No$/,
  ],
  ["a code that cannot be read", throwing("code"), "CAPABILITY_DENIED", /^Hook "guard"/],
  ["no fields", {}, "CAPABILITY_DENIED", /^Hook "guard"/],
  ["a string", "Not today", "CAPABILITY_DENIED", /^Not today$/],
  ["true", true, "CAPABILITY_DENIED", /^Hook "guard"/],
  ["an Error", new Error("Not today"), "CAPABILITY_DENIED", /^Not today$/],
  ["a ToolError", new ToolError("APPROVAL_REQUIRED", "Ask first"), "APPROVAL_REQUIRED", /^Ask first$/],
  ["an Error of another realm", inOtherRealm('new Error("Not today")'), "CAPABILITY_DENIED", /^Not today$/],
  ["an object of another realm", inOtherRealm('({ code: "QUOTA_EXCEEDED", message: "No" })'), "QUOTA_EXCEEDED", /^No$/],
  ["a promise", Promise.resolve(undefined), "CAPABILITY_DENIED", /^Hook "guard"/],
  ["a function", () => undefined, "CAPABILITY_DENIED", /^Hook "guard"/],
  ["a revoked proxy", revoked(), "CAPABILITY_DENIED", /^Hook "guard"/],
  ["a recoverable that is not a boolean", { message: "No", recoverable: "yes" }, "CAPABILITY_DENIED", /^No$/],
];

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe("an answer with reject", () => {
  test.for(STAGES.flatMap((stage) => REJECTIONS.map((way) => [stage, ...way] as const)))(
    "rejects at %s with %s",
    async ([stage, , reject, code, message]) => {
      for (const failClosed of [undefined, false]) {
        const { call, paid, reported } = routerOf({ failClosed, [stage]: () => ({ reject }) });
        const error = errorOf(await call());
        expect(error.code).toBe(code);
        expect(error.message).toMatch(message);
        expect(error.message.length).toBeLessThanOrEqual(10_000);
        expect(typeof error.recoverable).toBe("boolean");
        expectPublishable(error);
        expect(paid).toHaveLength(AFTER_THE_TOOL.includes(stage) ? 1 : 0);
        expect(reported).toEqual([]);
      }
    },
  );

  test("rejects even if there is a modification", async () => {
    const answer = { modify: { arguments: { amount: 0 } }, reject: { code: "QUOTA_EXCEEDED", message: "No" } };
    const { call, paid } = routerOf({ validate: () => answer });
    expect(codeOf(await call())).toBe("QUOTA_EXCEEDED");
    expect(paid).toEqual([]);
  });

  test.for<[string, () => unknown]>([
    ["as the rejection", () => Promise.reject(new Error("unhandled"))],
    ["in its details", () => ({ message: "No", details: { at: Promise.reject(new Error("unhandled")) } })],
  ])("rejects with a promise %s, and handles that promise's rejection", async ([, reject]) => {
    const rejections = watchRejections();
    expect(codeOf(await routerOf({ execute: () => ({ reject: reject() }) }).call())).toBe("CAPABILITY_DENIED");
    expect(await rejections()).toEqual([]);
  });

  test("reads reject once", async () => {
    let reads = 0;
    const answer = {
      get reject() {
        reads += 1;
        return reads === 1 ? { code: "QUOTA_EXCEEDED", message: "No" } : undefined;
      },
    };
    expect(codeOf(await routerOf({ execute: () => answer }).call())).toBe("QUOTA_EXCEEDED");
    expect(reads).toBe(1);
  });

  test.for<[string, unknown, object | undefined]>([
    ["undefined", { a: undefined, b: 1 }, { b: 1 }],
    ["bytes", { a: new Uint8Array(4), b: new ArrayBuffer(4), c: Buffer.from("x"), d: 1 }, { d: 1 }],
    ["a BigInt", { a: 1n, b: 1 }, { b: 1 }],
    ["functions and symbols", { a: () => 1, b: Symbol("s"), c: 1 }, { c: 1 }],
    ["numbers that JSON cannot represent", { a: Number.NaN, b: Number.POSITIVE_INFINITY, c: 1 }, { c: 1 }],
    ["a cycle", { a: cycle, b: 1 }, { a: {}, b: 1 }],
    ["a getter that throws", { a: throwing("x"), b: 1 }, { a: {}, b: 1 }],
    ["instances of classes", { a: new Limits(), b: new Map([[1, 2]]), c: 1 }, { c: 1 }],
    ["a date", { at: new Date(0), b: 1 }, { b: 1 }],
    ["a promise", { at: Promise.resolve(1), b: 1 }, { b: 1 }],
    [
      "lists with invalid elements",
      { list: [1, undefined, 2n, [3n], { a: null }] },
      { list: [1, null, null, [null], { a: null }] },
    ],
    ["a long text", { text: "y".repeat(20_000) }, { text: `${"y".repeat(9_999)}…` }],
    ["a toJSON method", { a: { toJSON: () => "leaked", b: 1 } }, { a: { b: 1 } }],
    ["a key __proto__", JSON.parse('{"__proto__":{"a":1},"b":1}'), { b: 1 }],
    ["an object of another realm", inOtherRealm("({ a: { b: [1, 2] } })"), { a: { b: [1, 2] } }],
    ["a list instead of an object", [1, 2], undefined],
    ["a string instead of an object", "rule 5", undefined],
    ["a class instance instead of an object", new Limits(), undefined],
    ["a revoked proxy", revoked(), undefined],
    ["a proxy that throws for its keys", { a: new Proxy({}, { ownKeys: () => fail() }), b: 1 }, { b: 1 }],
  ])("drops from the details what is not JSON: %s", async ([, details, expected]) => {
    const reject = { code: "QUOTA_EXCEEDED", message: "No", details };
    const { call, paid } = routerOf({ execute: () => ({ reject }) });
    const error = errorOf(await call());
    expect(error).toMatchObject({ code: "QUOTA_EXCEEDED", message: "No" });
    expect(error.details).toEqual(expected);
    expect(JSON.parse(JSON.stringify(error))).toEqual(error);
    expect(paid).toEqual([]);
  });

  test("bounds the depth and the size of the details", async () => {
    let deep: object = {};
    for (let level = 0; level < 100_000; level += 1) deep = { deep };
    const details = { deep, wide: Array.from({ length: 1_000_000 }, () => 0) };
    const { call, paid } = routerOf({
      execute: () => ({ reject: { code: "QUOTA_EXCEEDED", message: "No", details } }),
    });
    const error = errorOf(await call());
    expect(error.code).toBe("QUOTA_EXCEEDED");
    expect(JSON.stringify(error.details).length).toBeLessThan(100_000);
    expect(paid).toEqual([]);
  });
});

/** Invalid answers. */
const MALFORMED: readonly (readonly [name: string, answer: () => unknown])[] = [
  ["answers null", () => null],
  ["answers false", () => false],
  ["answers true", () => true],
  ["answers text", () => "allow"],
  ["answers a number", () => 0],
  ["answers an empty object", () => ({})],
  ["answers an array", () => [{ reject: { message: "No" } }]],
  ["answers a Map", () => new Map([["reject", "No"]])],
  ["answers a misspelled key", () => ({ rejects: { message: "No" } })],
  ["answers a modification with another key", () => ({ modify: { arguments: {}, output: 1, error: 1 } })],
  ["answers a modification with an unknown key", () => ({ modify: { nothing: 1 } })],
  ["answers a modification and an unknown key", () => ({ modify: { arguments: {}, output: 1 }, deny: true })],
  ["answers an empty modification", () => ({ modify: {} })],
  ["answers a modification that is text", () => ({ modify: "x" })],
  ["answers reject: null", () => ({ reject: null })],
  ["answers reject: false", () => ({ reject: false })],
  ["answers reject: undefined", () => ({ reject: undefined })],
  ["answers a revoked proxy", revoked],
  ["answers a reject that cannot be read", () => throwing("reject")],
  ["answers a modify that cannot be read", () => throwing("modify")],
  ["answers a thenable that never settles", () => toThenable(() => {})],
  ["never answers", () => never],
  ["promises null", async () => null],
  ...FAILING_CALLBACKS,
];

describe("a guard that fails", () => {
  test.for(STAGES.flatMap((stage) => MALFORMED.map(([name, answer]) => [stage, name, answer] as const)))(
    "a guard that, at %s, %s denies the call",
    async ([stage, , answer]) => {
      const rejections = watchRejections();
      const { call, paid, reported } = routerOf({ [stage]: answer });
      const result = await call();
      expect(errorOf(result)).toMatchObject({ code: "INTERNAL", recoverable: true });
      expect(errorOf(result).message).toContain('"guard"');
      expect(paid).toHaveLength(AFTER_THE_TOOL.includes(stage) ? 1 : 0);
      expect(JSON.stringify(result)).not.toContain('"paid"');
      expect(reported.length).toBeGreaterThan(0);
      expect(await rejections()).toEqual([]);
    },
  );

  test.for(MALFORMED)("a guard that %s is left out where it says failClosed: false", async ([, answer]) => {
    for (const stage of STAGES) {
      const { call, reported } = routerOf({ failClosed: false, [stage]: answer });
      expect(outputOf(await call())).toBe("paid");
      expect(reported).toHaveLength(1);
    }
  });

  test.for(["validate", "prepare", "execute"] as const)(
    "a guard that fails at %s does not let a call through whose caller aborts meanwhile",
    async (stage) => {
      for (const failClosed of [undefined, false]) {
        const stop = new AbortController();
        const abort = (): Promise<never> => {
          stop.abort();
          return never;
        };
        const { call, paid } = routerOf({ failClosed, [stage]: abort });
        expect(codeOf(await call({ signal: stop.signal }))).toBe("CANCELLED");
        expect(paid).toEqual([]);
      }
    },
  );

  test.for(["cancelled", "over time"] as const)(
    "a guard that fails at afterExecute does not release the output of a call that is %s meanwhile",
    async (how) => {
      for (const failClosed of [undefined, false]) {
        const stop = new AbortController();
        const afterExecute = (): Promise<never> => {
          if (how === "cancelled") stop.abort();
          return never;
        };
        const { call } = routerOf({ failClosed, timeoutMs: 30_000, afterExecute });
        const result = await call({ signal: stop.signal, timeoutMs: 200 });
        expect(codeOf(result)).toBe(how === "cancelled" ? "CANCELLED" : "TOOL_TIMEOUT");
        expect(JSON.stringify(result)).not.toContain('"paid"');
      }
    },
  );
});

test("a guard has the time that the call has left, though its clock was held past its deadline", async () => {
  const hooks: Hook[] = [{ name: "guard", timeoutMs: 30_000, afterExecute: async () => void (await pause(50)) }];
  const router = new ToolRouter({ hooks });
  router.register("ask", {}, async (_, context) => {
    const deadline = performance.now() + 3_000;
    using _held = context.holdClock();
    while (performance.now() <= deadline) await pause(20);
    return "answered";
  });
  const result = await router.execute({ id: "c1", toolName: "ask" }, { timeoutMs: 3_000 });
  expect(outputOf(result)).toBe("answered");
});

describe("a modification", () => {
  test.for<[string, () => unknown, string, string]>([
    ["a promise as arguments", async () => ({}), "validate", "arguments"],
    ["a thenable as output", () => toThenable(() => {}), "result", "output"],
    ["a promise that rejects", () => Promise.reject(new Error("unhandled")), "result", "output"],
    ["undefined as arguments", () => undefined, "validate", "arguments"],
    ["null as error", () => null, "result", "error"],
    ["false as error", () => false, "result", "error"],
  ])("a modification that is %s denies the call", async ([, toValue, stage, key]) => {
    const rejections = watchRejections();
    const { call } = routerOf({ [stage]: () => ({ modify: { [key]: toValue() } }) });
    expect(codeOf(await call())).toBe("INTERNAL");
    expect(await rejections()).toEqual([]);
  });

  test.for<[string, unknown, string]>([
    ["a message of 10,001 characters", { code: "QUOTA_EXCEEDED", message: "x".repeat(10_001) }, "QUOTA_EXCEEDED"],
    ["no message", {}, "TOOL_FAILED"],
    ["an unknown code", { code: "NO", message: "No" }, "TOOL_FAILED"],
    ["details with bytes", { message: "No", details: { a: new Uint8Array(1) } }, "TOOL_FAILED"],
    ["text", "No", "TOOL_FAILED"],
  ])("a modification of the result to an error with %s replaces the output", async ([, error, code]) => {
    for (const failClosed of [undefined, false]) {
      const result = await routerOf({ failClosed, result: () => ({ modify: { error } }) }).call();
      expect(codeOf(result)).toBe(code);
      expect(JSON.stringify(result)).not.toContain('"paid"');
      expectPublishable(errorOf(result));
    }
  });
});
