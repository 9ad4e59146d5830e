// Code mode: what code can do, what its result tells, how it is bounded, and which calls wait for approval.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type CodeMode, createCodeMode, TypeChecker } from "../../../src/host/code-mode/index.ts";
import type { CodeModeOptions } from "../../../src/host/code-mode/options.ts";
import type { RunOutput } from "../../../src/host/code-mode/run-result.ts";
import type { CallContext } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";

const PATIENCE_MS = 180_000;
let glovebox: Glovebox;
const checker = new TypeChecker({ timeoutMs: 60_000 });
const effects: string[] = [];

const object = (properties: object, required: readonly string[] = Object.keys(properties)) =>
  ({ type: "object", properties, required: [...required] }) as never;
const number = { type: "number" };

beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi", cache: PYTHON_CACHE, limits: { timeoutMs: 120_000 } });
  const shared = { scope: "global" } as const;
  const add = {
    description: "Adds two numbers",
    inputSchema: object({ a: number, b: number }),
    outputSchema: object({ sum: number }),
  };
  glovebox.router.register("add", add, ({ a, b }) => ({ sum: Number(a) + Number(b) }), shared);
  const orders = {
    description: "Lists all orders",
    outputSchema: { type: "array", items: object({ id: number, total: number }) } as never,
  };
  glovebox.router.register(
    "list-orders",
    orders,
    () => Array.from({ length: 800 }, (_, id) => ({ id, total: id * 1.5 })),
    shared,
  );
  const remove = {
    description: "Deletes an order",
    inputSchema: object({ id: number }),
    annotations: { destructiveHint: true },
  };
  glovebox.router.register(
    "delete_order",
    remove,
    ({ id }, { tenantId }) => ({ deleted: effects.push(`${tenantId} ${id}`) }),
    shared,
  );
  const read = {
    description: "Reads a note",
    annotations: { readOnlyHint: true },
    outputSchema: { type: "string" } as never,
  };
  glovebox.router.register("note", read, (_, { tenantId }) => `note of ${tenantId}`, { tenantId: "acme" });
  glovebox.router.register(
    "fails",
    { description: "Always fails" },
    () => Promise.reject(new Error("the database is down")),
    shared,
  );
  glovebox.router.register(
    "bytes",
    { description: "Returns bytes" },
    () => ({ data: new Uint8Array([1, 2, 3]) }),
    shared,
  );
  const origin = { server: "my-server", toolName: "new", isTrusted: false } as const;
  glovebox.router.register(
    "my-server__new",
    { description: "Creates it", origin, inputSchema: object({ title: { type: "string" } }) },
    (input) => input,
    shared,
  );
});
afterAll(async () => {
  await checker[Symbol.asyncDispose]();
  await glovebox.close();
});

const open = (options: CodeModeOptions = {}): CodeMode =>
  createCodeMode(glovebox, { tenantId: "acme", typeChecker: checker, ...options });

async function run(codeMode: CodeMode, code: string, more: object = {}, context: CallContext = {}): Promise<RunOutput> {
  const call = { id: "run", toolName: "run_code", arguments: { code, ...more } };
  const output = outputOf(await codeMode.execute(call, { tenantId: "acme", ...context }));
  expectPublishable(output);
  return output as never;
}

describe("run_code", { timeout: PATIENCE_MS }, () => {
  test("lists two tools, and takes the place of a Glovebox", async () => {
    await using codeMode = open();
    const listed = await codeMode.listTools({ tenantId: "acme" });
    expect(listed.map(({ name }) => name)).toEqual(["run_code", "search_tools"]);
    expect((await glovebox.listTools({ tenantId: "acme" })).map(({ name }) => name)).not.toContain("run_code");
  });

  test.for<readonly [string, unknown]>([
    ["const { sum } = await tools.add({ a: 1, b: 2 });\nreturn sum", 3],
    ["(await tools.add({ a: 1, b: 2 })).sum", 3],
    ["async () => { return (await tools.add({ a: 1, b: 2 })).sum }", 3],
    ["```ts\nreturn (await tools.add({ a: 1, b: 2 })).sum\n```", 3],
    [
      "const all = await Promise.all([1, 2, 3].map((n) => tools.add({ a: n, b: 1 })));\nreturn all.map((one) => one.sum)",
      [2, 3, 4],
    ],
    ["const orders = await tools.list_orders();\nreturn orders.filter((order) => order.total > 1_190).length", 6],
    ["enum Kind { A = 4 }\nKind.A", 4],
    ["return await tools.my_server.new_({ title: 'x' })", { title: "x" }],
    ["return await tools.call('my-server__new', { title: 'y' })", { title: "y" }],
    ["return await tools.note()", "note of acme"],
    ["const result = await tools.add({ a: 1, b: 1 }); return result.sum", 2],
    ["return input.a + 1", 6],
    ["const x = await tools.bytes() as { data: Uint8Array }; return [x.data.length, x]", [3, { data: "AQID" }]],
    [
      "try { await tools.fails() } catch (error) { return [error.code, error.message.includes('database')] }",
      ["TOOL_FAILED", false],
    ],
    ["return undefined", null],
  ])("runs %j", async ([code, value]) => {
    await using codeMode = open();
    expect(await run(codeMode, code, { input: { a: 5 } })).toMatchObject({ status: "ok", value });
  });

  test("tells logs, calls by tool, and usage", async () => {
    await using codeMode = open({ maxLogBytes: 100 });
    const output = await run(
      codeMode,
      `console.log("start", { a: 1 }); console.warn("careful");
      for (const n of [1, 2, 3]) await tools.add({ a: n, b: n });
      await tools.fails().catch(() => {});
      for (let n = 0; n < 50; n += 1) console.log("a long line", n);
      return "done"`,
    );
    expect(output.logs?.slice(0, 2)).toEqual(["start { a: 1 }", "warn: careful"]);
    expect(output.logs?.at(-1)).toMatch(/^\(\d+ more lines\)$/);
    expect(output.calls).toMatchObject([
      { tool: "add", count: 3 },
      { tool: "fails", count: 1, failed: 1 },
    ]);
    expect(output.usage).toEqual({
      ms: expect.any(Number),
      cpuMs: expect.any(Number),
      checkMs: expect.any(Number),
      buildMs: expect.any(Number),
    });
  });

  test("rejects code with type errors before anything runs, with the tool's declaration", async () => {
    await using codeMode = open();
    effects.length = 0;
    const output = await run(
      codeMode,
      "await tools.delete_order({ id: 1 });\nreturn await tools.add({ a: 1, b: 'two' })",
    );
    expect(output).toMatchObject({
      status: "rejected",
      diagnostics: [
        { line: 2, column: 32, code: "TS2322", message: "Type 'string' is not assignable to type 'number'." },
      ],
      declarations: expect.stringContaining("tools.add(input: {\n  a: number;"),
    });
    expect(effects).toEqual([]);
    expect(await run(codeMode, "return await tools.ad({ a: 1, b: 1 })")).toMatchObject({
      diagnostics: [{ suggestion: "Use tools.add" }],
      declarations: expect.stringContaining("tools.add"),
    });
    expect(await run(codeMode, "return await tools.add({ a: 1, b: 'two' })", { language: "javascript" })).toMatchObject(
      {
        status: "failed",
        error: { code: "TOOL_FAILED", message: expect.stringContaining("/b") },
      },
    );
  });

  test.for<readonly [string, string, object]>([
    [
      "throws",
      "await tools.add({ a: 1, b: 1 });\nthrow new RangeError('too far')",
      { error: { name: "RangeError", message: "too far", line: 2 }, calls: [{ tool: "add" }] },
    ],
    ["computes for ever", "for (;;);", { error: { code: "CPU_LIMIT" } }],
    [
      "needs too much memory",
      "const all = []; for (;;) all.push(new Array(1e5).fill(all.length))",
      { error: { code: "MEMORY_LIMIT" } },
    ],
    [
      "makes too many calls",
      "for (let n = 0; n < 10; n += 1) await tools.add({ a: n, b: n })",
      { error: { message: expect.stringContaining("nestedCalls") } },
    ],
    ["returns what is no JSON", "const a: any = {}; a.a = a; return a", { error: { code: "OUTPUT_INVALID" } }],
  ])("reports code that %s", async ([, code, expected]) => {
    const cpuMs = code === "for (;;);" ? 1_000 : 60_000;
    await using codeMode = open({ limits: { cpuMs, memoryMiB: 64, nestedCalls: 5, timeoutMs: 120_000 } });
    const output = await run(codeMode, code);
    expect(output).toMatchObject({ status: "failed", ...expected });
  });

  test("ends at its timeout, with the nested call", async () => {
    await using codeMode = open({ limits: { timeoutMs: 100_000 } });
    const ended = Promise.withResolvers<void>();
    let hasBegun = false;
    glovebox.router.register(
      "hangs",
      {},
      (_, { signal }) => {
        hasBegun = true;
        return new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => {
            ended.resolve();
            reject(signal.reason);
          }),
        );
      },
      { tenantId: "acme" },
    );
    const call = { id: "r", toolName: "run_code", arguments: { code: "await tools.hangs()" } };
    let result = await codeMode.execute(call, { tenantId: "acme", timeoutMs: 4_000 });
    // On a slow machine, the time can be over before the code has been checked.
    if (!hasBegun) result = await codeMode.execute(call, { tenantId: "acme", timeoutMs: 60_000 });
    await ended.promise;
    expect(result.success ? (result.output as never as RunOutput).error?.code : result.error.code).toBe("TOOL_TIMEOUT");
    glovebox.router.registry.remove("hangs", "acme");
  });

  test("names what is wrong with a build", async () => {
    await using codeMode = open({ typeCheck: false });
    expect(codeMode.isTypeChecked).toBe(false);
    expect(await run(codeMode, "const a = 1\nconst = 2")).toMatchObject({
      status: "rejected",
      diagnostics: [{ line: 2 }],
    });
    expect(await run(codeMode, "const f = () => 1\nf")).toMatchObject({
      status: "ok",
      hint: expect.stringContaining("not called"),
    });
  });

  test("says what a model forgot: an await, the code alone, and that there is no network", async () => {
    await using codeMode = open({ language: ["typescript", "python"] });
    // Its calls cannot end before the code does.
    glovebox.router.register("ask-bank", {}, () => new Promise<never>(() => {}), { tenantId: "acme" });
    const unawaited = await run(codeMode, "const answers = [1, 2].map(() => tools.ask_bank({}));\nreturn answers");
    expect(unawaited).toMatchObject({ status: "ok", hint: expect.stringContaining("await Promise.all(list)") });
    expect(unawaited.hint).toContain("its calls of ask_bank had");
    expect(await run(codeMode, "return (await tools.add({ a: 1, b: 2 })).sum")).not.toHaveProperty("hint");
    expect(await run(codeMode, "Here it is:\n```ts\nreturn 1\n```\nThis returns 1.")).toMatchObject({
      status: "rejected",
      diagnostics: expect.arrayContaining([
        expect.objectContaining({ line: 1, suggestion: expect.stringContaining("without Markdown") }),
      ]),
    });
    expect(await run(codeMode, "return (await fetch('https://example.com')).status")).toMatchObject({
      status: "failed",
      hint: expect.stringContaining("Code has no network"),
    });
  });

  test("lists calls that had not ended when the code did", async () => {
    const begun: unknown[] = [];
    const pay = (input: unknown): Promise<never> => {
      begun.push(input);
      return new Promise(() => {});
    };
    const origin = { server: "bank", toolName: "pay-now", isTrusted: false } as const;
    glovebox.router.register("bank__pay-now", { origin }, pay, { tenantId: "acme" });
    await using codeMode = open({ language: "javascript", limits: { timeoutMs: 100_000 } });
    const code =
      "tools.bank.pay_now(); while ((await tools.begun()) === 0) await new Promise((done) => setTimeout(done, 5)); return 1";
    glovebox.router.register("begun", {}, () => begun.length, { tenantId: "acme" });
    expect(await run(codeMode, code)).toMatchObject({
      status: "ok",
      value: 1,
      calls: expect.arrayContaining([{ tool: "bank.pay_now", count: 1, unfinished: 1, ms: expect.any(Number) }]),
    });
    const timedOut = async (timeoutMs: number): Promise<RunOutput | undefined> => {
      begun.length = 0;
      const call = { id: "r", toolName: "run_code", arguments: { code: "return await tools.bank.pay_now()" } };
      const result = await codeMode.execute(call, { tenantId: "acme", timeoutMs });
      return result.success && begun.length > 0 ? (result.output as never) : undefined;
    };
    // On a slow machine, the time can be over before the code has begun.
    let output: RunOutput | undefined;
    for (let timeoutMs = 2_000; output === undefined && timeoutMs < 100_000; timeoutMs *= 2)
      output = await timedOut(timeoutMs);
    expect(output).toMatchObject({
      status: "failed",
      error: { code: "TOOL_TIMEOUT" },
      calls: [{ tool: "bank.pay_now", count: 1, unfinished: 1 }],
    });
    for (const name of ["bank__pay-now", "begun"]) glovebox.router.registry.remove(name, "acme");
  });

  test("names a tool in errors as the code does", async () => {
    const origin = { server: "up", toolName: "get-user", isTrusted: false } as const;
    const getUser = { origin, inputSchema: object({ id: number }) };
    glovebox.router.register("up__get-user", getUser, () => 1, { tenantId: "acme" });
    await using codeMode = open({ language: "javascript" });
    const output = await run(codeMode, "return await tools.up.get_user({ id: 'one' }).catch((error) => error.message)");
    expect(output.value).toMatch(/^up\.get_user: /);
    expect(output.calls).toMatchObject([{ tool: "up.get_user", count: 1, failed: 1 }]);
    glovebox.router.registry.remove("up__get-user", "acme");
  });

  test("does not take a member of every object for a tool", async () => {
    await using codeMode = open();
    glovebox.router.register("constructor", {}, () => "built", { tenantId: "acme" });
    expect(await run(codeMode, "return await tools.constructor()")).toMatchObject({
      status: "rejected",
      diagnostics: [{ suggestion: "Use tools.constructor_" }],
    });
    expect(await run(codeMode, "return await tools.constructor_()")).toMatchObject({ status: "ok", value: "built" });
    glovebox.router.registry.remove("constructor", "acme");
    for (const code of ["tools.toString()", "tools.my_server.valueOf()"])
      expect(await run(codeMode, `return await ${code}`)).toMatchObject({ status: "rejected" });
  });

  test.for<readonly [string, unknown]>([
    ["return (await tools.add(a=1, b=2))['sum']", 3],
    [
      "```python\nfrom __future__ import annotations\nn: int = 1\ndef more():\n  global n\n  n += 1\nmore()\nreturn n\n```",
      2,
    ],
    ["for n in range(9):\n  if n == 4:\n    return [n, input]", [4, null]],
    ["if False: return 1\n[w := 2, await tools.note()]", [2, "note of acme"]],
  ])("runs Python: %j", async ([code, value]) => {
    await using codeMode = open({ language: "python" });
    expect(await run(codeMode, code)).toMatchObject({ status: "ok", value });
  });

  test("tells where Python fails, and that nothing of code with a syntax error has run", async () => {
    await using codeMode = open({ language: "python" });
    const thrown = await run(codeMode, "x = 1\n\nif x:\n  return 1 / 0");
    expect(thrown).toMatchObject({ status: "failed", error: { name: "ZeroDivisionError", line: 4 } });
    const rejected = await run(codeMode, "await tools.add(a=1, b=2)\nreturn (1,\n");
    expect(rejected).toMatchObject({
      status: "rejected",
      diagnostics: [{ line: 2, column: 8, message: "'(' was never closed" }],
    });
    expect([rejected.error, rejected.calls]).toEqual([undefined, undefined]);
    // Something has run when code compiles other code.
    const later = await run(codeMode, "await tools.add(a=1, b=2)\nexec('1 +')");
    expect(later).toMatchObject({ status: "failed", error: { name: "SyntaxError" }, calls: [{ tool: "add" }] });
  });

  test("runs Python with the same tools", async () => {
    await using codeMode = open({ language: ["python", "typescript"] });
    const code =
      "r = await tools.add(a=1, b=2)\ns = await tools.my_server.new_(title='t')\nawait result.save('r', r)\nprint('hi')\n[r['sum'], s, await result.load('r'), input]";
    expect(await run(codeMode, code, { input: 7 })).toMatchObject({
      status: "ok",
      value: [3, { title: "t" }, { sum: 3 }, 7],
      logs: ["hi"],
    });
    expect(await run(codeMode, "x = 1\nraise ValueError('no')")).toMatchObject({
      status: "failed",
      error: { name: "ValueError", line: 2 },
    });
    expect(await codeMode.search({ query: "add numbers" })).toContain(
      "async def tools.add(*, a: float, b: float) -> AddOutput:",
    );
    expect(await codeMode.search({ query: "add numbers", language: "typescript" })).toContain("tools.add(input: {");
    const call = { id: "s", toolName: "search_tools", arguments: { query: "add", language: "python" } };
    expect(outputOf(await codeMode.execute(call, { tenantId: "acme" }))).toContain("async def tools.add(");
    const other = codeMode.search({ query: "add", language: "javascript" });
    await expect(other).rejects.toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringContaining("python, typescript"),
    });
  });
});

describe("stored values", { timeout: PATIENCE_MS }, () => {
  test("keep data out of the result, for later code of the conversation", async () => {
    await using codeMode = open();
    const context = { sessionId: "c1" };
    const stored = await run(codeMode, "return await result.save('orders', await tools.list_orders())", {}, context);
    expect(stored.value).toMatchObject({
      saved: "orders",
      type: "array of 800",
      bytes: expect.any(Number),
      preview: expect.stringMatching(/^\[\{"id":0/),
    });
    expect(
      await run(
        codeMode,
        "const all = await result.load('orders'); return [all.length, (await result.list()).length]",
        {},
        context,
      ),
    ).toMatchObject({ value: [800, 1] });
    for (const other of [{ sessionId: "c2" }, {}]) {
      expect(await run(codeMode, "return await result.load('orders')", {}, other)).toMatchObject({
        status: "failed",
        error: { message: expect.stringContaining('no saved value named "orders"') },
      });
    }
    expect(
      await run(codeMode, "return [await result.delete('orders'), await result.delete('orders')]", {}, context),
    ).toMatchObject({ value: [true, false] });
  });

  test("take the place of a value that is too large for the model", async () => {
    await using codeMode = open({ maxResultBytes: 1_000 });
    const output = await run(codeMode, "return await tools.list_orders()");
    expect(output).toMatchObject({
      status: "ok",
      saved: { type: "array of 800" },
      hint: expect.stringContaining("result.load"),
    });
    expect(JSON.stringify(output).length).toBeLessThan(1_500);
    const loaded = await run(codeMode, `return (await result.load(${JSON.stringify(output.saved?.saved)})).length`);
    expect(loaded).toMatchObject({ value: 800 });
  });

  test("are listed completely, also if they are larger than a page of the store", async () => {
    await using codeMode = open({ language: "javascript" });
    const context = { sessionId: "large" };
    const names = Array.from({ length: 20 }, (_, n) => `value${String(n).padStart(2, "0")}`);
    const code = `for (const name of ${JSON.stringify(names)}) await result.save(name, "x".repeat(1_000_000));
      return (await result.list()).map(({ name, type, bytes }) => name + " " + type + " " + bytes);`;
    const output = await run(codeMode, code, {}, context);
    expect(output).toMatchObject({ status: "ok", value: names.map((name) => `${name} string 1000002`) });
    const missing = await run(codeMode, 'return await result.load("none")', {}, context);
    expect(missing.error?.message).toContain(`Saved: ${names.join(", ")}`);
  });

  test("are bounded", async () => {
    await using codeMode = open({ storedValues: { maxValues: 2, maxValueBytes: 100, ttlMs: 1_000 } });
    const context = { sessionId: "bounded" };
    const save = (name: string, value: string) =>
      run(codeMode, `return await result.save(${JSON.stringify(name)}, ${value})`, {}, context);
    expect(await save("../x", "1")).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("1 to 64") },
    });
    expect(await save("big", "'x'.repeat(200)")).toMatchObject({
      error: { message: expect.stringContaining("maxValueBytes") },
    });
    expect((await save("a", "1")).status).toBe("ok");
    await vi.waitFor(async () =>
      expect((await run(codeMode, "return await result.list()", {}, context)).value).toEqual([]),
    );
  });
});

describe("which tools", { timeout: PATIENCE_MS }, () => {
  test("code can call is decided by the host, also by their other names", async () => {
    await using codeMode = open({ tools: ["add", "my-server__*"], typeCheck: false });
    for (const code of [
      "return await tools.delete_order({ id: 1 })",
      "return await tools.call('delete_order', { id: 1 })",
      "return await ctx.tools['note']()",
    ]) {
      expect(await run(codeMode, code)).toMatchObject({
        status: "failed",
        error: { message: expect.stringContaining("There is no tool") },
      });
    }
    expect(await run(codeMode, "return (await tools.add({ a: 1, b: 1 })).sum")).toMatchObject({ value: 2 });
    expect(await codeMode.search({ query: "", detail: "names" })).toBe("add\nmy_server.new_");
  });

  test("code can call are those of its tenant", async () => {
    await using other = createCodeMode(glovebox, { tenantId: "globex", typeChecker: checker });
    expect(await other.search({ query: "", detail: "names" })).not.toContain("note");
    const call = { id: "r", toolName: "run_code", arguments: { code: "return 1" } };
    expect(codeOf(await other.execute(call, { tenantId: "acme" }))).toBe("TOOL_UNAVAILABLE");
    const output = outputOf(
      await other.execute(
        { ...call, arguments: { code: "await tools.delete_order({ id: 3 })" } },
        { tenantId: "globex" },
      ),
    );
    expect(output).toMatchObject({ status: "ok" });
    expect(effects.at(-1)).toBe("globex 3");
  });

  test("the list of tools changes without a new code mode", async () => {
    await using codeMode = open();
    glovebox.router.register("late", { description: "Came late" }, () => "late", { tenantId: "acme" });
    expect(await run(codeMode, "return await tools.late()")).toMatchObject({ value: "late" });
    glovebox.router.registry.remove("late", "acme");
    expect(await run(codeMode, "return await tools.late()")).toMatchObject({ status: "rejected" });
  });

  test("are found by what they do, in the wanted detail and within bounds", async () => {
    await using codeMode = open();
    expect((await codeMode.search({ query: "remove an order", detail: "names", limit: 1 })).split("\n")[0]).toBe(
      "delete_order",
    );
    expect(await codeMode.search({ query: "tools.add, note" })).toMatch(
      /^\/\*\* Adds two numbers \*\/\ntools\.add\(input: \{[\s\S]*tools\.note\(/,
    );
    expect(await codeMode.search({ query: "", detail: "summaries" })).toContain("tools.add: Adds two numbers");
    expect(await codeMode.search({ query: "zzzz qqqq" })).toContain("No tool matches");
    await using small = open({ maxSearchLength: 1_000 });
    for (let n = 0; n < 200; n += 1)
      glovebox.router.register(`bulk_${n}`, { description: "Bulk".repeat(20) }, () => 1, { tenantId: "acme" });
    for (const detail of ["names", "summaries", "types"] as const) {
      const text = await small.search({ query: "", detail });
      expect(text.length).toBeLessThanOrEqual(1_000);
      expect(text).toMatch(/\d+ more: /);
    }
    for (let n = 0; n < 200; n += 1) glovebox.router.registry.remove(`bulk_${n}`, "acme");
  });
});

describe("approvals", { timeout: PATIENCE_MS }, () => {
  const DELETE = "const a = await tools.add({ a: 1, b: 1 });\nreturn await tools.delete_order({ id: a.sum })";

  test("without anyone to ask, the call is denied, and runs when the host has approved it", async () => {
    await using codeMode = open({ needsApproval: ["delete_order"] });
    effects.length = 0;
    const output = await run(codeMode, DELETE);
    const [approval] = output.approvals ?? [];
    expect(output).toMatchObject({
      status: "approval_required",
      error: { message: expect.stringContaining("needs approval") },
      calls: [{ tool: "add" }],
    });
    expect(codeMode.waitingApprovals).toMatchObject([
      { id: approval?.id, toolName: "delete_order", arguments: { id: 2 }, tenantId: "acme" },
    ]);
    expect(codeMode.approve("nonsense")).toBe(false);
    expect(codeMode.approve(String(approval?.id))).toBe(true);
    // The approval is for these arguments, and for one call.
    expect(await run(codeMode, "return await tools.delete_order({ id: 9 })")).toMatchObject({
      status: "approval_required",
    });
    expect(await run(codeMode, DELETE)).toMatchObject({ status: "ok" });
    expect(await run(codeMode, DELETE)).toMatchObject({ status: "approval_required" });
    expect(effects).toEqual(["acme 2"]);
  });

  test("the arguments of waiting calls take a limited part of the host's memory, and an approved call is kept longest", async () => {
    await using codeMode = open({ needsApproval: ["delete_order"] });
    const output = await run(codeMode, DELETE);
    expect(codeMode.approve(String(output.approvals?.[0]?.id))).toBe(true);
    const flood = (count: number, length: number): string => `const messages = [];
      for (let i = 0; i < ${count}; i += 1)
        await tools.delete_order({ id: i, note: "n".repeat(${length}) }).catch(({ message }) => { messages.push(message); });
      return messages.at(-1)`;
    await run(codeMode, flood(12, 1_000_000), { language: "javascript" });
    const waiting = codeMode.waitingApprovals;
    expect(waiting.length).toBeGreaterThan(0);
    expect(JSON.stringify(waiting.map((one) => one.arguments)).length).toBeLessThan(5_000_000);
    expect(waiting.at(-1)?.arguments).toMatchObject({ id: 11 });
    expect(await run(codeMode, flood(1, 5_000_000), { language: "javascript" })).toMatchObject({
      value: expect.stringContaining("too long to wait for a decision"),
    });
    await run(codeMode, flood(300, 1), { language: "javascript" });
    expect(codeMode.waitingApprovals.length).toBeLessThanOrEqual(200);
    effects.length = 0;
    expect(await run(codeMode, DELETE)).toMatchObject({ status: "ok" });
    expect(effects).toEqual(["acme 2"]);
  });

  test("a person decides while the code waits", async () => {
    const asked: unknown[] = [];
    await using codeMode = open({
      needsApproval: "destructive",
      onApproval: async ({ call, definition, tenantId }) => {
        asked.push([definition.name, call.arguments, tenantId]);
        return call.toolName === "add" || (call.arguments as { id: number }).id < 5
          ? true
          : { approved: false, reason: "Too many" };
      },
    });
    effects.length = 0;
    expect(await run(codeMode, DELETE)).toMatchObject({ status: "ok" });
    expect(
      await run(
        codeMode,
        "try { await tools.delete_order({ id: 7 }) } catch (error) { return [error.code, error.message] }",
      ),
    ).toMatchObject({
      value: ["APPROVAL_REQUIRED", expect.stringContaining("Too many")],
    });
    expect(await run(codeMode, "return await tools.note()")).toMatchObject({ status: "ok" });
    expect(effects).toEqual(["acme 2"]);
    expect(asked).toEqual([
      ["add", { a: 1, b: 1 }, "acme"],
      ["delete_order", { id: 2 }, "acme"],
      ["delete_order", { id: 7 }, "acme"],
    ]);
  });

  test("the client that runs the code is asked", async () => {
    await using codeMode = open({ needsApproval: ["delete_order", "my-server__new"] });
    const messages: string[] = [];
    const answer = (content: object | undefined) => ({
      client: {
        elicit: async ({ message }: { readonly message: string }) => {
          messages.push(message);
          return content === undefined
            ? { action: "decline" as const }
            : { action: "accept" as const, content: content as never };
        },
      },
    });
    expect(await run(codeMode, DELETE, {}, answer({ approve: true }))).toMatchObject({ status: "ok" });
    expect(await run(codeMode, DELETE, {}, answer({ approve: false }))).toMatchObject({ status: "failed" });
    expect(await run(codeMode, DELETE, {}, answer(undefined))).toMatchObject({ status: "failed" });
    expect(messages[0]).toBe('The code wants to call the tool "delete_order" with {"id":2}. Approve this call?');
    messages.length = 0;
    for (const end of ["1", "2"]) {
      const code = `return await tools.my_server.new_({ title: "x".repeat(5_000) + ${end} })`;
      await run(codeMode, code, {}, answer({ approve: true }));
    }
    // Two inputs that differ only in what is not shown are two questions.
    expect(messages.map((message) => message.replace(/^.*x and /, ""))).toEqual([
      expect.stringMatching(
        /^1013 more characters that are not shown \(SHA-256 of all: [0-9a-f]{64}\)\. Approve this call\?$/,
      ),
      expect.stringContaining("1013 more characters"),
    ]);
    expect(messages[0]).not.toBe(messages[1]);
  });

  test.for([() => "yes", () => ({ approved: "true" }), () => Promise.reject(new Error("x")), () => undefined])(
    "only true approves: %s",
    async (onApproval) => {
      await using codeMode = open({ needsApproval: ["delete_order"], onApproval: onApproval as never });
      effects.length = 0;
      expect(await run(codeMode, DELETE)).toMatchObject({ status: "failed" });
      expect(effects).toEqual([]);
    },
  );
});

describe("with its Glovebox", { timeout: PATIENCE_MS }, () => {
  test("runs are listed, cancelled, suspended and closed", async () => {
    await using own = await makeGlovebox({ tenancy: "multi" });
    const codeMode = createCodeMode(own, { tenantId: "acme", typeChecker: checker });
    const call = (id: string) =>
      codeMode.execute(
        { id, toolName: "run_code", arguments: { code: "await new Promise(() => {})" } },
        { tenantId: "acme" },
      );
    const first = call("first");
    await vi.waitFor(() =>
      expect(own.listCalls({ tenantId: "acme" })).toMatchObject([{ toolName: "run_code", state: "running" }]),
    );
    expect(own.listCalls({ tenantId: "globex" })).toEqual([]);
    expect(own.cancelCall("first", { tenantId: "acme" })).toBe(true);
    expect(errorOf(await first)).toMatchObject({ code: "CANCELLED" });
    const second = call("second");
    await vi.waitFor(() => expect(own.listCalls({ tenantId: "acme" })).toHaveLength(1));
    expect(await own.suspendTenant("acme", { calls: "cancel" })).toBe(1);
    expect(errorOf(await second)).toMatchObject({ code: "CANCELLED" });
    expect(codeOf(await call("third"))).toBe("TOOL_UNAVAILABLE");
    own.resumeTenant("acme");
    const fourth = call("fourth");
    await vi.waitFor(() => expect(own.listCalls({ tenantId: "acme" })).toHaveLength(1));
    await own.close();
    expect(errorOf(await fourth)).toMatchObject({ code: "CANCELLED" });
    await codeMode.close();
  });

  test("deleting a tenant deletes its approvals: a later tenant of the same name needs its own", async () => {
    await using own = await makeGlovebox({ tenancy: "multi" });
    const addErase = (): void => own.router.register("erase", {}, () => "erased", { tenantId: "acme" });
    addErase();
    await using codeMode = createCodeMode(own, { tenantId: "acme", typeChecker: checker, needsApproval: ["erase"] });
    const call = { id: "e", toolName: "run_code", arguments: { code: "return await tools.erase({})" } };
    const statusOf = async (): Promise<unknown> => outputOf(await codeMode.execute(call, { tenantId: "acme" }));
    expect(await statusOf()).toMatchObject({ status: "approval_required" });
    expect(codeMode.approve(String(codeMode.waitingApprovals[0]?.id))).toBe(true);
    await own.deleteTenant("acme");
    addErase();
    expect(await statusOf()).toMatchObject({ status: "approval_required" });
    await own.deleteTenant("acme");
    expect(codeMode.waitingApprovals).toEqual([]);
  });

  test("deleting a tenant deletes its stored values", async () => {
    await using own = await makeGlovebox({ tenancy: "multi" });
    await using codeMode = createCodeMode(own, { tenantId: "acme", typeChecker: checker });
    const save = {
      id: "s",
      toolName: "run_code",
      arguments: { code: "await result.save('a', 1); return await result.list()" },
    };
    expect(outputOf(await codeMode.execute(save, { tenantId: "acme" }))).toMatchObject({ status: "ok" });
    expect((await own.deleteTenant("acme")).values.keys).toBe(1);
  });
});
