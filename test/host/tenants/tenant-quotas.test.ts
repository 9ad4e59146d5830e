// Rates and period quotas of tenants: counted for every way of calling, before anything else is done for a call, and failing closed.
import { describe, expect, onTestFinished, test } from "vitest";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { MemoryQuotaStore } from "../../../src/host/tenants/quotas/memory-quota-store.ts";
import type { QuotaStore } from "../../../src/host/tenants/quotas/quota-store.ts";
import type { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { onLoopback, serve } from "../../support/egress.ts";
import { codeOf, errorOf, makeGlovebox } from "../../support/host-zone.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

const ACME = { tenantId: "acme" } as const;

async function gloveboxOf(options: GloveboxOptions): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", limits: { timeoutMs: 120_000 }, ...options });
  onTestFinished(() => glovebox.close());
  glovebox.router.register("add", {}, () => 1, { tenantId: "acme" });
  glovebox.router.register("add", {}, () => 1, { tenantId: "beta" });
  return glovebox;
}

const add = (glovebox: Glovebox, tenantId = "acme"): Promise<ToolResult> =>
  glovebox.execute({ id: "c", toolName: "add", arguments: {} }, { tenantId });
const codes = (results: readonly ToolResult[]): string[] => results.map(codeOf);
const oneCall = { tenants: { acme: { quotas: { calls: { month: 1 } } } } } as const;

describe("rateLimit", () => {
  test("allows a burst and denies what is more, with the time to wait, for its tenant only", async () => {
    const glovebox = await gloveboxOf({ tenants: { acme: { rateLimit: { calls: 1, per: "minute", burst: 3 } } } });
    const results = await Promise.all(Array.from({ length: 5 }, () => add(glovebox)));
    expect(codes(results)).toEqual(["ok", "ok", "ok", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]);
    const error = errorOf(results[4] as ToolResult);
    expect(error.details).toMatchObject({ reason: "rate_limited", quota: "calls", limit: 1, period: "minute" });
    expect(error.details?.retryAfterMs).toBeGreaterThan(0);
    expect(error.details?.retryAfterMs).toBeLessThanOrEqual(60_000);
    expect(error.message).toContain("This tenant may make 1 call per minute, 3 at once (rateLimit)");
    expect(codes(await Promise.all(Array.from({ length: 5 }, () => add(glovebox, "beta"))))).toEqual(
      Array(5).fill("ok"),
    );
  });

  test("the rateLimit of the host holds for each tenant, unless its policy has its own", async () => {
    const glovebox = await gloveboxOf({
      rateLimit: { calls: 1, per: "minute" },
      tenants: { beta: { rateLimit: { calls: 2, per: "minute" } } },
    });
    const of = async (tenantId: string) =>
      codes([await add(glovebox, tenantId), await add(glovebox, tenantId), await add(glovebox, tenantId)]);
    expect([await of("acme"), await of("beta")]).toEqual([
      ["ok", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"],
      ["ok", "ok", "QUOTA_EXCEEDED"],
    ]);
  });
});

test.for<[string, unknown]>([
  ["null", null],
  ["a string", "x"],
  ["an object without a name", {}],
  ["an unknown key", { id: "c", toolName: "add", arguments: {}, extra: 1 }],
  ["an invalid timeout", { id: "c", toolName: "add", arguments: {}, timeoutMs: -1 }],
])("a malformed invocation counts in each way of calling: %s", async ([, value]) => {
  const ways: readonly ((glovebox: Glovebox) => Promise<ToolResult>)[] = [
    (glovebox) => glovebox.execute(value as never, ACME),
    (glovebox) => glovebox.invoker.execute({ ...(value as object), context: ACME } as never),
    async (glovebox) => (await glovebox.executeBatch([value as never], ACME))[0] as ToolResult,
  ];
  for (const way of ways) {
    const glovebox = await gloveboxOf(oneCall);
    expect(codes([await way(glovebox), await way(glovebox)])).toEqual(["PARAM_INVALID", "QUOTA_EXCEEDED"]);
  }
});

describe("quotas.calls", () => {
  test("names the period and the time until it ends", async () => {
    const glovebox = await gloveboxOf(oneCall);
    expect(codeOf(await add(glovebox))).toBe("ok");
    const { details, message } = errorOf(await add(glovebox));
    expect(details).toMatchObject({ reason: "quota_used_up", quota: "calls", limit: 1, period: "month" });
    expect(message).toContain("This tenant has used its quota of 1 call for this month (quotas.calls.month)");
  });

  test("a quota of the tenant replaces the host's of the same period, and the host's others stay", async () => {
    const glovebox = await gloveboxOf({
      quotas: { calls: { month: 1, day: 2 } },
      tenants: { acme: { quotas: { calls: { month: 10 } } } },
    });
    expect(codes([await add(glovebox), await add(glovebox), await add(glovebox)])).toEqual([
      "ok",
      "ok",
      "QUOTA_EXCEEDED",
    ]);
    expect(codes([await add(glovebox, "beta"), await add(glovebox, "beta")])).toEqual(["ok", "QUOTA_EXCEEDED"]);
  });

  test.for<[string, (glovebox: Glovebox) => Promise<ToolResult>]>([
    ["execute", (glovebox) => add(glovebox)],
    ["an unknown tool", (glovebox) => glovebox.execute({ id: "c", toolName: "none", arguments: {} }, ACME)],
    ["malformed arguments", (glovebox) => glovebox.execute({ id: "c", toolName: "add", argumentsText: "{" }, ACME)],
    [
      "arguments that cannot be read",
      (glovebox) => glovebox.execute({ id: "c", toolName: "add", arguments: 1n }, ACME),
    ],
    ["a malformed call", (glovebox) => glovebox.execute({ id: "c", tool: "add" } as never, ACME)],
    ["no call at all", (glovebox) => glovebox.execute(undefined as never, ACME)],
    ["a wrong timeout", (glovebox) => glovebox.execute({ id: "c", toolName: "add" }, ACME, -1)],
    ["the invoker", (glovebox) => glovebox.invoker.execute({ toolName: "add", arguments: {}, context: ACME })],
    [
      "a batch",
      async (glovebox) => (await glovebox.executeBatch([{ toolName: "add", arguments: {} }], ACME))[0] as ToolResult,
    ],
    [
      "a stream",
      async (glovebox) => {
        for await (const item of glovebox.stream({ id: "c", toolName: "add", arguments: {} }, ACME)) {
          if (item.type === "result") return item as unknown as ToolResult;
        }
        throw new Error("Expected a result");
      },
    ],
    [
      "a session's run",
      async (glovebox) => {
        await using session = await glovebox.openSession(ACME);
        return await session.run("1");
      },
    ],
    [
      "a session's run with malformed code",
      async (glovebox) => {
        await using session = await glovebox.openSession(ACME);
        return await session.run(1 as never);
      },
    ],
  ])("counts %s, and denies it when the quota is used up", async ([, call]) => {
    const glovebox = await gloveboxOf(oneCall);
    expect(codeOf(await call(glovebox))).not.toBe("QUOTA_EXCEEDED");
    expect(codeOf(await add(glovebox))).toBe("QUOTA_EXCEEDED");
    expect(codeOf(await call(glovebox))).toBe("QUOTA_EXCEEDED");
  });

  test("counts nested calls", async () => {
    const glovebox = await gloveboxOf({ tenants: { acme: { quotas: { calls: { month: 3 } } } } });
    const source = `export default async (_, ctx) => {
      let done = 0;
      try { for (;;) { await ctx.tools.add({}); done += 1; } } catch (error) { return [done, error.message]; }
    }`;
    await glovebox.addTool({ name: "outer", source }, { ...ACME, grant: ["tools"] });
    const result = await glovebox.execute({ id: "c", toolName: "outer", arguments: {} }, ACME);
    expect(result.success && result.output).toEqual([2, expect.stringContaining("quotas.calls.month")]);
    expect(codeOf(await add(glovebox))).toBe("QUOTA_EXCEEDED");
  });

  test("is asked before flags, hooks and the registry", async () => {
    const seen: string[] = [];
    const glovebox = await gloveboxOf({
      quotas: { calls: { month: 0 } },
      flags: () => {
        seen.push("flags");
        return true;
      },
      hooks: [{ name: "h", validate: () => void seen.push("validate"), execute: () => void seen.push("execute") }],
    });
    const { details, message } = errorOf(await glovebox.execute({ id: "c", toolName: "none", arguments: {} }, ACME));
    expect([seen, details?.quota, message.includes("none")]).toEqual([[], "calls", false]);
  });
});

describe("quotas.cpuMs and quotas.egressBytes", () => {
  // A processor needs some 50 ms for it.
  const WORK = "for (let n = 0; n < 1e8; n += 1);";
  test.for([
    ["a call that succeeds", `export default () => { ${WORK} }`],
    ["one that fails", `export default () => { ${WORK} throw 1; }`],
    ["one that is stopped", `export default () => { ${WORK} console.log("on"); for (;;); }`],
  ] as const)("charge what %s used, and deny the next call", async ([, source]) => {
    const glovebox = await gloveboxOf({ tenants: { acme: { quotas: { cpuMs: { month: 5 } } } } });
    await glovebox.addTool({ name: "busy", source }, ACME);
    const stop = new AbortController();
    const context = { ...ACME, signal: stop.signal, onLog: () => stop.abort() };
    const result = await glovebox.execute({ id: "c", toolName: "busy", arguments: {} }, context);
    expect(codeOf(result)).not.toBe("QUOTA_EXCEEDED");
    expect(errorOf(await add(glovebox)).details).toMatchObject({ quota: "cpuMs", limit: 5, period: "month" });
    expect(codeOf(await add(glovebox, "beta"))).toBe("ok");
  });

  test("charge bytes of requests in both directions", async () => {
    const server = await serve((_request, response) => void response.end("x".repeat(2_000)));
    const glovebox = await gloveboxOf({
      egress: { allow: onLoopback(server.origin) },
      tenants: { acme: { quotas: { egressBytes: { month: 2_000 } } } },
    });
    const source = "export default async ({ origin }) => (await (await fetch(origin)).text()).length";
    await glovebox.addTool({ name: "get", source }, { ...ACME, grant: ["fetch"] });
    const get = () => glovebox.execute({ id: "c", toolName: "get", arguments: { origin: server.origin } }, ACME);
    expect(codeOf(await get())).toBe("ok");
    expect(errorOf(await get()).details).toMatchObject({ quota: "egressBytes", limit: 2_000 });
  });
});

describe("a quota store", () => {
  const failing: readonly [string, () => unknown][] = [
    [
      "throws",
      () => {
        throw new Error("down");
      },
    ],
    ["rejects", () => Promise.reject(new Error("down"))],
    ["never answers", () => new Promise(() => {})],
    ["answers undefined", () => undefined],
    ["answers true", () => true],
    ["answers another form", () => ({ allowed: "yes" })],
    ["denies a charge that there is not", () => ({ allowed: false, denied: 7, retryAfterMs: 1 })],
  ];

  test.for(failing)("a quota store that %s denies the call and reports why", async ([, consume]) => {
    const errors: unknown[] = [];
    let ran = 0;
    const router = new ToolRouter({
      tenancy: "multi",
      limits: PATIENT_LIMITS,
      rateLimit: { calls: 5, per: "second" },
      quotaStore: { consume, deleteTenant: () => 0 } as QuotaStore,
      onInternalError: (error) => errors.push(error),
    });
    onTestFinished(() => router[Symbol.asyncDispose]());
    router.register("add", {}, () => (ran += 1), ACME);
    const error = errorOf(await router.execute({ id: "c", toolName: "add" }, ACME));
    expect([error.code, error.details, ran]).toEqual(["TOOL_UNAVAILABLE", { reason: "quota_store_failed" }, 0]);
    expect(errors).toHaveLength(1);
    expect((errors[0] as ToolError).cause).toBeInstanceOf(Error);
    expect(JSON.stringify(error)).not.toContain("down");
  });

  test("may answer with promises, and is asked nothing for tenants without rate and quota", async () => {
    const memory = new MemoryQuotaStore();
    let asked = 0;
    const quotaStore: QuotaStore = {
      consume: async (charges) => {
        asked += 1;
        await Promise.resolve();
        return memory.consume(charges);
      },
      deleteTenant: async (tenantId) => memory.deleteTenant(tenantId),
    };
    const glovebox = await gloveboxOf({ ...oneCall, quotaStore });
    const results = await Promise.all([add(glovebox), add(glovebox), add(glovebox)]);
    expect(codes(results).toSorted()).toEqual(["QUOTA_EXCEEDED", "QUOTA_EXCEEDED", "ok"]);
    expect(asked).toBe(3);
    await add(glovebox, "beta");
    expect(asked).toBe(3);
  });

  test("a quota store that failed to take a charge gets it before the next call", async () => {
    const memory = new MemoryQuotaStore();
    let isDown = false;
    const quotaStore: QuotaStore = {
      consume: async (charges) => {
        if (isDown) throw new Error("down");
        return memory.consume(charges);
      },
      deleteTenant: (tenantId) => memory.deleteTenant(tenantId),
    };
    const errors: unknown[] = [];
    const glovebox = await gloveboxOf({
      tenants: { acme: { quotas: { cpuMs: { month: 5 } } } },
      quotaStore,
      onError: (error) => errors.push(error),
    });
    // The store is down before the call ends.
    const source = "export default async (_, ctx) => { await ctx.tools.down({}); for (let n = 0; n < 1e8; n += 1); }";
    await glovebox.addTool({ name: "busy", source }, { ...ACME, grant: ["tools"] });
    const breakStore = (): void => {
      isDown = true;
    };
    glovebox.router.register("down", {}, breakStore, ACME);
    expect(codeOf(await glovebox.execute({ id: "c", toolName: "busy", arguments: {} }, ACME))).toBe("ok");
    expect(errorOf(await add(glovebox)).details).toEqual({ reason: "quota_store_failed" });
    isDown = false;
    expect(errorOf(await add(glovebox)).details).toMatchObject({ quota: "cpuMs" });
    expect(errors.length).toBeGreaterThan(0);
  });
});

test.for([
  [{ rateLimit: { calls: 0, per: "second" } }, "rateLimit.calls"],
  [{ rateLimit: { calls: 1, per: "hour" } }, "rateLimit.per"],
  [{ rateLimit: { calls: 1, per: "second", bursts: 1 } }, "rateLimit.bursts"],
  [{ quotas: { calls: { week: 1 } } }, "quotas.calls.week"],
  [{ quotas: { cpuMs: { day: -1 } } }, "quotas.cpuMs.day"],
  [{ quotas: { bytes: { day: 1 } } }, "quotas.bytes"],
] as const)("rejects %o", ([policy, path]) => {
  for (const options of [policy, { tenants: { acme: policy } }]) {
    expect(() => new ToolRouter(options as never)).toThrow(path);
  }
});

describe("quotas of a caller", () => {
  const callerQuotas = { id: "key-1", quotas: { calls: { month: 2 } } } as const;
  const call = (glovebox: Glovebox, more: object, toolName = "add"): Promise<ToolResult> =>
    glovebox.execute({ id: "c", toolName, arguments: {} }, { ...ACME, ...more });

  test("apply in addition to those of the tenant, and a denied call is charged to neither", async () => {
    const glovebox = await gloveboxOf({ tenants: { acme: { quotas: { calls: { month: 4 } } } } });
    const results = [];
    for (let count = 0; count < 3; count += 1) results.push(await call(glovebox, { callerQuotas }));
    expect(codes(results)).toEqual(["ok", "ok", "QUOTA_EXCEEDED"]);
    const { message, details } = errorOf(results[2] as ToolResult);
    expect(message).toContain('The caller "key-1" has used its quota of 2 calls for this month (quotas.calls.month)');
    expect(details).toMatchObject({ reason: "quota_used_up", quota: "calls", limit: 2, callerId: "key-1" });
    // Another caller of the tenant has what is left of the tenant's quota.
    const other = { callerQuotas: { ...callerQuotas, id: "key-2" } };
    expect(codes([await call(glovebox, other), await add(glovebox), await call(glovebox, other)])).toEqual([
      "ok",
      "ok",
      "QUOTA_EXCEEDED",
    ]);
    expect(errorOf(await call(glovebox, other)).details).not.toHaveProperty("callerId");
  });

  test("count nested calls and charge what they used", async () => {
    const glovebox = await gloveboxOf({});
    const source = `export default async (_, ctx) => {
      try { await ctx.tools.add({}); await ctx.tools.add({}); } catch (error) { return error.message; }
    }`;
    await glovebox.addTool({ name: "outer", source }, { ...ACME, grant: ["tools"] });
    const result = await call(glovebox, { callerQuotas }, "outer");
    expect(result.success && result.output).toContain("quotas.calls.month");
    await glovebox.addTool(
      { name: "busy", source: "export default () => { for (let n = 0; n < 1e8; n += 1); }" },
      ACME,
    );
    const ofCpu = { callerQuotas: { id: "cpu", quotas: { cpuMs: { month: 5 } } } };
    expect(codeOf(await call(glovebox, ofCpu, "busy"))).toBe("ok");
    expect(errorOf(await call(glovebox, ofCpu)).details).toMatchObject({ quota: "cpuMs", callerId: "cpu" });
  });

  test.for([
    [null, "context.callerQuotas"],
    [{ id: "", quotas: {} }, "context.callerQuotas.id"],
    [{ id: "a", quotas: { calls: { week: 1 } } }, "context.callerQuotas.quotas.calls.week"],
    [{ id: "a", quota: {} }, "context.callerQuotas.quota"],
    [{ id: "a" }, "context.callerQuotas.quotas"],
  ] as const)("reject %o", async ([given, path]) => {
    const glovebox = await gloveboxOf({});
    const { code, message } = errorOf(await call(glovebox, { callerQuotas: given }));
    expect([code, message]).toEqual(["PARAM_INVALID", expect.stringContaining(path)]);
  });
});
