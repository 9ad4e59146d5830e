// Circuit breakers of sources that keep failing, separate for each tenant. A tool's own failures never count.
import { once } from "node:events";
import { createConnection, createServer, type Server } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { CallContext, ToolResult } from "../../../../src/host/contract/tool-call.ts";
import { NO_USAGE } from "../../../../src/host/contract/tool-call.ts";
import type { HostFunction } from "../../../../src/host/executors/host-function.ts";
import type { Glovebox } from "../../../../src/host/glovebox/glovebox.ts";
import { SourceHealthRegistry } from "../../../../src/host/routing/health/source-health.ts";
import { ToolRelease } from "../../../../src/host/routing/tool-release.ts";
import { ToolRouter } from "../../../../src/host/routing/tool-router.ts";
import { type ErrorCode, ToolError } from "../../../../src/sandbox/contract/errors.ts";
import { freePort } from "../../../support/free-port.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox } from "../../../support/host-zone.ts";
import { fixedExecutor, makeTool } from "../../../support/registered-tool.ts";

const HEALTH = { failures: 3, openMs: 60_000, maxOpenMs: 60_000 };
/** Soon enough for a test, and not so soon that a busy machine passes it between two calls. */
/** Long enough for the calls that an open circuit rejects, on a busy machine. */
const SOON = { ...HEALTH, openMs: 4_000 };

function routerOf(
  handler: HostFunction,
  health: typeof HEALTH | false = HEALTH,
  tenancy: "single" | "multi" = "single",
): ToolRouter {
  const router = new ToolRouter({ health, tenancy });
  router.register("probe", {}, handler, { scope: "global" });
  router.register("other", {}, () => "well", { scope: "global" });
  return router;
}
const run = (router: ToolRouter, args: unknown = {}, context?: CallContext, timeoutMs?: number): Promise<ToolResult> =>
  router.execute({ id: "c1", toolName: "probe", arguments: args }, context, timeoutMs);
async function repeat(times: number, once: () => Promise<ToolResult>): Promise<readonly string[]> {
  const codes: string[] = [];
  for (let time = 0; time < times; time += 1) codes.push(codeOf(await once()));
  return codes;
}
const never: HostFunction = () => new Promise(() => {});
const throwing =
  (thrown: () => unknown): HostFunction =>
  () => {
    throw thrown();
  };
const isUnavailable = (code: string): boolean => code === "TOOL_UNAVAILABLE";

test.for<[unknown, RegExp]>([
  [null, /^options\.health: /],
  [true, /^options\.health: /],
  [{ openSeconds: 1 }, /^options\.health\.openSeconds: Unknown option/],
  [{ failures: "5" }, /^options\.health\.failures: /],
  [Promise.resolve({ failures: 1 }), /^options\.health: .*Expected a plain object, got a Promise/],
])("new ToolRouter() rejects the health option %j with its path", ([health, message]) => {
  expect(() => new ToolRouter({ health: health as never })).toThrow(message);
});

describe("ToolRouter, a host function that keeps failing", () => {
  test("opens its circuit after this number of timeouts: TOOL_UNAVAILABLE with the source and the time to retry", async () => {
    let calls = 0;
    const router = routerOf(() => {
      calls += 1;
      return new Promise(() => {});
    });
    expect(await repeat(3, () => run(router, {}, {}, 10))).toEqual(Array(3).fill("TOOL_TIMEOUT"));
    const rejected = await run(router);
    const { retryAfterMs, ...details } = errorOf(rejected).details ?? {};
    expect(errorOf(rejected)).toMatchObject({ code: "TOOL_UNAVAILABLE", recoverable: true });
    expect(errorOf(rejected).message).toMatch(
      /^The tool "probe" is not called at present, because it failed 3 times in a row/,
    );
    expect(details).toEqual({ reason: "circuit_open", source: "host", sourceId: "host:probe", state: "open" });
    expect(retryAfterMs).toBeGreaterThan(50_000);
    expect(calls).toBe(3);
    expectPublishable(rejected);
    expect(codeOf(await router.execute({ id: "c", toolName: "other" }))).toBe("ok");
  });

  test.for<[string, HostFunction]>([
    ["throws", throwing(() => new Error("no"))],
    ["says TOOL_FAILED", throwing(() => new ToolError("TOOL_FAILED", "no"))],
    ["says PARAM_INVALID", throwing(() => new ToolError("PARAM_INVALID", "no"))],
    ["hands on a nested call's timeout", throwing(() => new ToolError("TOOL_TIMEOUT", "another one was late"))],
    ["returns what has no JSON", () => () => {}],
  ])("is asked again and again when it %s: that is the tool's own", async ([, handler]) => {
    const router = routerOf(handler);
    const codes = await repeat(12, () => run(router));
    expect(codes.some(isUnavailable)).toBe(false);
    expect(router.health().map(({ state }) => state)).toEqual(["closed", "closed"]);
  });

  test("is asked again when its arguments are wrong, or its caller cancels", async () => {
    const router = routerOf(never);
    const cancelled = (): Promise<ToolResult> => {
      const caller = new AbortController();
      setImmediate(() => caller.abort());
      return run(router, {}, { signal: caller.signal });
    };
    expect(await repeat(6, cancelled)).toEqual(Array(6).fill("CANCELLED"));
    expect(await repeat(6, () => run(router, "no object"))).toEqual(Array(6).fill("PARAM_INVALID"));
  });

  test("opens for one tenant only", async () => {
    const handler: HostFunction = (input, { tenantId }) => (tenantId === "bad" ? new Promise(() => {}) : input);
    const router = routerOf(handler, HEALTH, "multi");
    await repeat(3, () => run(router, {}, { tenantId: "bad" }, 10));
    const results = [await run(router, {}, { tenantId: "bad" }), await run(router, {}, { tenantId: "good" })];
    expect(results.map(codeOf)).toEqual(["TOOL_UNAVAILABLE", "ok"]);
    expect(router.health({ tenantId: "good" }).map(({ state }) => state)).toEqual(["closed", "closed"]);
    expect(router.health({ tenantId: "bad" }).map(({ sourceId, state }) => [sourceId, state])).toEqual([
      ["host:other", "closed"],
      ["host:probe", "open"],
    ]);
  });

  test("is tried again by one call when its time has come, and is well when that is", async () => {
    let isDown = true;
    let calls = 0;
    const router = routerOf(() => {
      calls += 1;
      return isDown ? new Promise(() => {}) : "well";
    }, SOON);
    await repeat(3, () => run(router, {}, {}, 10));
    expect(codeOf(await run(router))).toBe("TOOL_UNAVAILABLE");
    const [sick] = router.health().filter(({ sourceId }) => sourceId === "host:probe");
    expect(sick).toMatchObject({ state: "open", failures: 3, rejected: 1, tenantId: "default", source: "host" });
    expect(sick?.lastFailure?.code).toBe("TOOL_TIMEOUT");
    expect(Math.abs((sick?.lastFailure?.at ?? 0) - Date.now())).toBeLessThan(60_000);
    isDown = false;
    await pause(Math.max(0, (sick?.nextProbeAt ?? 0) - Date.now()) + 20);
    expect((await Promise.all([run(router), run(router)])).map(codeOf).sort()).toEqual(["TOOL_UNAVAILABLE", "ok"]);
    expect(calls).toBe(4);
    expect(codeOf(await run(router))).toBe("ok");
    expect(router.health().find(({ sourceId }) => sourceId === "host:probe")).toEqual({
      sourceId: "host:probe",
      source: "host",
      state: "closed",
      failures: 0,
      rejected: 0,
    });
  });

  test("is always tried with health: false", async () => {
    const router = routerOf(never, false);
    expect(await repeat(8, () => run(router, {}, {}, 5))).toEqual(Array(8).fill("TOOL_TIMEOUT"));
  });

  test.for<[string, unknown]>([
    ["nothing", undefined],
    ["no usage", { outputText: "1" }],
    ["no output", { usage: NO_USAGE }],
    ["no ToolError", { usage: NO_USAGE, error: null }],
  ])("is tried again after a probe whose executor returned %s", async ([, answer]) => {
    const router = new ToolRouter({ health: { failures: 1, openMs: 10, maxOpenMs: 10 } });
    const answers: unknown[] = [undefined, answer, { usage: NO_USAGE, outputText: '"well"' }];
    const execute = async (): Promise<never> => answers.shift() as never;
    router.add(makeTool({ executor: { source: "host", sourceId: "host:probe", wants: "value", execute } }));
    const codes: string[] = [];
    while (answers.length > 0) {
      await vi.waitFor(() => expect(router.health()[0]?.nextProbeAt ?? 0).toBeLessThan(Date.now()));
      codes.push(codeOf(await run(router)));
      if (codes.length < 3) expect(router.health()).toMatchObject([{ state: "open" }]);
    }
    expect(codes).toEqual(["INTERNAL", "INTERNAL", "ok"]);
  });

  test("another function by its name begins anew", async () => {
    const router = routerOf(never);
    await repeat(3, () => run(router, {}, {}, 10));
    router.registry.remove("probe");
    router.register("probe", {}, () => "well");
    expect(codeOf(await run(router))).toBe("ok");
  });
});

/** A line of JSON in, a line out: a real source behind a real socket. */
function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => resolve((server.address() as { readonly port: number }).port));
  });
}
function upstream(): Server {
  return createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => {
      const { toolName, input } = JSON.parse(String(data)) as { toolName: string; input: { bad?: boolean } };
      socket.end(JSON.stringify(input.bad === true ? { failed: "no such thing" } : { toolName }));
    });
  });
}

const answer = (): number => 1;

describe("ToolRouter.addToolProvider()", () => {
  let port: number;
  let server: Server;
  beforeAll(async () => {
    server = upstream();
    port = await listen(server, await freePort());
  });
  afterAll(() => server.close());

  async function ask(toolName: string, input: unknown): Promise<unknown> {
    const socket = createConnection(port, "127.0.0.1");
    socket.write(JSON.stringify({ toolName, input }));
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk as Buffer);
    const answer = JSON.parse(Buffer.concat(chunks).toString()) as { readonly failed?: string };
    if (answer.failed !== undefined) throw new ToolError("TOOL_FAILED", answer.failed);
    return answer;
  }

  test("routes to a transport; when that breaks, all its tools are unavailable and all others go on; then it is there again", async () => {
    const told: ToolError[] = [];
    const router = new ToolRouter({ health: SOON, onInternalError: (error) => told.push(error) });
    router.register("local", {}, () => "well");
    using weather = router.addToolProvider("weather", { kind: "mcp", call: ask });
    weather.register("forecast", {});
    weather.register("history", {}, { nameAtSource: "get_history" });
    const call = (toolName: string, args: unknown = {}): Promise<ToolResult> =>
      router.execute({ id: "c1", toolName, arguments: args });
    const whole = await call("history");
    expect(whole.success && whole.output).toEqual({ toolName: "get_history" });
    expect(await repeat(6, () => call("forecast", { bad: true }))).toEqual(Array(6).fill("TOOL_FAILED"));

    server.close();
    await once(server, "close");
    const broken = await call("forecast");
    expect(errorOf(broken)).toMatchObject({ code: "TOOL_UNAVAILABLE", recoverable: true });
    expectPublishable(broken);
    expect(String(told.at(-1)?.cause)).toContain("ECONNREFUSED");
    await repeat(2, () => call("history"));
    const rejected = await call("forecast");
    expect(errorOf(rejected).details).toMatchObject({ source: "mcp", sourceId: "weather", state: "open" });
    expect(codeOf(await call("local"))).toBe("ok");

    server = upstream();
    await listen(server, port);
    const sick = router.health().find(({ sourceId }) => sourceId === "weather");
    await pause(Math.max(0, (sick?.nextProbeAt ?? 0) - Date.now()) + 20);
    expect(await repeat(2, () => call("forecast"))).toEqual(["ok", "ok"]);
  });

  test("takes its tools along when it is disposed", async () => {
    const router = new ToolRouter({ tenancy: "multi" });
    const source = router.addToolProvider("weather", { call: () => 1 });
    source.register("forecast", {}, { tenantId: "acme" });
    expect(router.hasTool("forecast", { tenantId: "acme" })).toBe(true);
    expect(() => router.addToolProvider("weather", { call: () => 1 })).toThrow(/already/);
    source[Symbol.dispose]();
    source[Symbol.dispose]();
    expect(router.hasTool("forecast", { tenantId: "acme" })).toBe(false);
    expect(() => source.register("again", {}, { scope: "global" })).toThrow(/removed/);
    router.addToolProvider("weather", { call: () => 1 })[Symbol.dispose]();
  });

  test.for([
    ["", { call: answer }],
    ["a:b", { call: answer }],
    ["a", undefined],
    ["a", {}],
    ["a", { call: answer, kind: "sandbox" }],
  ] as const)("rejects an invalid tool provider: case %#", ([id, transport]) => {
    expect(() => new ToolRouter().addToolProvider(id, transport as never)).toThrow(ToolError);
  });
});

describe("Glovebox.health()", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox({ health: HEALTH });
    await glovebox.addTool({ name: "loop", source: "export default ({ forever }) => { while (forever); return 1; }" });
    await glovebox.addTool({
      name: "slow",
      source: "export default () => new Promise((done) => setTimeout(done, 60_000))",
    });
  });
  afterAll(() => glovebox[Symbol.asyncDispose]());

  test("timeouts of a sandboxed tool that loops do not open its circuit", async () => {
    const loop = (): Promise<ToolResult> =>
      glovebox.execute({ id: "c1", toolName: "loop", arguments: { forever: true } }, { timeoutMs: 60 });
    expect(await repeat(4, loop)).toEqual(Array(4).fill("TOOL_TIMEOUT"));
    expect(codeOf(await glovebox.execute({ id: "c2", toolName: "loop" }))).toBe("ok");
    expect(glovebox.health().map(({ sourceId, source, state }) => [sourceId, source, state])).toEqual([
      ["sandbox:loop", "sandbox", "closed"],
      ["sandbox:slow", "sandbox", "closed"],
    ]);
  });

  test("opens the circuit of a tool whose processes keep dying, for that tenant only; other tools and tenants continue", async () => {
    await using own = await makeGlovebox({ tenancy: "multi", health: HEALTH });
    const killed = async (): Promise<ToolResult> => {
      let hasBegun: (() => void) | undefined;
      const begun = new Promise<void>((resolve) => {
        hasBegun = resolve;
      });
      const running = own.execute({ id: "c1", toolName: "die" }, { tenantId: "a", onLog: () => hasBegun?.() });
      await begun;
      for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
      return await running;
    };
    const loop = { name: "loop", source: "export default ({ forever }) => { while (forever); return 1; }" };
    const source =
      "export default () => { console.log('here'); return new Promise(() => setTimeout(() => {}, 60_000)); }";
    for (const tool of [loop, { name: "die", source }]) await own.addTool(tool, { scope: "global" });
    expect(await repeat(3, killed)).toEqual(Array(3).fill("SANDBOX_CRASHED"));
    const rejected = await own.execute({ id: "c1", toolName: "die" }, { tenantId: "a" });
    expect(errorOf(rejected).details).toMatchObject({ sourceId: "sandbox:die", source: "sandbox", state: "open" });
    const others = [
      await own.execute({ id: "c2", toolName: "loop" }, { tenantId: "a" }),
      await own.execute({ id: "c3", toolName: "loop" }, { tenantId: "b" }),
      await own.execute({ id: "c4", toolName: "die" }, { tenantId: "b", timeoutMs: 400 }),
    ];
    expect(others.map(codeOf)).toEqual(["ok", "ok", "TOOL_TIMEOUT"]);
  });
});

test.for<[string, (own: Glovebox) => unknown]>([
  ["removed", (own) => own.removeTool("die")],
  [
    "replaced by one in Python",
    (own) =>
      own.updateTool({ name: "die", language: "python", files: { "tool.py": "def main(input):\n    return 1\n" } }),
  ],
])("lists no open circuit of a tool that was %s", async ([, change]) => {
  await using own = await makeGlovebox({ health: { ...HEALTH, failures: 1 } });
  const source =
    "export default () => { console.log('here'); return new Promise(() => setTimeout(() => {}, 60_000)); }";
  await own.addTool({ name: "die", source });
  const begun = Promise.withResolvers<void>();
  const running = own.execute({ id: "c1", toolName: "die" }, { onLog: () => begun.resolve() });
  await begun.promise;
  for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
  expect(codeOf(await running)).toBe("SANDBOX_CRASHED");
  expect(own.health()).toMatchObject([{ sourceId: "sandbox:die", state: "open" }]);
  await change(own);
  expect(own.health().filter(({ state }) => state !== "closed")).toEqual([]);
});

test.for<[string, (own: Glovebox) => unknown]>([
  ["removed", (own) => own.removeTool("die")],
  ["updated", (own) => own.updateTool({ name: "die", source: "export default () => 1;" })],
])("a call that runs while its tool is %s opens no circuit", async ([, change]) => {
  await using own = await makeGlovebox({ health: { ...HEALTH, failures: 1 } });
  const source =
    "export default () => { console.log('here'); return new Promise(() => setTimeout(() => {}, 60_000)); }";
  await own.addTool({ name: "die", source });
  const begun = Promise.withResolvers<void>();
  const running = own.execute({ id: "c1", toolName: "die" }, { onLog: () => begun.resolve() });
  await begun.promise;
  await change(own);
  for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
  expect(codeOf(await running)).toBe("SANDBOX_CRASHED");
  expect(own.health().filter(({ state }) => state !== "closed")).toEqual([]);
});

test("a removed release leaves no open circuit of a version in another language", async () => {
  await using router = new ToolRouter({ health: { ...HEALTH, failures: 1 } });
  const toolOf = (source: "sandbox" | "python") =>
    makeTool({
      executor: {
        source,
        sourceId: `${source}:probe`,
        wants: "value",
        execute: async () => ({
          usage: NO_USAGE,
          error: new ToolError("SANDBOX_CRASHED", "Ended"),
          isSourceFailure: true,
        }),
      },
    });
  const release = new ToolRelease([
    { version: "1", weight: 1, tool: toolOf("sandbox") },
    { version: "2", weight: 0, tool: toolOf("python") },
  ]);
  router.setRelease({ ...release.main, release });
  for (const toolVersion of ["1", "2"]) await run(router, {}, { toolVersion });
  expect(router.health().map(({ state }) => state)).toEqual(["open", "open"]);
  expect(router.remove("probe", undefined)).toBe(true);
  expect(router.health()).toEqual([]);
});

test("counts the end of a process once, however many calls it ends", async () => {
  await using own = await makeGlovebox({ health: HEALTH, workers: { max: 1 } });
  const source =
    "export default ({ waits }) => { console.log('here'); return waits ? new Promise(() => setTimeout(() => {}, 60_000)) : 1; }";
  await own.addTool({ name: "die", source });
  let begun = 0;
  const calls = Array.from({ length: 4 }, (_, n) =>
    own.execute({ id: `c${n}`, toolName: "die", arguments: { waits: true } }, { onLog: () => (begun += 1) }),
  );
  await vi.waitFor(() => expect(begun).toBe(4));
  for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
  expect((await Promise.all(calls)).map(codeOf)).toEqual(Array(4).fill("SANDBOX_CRASHED"));
  expect(own.health()).toMatchObject([{ sourceId: "sandbox:die", state: "closed", failures: 1 }]);
  expect(codeOf(await own.execute({ id: "c9", toolName: "die" }))).toBe("ok");
});

describe("SourceHealthRegistry", () => {
  const tool = (sourceId: string) => makeTool({ executor: { ...fixedExecutor("1"), sourceId } });
  const fail = (code: ErrorCode) => ({ usage: NO_USAGE, error: new ToolError(code, "no"), isSourceFailure: true });

  test("remembers no more than 10,000 tenants that something is wrong for", () => {
    const registry = new SourceHealthRegistry(HEALTH, () => 0);
    const { executor } = tool("weather");
    for (let n = 0; n < 12_000; n += 1) registry.record(executor, `tenant ${n}`, undefined, fail("TOOL_TIMEOUT"));
    expect(registry.list([], undefined)).toHaveLength(10_000);
  });

  test("counts what ends many calls at one time once, and again for those that begin after it", () => {
    const registry = new SourceHealthRegistry(HEALTH, () => now);
    let now = 1_000;
    const { executor } = tool("weather");
    const failures = (): number | undefined => registry.list([executor], "a")[0]?.failures;
    const failAfter = (executeMs: number, cause: unknown): void => {
      const error = new ToolError("TOOL_UNAVAILABLE", "no", { cause });
      registry.record(executor, "a", undefined, { usage: { ...NO_USAGE, executeMs }, error, isSourceFailure: true });
    };
    const lost = new Error("lost");
    for (let n = 0; n < 50; n += 1) failAfter(100, lost);
    expect(failures()).toBe(1);
    now += 200;
    failAfter(100, lost);
    expect(failures()).toBe(2);
    failAfter(100, new Error("another"));
    expect(failures()).toBe(3);
    expect(() => registry.admit(executor, "a")).toThrow(/failed 3 times/);
  });

  test("lets the next call be the probe after one whose outcome says nothing", () => {
    let now = 0;
    const registry = new SourceHealthRegistry(HEALTH, () => now);
    const { executor } = tool("weather");
    for (let n = 0; n < 3; n += 1) registry.record(executor, "a", undefined, fail("TOOL_TIMEOUT"));
    now += HEALTH.openMs;
    const probe = registry.admit(executor, "a");
    expect(probe).toMatchObject({ isProbe: true });
    registry.record(executor, "a", probe, undefined);
    expect(registry.admit(executor, "a")).toMatchObject({ isProbe: true });
  });

  test("keeps a tenant whose id contains a line break apart from others", () => {
    const registry = new SourceHealthRegistry(HEALTH, () => 0);
    const { executor } = tool("weather");
    for (let n = 0; n < 3; n += 1) registry.record(executor, "a\nb", undefined, fail("TOOL_TIMEOUT"));
    expect(registry.admit(executor, "a")).toBeUndefined();
    expect(registry.admit(executor, "b")).toBeUndefined();
    expect(() => registry.admit(executor, "a\nb")).toThrow(ToolError);
  });
});
