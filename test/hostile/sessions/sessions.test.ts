// A session's code can break its own state. It must not reduce the limits of a later run, nor affect another session.
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { SessionOptions } from "../../../src/host/index.ts";
import type { Session } from "../../../src/host/sessions/session.ts";
import { sampleAttacks } from "../../support/attack-sample.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { expectIdle } from "../../support/processes.ts";
import { DEATH_MS } from "../assertions.ts";

const TOKEN = "tok-9f31c2a07be84d55";
const token = defineCapability({
  name: "token",
  inputSchema: {},
  outputSchema: {},
  handler: (_input, { redact }) => {
    redact("token", TOKEN);
    return TOKEN;
  },
});

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({
    tenancy: "multi",
    capabilities: [token],
    limits: { timeoutMs: 60_000, memoryMiB: 64 },
  });
});
afterAll(() => glovebox.close());

let tenants = 0;
async function open(options: SessionOptions = {}): Promise<Session> {
  tenants += 1;
  const session = await glovebox.openSession({ tenantId: `evil ${tenants}`, ...options });
  onTestFinished(() => session.close());
  return session;
}

test.for([
  ["ctx that cannot be changed", "Object.defineProperty(globalThis, 'ctx', { value: 1 })"],
  ["an input that throws", "Object.defineProperty(globalThis, 'input', { set() { throw 1 }, get() { throw 2 } })"],
  ["Object.defineProperty", "Object.defineProperty = () => { throw 'mine' }"],
  ["all intrinsics", "Array.prototype.forEach = JSON.stringify = Promise.prototype.then = () => { throw 'mine' }"],
  ["the global object", "for (const key of Reflect.ownKeys(globalThis)) try { delete globalThis[key] } catch {}"],
  ["toJSON", "Object.prototype.toJSON = String.prototype.toJSON = () => 'forged'"],
  ["a then on every object", "Object.prototype.then = (done) => done('forged')"],
  ["undefined setters", "Object.defineProperty(Object.prototype, 'outcome', { set() { throw 1 } })"],
] as const)("What breaks %s breaks its own session, and each run has one result", async ([, poison]) => {
  const session = await open({ tenantId: "poisoner" });
  await session.run(poison);
  for (const code of ["const a = { b: 1 }; a", "throw new Error('own')"]) {
    const result = await session.run(code);
    expect(["ok", "TOOL_FAILED", "OUTPUT_INVALID", "TOOL_UNAVAILABLE", "SANDBOX_CRASHED"]).toContain(codeOf(result));
    expectPublishable(result);
  }
  // Of the same tenant, in the same process.
  await using other = await glovebox.openSession({ tenantId: "poisoner" });
  expect(outputOf(await other.run("({ a: 1 + 1 })"))).toEqual({ a: 2 });
});

test("A cell's own names are its own, those that we use included", async () => {
  const session = await open();
  const names = ["$cell_main", "$cell_value", "$cell_declare", "$cell_name", "$cell_input", "$cell_ctx"];
  await session.run(names.map((name) => `function ${name}() {}`).join("\n"));
  await session.run(names.map((name) => `try { globalThis.${name} = 1 } catch {}`).join("\n"));
  expect(outputOf(await session.run("const kept = 1; kept + 1"))).toBe(2);
});

test("What runs on behind a run's end takes no time between runs, and no later run's", async () => {
  const session = await open({ limits: { cpuMs: 2_000 } });
  await session.run("let ticks = 0; setInterval(() => { ticks += 1 }, 1); (async () => { for (;;) await null })(); 1");
  const bomb = await open();
  await bomb.run(
    "setTimeout(() => { for (;;); }, 1); Promise.resolve().then(() => setTimeout(() => { for (;;); }, 1)); 1",
  );
  await expectIdle(() => glovebox.workerPids, DEATH_MS);
  for (const one of [session, bomb]) {
    const result = await one.run("1 + 1", { timeoutMs: 1_000 });
    expect(["ok", "TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "CPU_LIMIT"]).toContain(codeOf(result));
  }
  expect(outputOf(await (await open()).run("2"))).toBe(2);
});

test("An earlier run's ctx has the limits of the run that uses it, and logs into none that is over", async () => {
  const session = await open({ grant: ["kv"], limits: { maxCapabilityCalls: 3, logLines: 2 } });
  await session.run("globalThis.old = ctx; await ctx.kv.set('a', 1)");
  const code =
    "let done = 0; for (let i = 0; i < 9; i++) await old.kv.get('a').then(() => { done += 1 }, () => {}); done";
  const result = await session.run(code);
  if (result.success) expect(result.output).toBeLessThanOrEqual(3);
  const late = await session.run("for (let i = 0; i < 9; i++) console.log(i); 1");
  expect(late.logs.length).toBeLessThanOrEqual(3);
  expect(outputOf(await session.run("await ctx.kv.get('a')"))).toBe(1);
});

test("a later run does not reveal a secret of an earlier one", async () => {
  const session = await open({ grant: ["token"] });
  expect(JSON.stringify(await session.run("const told = await ctx.token(); told"))).not.toContain(TOKEN);
  for (const code of ["console.log(told); ({ [told]: told })", "throw new Error(told)"]) {
    const result = await session.run(code);
    expect([code, JSON.stringify(result).includes(TOKEN)]).toEqual([code, false]);
  }
});

test("Memory of all runs together is the session's one limit", async () => {
  const session = await open({ limits: { memoryMiB: 32 } });
  const codes: string[] = [];
  for (let run = 0; run < 12 && codes.at(-1) !== "TOOL_UNAVAILABLE"; run += 1) {
    codes.push(
      codeOf(await session.run("(globalThis.all ??= []).push(Array.from({ length: 1e6 }, (_, i) => i + 0.5)); 1")),
    );
  }
  expect(codes.slice(-2)).toEqual(["MEMORY_LIMIT", "TOOL_UNAVAILABLE"]);
  expect(errorOf(await session.run("1")).message).toMatch(/has ended: .*. Open a new one/);
});

/** Each fills the memory of a session run by run; V8 finds some of them over the limit only after the run has given its result. */
const FILLINGS: readonly (readonly [memoryMiB: number, value: string])[] = [
  [16, "new Array(300_000).fill().map((_, i) => ({ i }))"],
  [24, "Array.from({ length: 1_000_000 }, (_, i) => i + 0.5)"],
  [32, "new Array(300_000).fill().map((_, i) => ({ i }))"],
  [32, "new Array(2_000_000).fill(1.5)"],
  [32, "Array.from({ length: 1_000_000 }, (_, i) => i + 0.5)"],
];

test.for(sampleAttacks(FILLINGS, 0, 3))(
  "a session of %i MiB full of %s never starts again with an empty isolate",
  async ([memoryMiB, value]) => {
    const session = await open({ limits: { memoryMiB } });
    const seen: unknown[] = [];
    for (let run = 0; run < 40 && seen.at(-1) !== "TOOL_UNAVAILABLE"; run += 1) {
      const result = await session.run(`(globalThis.all ??= []).push(${value}); globalThis.all.length`);
      seen.push(result.success ? result.output : result.error.code);
    }
    const runs = seen.length - 2;
    expect(seen).toEqual([...Array.from({ length: runs }, (_, run) => run + 1), "MEMORY_LIMIT", "TOOL_UNAVAILABLE"]);
    expect(errorOf(await session.run("1"))).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: expect.stringContaining("MEMORY_LIMIT"),
    });
  },
);

test("a run that passes the memory limit after its result fails, or the next one does, and the session ends", async () => {
  const session = await open({ limits: { memoryMiB: 32 } });
  await session.run("const kept = 1");
  const grow = "const all = []; for (;;) all.push(new Array(100_000).fill(all.length))";
  const result = await session.run(`Promise.resolve().then(() => Promise.resolve()).then(() => { ${grow} }); 1`);
  const codes = [codeOf(result)];
  // On a busy machine, the result may arrive before the limit is reached.
  while (codes.at(-1) !== "TOOL_UNAVAILABLE") {
    const next = await session.run("kept");
    if (next.success) expect(next.output).toBe(1);
    codes.push(codeOf(next));
  }
  expect(codes.filter((code) => !["ok", "MEMORY_LIMIT", "TOOL_UNAVAILABLE"].includes(code))).toEqual([]);
});

test("work that a run has left, and that passes the memory limit between two runs, fails the next run", async () => {
  const session = await open({ limits: { memoryMiB: 32 } });
  const grow = "const all = []; for (;;) all.push(new Array(100_000).fill(all.length))";
  await session.run("const kept = 1");
  // The digest is answered when the run is over.
  await session.run(
    `const digest = crypto.subtle.digest("SHA-256", new Uint8Array(4_000_000)).then(() => { ${grow} }); 1`,
  );
  const codes: string[] = [];
  while (codes.at(-1) !== "TOOL_UNAVAILABLE") {
    const result = await session.run("kept");
    if (result.success) expect(result.output).toBe(1);
    codes.push(codeOf(result));
  }
  expect(codes.filter((code) => !["ok", "MEMORY_LIMIT", "TOOL_UNAVAILABLE"].includes(code))).toEqual([]);
});

test("CPU time of all runs together has its limit, however short each is", async () => {
  const session = await open({ total: { cpuMs: 200 } });
  const codes: string[] = [];
  // Work, not time: what a busy machine withholds is no CPU time.
  const code = "let sum = 0; for (let n = 0; n < 20_000_000; n += 1) sum += n % 7; 1";
  for (let run = 0; run < 1_000 && codes.at(-1) !== "TOOL_UNAVAILABLE"; run += 1)
    codes.push(codeOf(await session.run(code)));
  expect(codes.at(-1)).toBe("TOOL_UNAVAILABLE");
  expect(codes.filter((one) => one !== "ok" && one !== "CPU_LIMIT")).toEqual(["TOOL_UNAVAILABLE"]);
});

test("Many runs at one time have one result each, in order; a run that ends the session ends the others' hope with a reason", async () => {
  const session = await open();
  await session.run("const seen = []");
  const results = await Promise.all(Array.from({ length: 6 }, (_, n) => session.run(`seen.push(${n})`)));
  expect(results.map((result) => outputOf(result))).toEqual(Array.from({ length: 6 }, (_, n) => n + 1));
  expect(outputOf(await session.run("seen"))).toEqual(Array.from({ length: 6 }, (_, n) => n));
  // A run that is stopped before it has begun would not end the session.
  const stop = new AbortController();
  const endless = session.run("console.log(1); for (;;);", { signal: stop.signal, onLog: () => stop.abort() });
  const late = await Promise.all([endless, session.run("1"), session.run("2")]);
  expect(late.map(codeOf)).toEqual(["CANCELLED", "TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE"]);
});

test("a tenant cannot use another tenant's session by its id, as a tool's session, or its run as a tool", async () => {
  const victim = await open({ tenantId: "victim", id: "shared" });
  await victim.run("globalThis.secret = 'of the victim'");
  await glovebox.addTool(
    { name: "peek", source: "export default () => typeof secret" },
    { scope: "global", isolateLifetime: "session" },
  );
  for (const tenantId of ["victim", "thief"]) {
    const result = await glovebox.execute({ id: "1", toolName: "peek" }, { tenantId, sessionId: "shared" });
    expect(outputOf(result)).toBe("undefined");
    for (const toolName of ["session-1", "session-2", "shared", "shared.1"]) {
      const call = { id: "2", toolName, arguments: { code: "secret" } };
      expect(codeOf(await glovebox.execute(call, { tenantId }))).toBe("TOOL_UNAVAILABLE");
    }
  }
  expect(glovebox.listSessions({ tenantId: "thief" }).map(({ kind }) => kind)).toEqual(["peek"]);
  expect(await glovebox.closeSessions({ tenantId: "thief" })).toBe(1);
  expect(outputOf(await victim.run("secret"))).toBe("of the victim");
});

test("an unused session ends if other sessions need its slot, and later calls say so", async () => {
  await using small = await makeGlovebox({ tenancy: "multi", workers: { max: 1 } });
  const session = await small.openSession({ tenantId: "squatter" });
  expect(outputOf(await session.run("const kept = 1; kept"))).toBe(1);
  await using other = await small.openSession({ tenantId: "other" });
  expect(outputOf(await other.run("2"))).toBe(2);
  expect(errorOf(await session.run("kept"))).toMatchObject({
    code: "TOOL_UNAVAILABLE",
    message: expect.stringContaining("it was idle, and other calls needed its process slot"),
  });
});

test("Sessions that are opened and closed leave nothing behind", async () => {
  for (let n = 0; n < 10; n += 1) {
    await using session = await glovebox.openSession({ tenantId: "coming and going" });
    expect(outputOf(await session.run("1"))).toBe(1);
  }
  expect(glovebox.listSessions({ tenantId: "coming and going" })).toEqual([]);
  await expectIdle(() => glovebox.workerPids, DEATH_MS);
});
