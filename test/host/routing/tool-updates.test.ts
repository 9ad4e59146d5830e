// updateTool() and addTool(..., { replace: true }): calls that come all the while never fail, and each runs on one version.
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { Hook } from "../../../src/host/observability/hooks/hook-events.ts";
import { codeOf, errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const A = { tenantId: "a" } as const;
/** On a busy machine a top level takes long by the clock. */
const LIMITS = { timeoutMs: 60_000 } as const;
const ISOLATE_LIFETIMES = ["call", "tool"] as const;

/** Says which version its top level was, and which its function. */
const versionOf = (version: number): string =>
  `const loaded = ${version}; globalThis.version = ${version};
   export const inputSchema = { type: "object" };
   export default () => ({ version: ${version}, loaded, shared: globalThis.version });`;

const toolOf = (version: number, name = "versioned") => ({ source: versionOf(version), name });

/** The version of a result; fails if it has parts of two. */
function versionIn(result: ToolResult): number {
  const { version, loaded, shared } = outputOf(result) as Record<string, number>;
  expect([loaded, shared]).toEqual([version, version]);
  return version as number;
}

const deferred = (): PromiseWithResolvers<void> => Promise.withResolvers<void>();

describe("Glovebox.updateTool()", () => {
  let glovebox: Glovebox;
  const gate: { entered: () => void; opened: Promise<void> } = { entered: () => {}, opened: Promise.resolve() };
  beforeAll(async () => {
    glovebox = await makeGlovebox({ tenancy: "multi", limits: LIMITS, tenants: { few: { limits: { sessions: 1 } } } });
    glovebox.router.register(
      "gate",
      {},
      async () => {
        gate.entered();
        await gate.opened;
        return "opened";
      },
      A,
    );
  });
  afterAll(async () => await glovebox.close());

  /** A call of the tool `gate` that stays in it until `open()`. */
  function closeGate(): { readonly entered: Promise<void>; open(): void } {
    const entered = deferred();
    const opened = deferred();
    gate.entered = entered.resolve;
    gate.opened = opened.promise;
    return { entered: entered.promise, open: opened.resolve };
  }

  const call = (toolName: string, context: object = {}): Promise<ToolResult> =>
    glovebox.execute({ id: "c1", toolName }, { ...A, ...context });

  test.for(ISOLATE_LIFETIMES)(
    "fails no call of several loops, with isolation %s, and no caller sees a version go back",
    async (isolateLifetime) => {
      const name = `loop-${isolateLifetime}`;
      const updates = 3;
      await glovebox.addTool(toolOf(0, name), { ...A, isolateLifetime });
      let isOver = false;
      const failed: string[] = [];
      const seen = new Set<number>();
      const loop = async (): Promise<void> => {
        let last = 0;
        while (!isOver) {
          const result = await call(name);
          if (!result.success) failed.push(`${codeOf(result)}: ${result.error.message}`);
          else {
            const version = versionIn(result);
            expect(version).toBeGreaterThanOrEqual(last);
            last = version;
            seen.add(version);
          }
        }
      };
      const loops = Array.from({ length: 2 }, loop);
      for (let version = 1; version <= updates; version += 1) {
        await glovebox.updateTool(toolOf(version, name), { ...A, isolateLifetime });
        expect(versionIn(await call(name))).toBe(version);
      }
      // Calls that began before the last update may still run: the loops go on until one has seen the last version.
      try {
        await Promise.race([vi.waitFor(() => expect(seen).toContain(updates), { interval: 10 }), Promise.all(loops)]);
      } finally {
        isOver = true;
      }
      await Promise.all(loops);
      expect(failed).toEqual([]);
    },
  );

  test.for(ISOLATE_LIFETIMES)("loads the new version before the switch, with isolation %s", async (isolateLifetime) => {
    const name = `ahead-${isolateLifetime}`;
    const options = { ...A, isolateLifetime };
    const source = "const loadedAt = Date.now(); export default () => loadedAt;";
    await glovebox.addTool({ source, name }, options);
    await call(name);
    // An isolate that was made ahead goes after some seconds without a call: on a machine that busy, another update shows it.
    let isAhead = false;
    for (let attempt = 0; attempt < 10 && !isAhead; attempt += 1) {
      await glovebox.updateTool({ source: `${source} // ${attempt}`, name }, options);
      const switchedAt = Date.now();
      isAhead = (outputOf(await call(name)) as number) <= switchedAt;
    }
    expect(isAhead).toBe(true);
  });

  test("what a top level logs when it is loaded ahead belongs to the first call", async () => {
    const source = (version: number) => `console.log("loaded"); ${versionOf(version)}`;
    for (const isolateLifetime of ISOLATE_LIFETIMES) {
      const name = `logs-${isolateLifetime}`;
      await glovebox.addTool({ source: source(1), name }, { ...A, isolateLifetime });
      await call(name);
      await glovebox.updateTool({ source: source(2), name }, { ...A, isolateLifetime });
      const result = await call(name);
      expect([versionIn(result), result.logs.map(({ message }) => message)]).toEqual([2, ["loaded"]]);
    }
  });

  test("a call that runs ends on the old version, and the next one begins on the new", async () => {
    const source = (version: number) =>
      `export default async (_input, ctx) => { await ctx.tools.gate({}); return ${version}; };`;
    await glovebox.addTool({ source: source(1), name: "held" }, { ...A, grant: ["tools"] });
    const { entered, open } = closeGate();
    const running = call("held");
    await entered;
    await glovebox.updateTool({ source: "export default () => 2", name: "held" }, A);
    expect(outputOf(await call("held"))).toBe(2);
    open();
    expect(outputOf(await running)).toBe(1);
  });

  test("the error of a host with one tenant does not mention global tools", async () => {
    await using own = await makeGlovebox({ limits: LIMITS });
    const missing = await failureOf(own.updateTool({ source: "export default () => 1", name: "missing" }));
    expect(missing.message).toBe('There is no tool named "missing" to update; add it with addTool');
  });

  test("a call whose hooks decide while the tool is updated stays on the version that they decided about", async () => {
    const asked = deferred();
    const answer = deferred();
    const hook: Hook = {
      name: "approve",
      timeoutMs: 30_000,
      validate: async () => {
        asked.resolve();
        await answer.promise;
      },
    };
    const own = await makeGlovebox({ tenancy: "multi", limits: LIMITS, hooks: [hook] });
    onTestFinished(async () => await own.close());
    await own.addTool(toolOf(1), A);
    const running = own.execute({ id: "c1", toolName: "versioned" }, A);
    await asked.promise;
    await own.updateTool(toolOf(2), A);
    answer.resolve();
    expect(versionIn(await running)).toBe(1);
    expect(versionIn(await own.execute({ id: "c2", toolName: "versioned" }, A))).toBe(2);
  });

  test.for<[string, string, string]>([
    ["does not build", "export default (", "BUNDLE_FAILED"],
    ["throws at its top level", "throw new Error('no'); export default () => 1", "TOOL_FAILED"],
    [
      "has a schema that cannot be used",
      "export const inputSchema = { type: 'objekt' }; export default () => 1",
      "BUNDLE_FAILED",
    ],
  ])("leaves the old version untouched when the new one %s", async ([, source, code]) => {
    const name = "untouched";
    await glovebox.addTool(toolOf(1, name), { ...A, replace: true });
    const before = glovebox.router.registry.get(name, "a");
    expect((await failureOf(glovebox.updateTool({ source, name }, A))).code).toBe(code);
    expect(glovebox.router.registry.get(name, "a")).toBe(before);
    expect(versionIn(await call(name))).toBe(1);
  });

  test("the last one of concurrent updates stays", async () => {
    const name = "raced";
    await glovebox.addTool(toolOf(0, name), A);
    // The first one takes longest to build.
    const slow = `${"// ".padEnd(200_000, "x")}\nconst until = Date.now() + 300; while (Date.now() < until); ${versionOf(1)}`;
    await Promise.all([
      glovebox.updateTool({ source: slow, name }, A),
      glovebox.updateTool(toolOf(2, name), A),
      glovebox.addTool(toolOf(3, name), { ...A, replace: true }),
    ]);
    expect(versionIn(await call(name))).toBe(3);
  });

  test("a tool that the owner does not have: updateTool() fails with not_found, replace adds it", async () => {
    await glovebox.addTool(toolOf(1, "everybodys"), { scope: "global" });
    for (const name of ["missing", "everybodys"]) {
      const error = await failureOf(glovebox.updateTool(toolOf(2, name), A));
      expect([error.code, error.details?.reason]).toEqual(["TOOL_UNAVAILABLE", "not_found"]);
    }
    expect(versionIn(await call("everybodys"))).toBe(1);
    await glovebox.addTool(toolOf(2, "missing"), { ...A, replace: true });
    expect(versionIn(await call("missing"))).toBe(2);
    const taken = await failureOf(glovebox.addTool(toolOf(2, "everybodys"), { ...A, replace: true }));
    expect(taken.message).toContain("taken by a global tool");
  });

  test("addTool() without replace fails for a taken name, as before", async () => {
    await glovebox.addTool(toolOf(1, "taken"), A);
    expect((await failureOf(glovebox.addTool(toolOf(2, "taken"), A))).message).toContain('"taken" is taken');
    expect((await failureOf(glovebox.addTool(toolOf(2, "taken"), { ...A, replace: false }))).message).toContain(
      "is taken",
    );
  });

  test("a host function is not replaced by a sandboxed tool", async () => {
    for (const change of [
      () => glovebox.updateTool(toolOf(2, "gate"), A),
      () => glovebox.addTool(toolOf(2, "gate"), { ...A, replace: true }),
    ]) {
      const error = await failureOf(change());
      expect([error.code, error.message]).toEqual([
        "PARAM_INVALID",
        expect.stringContaining('"gate" is a host function'),
      ]);
    }
  });

  test("a call with the digest of the old version gets APPROVAL_REQUIRED", async () => {
    const name = "approved";
    const digest = (): string => {
      const [definition] = glovebox.router.getRegisteredTools(A).filter((one) => one.name === name);
      return glovebox.router.digestOf(definition as never, A) as string;
    };
    await glovebox.addTool(toolOf(1, name), A);
    const toolDigest = digest();
    expect(codeOf(await call(name, { toolDigest }))).toBe("ok");
    await glovebox.updateTool(toolOf(2, name), A);
    expect(errorOf(await call(name, { toolDigest }))).toMatchObject({
      code: "APPROVAL_REQUIRED",
      details: { toolChanged: true },
    });
    expect(codeOf(await call(name, { toolDigest: digest() }))).toBe("ok");
  });

  test("the new version has its own grants and limits, and nothing of the old one's", async () => {
    const source = "export default async (_input, ctx) => { await ctx.kv.set('k', 1); return 'set'; }";
    await glovebox.addTool({ source, name: "granted" }, { ...A, grant: ["kv"] });
    expect(outputOf(await call("granted"))).toBe("set");
    await glovebox.updateTool({ source, name: "granted" }, A);
    expect(codeOf(await call("granted"))).not.toBe("ok");
    await glovebox.updateTool(
      { source: "export default () => { for (;;); }", name: "granted", overrides: { limits: { timeoutMs: 200 } } },
      A,
    );
    expect(codeOf(await call("granted"))).toBe("TOOL_TIMEOUT");
  });

  test("a session ends with its calls on the old version, and the next call begins a new one on the new version", async () => {
    const few = { tenantId: "few", sessionId: "s1" };
    const source = (version: number) =>
      `export default () => { globalThis.count = (globalThis.count ?? 0) + 1; return { version: ${version}, count: globalThis.count }; }`;
    const options = { tenantId: "few", isolateLifetime: "session" } as const;
    const count = (): Promise<ToolResult> => glovebox.execute({ id: "c1", toolName: "counter" }, few);
    await glovebox.addTool({ source: source(1), name: "counter" }, options);
    expect([outputOf(await count()), outputOf(await count())]).toEqual([
      { version: 1, count: 1 },
      { version: 1, count: 2 },
    ]);
    const waiting = [count(), count(), count()];
    await glovebox.updateTool({ source: source(2), name: "counter" }, options);
    const versions = (await Promise.all(waiting)).map((result) => (outputOf(result) as { version: number }).version);
    expect(versions).toEqual([1, 1, 1]);
    // The tenant may have one session: that of the old version does not count any more.
    expect(outputOf(await count())).toEqual({ version: 2, count: 1 });
    expect(outputOf(await count())).toEqual({ version: 2, count: 2 });
    expect(glovebox.listSessions({ tenantId: "few" })).toHaveLength(1);
  });

  test("listeners of the registry are called once for each update", async () => {
    await glovebox.addTool(toolOf(1, "told"), A);
    const told: (string | undefined)[] = [];
    const stop = glovebox.router.registry.onChange?.((tenantId) => told.push(tenantId));
    await glovebox.updateTool(toolOf(2, "told"), A);
    stop?.();
    expect(told).toEqual(["a"]);
  });
});

test("the health of the old version is forgotten, and its late failures close nothing for the new one", async () => {
  const glovebox = await makeGlovebox({ tenancy: "multi", limits: LIMITS, health: { failures: 1 } });
  onTestFinished(async () => await glovebox.close());
  // The executor fails when the test says so: a process cannot be made to crash at a given moment.
  const registered = async (): Promise<void> => {
    await glovebox.addTool(toolOf(1), A);
  };
  await registered();
  const { registry } = glovebox.router;
  const real = registry.get("versioned", "a");
  if (real === undefined) throw new Error("Expected a tool");
  const late = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const { ToolError } = await import("../../../src/sandbox/contract/errors.ts");
  const { NO_USAGE } = await import("../../../src/host/contract/tool-call.ts");
  const failing = {
    ...real.executor,
    execute: async () => {
      begun.resolve();
      await late.promise;
      return { usage: NO_USAGE, error: new ToolError("SANDBOX_CRASHED", "The process ended"), isSourceFailure: true };
    },
  };
  glovebox.router.replace({ ...real, executor: failing });
  const running = glovebox.execute({ id: "c1", toolName: "versioned" }, A);
  await begun.promise;
  await glovebox.updateTool(toolOf(2), A);
  late.resolve();
  expect(codeOf(await running)).toBe("SANDBOX_CRASHED");
  expect(codeOf(await glovebox.execute({ id: "c2", toolName: "versioned" }, A))).toBe("ok");
  expect(glovebox.health(A).find(({ sourceId }) => sourceId === "sandbox:versioned")).toMatchObject({
    state: "closed",
    failures: 0,
  });
});
