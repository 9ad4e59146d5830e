// createGlovebox's options: each does what it says, and an error names the path of what is wrong and what would be right.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/host/config/options.ts";
import { parseToolInput } from "../../../src/host/config/tool-options.ts";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

function problemOf(options: unknown, parse: (options: never) => unknown = parseConfig): string {
  try {
    parse(options as never);
  } catch (thrown) {
    if (thrown instanceof ToolError && thrown.code === "PARAM_INVALID") return thrown.message;
    throw thrown;
  }
  return "nothing";
}

describe("parseConfig()", () => {
  test.for<[unknown, RegExp]>([
    [5, /^options: Expected a plain object/],
    [{ tool: {} }, /^options\.tool: Unknown option. Did you mean "tools"\?$/],
    [{ zzzzzzzz: 1 }, /^options\.zzzzzzzz: Unknown option. Expected one of: tools, flags, limits/],
    [{ tools: { enable: true } }, /^options\.tools\.enable: Unknown option. Did you mean "enabled"\?$/],
    [
      { mcp: { servers: { "a b": { command: "x" } } } },
      /^options\.mcp\.servers\.a b: Expected 1 to 64 characters out of A-Z a-z 0-9/,
    ],
    [{ tools: { enabled: "yes" } }, /^options\.tools\.enabled: Expected a boolean/],
    [{ tools: { builtinTools: ["run_js"] } }, /^options\.tools\.builtinTools\.0: .*"run-js"/],
    [{ tools: { builtinTools: false } }, /^options\.tools\.builtinTools: .*true.*array/],
    [{ tools: { executionTimeoutMs: 999 } }, /^options\.tools\.executionTimeoutMs: .*1000/],
    [{ tools: { executionTimeoutMs: 300_001 } }, /^options\.tools\.executionTimeoutMs: .*300000/],
    [{ tools: { executionTimeoutMs: 1_500.5 } }, /^options\.tools\.executionTimeoutMs: Expected a whole number$/],
    [{ tools: { maxConcurrentTools: 0 } }, /^options\.tools\.maxConcurrentTools: .*1/],
    [{ tools: { maxConcurrentTools: 11 } }, /^options\.tools\.maxConcurrentTools: .*10/],
    [{ flags: { "tools.enabled": true } }, /^options\.flags: Expected a function, or a client/],
    [{ limits: { timeoutMS: 5 } }, /^options\.limits\.timeoutMS: .*Did you mean "timeoutMs"\?$/],
    [{ limits: { memory: 64 } }, /^options\.limits\.memory: .*Did you mean "memoryMiB"\?$/],
    [{ isolateLifetime: "process" }, /^options\.isolateLifetime: .*"call"/],
    [{ placement: "any" }, /^options\.placement: .*"tenant"/],
    [{ tenants: { acme: { limit: {} } } }, /^options\.tenants\.acme\.limit: .*Did you mean "limits"\?$/],
    [
      { tenants: { acme: { limits: { timeoutMs: "x" } } } },
      /^options\.tenants\.acme\.limits\.timeoutMs: Expected a number/,
    ],
    [{ tenants: { acme: {}, "b.c": 5 } }, /^options\.tenants\.b\.c: Expected a plain object/],
    [{ tenants: [] }, /^options\.tenants: Expected \{ \[tenantId\]/],
    [{ tenants: "acme" }, /^options\.tenants: Expected \{ \[tenantId\]/],
    [
      { telemetry: { redact: { nope: 1 } } },
      /^options\.telemetry\.redact\.nope: Unknown option. Expected one of: names/,
    ],
    [{ telemetry: { redact: 5 } }, /^options\.telemetry\.redact: Expected a plain object/],
    [{ hardening: "most" }, /^options\.hardening: Expected "auto", "strict"/],
    [{ hardening: { required: [] } }, /^options\.hardening\.required: .*Did you mean "require"\?$/],
    [{ bundler: { packageDir: "x" } }, /^options\.bundler\.packageDir: .*Did you mean "packagesDir"\?$/],
    [{ workers: { maximum: 4 } }, /^options\.workers\.maximum: Unknown option. /],
    [{ workers: { max: "4" } }, /^options\.workers\.max: Expected a number/],
    [{ cache: { dir: "x" } }, /^options\.cache\.dir: Unknown option. Expected one of: directory, maxBytes/],
    [{ cache: true }, /^options\.cache: .*false.*object/],
    [{ shutdown: { signals: ["SIGKILL"] } }, /^options\.shutdown\.signals\.0: .*"SIGTERM"/],
    [{ shutdown: { drain: 5 } }, /^options\.shutdown\.drain: .*Did you mean "drainMs"\?$/],
    [{ store: "memory" }, /^options\.store: Unknown option. It is now called "kv"$/],
    [{ bundler: { store: "x" } }, /^options\.bundler\.store: Unknown option. It is now called "packagesDir"$/],
    [{ limits: { hostCalls: 1 } }, /^options\.limits\.hostCalls: .*now called "maxCapabilityCalls"$/],
    [{ kv: { file: "x" } }, /^options\.kv\.?.*path/],
    [{ egress: { allow: [], hosts: ["a.example"] } }, /options\.egress\.hosts: .*Did you mean "allow"\?$/],
    [{ limits: { memoryLimit: 64 } }, /options\.limits\.memoryLimit: .*Did you mean "memoryMiB"\?$/],
    [{ egress: { allowed: [] } }, /options\.egress\.allowed: .*Did you mean "allow"\?$/],
    [{ secrets: { KEY: { hosts: [] } } }, /^options\.secrets\.KEY/],
    [{ capabilities: ["kv"] }, /^options\.capabilities\.0: Expected the return value of defineCapability/],
    [{ coarseTime: 1 }, /^options\.coarseTime: Expected a boolean/],
    [{ health: { failures: 0 } }, /^options\.health\.failures: .*1/],
    [{ health: { openSeconds: 1 } }, /^options\.health\.openSeconds: Unknown option/],
    [{ onError: "log" }, /^options\.onError: Expected a function$/],
    [
      { tools: { enabled: 1, maxConcurrentTools: 99 }, isolateLife: "call" },
      /options\.tools\.enabled: .*; options\.tools\.maxConcurrentTools: .*; options\.isolateLife: .*Did you mean "isolateLifetime"/,
    ],
  ])("%j: %s", ([options, message]) => {
    expect(problemOf(options)).toMatch(message);
  });

  test("a long list of problems, or a key without end, stays short", () => {
    const options = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`${n}${"x".repeat(1_000)}`, n]));
    expect(problemOf(options).length).toBeLessThan(20_000);
  });

  test("what is left out has its default", () => {
    expect(parseConfig(undefined).tools).toBeUndefined();
    expect(parseConfig({ tools: {} }).tools).toEqual({ enabled: false, builtinTools: [] });
    expect(parseConfig({ tools: { builtinTools: true } }).tools?.builtinTools).toContain("run-js");
    expect(parseConfig({}).health).toEqual({ failures: 5, openMs: 10_000, maxOpenMs: 300_000 });
    expect(parseConfig({ health: false }).health).toBe(false);
  });
});

describe("parseToolInput()", () => {
  test.for<[unknown, RegExp]>([
    [{}, /^tool: Expected \{ path \}, \{ files, entry\? \} or \{ source \}/],
    [{ source: "x", path: "y" }, /^tool: Expected \{ path \}.*, got an object with path and source$/],
    [{ name: "x" }, /^tool: Expected \{ path \}.*, got an object with name only$/],
    ["add", /^tool: Expected \{ path \}.*, got a string$/],
    [undefined, /^tool: Expected \{ path \}.*, got undefined$/],
    [Promise.resolve({ source: "x" }), /^tool: Expected \{ path \}.*, got a Promise$/],
    [{ code: "x" }, /^tool\.code: Unknown option. Did you mean "source"\?$/],
    [{ sourcee: "x" }, /^tool\.sourcee: Unknown option. Did you mean "source"\?$/],
    [{ source: undefined }, /^tool: Expected \{ path \}.*, got an empty object$/],
    [{ source: "x", sorce: undefined }, /^tool\.sorce: Unknown option\. Did you mean "source"\?$/],
    [{ source: "x", files: null }, /^tool: Expected \{ path \}.*, got an object with files and source$/],
    [{ path: "x", mode: "script" }, /^tool\.mode: Expected it next to source only/],
    [{ source: "x", Name: "x" }, /^tool\.Name: Unknown option. Did you mean "name"\?$/],
    [{ path: 5 }, /^tool\.path: Expected a string/],
    [{ files: { "a.ts": 5 } }, /^tool\.files\.a\.ts: Expected a string/],
    [{ source: "x", overrides: { description: 5 } }, /^tool\.overrides\.description: Expected a string/],
    [
      { source: "x", overrides: { desc: "" } },
      /^tool\.overrides\.desc: Unknown option. Expected one of: name, (?!.*name)/,
    ],
  ])("%j: %s", ([input, message]) => {
    expect(problemOf(input, parseToolInput)).toMatch(message);
  });

  test.for<[object, object]>([
    [{ source: "x", path: undefined, files: undefined, entry: undefined, mode: undefined }, { source: "x" }],
    [{ path: "y", source: undefined, files: undefined, mode: undefined }, { path: "y" }],
    [{ files: { "a.ts": "" }, entry: undefined, source: undefined }, { files: { "a.ts": "" } }],
  ])("%j: a key of another form that is undefined is not given", ([input, parsed]) => {
    expect(parseToolInput(input)).toEqual(parsed);
  });
});

describe("createGlovebox({ tools })", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox({
      tenancy: "multi",
      tools: {
        enabled: true,
        builtinTools: ["json-query", "run-js", "run-js", "http-get"],
        executionTimeoutMs: 20_000,
        maxConcurrentTools: 2,
      },
      isolateLifetime: "tool",
      flags: (flag, { tenantId }) => (flag === "tools.http-get" && tenantId === "offline" ? false : undefined),
    });
  });
  afterAll(() => glovebox[Symbol.asyncDispose]());

  test("builtinTools are available to every tenant, unless a flag takes one away", async () => {
    const names = async (tenantId: string): Promise<readonly string[]> =>
      (await glovebox.listTools({ tenantId })).map(({ name }) => name);
    expect(await names("acme")).toEqual(["http-get", "json-query", "run-js"]);
    expect(await names("offline")).toEqual(["json-query", "run-js"]);
    const query = { language: "jmespath", query: "a[1]", data: { a: [1, 2] } };
    const results = await glovebox.executeBatch(
      [
        { toolName: "run-js", arguments: { code: "globalThis.x = (globalThis.x ?? 0) + 1; 6 * 7 * x" } },
        { toolName: "run-js", arguments: { code: "typeof x" } },
        { toolName: "json-query", arguments: query },
        { toolName: "http-get", arguments: { url: "http://example.com/" } },
      ],
      { tenantId: "acme", maxConcurrency: 1 },
    );
    // Each snippet has an isolate to itself; a request goes nowhere that no rule allows.
    expect(results.slice(0, 2).map((result) => (outputOf(result) as { result: unknown }).result)).toEqual([
      42,
      "undefined",
    ]);
    expect(results.slice(2).map(codeOf)).toEqual(["ok", "CAPABILITY_DENIED"]);
  });

  test("executionTimeoutMs is the time of every call; maxConcurrentTools bounds those of a tenant", async () => {
    let running = 0;
    let most = 0;
    const busy: HostFunction = async (_, { signal }) => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return signal.aborted;
    };
    glovebox.router.register("busy", {}, busy, { scope: "global" });
    const calls = Array.from({ length: 12 }, () => ({ toolName: "busy" }));
    const whose = { tenantId: "acme" };
    const batches = [
      glovebox.executeBatch(calls, { ...whose, maxConcurrency: 10 }),
      glovebox.invoker.executeBatch(calls, whose),
    ];
    expect((await Promise.all(batches)).flat().map(codeOf)).toEqual(Array(24).fill("ok"));
    expect(most).toBe(2);
  });

  test("tools that are stated and not enabled are off, and cost nothing", async () => {
    await using off = await makeGlovebox({ tools: { builtinTools: true, executionTimeoutMs: 1_000 } });
    await off.addTool({ name: "add", source: "export default () => 1" });
    expect([off.router.getRegisteredTools(), await off.listTools()]).toEqual([[], []]);
    expect(off.router.registry.list()).toHaveLength(1);
    const result = await off.execute({ id: "c1", toolName: "add" });
    expect(errorOf(result).message).toBe('There is no tool named "add" that can be called');
  });

  test("the lower of executionTimeoutMs and limits.timeoutMs holds", async () => {
    await using glovebox = await makeGlovebox({
      tools: { enabled: true, executionTimeoutMs: 1_000 },
      limits: { timeoutMs: 30 },
    });
    glovebox.router.register("never", {}, () => new Promise(() => {}));
    expect(errorOf(await glovebox.execute({ id: "c1", toolName: "never" })).details).toEqual({ timeoutMs: 30 });
    await using other = await makeGlovebox({ tools: { enabled: true, executionTimeoutMs: 1_000 } });
    other.router.register("never", {}, () => new Promise(() => {}));
    const late = await other.execute({ id: "c1", toolName: "never" }, { timeoutMs: 60_000 });
    expect(errorOf(late).details).toEqual({ timeoutMs: 1_000 });
  });
});
