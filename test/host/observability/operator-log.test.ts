// The operator's log: one redacted line with ids and codes for each failed call and each failed hook, by a real pino.
import { spawnSync } from "node:child_process";
import { Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { describe, expect, test, vi } from "vitest";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import { createHostLog, type LoggerOption } from "../../../src/host/observability/operator-log.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS } from "../../support/failing-callbacks.ts";
import { codeOf } from "../../support/host-zone.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

type Line = { readonly [name: string]: unknown };

/** A host's logger, and the lines that it has written. */
function capture(level = "info"): { readonly logger: LoggerOption; readonly lines: Line[] } {
  const lines: Line[] = [];
  const stream = new Writable({
    write: (chunk, _, done) => {
      lines.push(JSON.parse(String(chunk)) as Line);
      done();
    },
  });
  return { logger: pino({ level }, stream), lines };
}
const fail = (): never => {
  throw new Error("at db with password=hunter22");
};

describe("logger", () => {
  test("writes one line for a failed call, and none for a successful one", async () => {
    const { logger, lines } = capture();
    await using glovebox = await createGlovebox({
      logger,
      cache: false,
      workers: { warmProcesses: 0 },
      limits: { timeoutMs: 60_000 },
    });
    glovebox.router.register(
      "sum",
      { inputSchema: { type: "object", properties: { n: { type: "number" } } } },
      () => 1,
    );
    glovebox.router.register("broken", {}, fail);
    const context = { executionId: "e1", stepId: "s1" };
    await glovebox.execute({ id: "c1", toolName: "sum", arguments: { n: 1 } }, context);
    expect(lines).toEqual([]);
    await glovebox.execute({ id: "c2", toolName: "sum", arguments: { n: "Bearer abc123def" } }, context);
    await glovebox.execute({ id: "c3", toolName: "broken" }, context);
    const ids = { tenantId: "default", executionId: "e1", stepId: "s1", component: "glovebox", event: "call.failed" };
    expect(lines).toMatchObject([
      { ...ids, level: 40, callId: "c2", toolName: "sum", code: "PARAM_INVALID", msg: "sum failed: PARAM_INVALID" },
      { ...ids, level: 40, callId: "c3", toolName: "broken", code: "TOOL_FAILED", durationMs: expect.any(Number) },
    ]);
    expect(JSON.stringify(lines)).not.toMatch(/abc123def|hunter22/);
    expect(lines[1]?.error).toMatchObject({ cause: { message: "at db with password=[redacted:value]" } });
  });

  test("redacts the secrets of the tenant", async () => {
    const { logger, lines } = capture();
    const secrets = { KEY: { value: "correct-horse-battery", hosts: ["https://api.example.com"] } };
    await using glovebox = await createGlovebox({
      logger,
      secrets,
      cache: false,
      workers: { warmProcesses: 0 },
      limits: { timeoutMs: 60_000 },
    });
    glovebox.router.register("leaks", {}, () => {
      throw new Error("it was correct-horse-battery");
    });
    await glovebox.execute({ id: "c1", toolName: "leaks" });
    expect(lines[0]?.error).toMatchObject({ cause: { message: "it was [redacted:KEY]" } });
    expect(JSON.stringify(lines)).not.toContain("correct-horse");
  });

  test("logs a crash, and failures of the host's hooks", async () => {
    const { logger, lines } = capture();
    const log = await createHostLog(logger);
    const router = new ToolRouter({
      log,
      hooks: [{ name: "slow", failClosed: false, timeoutMs: 10, execute: () => new Promise(() => {}) }],
    });
    router.register("crash", {}, () => {
      throw new ToolError("SANDBOX_CRASHED", "It is gone");
    });
    expect(codeOf(await router.execute({ id: "c1", toolName: "crash" }))).toBe("SANDBOX_CRASHED");
    expect(lines).toMatchObject([
      { level: 40, event: "hook.failed", hook: "slow", stage: "execute", reason: "timed out", callId: "c1" },
      { level: 50, event: "crash", code: "SANDBOX_CRASHED", callId: "c1" },
    ]);
  });

  test("logs when a source's circuit opens, allows a trial call and closes", async () => {
    const { logger, lines } = capture();
    const router = new ToolRouter({
      log: await createHostLog(logger),
      health: { failures: 2, openMs: 10, maxOpenMs: 10 },
    });
    let isDown = true;
    const source = router.addToolProvider("up", {
      call: async () => {
        if (isDown) throw new Error("no connection");
        return { output: 1 };
      },
    });
    source.register("ping", {});
    const ping = async (): Promise<string> => codeOf(await router.execute({ id: "c1", toolName: "ping" }));
    await ping();
    await ping();
    isDown = false;
    await vi.waitFor(async () => expect(await ping()).toBe("ok"));
    expect(lines.filter(({ event }) => event === "circuit")).toMatchObject([
      { level: 40, sourceId: "up", tenantId: "default", from: "closed", state: "open", failures: 2 },
      { level: 30, from: "open", state: "half-open" },
      { level: 30, from: "half-open", state: "closed" },
    ]);
  });

  test.for(FAILING_CALLBACKS)(
    "does not fail a call or end the process if each of its methods %s",
    async ([, write]) => {
      const rejections = watchRejections();
      const child = (): object => ({ info: write, warn: write, error: write });
      const log = await createHostLog({ child } as never);
      const health = { failures: 1, openMs: 10, maxOpenMs: 10 };
      const router = new ToolRouter({ log, health, hooks: [{ name: "slow", failClosed: false, execute: fail }] });
      router.register("broken", {}, fail);
      router.addToolProvider("down", { call: fail }).register("ping", {});
      expect(codeOf(await router.execute({ id: "c1", toolName: "broken" }))).toBe("TOOL_FAILED");
      expect(codeOf(await router.execute({ id: "c2", toolName: "ping" }))).toBe("TOOL_UNAVAILABLE");
      expect(await rejections()).toEqual([]);
    },
  );

  test.for<[string, () => unknown]>([
    ["undefined", () => undefined],
    ["text", () => "logger"],
    ["an object without methods", () => ({})],
    ["an object without error()", () => ({ info: fail, warn: fail })],
    ["a promise", async () => ({ info: fail, warn: fail, error: fail })],
    ["a promise that rejects", async () => fail()],
    ["nothing because it throws", fail],
  ])("is rejected if its child() returns %s", async ([, child]) => {
    const rejections = watchRejections();
    await expect(createGlovebox({ logger: { child } as never, cache: false })).rejects.toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringMatching(/^options\.logger: .*child\(\)/),
    });
    expect(await rejections()).toEqual([]);
  });

  test.for<[string, LoggerOption, number]>([
    ["a level", "error", 0],
    ["pino's options", { level: "warn" }, 1],
  ])("accepts %s", async ([, option, expected]) => {
    const written: string[] = [];
    // Intercepts pino's writes to standard output.
    const options = typeof option === "string" ? { level: option } : (option as object);
    const log = await createHostLog({
      ...options,
      hooks: { streamWrite: (line: string) => written.splice(written.length, 0, line).join("") },
    } as never);
    const router = new ToolRouter({ log });
    router.register("broken", {}, fail);
    await router.execute({ id: "c1", toolName: "broken" });
    expect(written).toHaveLength(expected);
  });

  test.for<[string, unknown, RegExp]>([
    ["an unknown level", "loud", /options\.logger: .*loud/],
    ["a number", 5, /options\.logger: Expected a pino logger/],
    ["an unknown key", { lvl: "warn" }, /options\.logger\.lvl: Unknown option. Did you mean "level"\?/],
    ["a level that is a number", { level: 5 }, /options\.logger\.level: /],
    ["a mixin that is not a function", { mixin: {} }, /options\.logger\.mixin: Expected a function/],
    ["a promise", Promise.resolve({ level: "warn" }), /options\.logger: Expected a plain object, got a Promise/],
    ["a list", ["warn"], /options\.logger: Expected a plain object, got an array/],
    ["the console", console, /options\.logger: Expected a pino logger, pino's options, a level or true, got console/],
    [
      "a logger without child()",
      { info() {}, warn() {}, error() {} },
      /options\.logger: Expected a pino logger, .* got a logger without child\(\)/,
    ],
  ])("is rejected for %s", async ([, logger, message]) => {
    await expect(createGlovebox({ logger: logger as never, cache: false })).rejects.toThrow(message);
  });
});

test("a program without log and telemetry options loads neither", () => {
  const index = new URL("../../../src/host/index.ts", import.meta.url).href;
  const script = `
    import { registerHooks } from "node:module";
    const seen = [];
    registerHooks({ resolve: (name, context, next) => { seen.push(name); return next(name, context); } });
    const { ToolRouter } = await import(${JSON.stringify(index)});
    const router = new ToolRouter();
    router.register("one", {}, () => 1);
    await router.execute({ id: "c1", toolName: "one" });
    console.log(seen.filter((name) => /pino|opentelemetry/.test(name)).join());
  `;
  const cwd = fileURLToPath(new URL("../../..", import.meta.url));
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd,
    encoding: "utf8",
  });
  expect({ stdout, stderr }).toEqual({ stdout: "\n", stderr: "" });
});
