// Tests stage 2 alone: the effective limits, and a clock that leaves no timer or listener behind.
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { resolveLimits } from "../../../src/host/config/resolve-limits.ts";
import type { CallContext } from "../../../src/host/contract/tool-call.ts";
import { Clocks } from "../../../src/host/pipeline/clock.ts";
import { prepareCall } from "../../../src/host/pipeline/prepare.ts";
import type { ValidatedCall } from "../../../src/host/pipeline/validate.ts";
import { TenantPolicies } from "../../../src/host/tenants/tenant-policies.ts";
import { DEFAULT_LIMITS, LIMITS, type LimitName, type PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import { makeTool, type ToolParts } from "../../support/registered-tool.ts";

const tenant = new TenantPolicies({}, {}).default;

function validated(context: CallContext = {}, parts: ToolParts = {}): ValidatedCall {
  return {
    callId: "c1",
    tenantId: "acme",
    tool: makeTool(parts),
    inputText: "{}",
    input: {},
    context: { ...context, tenantId: "acme" },
  };
}

describe("resolveLimits()", () => {
  test("returns the defaults if no limit is configured", () => {
    expect(resolveLimits([], undefined)).toEqual(DEFAULT_LIMITS);
    expect(resolveLimits([undefined, {}], {})).toEqual(DEFAULT_LIMITS);
  });

  test.for<[string, (PartialLimits | undefined)[], PartialLimits | undefined, number]>([
    ["a host can exceed the default", [{ timeoutMs: 60_000 }], undefined, 60_000],
    [
      "the lowest of several limits applies",
      [{ timeoutMs: 60_000 }, { timeoutMs: 9_000 }, { timeoutMs: 10_000 }],
      undefined,
      9_000,
    ],
    ["an author can lower the host's limit", [{ timeoutMs: 60_000 }], { timeoutMs: 50 }, 50],
    ["an author can lower the default", [], { timeoutMs: 50 }, 50],
    ["an author cannot raise the host's limit", [{ timeoutMs: 100 }], { timeoutMs: 60_000 }, 100],
    ["an author cannot raise the default", [], { timeoutMs: 60_000 }, 5_000],
    ["fractions are rounded up", [{ timeoutMs: 1.2 }], undefined, 2],
    ["no limit exceeds the hard maximum", [{ timeoutMs: 1e12 }], undefined, 300_000],
    ["Infinity does not exceed the hard maximum", [{ timeoutMs: Number.POSITIVE_INFINITY }], undefined, 300_000],
    ["no limit is below the hard minimum", [{ timeoutMs: -5 }], undefined, 1],
    ["NaN counts as not configured", [{ timeoutMs: Number.NaN }], undefined, 5_000],
  ])("%s", ([, configured, author, timeoutMs]) => {
    expect(resolveLimits(configured, author).timeoutMs).toBe(timeoutMs);
  });

  const someLimits = fc.record(
    Object.fromEntries(Object.keys(LIMITS).map((name) => [name, fc.double({ noDefaultInfinity: false })])),
    { requiredKeys: [] },
  ) as fc.Arbitrary<PartialLimits>;
  test("stays within the hard bounds and below each configured limit", () => {
    fc.assert(
      fc.property(fc.array(someLimits, { maxLength: 4 }), (configured) => {
        const limits = resolveLimits(configured, undefined);
        for (const name of Object.keys(LIMITS) as LimitName[]) {
          const { min, max } = LIMITS[name];
          expect(limits[name]).toBeGreaterThanOrEqual(min);
          expect(limits[name]).toBeLessThanOrEqual(max);
          expect(Number.isInteger(limits[name])).toBe(true);
          for (const some of configured)
            expect(limits[name]).toBeLessThanOrEqual(Math.max(min, Math.ceil(some[name] || max)));
        }
      }),
    );
  });
});

describe("prepareCall()", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  const open = { limits: {}, tenant, clocks: new Clocks() };

  test("returns the call, its limits, and a signal that has not aborted", () => {
    using preparation = prepareCall(validated(), { ...open, limits: { memoryMiB: 64 } }, undefined);
    const { call } = preparation;
    expect(call).toMatchObject({ callId: "c1", tenantId: "acme", inputText: "{}", input: {} });
    expect([call.limits.memoryMiB, call.limits.timeoutMs, call.signal.aborted]).toEqual([64, 5_000, false]);
  });

  test("counts the time from the admission of the call", () => {
    const admittedAt = performance.now();
    vi.advanceTimersByTime(60);
    using preparation = prepareCall(validated(), { ...open, admittedAt }, 100);
    vi.advanceTimersByTime(39);
    expect(preparation.call.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(preparation.call.signal.reason).toMatchObject({ code: "TOOL_TIMEOUT", details: { timeoutMs: 100 } });
  });

  test.for<[string, number | undefined, CallContext, ToolParts, PartialLimits, number]>([
    ["the call's argument", 100, { timeoutMs: 200 }, { hostLimits: { timeoutMs: 300 } }, { timeoutMs: 400 }, 100],
    ["the context", 500, { timeoutMs: 200 }, { hostLimits: { timeoutMs: 300 } }, { timeoutMs: 400 }, 200],
    ["the host's limits for this tool", 500, {}, { hostLimits: { timeoutMs: 300 } }, { timeoutMs: 400 }, 300],
    ["the host's limits for all tools", 500, {}, {}, { timeoutMs: 400 }, 400],
    ["the author", 500, {}, { authorLimits: { timeoutMs: 50 } }, { timeoutMs: 400 }, 50],
  ])("ends the call at the lowest timeout, from %s", ([, timeoutMs, context, parts, limits, lowest]) => {
    using preparation = prepareCall(validated(context, parts), { ...open, limits }, timeoutMs);
    const { signal } = preparation.call;
    vi.advanceTimersByTime(lowest - 1);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal.reason).toMatchObject({
      code: "TOOL_TIMEOUT",
      message: `probe did not finish within ${lowest} ms (limits.timeoutMs) and was stopped`,
      details: { timeoutMs: lowest },
    });
  });

  test("aborts with CANCELLED when the caller aborts, and keeps that reason after the deadline", () => {
    const caller = new AbortController();
    using preparation = prepareCall(validated({ signal: caller.signal }), open, 100);
    caller.abort(new Error("the caller's own reason"));
    vi.advanceTimersByTime(1_000);
    expect(preparation.call.signal.reason).toMatchObject({
      code: "CANCELLED",
      message: "The call of probe was cancelled by its caller",
    });
  });

  test("is aborted from the start if the caller's signal is aborted", () => {
    using preparation = prepareCall(validated({ signal: AbortSignal.abort() }), open, 100);
    expect(preparation.call.signal.reason).toMatchObject({ code: "CANCELLED" });
  });

  test("aborts with CANCELLED when the router closes", () => {
    const clocks = new Clocks();
    using preparation = prepareCall(validated(), { limits: {}, tenant, clocks }, 100);
    clocks.close();
    using late = prepareCall(validated(), { limits: {}, tenant, clocks }, 100);
    expect(late.call.signal.reason).toEqual(preparation.call.signal.reason);
    expect(preparation.call.signal.reason).toMatchObject({
      code: "CANCELLED",
      message: expect.stringContaining("closed"),
    });
  });

  test("leaves neither timer nor listener behind when it is disposed", () => {
    const caller = new AbortController();
    const remove = vi.spyOn(caller.signal, "removeEventListener");
    const clocks = new Clocks();
    const preparation = prepareCall(validated({ signal: caller.signal }), { limits: {}, tenant, clocks }, 100);
    preparation[Symbol.dispose]();
    preparation[Symbol.dispose]();
    expect(vi.getTimerCount()).toBe(0);
    expect(remove).toHaveBeenCalledTimes(1);
    caller.abort();
    clocks.close();
    expect(preparation.call.signal.aborted).toBe(false);
  });

  test("starts no timer if adding a listener to the caller's signal throws", () => {
    const signal = new AbortController().signal;
    signal.addEventListener = () => {
      throw new Error("no");
    };
    expect(() => prepareCall(validated({ signal }), open, 100)).toThrow("no");
    expect(vi.getTimerCount()).toBe(0);
  });
});
