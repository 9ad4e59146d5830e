// openSession(): code that runs cell by cell in one isolate, in three languages. What persists, what ends a session, and tenant isolation.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { Session, SessionRunOptions } from "../../../src/host/sessions/session.ts";
import type { SessionOptions } from "../../../src/host/sessions/session-options.ts";
import { codeOf, errorOf, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi", cache: PYTHON_CACHE });
});
afterAll(() => glovebox.close());

let tenants = 0;
async function open(options: SessionOptions = {}): Promise<Session> {
  tenants += 1;
  const session = await glovebox.openSession({ tenantId: `t${tenants}`, language: "typescript", ...options });
  onTestFinished(() => session.close());
  return session;
}

/** Code and its output, or the code of its failure. */
type Cells = readonly (readonly [code: string, value: unknown])[];

async function expectCells(session: Session, cells: Cells): Promise<void> {
  for (const [code, value] of cells) {
    const result = await session.run(code);
    const got = result.success ? result.output : result.error.code;
    expect([code, got]).toEqual([code, value]);
  }
}

describe("a session in TypeScript", () => {
  test("keeps what its cells declare, and returns the value of their last expression", async () => {
    await expectCells(await open(), [
      ["const x: number = 1; x + 1", 2],
      ["x + 41", 42],
      [
        "let { a, b = x, ...rest } = { a: 2, c: 3 } as { a: number; b?: number; c: number }; [a, b, rest]",
        [2, 1, { c: 3 }],
      ],
      [
        "function f(n: number): number { return n <= 1 ? 1 : n * f(n - 1) }\nclass K { static n = x; twice() { return K.n * 2 } }",
        null,
      ],
      ["[f(5), f.name, new K().twice(), K.name]", [120, "f", 2, "K"]],
      ["const x = 'again'; x", "again"],
      [
        "const [p, , q = 3] = [1, 2]\nvar v\nfor (var i = 0; i < 3; i++) { var w = i }\nfor (const k of [1]) { const hidden = k }\n[p, q, i, w, typeof hidden, v]",
        [1, 3, 3, 2, "undefined", null],
      ],
      ["if (true) { var inner = 5 }\ntry { var tried = inner } finally {}\n[inner, tried]", [5, 5]],
      ["await new Promise((done) => setTimeout(done, 5)); const later = await Promise.resolve(7)", null],
      ["later", 7],
      ["later; ", 7],
      [
        "interface Shape { size: number }\ntype Size = Shape['size']\nconst shaped: Shape = { size: 4 }\nshaped satisfies Shape",
        { size: 4 },
      ],
      ["export const shown = 1\nexport default shown + 1", 2],
      ["shown", 1],
      ["f", "[Function: f]"],
      ["2n ** 64n", "18446744073709551616"],
      ["undefinedName", "TOOL_FAILED"],
      ["x", "again"],
      ["import { inspect as show } from 'node:util'", null],
      ["show({ a: 1 })", "{ a: 1 }"],
      ["typeof input + typeof ctx.progress", "objectfunction"],
      ["eval('1')", 1],
      ["", null],
      ["// nothing", null],
      ["({ a: 1 })", { a: 1 }],
      ["label: for (;;) { break label }", null],
      ["const URL = 'mine'; URL", "mine"],
      [
        "async function* numbers() { yield 1; yield 2 }\nconst all = []; for await (const n of numbers()) all.push(n)\nall",
        [1, 2],
      ],
    ]);
  });

  test("rejects cells that cannot be built, and continues", async () => {
    const session = await open();
    await session.run("const kept = 1");
    for (const [code, word] of [
      ["const broken = ;", "cell-2.ts"],
      ["export * from 'x'", "cannot use export"],
      ["import 'no-such-package-at-all'", "no-such-package-at-all"],
      ["import fs from '/etc/passwd'", "/etc/passwd"],
    ] as const) {
      const result = await session.run(code);
      expect([code, codeOf(result)]).toEqual([code, "BUNDLE_FAILED"]);
      expect(errorOf(result).message).toContain(word);
      expect(outputOf(await session.run("kept"))).toBe(1);
    }
  });

  test("names the cell and line of a thrown error, also from an earlier cell", async () => {
    const session = await open();
    await session.run("function fails() {\n  throw new RangeError('no');\n}");
    const error = errorOf(await session.run("1;\n2; fails()"));
    const details = { errorName: "RangeError", file: "cell-1.ts", line: 2, column: 9 };
    expect(error).toMatchObject({ message: "no", details });
    expect(error.stack).toBe("RangeError: no\n    at fails (cell-1.ts:2:9)\n    at cell-2.ts:2:4");
    expect(errorOf(await session.run("\n  missing.x"))).toMatchObject({
      details: { file: "cell-3.ts", line: 2, column: 3 },
    });
  });

  test("has an input for each run, logs, and only granted capabilities", async () => {
    const session = await open({ grant: ["kv"] });
    const bytes = new Uint8Array([1, 2]);
    expect(outputOf(await session.run("input.list.length", { input: { list: [bytes, bytes] } }))).toBe(2);
    const result = await session.run("console.log('seen'); await ctx.kv.set('a', 1); await ctx.kv.get('a')");
    expect(outputOf(result)).toBe(1);
    expect(result.logs).toMatchObject([{ message: "seen" }]);
    expect(outputOf(await session.run("typeof ctx.tools"))).toBe("undefined");
  });
});

describe("what a run has started and not awaited", () => {
  test("continues with its timers in the next run, and reports that the host will not answer", async () => {
    const session = await open({ grant: ["kv"] });
    await expectCells(session, [
      [
        "const soon = new Promise((done) => setTimeout(done, 20, 3)); let ticks = 0; const id = setInterval(() => { ticks += 1 }, 1)",
        null,
      ],
      ["await soon", 3],
      ["clearInterval(id); ticks > 0", true],
      ["const asked = ctx.kv.get('a')", null],
      ["await asked.catch(({ code, message }) => [code, message.includes('in the same call')])", ["CANCELLED", true]],
      ["void ctx.kv.get('a'); 1", 1],
      ["2", 2],
    ]);
  });
});

describe("a session in Python", () => {
  test("keeps its names, and returns the value of the last expression", async () => {
    const session = await open({ language: "python" });
    await expectCells(session, [
      ["x = 1\nx + 1", 2],
      ["def f(n):\n    return 1 if n <= 1 else n * f(n - 1)", null],
      ["f(5) + x", 121],
      ["1 / 0", "TOOL_FAILED"],
      ["def broken(:", "TOOL_FAILED"],
      ["import json\njson.dumps({'x': x})", '{"x": 1}'],
      ["json.loads('[1]')", [1]],
      ["import asyncio\nawait asyncio.sleep(0.01)\nx", 1],
      ["def fails():\n    raise ValueError('no')", null],
    ]);
    expect(errorOf(await session.run("1\nfails()")).details).toMatchObject({ file: "cell-9.py", line: 2 });
    // A session's process cannot be reused, so some 300 MiB are freed with it.
    const during = glovebox.workerPids;
    await session.close();
    await expect.poll(() => during.every((pid) => glovebox.workerPids.includes(pid))).toBe(false);
  });
});

describe("a session's end", () => {
  test.for([
    ["its time", "await new Promise(() => {})", {}, { timeoutMs: 1_500 }, "TOOL_TIMEOUT"],
    ["its CPU time", "for (;;);", { cpuMs: 1_000 }, {}, "CPU_LIMIT"],
    [
      ...["its memory", "const all = []; for (;;) all.push(new Array(100_000).fill(all.length))"],
      ...[{ memoryMiB: 32 }, {}, "MEMORY_LIMIT"],
    ] as const,
  ] as const)(
    "follows a run that exceeds %s, and later runs report it",
    async ([, code, limits, options, expected]) => {
      const session = await open({ limits });
      expect(codeOf(await session.run("const x = 1"))).toBe("ok");
      expect(codeOf(await session.run(code, options))).toBe(expected);
      const later = await session.run("x");
      expect(codeOf(later)).toBe("TOOL_UNAVAILABLE");
      expect(errorOf(later).message).toContain("has ended");
      expect(session.isOver).toBe(true);
      expect(glovebox.listSessions({ tenantId: session.info.tenantId })).toEqual([]);
    },
  );

  test("follows a cancelled run; a run cancelled before it began has no effect", async () => {
    const session = await open();
    await session.run("const x = 1");
    const waiting = new AbortController();
    const running = session.run("await new Promise((done) => setTimeout(done, 300)); x");
    const queued = session.run("x", { signal: waiting.signal });
    waiting.abort();
    expect(codeOf(await queued)).toBe("CANCELLED");
    expect(outputOf(await running)).toBe(1);
    expect(outputOf(await session.run("x"))).toBe(1);
    const controller = new AbortController();
    const onLog = () => controller.abort();
    const stopped = session.run("console.log('on'); for (;;);", { signal: controller.signal, onLog });
    expect(codeOf(await stopped)).toBe("CANCELLED");
    expect(codeOf(await session.run("x"))).toBe("TOOL_UNAVAILABLE");
  });

  test("follows idle time, the maximum number of runs, or the CPU time limit", async () => {
    const idle = await open({ idleMs: 150 });
    await idle.run("1");
    await expect.poll(() => idle.isOver).toBe(true);
    expect(errorOf(await idle.run("1")).message).toContain("it was idle for");
    const short = await open({ total: { lifetimeMs: 400 } });
    const busy = await Promise.all(
      Array.from({ length: 40 }, () => short.run("await new Promise((done) => setTimeout(done, 20))")),
    );
    expect(errorOf(busy.at(-1) as ToolResult).message).toContain("its lifetime has expired");
    const few = await open({ total: { runs: 2 } });
    for (const n of [1, 2]) expect(outputOf(await few.run(String(n)))).toBe(n);
    expect(errorOf(await few.run("3")).message).toContain("2 runs");
    const little = await open({ total: { cpuMs: 1_000 } });
    expect(codeOf(await little.run("for (;;);"))).toBe("CPU_LIMIT");
  });

  test("follows the end of its process: one result, and then the reason", async () => {
    const session = await open();
    await session.run("const x = 1");
    const before = new Set(glovebox.workerPids);
    const onLog = () => {
      for (const pid of before) process.kill(pid, "SIGKILL");
    };
    const run = session.run("console.log('on'); await new Promise(() => {})", { timeoutMs: 120_000, onLog });
    expect(codeOf(await run)).toBe("SANDBOX_CRASHED");
    expect(codeOf(await session.run("x"))).toBe("TOOL_UNAVAILABLE");
  });

  test("follows close(), together with the current run; queued and later runs fail with the reason", async () => {
    const session = await open();
    const begun = Promise.withResolvers<void>();
    const running = session.run("console.log('on'); await new Promise(() => {})", { onLog: () => begun.resolve() });
    const behind = session.run("1");
    await begun.promise;
    await session.close();
    expect([codeOf(await running), codeOf(await behind)]).toEqual(["CANCELLED", "TOOL_UNAVAILABLE"]);
    expect(errorOf(await session.run("1")).message).toContain("it was closed");
  });

  test("does not follow invalid options", async () => {
    const session = await open();
    for (const options of [
      null,
      [],
      "acme",
      Promise.resolve({}),
      new Map([["timeoutMs", 1]]),
      { tenantId: "other" },
      { sessionId: "other" },
      { timeout: 1 },
      { signal: "x" },
      { timeoutMs: -1 },
      { onLog: 1 },
      { deterministic: { seed: "a" } },
    ] as unknown as readonly SessionRunOptions[]) {
      expect([options, codeOf(await session.run("1", options))]).toEqual([options, "PARAM_INVALID"]);
    }
    expect(codeOf(await session.run(2 as unknown as string))).toBe("PARAM_INVALID");
    expect(outputOf(await session.run("3"))).toBe(3);
  });

  test("follows the end of its Glovebox instance", async () => {
    const own = await makeGlovebox();
    const session = await own.openSession();
    const begun = Promise.withResolvers<void>();
    const run = session.run("console.log('on'); await new Promise(() => {})", { onLog: () => begun.resolve() });
    await begun.promise;
    await own.close();
    expect(codeOf(await run)).toBe("CANCELLED");
    expect(codeOf(await session.run("1"))).not.toBe("ok");
    await expect(own.openSession()).rejects.toMatchObject({ code: "TOOL_UNAVAILABLE" });
  });
});

describe("sessions of tenants", () => {
  test("are listed and closed by their own tenant only", async () => {
    const [a, b] = [await open({ tenantId: "ann", id: "same" }), await open({ tenantId: "bob", id: "same" })];
    await a.run("globalThis.secret = 'of ann'");
    expect(outputOf(await b.run("typeof secret"))).toBe("undefined");
    expect(glovebox.listSessions({ tenantId: "ann" })).toMatchObject([{ id: "same", kind: "typescript", runs: 1 }]);
    expect(await glovebox.closeSession("other", { tenantId: "ann" })).toBe(false);
    expect(await glovebox.closeSession("same", { tenantId: "zoe" })).toBe(false);
    expect(await glovebox.closeSession("same", { tenantId: "ann", toolName: "counter" })).toBe(false);
    expect(await glovebox.closeSession("same", { tenantId: "ann" })).toBe(true);
    expect([a.isOver, b.isOver]).toEqual([true, false]);
    await expect(glovebox.openSession({ tenantId: "bob", id: "same", language: "typescript" })).rejects.toMatchObject({
      code: "NAME_TAKEN",
    });
    expect(await glovebox.closeSessions({ tenantId: "bob" })).toBe(1);
  });

  test("are limited by the tenant's quota", async () => {
    const own = await makeGlovebox({ tenancy: "multi", limits: { sessions: 2 } });
    onTestFinished(() => own.close());
    const openOne = () => own.openSession({ tenantId: "acme" });
    const [first] = [await openOne(), await openOne()];
    await expect(openOne()).rejects.toMatchObject({ code: "QUOTA_EXCEEDED", details: { sessions: 2 } });
    await own.openSession({ tenantId: "another" });
    await first?.close();
    await openOne();
  });

  test.for([
    [{ language: "ruby" }, "language"],
    [{ idleMs: 0 }, "idleMs"],
    [{ id: "" }, "id"],
    [{ grant: ["nothing"] }, "nothing"],
    [{ total: { runs: -1 } }, "total"],
    [{ tenant: "x" }, "tenant"],
  ])("are not opened with %j", async ([options, word]) => {
    await expect(
      glovebox.openSession({ tenantId: "x", ...(options as object) } as SessionOptions),
    ).rejects.toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringContaining(word as string),
    });
  });
});

describe('a tool with isolation "session"', () => {
  const call = (toolName: string, tenantId: string, sessionId?: string, args: object = {}) =>
    glovebox.execute(
      { id: "c", toolName, arguments: args },
      { tenantId, ...(sessionId === undefined ? {} : { sessionId }) },
    );

  type Calls = readonly (readonly [tenantId: string, sessionId: string | undefined, count: number])[];
  test.for<["javascript" | "python", string, Calls]>([
    [
      "javascript",
      "let n = 0; export default () => ++n",
      [
        ["a", "1", 1],
        ["a", "1", 2],
        ["a", "2", 1],
        ["b", "1", 1],
        ["a", undefined, 1],
        ["a", "1", 3],
      ],
    ],
    // Each session loads an interpreter of its own.
    [
      "python",
      "n = 0\ndef main(input):\n    global n\n    n += 1\n    return n",
      [
        ["a", "1", 1],
        ["b", "1", 1],
        ["a", "1", 2],
      ],
    ],
  ])("finds the state of its session, in %s", async ([language, source, calls]) => {
    const toolName = `counter_${language}`;
    await glovebox.addTool({ name: toolName, source, language }, { scope: "global", isolateLifetime: "session" });
    for (const [tenant, session, count] of calls) {
      expect([tenant, session, outputOf(await call(toolName, tenant, session))]).toEqual([tenant, session, count]);
    }
    expect(await glovebox.closeSession("1", { tenantId: "a" })).toBe(true);
    if (language === "javascript") expect(outputOf(await call(toolName, "a", "1"))).toBe(1);
  });

  test("reports once that its session has ended, and starts a new one", async () => {
    const source = "let n = 0; export default ({ loop }) => { n += 1; while (loop); return n; }";
    await glovebox.addTool({ name: "loops", source }, { scope: "global", isolateLifetime: "session" });
    expect(outputOf(await call("loops", "c", "1"))).toBe(1);
    const stopped = await glovebox.execute(
      { id: "c", toolName: "loops", arguments: { loop: true } },
      { tenantId: "c", sessionId: "1", timeoutMs: 3_000 },
    );
    expect(codeOf(stopped)).toBe("TOOL_TIMEOUT");
    expect(outputOf(await call("loops", "c", "1"))).toBe(1);
  });

  test("ends its session's call when the session is closed", async () => {
    const source = "export default async () => { console.log('on'); await new Promise(() => {}); }";
    await glovebox.addTool({ name: "waits", source }, { scope: "global", isolateLifetime: "session" });
    const begun = Promise.withResolvers<void>();
    const running = glovebox.execute(
      { id: "c", toolName: "waits", arguments: {} },
      { tenantId: "d", sessionId: "1", onLog: () => begun.resolve() },
    );
    await begun.promise;
    expect(await glovebox.closeSession("1", { tenantId: "d" })).toBe(true);
    expect(codeOf(await running)).toBe("CANCELLED");
    expect(glovebox.listSessions({ tenantId: "d" })).toEqual([]);
  });

  test.for([[""], ["x".repeat(257)], [3]])("rejects the session id %j", async ([sessionId]) => {
    const result = await call("loops", "c", sessionId as string);
    expect([codeOf(result), errorOf(result).message]).toEqual(["PARAM_INVALID", expect.stringContaining("sessionId")]);
  });
});
