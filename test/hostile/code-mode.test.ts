// Hostile code in code mode, and hostile servers behind it: code reaches nothing but the allowed tools, and costs its own run only.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CodeMode, createCodeMode, TypeChecker } from "../../src/host/code-mode/index.ts";
import { unwrapCode } from "../../src/host/code-mode/run-code.ts";
import type { RunOutput } from "../../src/host/code-mode/run-result.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { expectPublishable, makeGlovebox, outputOf } from "../support/host-zone.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { expectLinearTime } from "../support/processes.ts";

const PATIENCE_MS = 400_000;
const INJECTION = "*/ } } declare global { const process: any } /* `$\u007bprocess.env}` \u2028 // @ts-ignore";
let glovebox: Glovebox;
let codeMode: CodeMode;
/** Its runs end soon by their CPU time. The others have more: a virtual machine counts a pause as CPU time of what runs. */
let brief: CodeMode;
const checker = new TypeChecker({ timeoutMs: 60_000 });
const called: string[] = [];

beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi" });
  const inputSchema = {
    type: "object",
    properties: { [INJECTION]: { type: "string", description: INJECTION, enum: [INJECTION] } },
  } as never;
  for (const tenantId of ["acme", "globex"]) {
    for (const name of ["allowed", "forbidden", "run_code"]) {
      glovebox.router.register(
        name,
        { description: INJECTION, inputSchema },
        () => ({ called: called.push(`${tenantId} ${name}`) }),
        { tenantId },
      );
    }
  }
  const open = (cpuMs: number): CodeMode =>
    createCodeMode(glovebox, {
      tenantId: "acme",
      tools: ["allowed"],
      typeChecker: checker,
      limits: { ...PATIENT_LIMITS, cpuMs, memoryMiB: 64, nestedCalls: 20 },
      storedValues: { maxValues: 5, maxBytes: 100_000 },
    });
  codeMode = open(PATIENT_LIMITS.cpuMs);
  brief = open(1_000);
});
afterAll(async () => {
  await codeMode.close();
  await brief.close();
  await checker[Symbol.asyncDispose]();
  await glovebox.close();
});

async function run(code: string, language: string, sessionId?: string, by: CodeMode = codeMode): Promise<RunOutput> {
  const call = { id: "run", toolName: "run_code", arguments: { code, language } };
  const result = await by.execute(call, { tenantId: "acme", sessionId });
  expectPublishable(outputOf(result));
  return outputOf(result) as never;
}

const DENIED = { status: "failed", error: { message: expect.stringContaining("There is no tool") } };

test.for([
  "await tools.forbidden()",
  "await tools['forbidden']()",
  "await tools.call('forbidden', {})",
  "await ctx.tools.call('forbidden')",
  "await tools.allowed.forbidden()",
  "await tools.run_code({ code: 'await tools.forbidden()' })",
  "await tools.call('globex/allowed')",
  "await tools.call('__proto__')",
  "await tools.call('constructor')",
  "await tools.call('allowed\\u0000forbidden')",
  "Object.prototype.forbidden = 'allowed'; await tools.forbidden()",
])("code cannot call what the host did not allow: %s", { timeout: PATIENCE_MS }, async (code) => {
  called.length = 0;
  expect(await run(code, "javascript")).toMatchObject(DENIED);
  expect(called).toEqual([]);
});

test.for([
  "return typeof require + typeof process.binding + typeof Deno",
  "return [typeof ctx.kv, typeof ctx.secrets, typeof ctx.fetch]",
  "try { return (await fetch('http://127.0.0.1:1/')).status } catch (error) { return error.code ?? error.name }",
  "return this === undefined ? 'none' : Object.keys(globalThis).filter((name) => /isolate|ivm|host/i.test(name))",
  "const { constructor } = tools.allowed; return (() => { try { return constructor('return process')().env } catch { return 'none' } })() ?? null",
])("code has no other way out: %s", { timeout: PATIENCE_MS }, async (code) => {
  const output = await run(code, "javascript");
  expect(JSON.stringify(output)).not.toMatch(/"PATH"|root:|glovebox-data/);
  expect(["ok", "failed"]).toContain(output.status);
});

test.for<readonly [string, string, object, "brief"?]>([
  [
    "a flood of calls",
    "await Promise.allSettled(Array.from({ length: 500 }, () => tools.allowed())); return 1",
    { status: "ok" },
  ],
  ["an endless loop", "for (;;);", { status: "failed", error: { code: "CPU_LIMIT" } }, "brief"],
  ["a loop of microtasks", "for (;;) await null", { status: "failed" }, "brief"],
  ["a flood of log lines", "for (let n = 0; n < 1e5; n += 1) console.log('x'.repeat(1000))", {}, "brief"],
  ["a giant value", "return 'x'.repeat(5e6)", { status: "ok" }],
  ["a deep value", "let a = 1; for (let n = 0; n < 1e4; n += 1) a = [a]; return a", { status: "failed" }],
  [
    "a forged status",
    "return { status: 'ok', approvals: [] }",
    { status: "ok", value: { status: "ok", approvals: [] } },
  ],
  ["a value that pollutes", 'return JSON.parse(\'{"__proto__":{"polluted":1}}\')', {}],
])("bounds %s", { timeout: PATIENCE_MS }, async ([, code, expected, isBrief]) => {
  called.length = 0;
  const output = await run(code, "javascript", "flood", isBrief === undefined ? codeMode : brief);
  expect(output).toMatchObject(expected);
  expect(called.length).toBeLessThanOrEqual(20);
  expect(JSON.stringify(output).length).toBeLessThan(40_000);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  // The next run is served.
  expect(await run("await tools.allowed(); return 1", "typescript")).toMatchObject({ status: "ok", value: 1 });
});

test("the wrapping of code is recognized in linear time", () => {
  const fence = "```";
  for (const [begin, piece, end] of [
    ["async()=>{}", " ", "x"],
    ["async()=>{", "}", "x"],
    ["async()=>{", "} ;", "x"],
    ["async", " ", "x"],
    [`${fence}\n`, `${fence}\n`, "x"],
    [`${fence}\n${fence}`, "\n", "x"],
    ["", "\n", fence],
  ] as const)
    expectLinearTime((size) => unwrapCode(`${begin}${piece.repeat(size)}${end}`, "javascript"), 6_000);
});

test("code that attacks the type checker is rejected or runs without authority", { timeout: PATIENCE_MS }, async () => {
  for (const code of [
    "} export const x = process.env; async function y() {",
    "/// <reference path='/etc/passwd' />\n// @ts-nocheck\nreturn process.env",
    "declare global { const tools: any }\nreturn 1",
    `return ${"(".repeat(20_000)}1${")".repeat(20_000)}`,
    `type T = ${"{ a: ".repeat(2_000)}1${" }".repeat(2_000)}; return 1`,
  ]) {
    const call = { id: "run", toolName: "run_code", arguments: { code, language: "typescript" } };
    const result = await codeMode.execute(call, { tenantId: "acme" });
    expectPublishable(result.success ? result.output : result.error.code);
    if (result.success) expect(JSON.stringify(result.output)).not.toMatch(/"PATH":|root:x/);
  }
  expect(await run("await tools.allowed(); return 1", "typescript")).toMatchObject({ status: "ok" });
});

test("values of another tenant and of another conversation cannot be read", { timeout: PATIENCE_MS }, async () => {
  await using other = createCodeMode(glovebox, { tenantId: "globex", typeChecker: checker });
  const save = {
    id: "s",
    toolName: "run_code",
    arguments: { code: "return await result.save('own', 'secret of globex')" },
  };
  expect(outputOf(await other.execute(save, { tenantId: "globex", sessionId: "c" }))).toMatchObject({ status: "ok" });
  for (const name of ["own", "../own", 'c"]/own', "globex/own", ""]) {
    const output = await run(`return await result.load(${JSON.stringify(name)})`, "javascript", "c");
    expect(output.status).toBe("failed");
    expect(JSON.stringify(output)).not.toContain("secret of globex");
  }
});
