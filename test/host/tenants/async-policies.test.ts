// `tenants` as an asynchronous function: one lookup for calls that come together, cached for a while, removed when the host invalidates it, and a
// denial where it gives no valid policy.
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { ToolRouterOptions } from "../../../src/host/routing/router-options.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import type { TenantOptions, Tenants } from "../../../src/host/tenants/tenant-policies.ts";
import { codeOf, errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const ACME = { tenantId: "acme" };
const CALL = { id: "c", toolName: "tool" };

interface Database {
  readonly router: ToolRouter;
  readonly asked: string[];
  readonly errors: unknown[];
  readonly call: (tenantId?: string, more?: object) => Promise<ToolResult>;
  /** Answers the oldest lookup that waits. */
  readonly answer: (policy: unknown) => void;
  readonly fail: (cause: unknown) => void;
}

/** A router whose lookups wait until the test answers them. */
function openDatabase(options: ToolRouterOptions = {}): Database {
  const asked: string[] = [];
  const errors: unknown[] = [];
  const waiting: PromiseWithResolvers<TenantOptions>[] = [];
  const tenants = (tenantId: string): Promise<TenantOptions> => {
    asked.push(tenantId);
    const lookup = Promise.withResolvers<TenantOptions>();
    waiting.push(lookup);
    return lookup.promise;
  };
  const onInternalError = (error: unknown) => errors.push(error);
  const router = new ToolRouter({ tenancy: "multi", tenants, onInternalError, ...options });
  onTestFinished(() => router[Symbol.asyncDispose]());
  router.register("tool", {}, () => "long enough", { scope: "global" });
  return {
    router,
    asked,
    errors,
    call: (tenantId = "acme", more = {}) => router.execute(CALL, { tenantId, ...more }),
    answer: (policy) => waiting.shift()?.resolve(policy as TenantOptions),
    fail: (cause) => waiting.shift()?.reject(cause),
  };
}
const SMALL = { limits: { outputBytes: 4 } };

describe("a lookup", () => {
  test("decides about the call that waits for it", async () => {
    const { call, answer } = openDatabase();
    const running = call();
    answer(SMALL);
    expect(codeOf(await running)).toBe("OUTPUT_TOO_LARGE");
  });

  test("is one for calls that come together, and each tenant has its own", async () => {
    const { call, answer, asked } = openDatabase();
    const running = [...Array.from({ length: 20 }, () => call()), call("beta")];
    await new Promise(setImmediate);
    expect(asked).toEqual(["acme", "beta"]);
    answer(SMALL);
    answer({});
    const codes = (await Promise.all(running)).map(codeOf);
    expect(codes).toEqual([...Array(20).fill("OUTPUT_TOO_LARGE"), "ok"]);
  });

  test("is cached for ttlMs, and not a call longer", async () => {
    const { call, answer, asked } = openDatabase({ tenantCache: { ttlMs: 60 } });
    const first = call();
    answer(SMALL);
    expect(codeOf(await first)).toBe("OUTPUT_TOO_LARGE");
    await expect
      .poll(
        () => {
          // A call that finds the old policy has its result; the first one past its time asks.
          void call();
          return asked.length;
        },
        { interval: 10 },
      )
      .toBe(2);
    const next = call();
    answer({});
    expect(codeOf(await next)).toBe("ok");
  });

  test("is not cached with ttlMs 0, and of more tenants than max the oldest is asked again", async () => {
    const none = openDatabase({ tenantCache: { ttlMs: 0 } });
    for (let count = 1; count <= 2; count += 1) {
      const running = none.call();
      none.answer({});
      await running;
      expect(none.asked).toHaveLength(count);
    }
    const two = openDatabase({ tenantCache: { max: 2 } });
    for (const tenantId of ["a", "b", "c", "a"]) {
      const running = two.call(tenantId);
      two.answer({});
      await running;
    }
    expect(two.asked).toEqual(["a", "b", "c", "a"]);
  });

  test("a lookup that a function returns at once is used for one call, and requested for each", async () => {
    let policy: TenantOptions = SMALL;
    const { call } = openDatabase({ tenants: () => policy });
    expect(codeOf(await call())).toBe("OUTPUT_TOO_LARGE");
    policy = {};
    expect(codeOf(await call())).toBe("ok");
  });
});

describe("invalidateTenant()", () => {
  test("drops the cached policy of its tenant, and of no other", async () => {
    const { call, answer, asked, router } = openDatabase();
    for (const tenantId of ["acme", "beta"]) {
      const running = call(tenantId);
      answer(SMALL);
      await running;
    }
    router.invalidateTenant("acme");
    const next = call();
    expect(codeOf(await call("beta"))).toBe("OUTPUT_TOO_LARGE");
    answer({});
    expect(codeOf(await next)).toBe("ok");
    expect(asked).toEqual(["acme", "beta", "acme"]);
  });

  test("makes a pending lookup answer the calls that wait for it only", async () => {
    const { call, answer, asked, router } = openDatabase();
    const waiting = call();
    router.invalidateTenant("acme");
    const next = call();
    await new Promise(setImmediate);
    expect(asked).toHaveLength(2);
    // The old one comes first, and the new one stays.
    answer(SMALL);
    expect(codeOf(await waiting)).toBe("OUTPUT_TOO_LARGE");
    answer({});
    expect([codeOf(await next), codeOf(await call())]).toEqual(["ok", "ok"]);
    expect(asked).toHaveLength(2);
  });

  test("makes an old lookup that answers last change nothing", async () => {
    const lookups: PromiseWithResolvers<TenantOptions>[] = [];
    const tenants = (): Promise<TenantOptions> => {
      const lookup = Promise.withResolvers<TenantOptions>();
      lookups.push(lookup);
      return lookup.promise;
    };
    const { call, router } = openDatabase({ tenants });
    const old = call();
    router.invalidateTenant("acme");
    const next = call();
    await new Promise(setImmediate);
    lookups[1]?.resolve({});
    expect(codeOf(await next)).toBe("ok");
    lookups[0]?.resolve(SMALL);
    await old;
    expect(codeOf(await call())).toBe("ok");
  });

  test("reads a policy object again that the host has changed", async () => {
    const policy: { limits: { outputBytes: number } } = { limits: { outputBytes: 4 } };
    for (const tenants of [() => policy, async () => policy, { acme: policy }] as Tenants[]) {
      policy.limits = { outputBytes: 4 };
      const { call, router } = openDatabase({ tenants });
      expect(codeOf(await call())).toBe("OUTPUT_TOO_LARGE");
      policy.limits = { outputBytes: 1_000 };
      router.invalidateTenant("acme");
      expect(codeOf(await call())).toBe("ok");
    }
  });
});

describe("a lookup that fails", () => {
  test.for<readonly [string, unknown]>([
    ["undefined", undefined],
    ["null", null],
    ["text", "acme"],
    ["an array", []],
    ["a Map", new Map()],
    ["an unknown option", { limit: { timeoutMs: 5 } }],
    ["a limit of a wrong type", { limits: { timeoutMs: "5s" } }],
    ["a function", () => ({})],
  ])("because it resolves with %s denies the call, and onError receives the cause", async ([, policy]) => {
    const { call, answer, errors } = openDatabase();
    const running = call();
    answer(policy);
    expect(errorOf(await running)).toMatchObject({
      code: "INTERNAL",
      message: "The tenants option gave no valid policy for this tenant",
    });
    expect(errors).toMatchObject([{ code: "INTERNAL", cause: expect.anything() }]);
  });

  test.for<readonly [unknown, string]>([
    [undefined, 'options.tenants("acme") returned undefined: expected a policy; {} stands for the defaults'],
    ["text", 'options.tenants("acme") returned a string: expected a policy'],
    [
      { limits: { memoryMB: 64 } },
      'options.tenants("acme").limits.memoryMB: Unknown option. Did you mean "memoryMiB"?',
    ],
  ])("tells the operator which tenant has the invalid policy %j, and what is wrong", async ([policy, message]) => {
    const { call, answer, errors } = openDatabase();
    const running = call();
    answer(policy);
    await running;
    expect(errors).toMatchObject([{ code: "INTERNAL", cause: { message } }]);
  });

  test("because it rejects denies all calls that wait, is not cached, and reveals nothing", async () => {
    const { call, answer, fail, errors, asked } = openDatabase();
    const running = [call(), call()];
    const cause = new Error("connect ECONNREFUSED 10.0.0.5:5432");
    fail(cause);
    const results = await Promise.all(running);
    expect(results.map(codeOf)).toEqual(["INTERNAL", "INTERNAL"]);
    expect(JSON.stringify(results)).not.toContain("10.0.0.5");
    expect(errors).toMatchObject([{ cause }, { cause }]);
    const next = call();
    answer({});
    expect(codeOf(await next)).toBe("ok");
    expect(asked).toHaveLength(2);
  });

  test("a lookup that fails after it was cached denies: an old policy is not used", async () => {
    const { call, answer, fail, router } = openDatabase();
    const first = call();
    answer({});
    expect(codeOf(await first)).toBe("ok");
    router.invalidateTenant("acme");
    const next = call();
    fail(new Error("down"));
    expect(codeOf(await next)).toBe("INTERNAL");
  });

  test("because it never answers denies after tenantCache.timeoutMs", async () => {
    const { call, errors } = openDatabase({ tenantCache: { timeoutMs: 50 } });
    expect(codeOf(await call())).toBe("INTERNAL");
    const message = 'options.tenants("acme") did not answer within 50 ms (tenantCache.timeoutMs)';
    expect(errors).toMatchObject([{ cause: { message } }]);
  });

  test("a lookup that fails again and again is not repeated by every call", async () => {
    let asked = 0;
    const tenants = async (): Promise<TenantOptions> => {
      asked += 1;
      throw new Error("down");
    };
    const { call, router } = openDatabase({ tenants });
    for (let count = 0; count < 100; count += 1) expect(codeOf(await call())).toBe("INTERNAL");
    // A hundred calls take far less than the pauses of 1 s that a hundred lookups would need.
    expect(asked).toBeLessThan(50);
    router.invalidateTenant("acme");
    const before = asked;
    await call();
    expect(asked).toBe(before + 1);
  });

  test("a lookup that fails when no call waits any more is reported all the same", async () => {
    const { call, fail, errors } = openDatabase();
    const controller = new AbortController();
    const running = call("acme", { signal: controller.signal });
    await new Promise(setImmediate);
    controller.abort();
    expect(codeOf(await running)).toBe("CANCELLED");
    fail(new Error("down"));
    await expect.poll(() => errors).toMatchObject([{ code: "INTERNAL" }]);
  });
});

describe("a lookup that fails for any method", async () => {
  const FAILURES: { readonly [how: string]: () => TenantOptions | Promise<TenantOptions> } = {
    rejects: () => Promise.reject(new Error("down")),
    throws: () => {
      throw new Error("down");
    },
    "times out": () => new Promise(() => {}),
    "resolves with an invalid policy": () => Promise.resolve({ limit: {} } as TenantOptions),
  };
  let tenants: () => TenantOptions | Promise<TenantOptions> = () => ({});
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const open = async (): Promise<Glovebox> => {
    const glovebox = await makeGlovebox({
      tenancy: "multi",
      tenants: () => tenants(),
      tenantCache: { timeoutMs: 50 },
      onError,
    });
    glovebox.router.register("tool", {}, () => 1, { scope: "global" });
    return glovebox;
  };
  const glovebox = await open();
  const runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 0 });
  afterAll(async () => {
    await runs.close();
    await glovebox.close();
  });
  const TOOL = { name: "added", source: "export default () => 1" };
  const lastOf = async (items: AsyncIterable<unknown>): Promise<unknown> => {
    let last: unknown;
    for await (const item of items) last = item;
    return last;
  };
  const METHODS: { readonly [name: string]: () => Promise<unknown> } = {
    execute: () => glovebox.execute(CALL, ACME),
    stream: () => lastOf(glovebox.stream(CALL, ACME)),
    executeBatch: async () => (await glovebox.executeBatch([CALL], ACME))[0],
    listTools: () => glovebox.listTools(ACME),
    addTool: () => glovebox.addTool(TOOL, ACME),
    inspectTool: () => glovebox.inspectTool(TOOL, ACME),
    openSession: () => glovebox.openSession(ACME),
    exportTenant: () => lastOf(glovebox.exportTenant("acme")),
    "runs.start": () => runs.start({ toolName: "tool", ...ACME }),
  };

  test.for(Object.keys(METHODS).flatMap((method) => Object.keys(FAILURES).map((how) => [method, how] as const)))(
    "%s() fails if it %s, and onError receives the cause once",
    async ([method, how]) => {
      tenants = FAILURES[how] as typeof tenants;
      glovebox.invalidateTenant("acme");
      errors.length = 0;
      const result = await METHODS[method]?.().catch((error: unknown) => ({ success: false, error }));
      expect(result).toMatchObject({ success: false, error: { code: "INTERNAL" } });
      expect(errors).toMatchObject([{ code: "INTERNAL", cause: expect.any(Error) }]);
    },
  );
});

describe("the wait for a lookup", () => {
  test.for<readonly [string, ToolRouterOptions, object]>([
    ["the call's", {}, { timeoutMs: 50 }],
    ["the host's", { limits: { timeoutMs: 50 } }, {}],
  ])("counts against %s own time, and the lookup fails, not the tool", async ([, options, context]) => {
    const { call, errors } = openDatabase(options);
    const error = errorOf(await call("acme", context));
    expect(error).toMatchObject({ code: "INTERNAL", details: { reason: "no_tenant_policy" } });
    const message = 'options.tenants("acme") had not answered when the call\'s 50 ms (limits.timeoutMs) were over';
    expect(errors).toMatchObject([{ code: "INTERNAL", cause: { message } }]);
  });

  test("ends when the caller gives up, and the lookup goes on for the others", async () => {
    const { call, answer, asked } = openDatabase();
    const controller = new AbortController();
    const [given, other] = [call("acme", { signal: controller.signal }), call()];
    await new Promise(setImmediate);
    controller.abort();
    expect(codeOf(await given)).toBe("CANCELLED");
    answer({});
    expect(codeOf(await other)).toBe("ok");
    expect(asked).toHaveLength(1);
  });

  test("ends with the router, and so does the lookup", async () => {
    const { call, router } = openDatabase();
    const running = call();
    await new Promise(setImmediate);
    await router[Symbol.asyncDispose]();
    expect(codeOf(await running)).toBe("CANCELLED");
  });

  test("calls of a stream and of a batch wait for the lookup too", async () => {
    const { router, answer } = openDatabase();
    const stream = router.stream(CALL, ACME);
    const next = stream.next();
    await new Promise(setImmediate);
    answer(SMALL);
    expect((await next).value).toMatchObject({ type: "result", error: { code: "OUTPUT_TOO_LARGE" } });
  });
});

describe("a Glovebox with policies in a database", () => {
  test("applies a limit of a policy that comes 20 ms later: to tools, sessions, builds and what they call", async () => {
    const policies: { [tenantId: string]: TenantOptions } = {
      slow: { limits: { timeoutMs: 200 } },
      small: { limits: { sourceBytes: 50 } },
      modest: { limits: { sessions: 1 } },
      free: {},
    };
    const tenants = async (tenantId: string): Promise<TenantOptions | undefined> => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return policies[tenantId];
    };
    await using glovebox = await makeGlovebox({ tenancy: "multi", tenants });
    await glovebox.addTool({ name: "loop", source: "export default () => { for (;;); }" }, { scope: "global" });
    const late = await glovebox.execute({ id: "c", toolName: "loop" }, { tenantId: "slow" });
    expect(errorOf(late)).toMatchObject({ code: "TOOL_TIMEOUT", details: { timeoutMs: 200 } });
    const large = { name: "large", source: `export default () => "${"x".repeat(100)}"` };
    expect((await failureOf(glovebox.addTool(large, { tenantId: "small" }))).message).toContain("sourceBytes is 50");
    await using session = await glovebox.openSession({ tenantId: "modest" });
    expect((await failureOf(glovebox.openSession({ tenantId: "modest" }))).code).toBe("QUOTA_EXCEEDED");
    expect(outputOf(await session.run("1 + 1"))).toBe(2);
    expect((await failureOf(glovebox.addTool(large, { tenantId: "nobody" }))).code).toBe("INTERNAL");
    expect((await failureOf(glovebox.openSession({ tenantId: "nobody" }))).code).toBe("INTERNAL");
  });

  test("lets a running call keep the egress rules that it was admitted with", async () => {
    let policy: TenantOptions = { egress: { allow: ["http://127.0.0.1:9"] } };
    let release: () => void = () => {};
    const begun = new Promise<void>((resolve) => {
      release = resolve;
    });
    await using glovebox = await makeGlovebox({ tenancy: "multi", tenants: async () => policy });
    const source = `export default async (_, ctx) => {
      await ctx.log("begun");
      await new Promise((done) => setTimeout(done, 300));
      return await fetch("http://other.test/").then(() => "sent", (error) => error.code);
    }`;
    await glovebox.addTool({ name: "get", source }, { scope: "global", grant: ["fetch"] });
    const first = glovebox.execute({ id: "c", toolName: "get" }, { ...ACME, onLog: () => release() });
    await begun;
    policy = { egress: { allow: ["http://other.test"] } };
    glovebox.invalidateTenant("acme");
    expect(outputOf(await first)).toBe("CAPABILITY_DENIED");
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "get" }, ACME))).not.toBe("CAPABILITY_DENIED");
  });
});
