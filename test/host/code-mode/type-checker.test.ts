// The type checker: what it reports, what it cannot read, and how a check that takes too much ends.
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { findCompiler } from "../../../src/host/code-mode/type-checker/compiler.ts";
import { TypeChecker } from "../../../src/host/code-mode/type-checker/type-checker.ts";
import { failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { isAlive } from "../../support/processes.ts";

const BUSY_MACHINE_MS = 60_000;
const checker = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS });
afterAll(() => checker[Symbol.asyncDispose]());

const declarations = `export {};
interface Tools {
  orders(input: { id: string; limit?: number }): Promise<{ items: { id: number; total: number }[] }>;
  raw(input?: {}): Promise<unknown>;
  find(input: { kind?: "new" | "old" }): Promise<string>;
  mark(kind: "new" | "old"): Promise<string>;
}
declare global { const tools: Tools; }`;
const check = async (code: string) => (await checker.check({ code, declarations })).diagnostics;

/** Types whose expansion takes seconds, and hundreds of MiB, on any machine. */
const ENDLESS = `
type Digit = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;
type Text = \`\${Digit}\${Digit}\${Digit}\${Digit}\`;
type Pairs = Text extends infer One extends string ? { [Key in Text]: \`\${One}\${Key}\` }[Text] : never;
const pairs: Pairs = 1 as never;
return pairs;`;

test("accepts top-level await and return, and the globals of the sandbox", async () => {
  expect(
    await check(`const { items } = await tools.orders({ id: "a" });
      try { await fetch("https://x.test"); } catch (error) { console.log(error.message); }
      const url = new URL("https://x.test/?a=1").searchParams.get("a");
      function twice(n) { return n * 2 }
      const all = [];
      for (const { total } of items) all.push(total);
      return items.map((item) => item.total).concat(twice(1), url === null ? 0 : 1); // done`),
  ).toEqual([]);
});

test.for<readonly [string, string, object]>([
  [
    "a misspelled property",
    "const { items } = await tools.orders({ id: 'a' });\nreturn items.map((i) => i.totl);",
    { line: 2, column: 27, code: 2551, message: expect.stringContaining("Did you mean 'total'?") },
  ],
  ["a wrong argument", "await tools.orders({ id: 1 })", { line: 1, column: 22, code: 2322, type: expect.any(String) }],
  ["an unknown argument", "await tools.orders({ id: '', max: 1 })", { code: 2353, column: 30 }],
  [
    "an unknown tool",
    "await tools.order({ id: '' })",
    { code: 2551, column: 13, message: expect.stringContaining("'orders'") },
  ],
  ...["document.title", "require('fs')", "process.env.HOME"].map((code): readonly [string, string, object] => [
    `a name of another platform: ${code}`,
    code,
    {
      message: expect.stringMatching(/^Cannot find name '\w+'\.$/),
      suggestion: expect.stringContaining("does not exist here"),
    },
  ]),
  [
    "a missing await",
    "return tools.orders({ id: '' }).items",
    { code: 2339, suggestion: expect.stringContaining("await") },
  ],
  [
    "a value without a type",
    "const r = await tools.raw();\nreturn r.id",
    { line: 2, code: 18046, suggestion: expect.stringContaining("as") },
  ],
  [
    "an import",
    "import fs from 'fs';\nreturn 1",
    { line: 1, suggestion: expect.stringContaining("Remove the import") },
  ],
  [
    "an optional property of a value without a type",
    "const r = await tools.raw();\nreturn r?.items?.[0] ?? 1",
    { line: 2, code: 2339, suggestion: expect.stringContaining("state the type with `as`") },
  ],
  [
    "an object without a type that the code fills",
    "const all = {};\nall.first = 1;",
    { line: 2, suggestion: expect.stringContaining("Record<string, any>") },
  ],
  [
    "a text that is wider than an enum",
    "const kinds = ['new', 'old'];\nfor (const kind of kinds) await tools.find({ kind });",
    { line: 2, code: 2322, suggestion: expect.stringContaining("as const") },
  ],
  [
    "a text as the argument that is wider than an enum",
    "const kind: string = 'new';\nawait tools.mark(kind);",
    { line: 2, code: 2345, suggestion: expect.stringContaining("as const") },
  ],
  [
    "dates that are subtracted",
    "return new Date(1) - new Date(0)",
    { code: 2362, suggestion: expect.stringContaining("getTime()") },
  ],
  ["a syntax error", "const x = ;", { line: 1, column: 11, code: 1109 }],
  ["text of several bytes before it", "/* ä€😀 */ const x: number = 'a'", { column: 18 }],
])("reports %s", async ([, code, expected]) => {
  const diagnostics = await check(code);
  expect(diagnostics[0]).toMatchObject(expected);
  for (const { line, column, message } of diagnostics) {
    expect([line > 0, column > 0, message.length < 1_000]).toEqual([true, true, true]);
  }
});

test("knows each method of console, and the classes of the platform", async () => {
  const tool = { name: "globals", source: "export default () => Object.getOwnPropertyNames(console)" };
  await using glovebox = await makeGlovebox();
  await glovebox.addTool(tool);
  const methods = outputOf(await glovebox.execute({ id: "g", toolName: "globals", arguments: {} })) as string[];
  expect(methods.length).toBeGreaterThan(15);
  // `Console` is a class, for Node.js programs that write to streams of their own.
  const uses = methods.filter((name) => name !== "Console").map((name) => `console.${name}();`);
  expect(await check(uses.join("\n"))).toEqual([]);
  expect(
    await check(`const form = new FormData(); form.append("file", new File(["a"], "a.txt"));
      const text = await new Response(new Blob(["a"])).text();
      for await (const part of new ReadableStream().pipeThrough(new DecompressionStream("gzip"))) console.log(part, text);
      return new Request("https://x.test").method + new CustomEvent("a", { detail: 1 }).detail`),
  ).toEqual([]);
});

test("checks a whole module, and keeps nothing of the code before", async () => {
  const code = "import { x } from './code.ts'; export const y: number = x;";
  const { diagnostics } = await checker.check({ code, declarations: "export {};", form: "module" });
  expect(diagnostics.map(({ line }) => line)).toContain(1);
  await check("const secret = 'of another tenant'; return secret");
  expect(await check("return secret")).toMatchObject([{ code: 2304 }]);
});

test("reads no file of the machine", async () => {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-checker-"));
  await writeFile(join(folder, "leak.json"), '{"leaked":1}');
  await writeFile(join(folder, "leak.d.ts"), "export declare const leaked: 'content';");
  for (const path of [folder, "/etc", "/glovebox-code/..", "/proc/self"]) {
    const code = `/// <reference path="${path}/leak.d.ts" />
      /// <reference types="${path}" />
      import data from "${path}/leak.json" with { type: "json" };
      import { leaked } from "${path}/leak.ts";
      import * as passwd from "${path}/passwd";
      export const all: never = [data, leaked, passwd] as const;`;
    const { diagnostics } = await checker.check({ code, declarations: "export {};", form: "module" });
    expect(diagnostics.length).toBeGreaterThan(0);
    for (const { message, type = "" } of diagnostics) expect(message + type).not.toMatch(/leaked: |content|root:/);
  }
});

test("ends a check at its time limit, with its process", async () => {
  // No machine starts the compiler in this time.
  await using own = new TypeChecker({ timeoutMs: 10 });
  const checking = failureOf(own.check({ code: ENDLESS, declarations }));
  const [pid] = own.pids;
  expect(await checking).toMatchObject({ code: "TOOL_TIMEOUT", message: "Type checking took longer than 10 ms" });
  await vi.waitFor(() => expect(isAlive(Number(pid))).toBe(false), { timeout: BUSY_MACHINE_MS });
  expect(own.pids).toEqual([]);
});

test("checks on with a new process after one that was killed", async () => {
  await using own = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS, memoryMiB: 100 });
  expect((await failureOf(own.check({ code: ENDLESS, declarations }))).code).toBe("MEMORY_LIMIT");
  expect((await own.check({ code: "return 1", declarations })).diagnostics).toEqual([]);
});

test("checks on with a new process after one that ended while it was idle", async () => {
  await using own = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS });
  const number = { code: "return 1 as string", declarations };
  expect((await own.check(number)).diagnostics).toHaveLength(1);
  const [pid = 0] = own.pids;
  process.kill(pid, "SIGKILL");
  // When the process does not exist any more, not even as a zombie, its parent has seen its end.
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow(/ESRCH/));
  expect((await own.check(number)).diagnostics).toHaveLength(1);
  expect(own.pids).not.toContain(pid);
  expect(own.pids).toHaveLength(1);
});

test("ends a check at its memory limit", async () => {
  await using own = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS, memoryMiB: 64 });
  const failure = await failureOf(own.check({ code: ENDLESS, declarations }));
  expect(failure).toMatchObject({ code: "MEMORY_LIMIT", message: expect.stringContaining("64 MiB") });
});

test("cancels by signal, in the queue and while it checks", async () => {
  await using own = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS });
  const stop = new AbortController();
  const running = failureOf(
    own.check({ code: ENDLESS, declarations, signal: stop.signal }).catch(() => Promise.reject(stop.signal.reason)),
  );
  const waiting = own
    .check({ code: "return 1", declarations, owner: "b", signal: stop.signal })
    .catch((reason: unknown) => reason);
  const other = own.check({ code: "return 2", declarations, owner: "c" });
  const { ToolError } = await import("../../../src/sandbox/contract/errors.ts");
  const reason = new ToolError("CANCELLED", "stopped");
  stop.abort(reason);
  expect(await running).toBe(reason);
  expect(await waiting).toBe(reason);
  expect((await other).diagnostics).toEqual([]);
});

test("owners take turns", async () => {
  await using own = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS });
  const order: string[] = [];
  const add = (owner: string) => own.check({ code: "return 1", declarations, owner }).then(() => order.push(owner));
  await Promise.all([add("a"), add("a"), add("a"), add("a"), add("b")]);
  expect(order.indexOf("b")).toBeLessThan(3);
});

test("rejects what is too long, and too many checks of one owner", async () => {
  await using own = new TypeChecker({ timeoutMs: BUSY_MACHINE_MS });
  expect(await failureOf(own.check({ code: "x".repeat(200_001), declarations }))).toMatchObject({
    code: "PARAM_INVALID",
  });
  const many = await Promise.allSettled(
    Array.from({ length: 60 }, () => own.check({ code: "return 1", declarations })),
  );
  const codes = new Set(many.map((one) => (one.status === "fulfilled" ? "ok" : (one.reason as { code: string }).code)));
  expect(codes).toEqual(new Set(["ok", "OVERLOADED"]));
});

test.for([
  [["no-such-package-of-glovebox"], "it is not installed"],
  [["esbuild"], "version 0."],
] as const)("says how to get TypeScript 7: %j", ([names, found]) => {
  expect(() => findCompiler([...names])).toThrow(
    expect.objectContaining({
      code: "TOOL_UNAVAILABLE",
      message: expect.stringMatching(new RegExp(`${found}.*npm install typescript@7`)),
      details: { reason: "unsupported" },
    }),
  );
});
