// A capability that a tool uses without having it: the failure names it, whatever way the tool took to it, and says how it is granted.
// What asks first whether there is one goes on working, and the answer does not tell what the host has defined.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { AddToolOptions } from "../../../src/host/config/tool-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

let glovebox: Glovebox;
let tools = 0;
beforeAll(async () => {
  const any = { inputSchema: {}, outputSchema: {} };
  glovebox = await makeGlovebox({
    workers: { max: 6 },
    limits: { timeoutMs: 60_000, cpuMs: 60_000 },
    capabilities: [
      defineCapability({ name: "lookUp", ...any, handler: () => ({ price: 1 }) }),
      defineCapability({ name: "db", ...any, members: ["query", "close"], handler: () => null }),
    ],
  });
});
afterAll(() => glovebox.close());

async function failureOfTool(source: string, options: AddToolOptions = {}): Promise<ReturnType<typeof errorOf>> {
  tools += 1;
  const name = `tool_${tools}`;
  await glovebox.addTool({ name, source }, options);
  return errorOf(await glovebox.execute({ id: "c", toolName: name }));
}

/** The lines of one case: its code begins in the second. */
const CASE_LINES = 3;

/** Adds one tool with all these bodies, each in a function of its own, and returns what calls one of them. */
async function addBodies(
  bodies: readonly string[],
  options: AddToolOptions = {},
): Promise<(body: string) => Promise<ToolResult>> {
  tools += 1;
  const name = `tool_${tools}`;
  const cases = bodies.map((body) => `async (input, ctx) => {\n ${body}\n}`);
  const source = `export default ({ n, ...input }, ctx) => CASES[n](input, ctx); const CASES = [${cases.join(",")}];`;
  await glovebox.addTool({ name, source }, options);
  return (body) => glovebox.execute({ id: "c", toolName: name, arguments: { n: bodies.indexOf(body) } });
}

const deniedAs = (use: string, name: string) => ({
  code: "CAPABILITY_DENIED",
  message: `${use} is not granted to this tool; request it with capabilities: { ${name}: true } and let the host grant it (grant: ["${name}"])`,
  details: { capability: name },
});

describe("a missing capability is named in the error", () => {
  const USES: readonly (readonly [code: string, name: string])[] = [
    ["return await ctx.kv.get('a')", "kv"],
    ["return ctx.kv.set('a', 1)", "kv"],
    ["const { kv: { get } } = ctx; return await get('a')", "kv"],
    ["const { kv } = ctx; await 0; return await kv.get('a')", "kv"],
    ["const { kv } = ctx; const rows = [1]; return await kv['get'](rows[0])", "kv"],
    ["const { tools } = ctx; const list = []; return (await tools.add({})).ran", "tools"],
    ["const { db } = ctx; const sql = 'select 1'; return (await db.query(sql)).rows", "db"],
    ["const run = async ({ secrets }) => { await 0; return secrets.API_KEY }; return run(ctx)", "secrets"],
    ["const all = ({ roots, tools }) => tools['add two'](); return all(ctx)", "tools"],
    ["const { get } = ctx.kv; return get('a')", "kv"],
    ["return await ctx['kv'].get('a')", "kv"],
    ["const name = 'kv'; return await ctx[name].get('a')", "kv"],
    ["for (const one of [1]) { await Promise.all([one].map(async () => ctx.kv.delete('a'))); }", "kv"],
    ["if (ctx.kv === undefined) return await ctx.kv.get('a')", "kv"],
    ["return await ctx.tools.add({ a: 1 })", "tools"],
    ["return await ctx.tools.call('add')", "tools"],
    ["return await ctx.tools['add two'](1)", "tools"],
    ["return await ctx.secrets.get('A')", "secrets"],
    ["return ctx.secrets.API_KEY", "secrets"],
    ["return await ctx.fetch('https://example.com')", "fetch"],
    ["const { fetch } = ctx; return await fetch('https://example.com')", "fetch"],
    ["return await ctx.elicit({ message: 'x' })", "elicit"],
    ["const { elicit: ask } = ctx; return await ctx.elicit({})", "elicit"],
    ["return await ctx.sample({})", "sample"],
    ["return await ctx.roots()", "roots"],
    ["return await ctx.lookUp({ sku: 1 })", "lookUp"],
    ["const { lookUp } = ctx; return await lookUp({ sku: 1 })", "lookUp"],
    ["return await ctx.db.query('x')", "db"],
    ["return ctx.db.tables[0]", "db"],
    ["ctx.db.timeout = 5", "db"],
    ["return new ctx.Database()", "Database"],
    ["return await ctx.nowhere()", "nowhere"],
    ["for (const row of ctx.rows) { return row; }", "rows"],
    ["const [first] = ctx.rows; return first", "rows"],
    ["const { kv } = ctx; const { query } = ctx.db; return query", "db"],
  ];
  let call: (body: string) => Promise<ToolResult>;
  beforeAll(async () => {
    call = await addBodies(USES.map(([code]) => code));
  });

  test.for(USES)("%s", async ([code, name]) => {
    const error = errorOf(await call(code));
    expect(error).toMatchObject(deniedAs(`ctx.${name}`, name));
    const line = 2 + (CASE_LINES - 1) * USES.findIndex(([other]) => other === code);
    expect(error.details).toMatchObject({ file: "tool.ts", line });
  });

  test.for<[name: string, source: string]>([
    ["a synchronous tool", "export default (input, ctx) => ctx.kv.get('a')"],
    ["a stream", "export default async function* (input, ctx) { yield 1; yield await ctx.kv.get('a'); }"],
    ["code made from text", "export default (input, ctx) => eval(\"ctx.kv.get('a')\")"],
    ["an object with execute", "export default { execute: (i, ctx) => ctx.kv.get('a') }"],
    [
      "a tool that requested it",
      "export const capabilities = { kv: true }; export default (i, ctx) => ctx.kv.get('a')",
    ],
  ])("the error names the missing capability in %s", async ([, source]) => {
    expect(await failureOfTool(source)).toMatchObject(deniedAs("ctx.kv", "kv"));
  });

  test.for<[parameters: string, body: string, name: string]>([
    ["_, { tools }", "(await tools.add({})).ran", "tools"],
    ["_, { secrets }: any", "(secrets as any).API_KEY", "secrets"],
    ["_, { fetch, kv }: any", "[typeof fetch,\n await kv!\n .get('a')]", "kv"],
    ["_, { db }", "(await db.query('x'))[0]", "db"],
    ["_, { lookUp }", "lookUp({ sku: 1 })", "lookUp"],
    ["_, ctx", "[await 0, ctx.onRollback(() => {})]", "waitFor"],
    ["_, { onRollback }", "[await 0, onRollback(() => {})]", "waitFor"],
  ])(
    "the error names the missing capability where a parameter is destructured: %s => %s",
    async ([parameters, body, name]) => {
      const member = name === "waitFor" ? "onRollback" : name;
      const source = `export default async (${parameters}) => {\n  return ${body};\n};`;
      const error = await failureOfTool(source);
      expect(error).toMatchObject(deniedAs(`ctx.${member}`, name));
      expect(error.details).toMatchObject({ file: "tool.ts", errorName: "CapabilityError" });
    },
  );

  test.for<[source: string]>([
    ["export default async (_, { kv: store }) => { await 0; return store.get('a'); }"],
    ["export default async (_, ctx) => { const store = ctx.tools; await 0; return store.add({}); }"],
    [
      "class A { constructor(ctx) { this.kv = ctx.kv } read() { return this.kv.get('a') } }; export default (_, c) => new A(c).read()",
    ],
  ])("the error suggests the capability under another name: %s", async ([source]) => {
    const error = await failureOfTool(source);
    expect(error.code).toBe("TOOL_FAILED");
    expect(error.message).toMatch(/^Cannot read properties of undefined .* \(perhaps: ctx\.(kv|tools) is not granted/);
  });

  test("the error names the missing capability in a script, and in a session", async () => {
    await glovebox.addTool({ name: "script", mode: "script", source: "ctx.kv.get('a')" });
    expect(errorOf(await glovebox.execute({ id: "c", toolName: "script" }))).toMatchObject(deniedAs("ctx.kv", "kv"));
    await using session = await glovebox.openSession();
    for (const code of ["await ctx.kv.get('a')", "ctx.lookUp()", "ctx.db.query()"]) {
      const name = /ctx\.(\w+)/.exec(code)?.[1] ?? "";
      expect(errorOf(await session.run(code))).toMatchObject(deniedAs(`ctx.${name}`, name));
    }
    expect(outputOf(await session.run("ctx.kv?.get('a') ?? 'none'"))).toBe("none");
  });

  test("the error names the missing capability where the global fetch was not granted", async () => {
    expect(await failureOfTool("export default () => fetch('https://example.com')")).toMatchObject(
      deniedAs("fetch", "fetch"),
    );
  });

  test("the error is the same whether or not the host defines the capability", async () => {
    const [defined, unknown] = await Promise.all([
      failureOfTool("export default (i, ctx) => ctx.lookUp(1)"),
      failureOfTool("export default (i, ctx) => ctx.lookIt(1)"),
    ]);
    const { message, code, details } = defined;
    const other = JSON.parse(JSON.stringify({ message, code, details }).replaceAll("lookUp", "lookIt"));
    expect({ message: unknown.message, code: unknown.code, details: unknown.details }).toEqual(other);
  });

  test("the error names the missing capability in each call of a warm isolate, and in no call before", async () => {
    const source =
      "export default ({ use }, ctx) => { if (use === 'kv') return ctx.kv.get(1); if (use === 'look') return typeof ctx.kv; return input.get(1); }; let input;";
    await glovebox.addTool({ name: "warm", source }, { isolateLifetime: "tool" });
    const run = (use: string) => glovebox.execute({ id: "c", toolName: "warm", arguments: { use } });
    expect(errorOf(await run("kv"))).toMatchObject(deniedAs("ctx.kv", "kv"));
    expect(outputOf(await run("look"))).toBe("undefined");
    expect(errorOf(await run("other"))).toMatchObject({
      code: "TOOL_FAILED",
      message: "Cannot read properties of undefined (reading 'get')",
    });
  });
});

describe("looking up a capability", () => {
  const QUESTIONS: readonly (readonly [code: string, value: unknown])[] = [
    ["return 'kv' in ctx", false],
    ["return ctx.kv === undefined", true],
    ["return ctx.kv?.get('a') ?? 'none'", "none"],
    ["return ctx.kv ? 'some' : 'none'", "none"],
    ["return typeof ctx.lookUp", "undefined"],
    ["const { kv = new Map([['a', 1]]) } = ctx; return kv.get('a')", 1],
    ["return Object.hasOwn(ctx, 'kv')", false],
    ["return Reflect.ownKeys(ctx).includes('kv')", false],
    ["return { ...ctx }.kv === undefined", true],
    ["return ctx.hasOwnProperty('callId') && !ctx.hasOwnProperty('kv')", true],
    ["return ctx instanceof Object && String(ctx)", "[object Object]"],
    [
      "const names = []; for (const name in ctx) names.push(name); return names.sort()",
      ["callId", "log", "progress", "signal", "span", "tenantId"],
    ],
    ["ctx.kv = new Map([['a', 2]]); return ctx.kv.get('a')", 2],
    ["ctx.own = 1; return Object.keys(ctx).includes('own') && ctx.own", 1],
    ["try { ctx.kv.get('a') } catch (error) { return error.name }", "TypeError"],
    ["return JSON.stringify(ctx).includes('tenantId')", true],
    ["return (await ctx).callId", "c"],
    ["console.log(ctx); return ctx.constructor === Object", true],
    ["let n = 0; for (let i = 0; i < 1e6; i += 1) if (ctx.kv === undefined) n += 1; return n", 1_000_000],
  ];
  const FAILURES: readonly (readonly [code: string, message: string])[] = [
    [
      "if (ctx.kv) return 1; const rows = undefined; await 0; return rows.map(String)",
      "Cannot read properties of undefined (reading 'map')",
    ],
    ["if (ctx.kv) return 1; throw new TypeError('Bad type')", "Bad type"],
    [
      "if (ctx.kv) return 1; throw new Error(\"Cannot read properties of undefined (reading 'get')\")",
      "Cannot read properties of undefined (reading 'get')",
    ],
    ["if (ctx.lookUp) return 1; const find = 1; return find()", "find is not a function"],
    ["if (ctx.kv) return 1; return null.get", "Cannot read properties of null (reading 'get')"],
  ];
  const ELSEWHERE: readonly (readonly [code: string, message: string])[] = [
    [
      "await ctx.kv?.get('k'); const args = {}; args.headers.get('x')",
      "Cannot read properties of undefined (reading 'get')",
    ],
    ["if (ctx.trace) ctx.trace('x'); const span = {}; span.trace('y')", "span.trace is not a function"],
    [
      "const s = { kv: ctx.kv }; await 0; return await s.kv.get('a')",
      "Cannot read properties of undefined (reading 'get')",
    ],
    [
      "const { kv: s } = ctx; const list = () => s.list(); return await list()",
      "Cannot read properties of undefined (reading 'list')",
    ],
    [
      "const store = ctx.kv; const list = () => store.list(); return await list()",
      "Cannot read properties of undefined (reading 'list')",
    ],
  ];
  /** The same with each statement in a line of its own. */
  const split = (code: string): string => code.replaceAll("; ", ";\n");
  let call: (body: string) => Promise<ToolResult>;
  beforeAll(async () => {
    const failing = [...FAILURES.map(([code]) => code), ...ELSEWHERE.flatMap(([code]) => [code, split(code)])];
    call = await addBodies([...QUESTIONS.map(([code]) => code), ...failing]);
  });

  test.for(QUESTIONS)("%s", async ([code, value]) => {
    expect(outputOf(await call(code))).toEqual(value);
  });

  test.for(FAILURES)("%s: leaves a failure that is another one as it is", async ([code, message]) => {
    const error = errorOf(await call(code));
    expect([error.code, error.message]).toEqual(["TOOL_FAILED", message]);
  });

  test.for(ELSEWHERE)("%s: leaves a failure elsewhere the tool's own, with a hint at most", async ([code, message]) => {
    for (const body of [code, split(code)]) {
      const error = errorOf(await call(body));
      expect([error.code, error.message.replace(/ \(perhaps: ctx\.kv is not granted to this tool; .*\)$/, "")]).toEqual(
        ["TOOL_FAILED", message],
      );
      expect(error.details?.errorName).toBe("TypeError");
    }
  });

  test("a granted capability works as before", async () => {
    const bodies = ["await ctx.kv.set('a', 1); return await ctx.kv.get('a')", "return await ctx.lookUp({})"] as const;
    const granted = await addBodies(bodies, { grant: ["kv", "lookUp"] });
    expect(outputOf(await granted(bodies[0]))).toBe(1);
    expect(outputOf(await granted(bodies[1]))).toEqual({ price: 1 });
  });
});

describe("a tool cannot", () => {
  test("forge the code CAPABILITY_DENIED", async () => {
    const forged = [
      "const error = new TypeError('ctx.kv is not a function'); throw error",
      "throw Object.assign(new Error('x'), { code: 'CAPABILITY_DENIED', capabilityCode: 'CAPABILITY_DENIED', capability: 'kv' })",
      "Error.prepareStackTrace = () => { ctx.kv; return ctx.kv; }; ctx.kv; throw new TypeError('x')",
      "throw new Proxy(new TypeError('x'), { get: () => { throw ctx.kv } })",
    ];
    const call = await addBodies(forged, { grant: ["kv"] });
    for (const code of forged) {
      const error = errorOf(await call(code));
      expect(error.code).toBe("TOOL_FAILED");
    }
  });

  test("fill the message with a name of its own length", async () => {
    const error = await failureOfTool("export default (i, ctx) => ctx['x'.repeat(1e6)].y");
    expect(error.code).toBe("TOOL_FAILED");
    expect(JSON.stringify(error).length).toBeLessThan(2_000);
  });
});
