// Durable code: a program that needs an approval suspends, goes on in another process, and the model looks it up.
import { setTimeout as sleep } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createHostedCodeMode } from "../../../src/host/code-mode/hosted-code.ts";
import { type CodeMode, createCodeMode } from "../../../src/host/code-mode/index.ts";
import type { RunOutput } from "../../../src/host/code-mode/run-result.ts";
import { TypeChecker } from "../../../src/host/code-mode/type-checker/type-checker.ts";
import type { CallContext } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/index.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { MemoryQuotaStore } from "../../../src/host/tenants/quotas/memory-quota-store.ts";
import type { QuotaCharge } from "../../../src/host/tenants/quotas/quota-store.ts";
import { makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { CrashingStore } from "../runs/crashing-store.ts";

let glovebox: Glovebox;
const effects: string[] = [];
const schema = { type: "object", properties: { id: { type: "number" } }, required: ["id"] } as never;
const addRemove = (how: string): void => {
  const definition = {
    description: `Deletes an order ${how}`,
    inputSchema: schema,
    annotations: { destructiveHint: true },
  };
  const remove = (input: unknown): unknown => {
    const { id } = input as { readonly id: number };
    effects.push(`deleted ${id}`);
    return { deleted: id };
  };
  glovebox.router.register("delete_order", definition, remove);
};
beforeAll(async () => {
  glovebox = await makeGlovebox();
  addRemove("for ever");
  const read = { description: "Lists orders", annotations: { readOnlyHint: true } };
  glovebox.router.register("list_orders", read, () => {
    effects.push("listed");
    return [1, 2, 3];
  });
});
afterAll(() => glovebox.close());

const open = (store: CrashingStore, more: object = {}): CodeMode =>
  createCodeMode(glovebox, {
    language: "javascript",
    needsApproval: ["delete_order"],
    runs: { store, pollMs: 0 },
    ...more,
  });

async function call(codeMode: CodeMode, toolName: string, args: object, context: CallContext = {}): Promise<RunOutput> {
  return outputOf(await codeMode.execute({ id: "c", toolName, arguments: args }, context)) as never;
}

const CODE = `
  console.log("start");
  const orders = await tools.list_orders();
  const results = await Promise.allSettled(orders.slice(0, 2).map((id) => tools.delete_order({ id })));
  await result.save("seen", orders.length);
  console.log("end");
  return results.map(({ value, reason }) => value?.deleted ?? reason.code);`;

describe("durable code", () => {
  test("suspends for approvals, goes on in another process, and is looked up", async () => {
    const store = new CrashingStore();
    effects.length = 0;
    let id = "";
    {
      await using codeMode = open(store);
      expect((await codeMode.listTools()).map(({ name }) => name)).toEqual(["get_run", "run_code", "search_tools"]);
      const output = await call(codeMode, "run_code", { code: CODE }, { sessionId: "s1" });
      const message = 'The code wants to call the tool "delete_order" with {"id":1}. Approve this call?';
      expect(output).toMatchObject({ status: "suspended", hint: expect.stringContaining("get_run") });
      expect(output.run?.waits).toMatchObject([{ kind: "approval", message }, { kind: "approval" }]);
      id = output.run?.id ?? "";
      expect(await call(codeMode, "get_run", { id }, { sessionId: "s1" })).toEqual(output);
      for (const context of [{ sessionId: "s2" }, {}]) {
        const other = await codeMode.execute({ id: "c", toolName: "get_run", arguments: { id } }, context);
        expect(other).toMatchObject({ error: { code: "PARAM_INVALID" } });
      }
    }
    await using codeMode = open(store);
    const [first, second] = (await codeMode.runs?.get(id))?.waits ?? [];
    await codeMode.runs?.signal(id, { approval: first?.id ?? 0, approved: true });
    expect(effects).toEqual(["listed", "deleted 1"]);
    await codeMode.runs?.signal(id, { approval: second?.id ?? 0, approved: false, reason: "keep it" });
    const ended = await call(codeMode, "get_run", { id }, { sessionId: "s1" });
    expect(ended).toMatchObject({ status: "ok", value: [1, "APPROVAL_REQUIRED"], logs: ["start", "end"] });
    expect(effects).toEqual(["listed", "deleted 1"]);
    // The values that it has saved are those of its session.
    const seen = await call(codeMode, "run_code", { code: 'return await result.load("seen")' }, { sessionId: "s1" });
    expect(seen).toMatchObject({ status: "ok", value: 3 });
  });

  test("cannot be approved before a person can see the arguments of the call", async () => {
    effects.length = 0;
    await using codeMode = open(new CrashingStore());
    const code =
      'const id = await ctx.waitFor({ event: "id" }); return await tools.delete_order({ id }).catch((error) => error.code)';
    const { run } = await call(codeMode, "run_code", { code });
    const id = run?.id ?? "";
    const early = codeMode.runs?.signal(id, { approval: 2, approved: true });
    await expect(early).rejects.toMatchObject({ code: "PARAM_INVALID" });
    const asked = await codeMode.runs?.signal(id, { event: "id", value: 7 });
    expect(asked).toMatchObject({ state: "suspended", waits: [{ id: 2, kind: "approval", input: { id: 7 } }] });
    expect(effects).toEqual([]);
    await codeMode.runs?.signal(id, { approval: 2, approved: false });
    expect(await call(codeMode, "get_run", { id })).toMatchObject({ status: "ok", value: "APPROVAL_REQUIRED" });
    expect(effects).toEqual([]);
  });

  test("waits for events, people and times, and its type checker knows how", async () => {
    const store = new CrashingStore();
    const code = `
      const paid: number = await ctx.waitFor<number>({ event: "paid" });
      const { approved, reason } = await ctx.waitFor({ approval: "Ship it?" });
      const nothing: null = await ctx.waitFor({ durationMs: 1 });
      return { paid, approved, reason, nothing };`;
    let id = "";
    {
      await using codeMode = open(store, { language: "typescript", typeCheck: true });
      const wrong = await call(codeMode, "run_code", { code: "return await ctx.waitFor({ person: 1 });" });
      expect(wrong).toMatchObject({ status: "rejected" });
      const output = await call(codeMode, "run_code", { code });
      expect(output).toMatchObject({ status: "suspended", run: { waits: [{ kind: "event", name: "paid" }] } });
      id = output.run?.id ?? "";
    }
    await using codeMode = open(store, { language: "typescript", typeCheck: true });
    await codeMode.runs?.signal(id, { event: "paid", value: 5 });
    const [wait] = (await codeMode.runs?.get(id))?.waits ?? [];
    expect(wait).toMatchObject({ kind: "approval", message: "Ship it?" });
    await codeMode.runs?.signal(id, { approval: wait?.id ?? 0, approved: false, reason: "later" });
    await expect
      .poll(async () => {
        await codeMode.runs?.poll();
        return await call(codeMode, "get_run", { id });
      })
      .toMatchObject({ status: "ok", value: { paid: 5, approved: false, reason: "later", nothing: null } });
  });

  test("shows until when it waits", async () => {
    await using codeMode = open(new CrashingStore());
    const code = 'return await ctx.waitFor({ event: "paid", timeoutMs: 3_600_000 })';
    const output = await call(codeMode, "run_code", { code });
    expect(output.run?.waits).toEqual([{ id: 1, kind: "event", name: "paid", until: expect.any(Number) }]);
    expect(await call(codeMode, "get_run", { id: output.run?.id })).toEqual(output);
  });

  test("undoes what it did when it fails", async () => {
    await using codeMode = open(new CrashingStore());
    effects.length = 0;
    const code = `
      ctx.onRollback(async () => { await tools.list_orders(); });
      await ctx.waitFor({ event: "go" });
      throw new Error("no");`;
    const { run } = await call(codeMode, "run_code", { code });
    const id = run?.id ?? "";
    expect(await codeMode.runs?.signal(id, { event: "go" })).toMatchObject({ state: "failed" });
    expect(effects).toEqual(["listed"]);
    expect(await call(codeMode, "get_run", { id })).toMatchObject({ status: "failed", error: { message: "no" } });
  });

  test("a function that undoes something cannot wait for an approval", async () => {
    await using codeMode = open(new CrashingStore());
    effects.length = 0;
    const code = `
      await ctx.onRollback(async () => { await tools.list_orders(); });
      await ctx.onRollback(async () => { await tools.delete_order({ id: 4 }); });
      await ctx.waitFor({ event: "go" });`;
    const { run } = await call(codeMode, "run_code", { code });
    const id = run?.id ?? "";
    await codeMode.runs?.cancel(id);
    const { result } = (await codeMode.runs?.get(id)) ?? {};
    const { rollback } = (result?.success === false ? result.error.details : undefined) ?? {};
    expect(rollback).toMatchObject([
      { state: "failed", message: expect.stringContaining("cannot wait for an approval") },
      { state: "succeeded" },
    ]);
    expect(effects).toEqual(["listed"]);
  });

  test("undoes what it did when it fails, in Python", async () => {
    await using codeMode = open(new CrashingStore(), { language: ["python", "javascript"] });
    effects.length = 0;
    const code = `
async def undo():
    await tools.list_orders()
await ctx.onRollback(undo)
await ctx.waitFor(event="go")
raise ValueError("no")`;
    const { run } = await call(codeMode, "run_code", { code, language: "python" });
    const id = run?.id ?? "";
    expect(await codeMode.runs?.signal(id, { event: "go" })).toMatchObject({ state: "failed" });
    expect(effects).toEqual(["listed"]);
    const ended = await call(codeMode, "get_run", { id });
    expect(ended).toMatchObject({ status: "failed", error: { message: expect.stringContaining("no") } });
  });

  test("makes an approved call once, wherever its process dies", async () => {
    const code = "return (await tools.delete_order({ id: 7 }).catch((error) => error.code)).deleted ?? 'possible'";
    let outputs: unknown[] = [];
    for (let appends = 1; appends < 8; appends += 1) {
      const store = new CrashingStore();
      effects.length = 0;
      let id: string | undefined;
      {
        await using codeMode = open(store);
        id = (await call(codeMode, "run_code", { code })).run?.id ?? "";
        const [wait] = (await codeMode.runs?.get(id))?.waits ?? [];
        store.crashAfter(appends);
        await codeMode.runs?.signal(id, { approval: wait?.id ?? 0, approved: true }).catch(() => undefined);
      }
      store.crashAfter(Number.POSITIVE_INFINITY);
      await using codeMode = open(store);
      await codeMode.runs?.resume(id);
      const { status, value } = await call(codeMode, "get_run", { id });
      expect([appends, status, effects.length]).toEqual([appends, "ok", value === "possible" ? effects.length : 1]);
      expect(effects.length).toBeLessThan(2);
      outputs = [...outputs, value];
    }
    expect(outputs).toContain(7);
  });

  test("does not make a call whose tool has changed since it was approved", async () => {
    await using codeMode = open(new CrashingStore());
    effects.length = 0;
    const code = "return await tools.delete_order({ id: 8 }).catch((error) => error.code)";
    const { run } = await call(codeMode, "run_code", { code });
    await glovebox.removeTool("delete_order");
    addRemove("in another way");
    await codeMode.runs?.signal(run?.id ?? "", { approval: run?.waits[0]?.id ?? 0, approved: true });
    expect(await call(codeMode, "get_run", { id: run?.id })).toMatchObject({ value: "TOOL_UNAVAILABLE" });
    expect(effects).toEqual([]);
  });

  test("ends if its type check exceeds a limit: each continuation would exceed it again", async () => {
    // No machine starts the compiler in this time.
    await using typeChecker = new TypeChecker({ timeoutMs: 10 });
    await using checked = open(new CrashingStore(), { language: "typescript", typeChecker });
    expect(await call(checked, "run_code", { code: "return 1" })).toMatchObject({
      status: "rejected",
      diagnostics: [{ message: "Type checking took longer than 10 ms", suggestion: "Use simpler types" }],
    });
    // The time of the call ends in the check, before the code waits for a process.
    await using patient = new TypeChecker({ timeoutMs: 60_000, memoryMiB: 8_192 });
    await using short = open(new CrashingStore(), {
      language: "typescript",
      typeChecker: patient,
      limits: { timeoutMs: 1_000 },
    });
    const code = `type Digit = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;
      type Text = \`\${Digit}\${Digit}\${Digit}\${Digit}\`;
      type Pairs = Text extends infer One extends string ? { [Key in Text]: \`\${One}\${Key}\` }[Text] : never;
      const pairs: Pairs = 1 as never;
      return pairs;`;
    const result = await short.execute({ id: "c", toolName: "run_code", arguments: { code } });
    expect(result).toMatchObject({ success: false, error: { code: "TOOL_TIMEOUT" } });
    expect(await short.runs?.list()).toMatchObject([{ state: "failed" }]);
  });

  test("asks a client that is connected, and fails as other code does", async () => {
    await using codeMode = open(new CrashingStore());
    const elicit = async () => ({ action: "accept" as const, content: { approve: true } });
    const code = "return (await tools.delete_order({ id: 9 })).deleted";
    expect(await call(codeMode, "run_code", { code }, { client: { elicit } })).toMatchObject({
      status: "ok",
      value: 9,
    });
    expect(await call(codeMode, "run_code", { code: "throw new Error('no')" })).toMatchObject({ status: "failed" });
    expect(await call(codeMode, "run_code", { code: "return (" })).toMatchObject({ status: "rejected" });
  });

  test.for([
    ["a tool that may be called again waits for an approval", undefined],
    [
      "a tool of a server that is not trusted is not called again",
      { server: "up", toolName: "reset", isTrusted: false },
    ],
  ] as const)("after a restart while its client is asked, %s", async ([, origin]) => {
    const annotations = { destructiveHint: true, idempotentHint: true };
    glovebox.router.register("reset", { annotations, origin }, () => effects.push("reset"));
    const store = new CrashingStore();
    effects.length = 0;
    const first = open(store, { needsApproval: ["reset"] });
    const asked = Promise.withResolvers<void>();
    const elicit = (): Promise<never> => {
      asked.resolve();
      return new Promise(() => {});
    };
    const code = "return await tools.reset({}).catch((error) => error.code)";
    const stopped = call(first, "run_code", { code }, { client: { elicit } }).catch(() => undefined);
    await asked.promise;
    const [{ id } = { id: "" }] = (await first.runs?.list()) ?? [];
    await first.close();
    await stopped;
    await using second = open(store, { needsApproval: ["reset"] });
    const run = await second.runs?.resume(id);
    expect(effects).toEqual([]);
    if (origin === undefined) {
      expect(run).toMatchObject({ state: "suspended", waits: [{ kind: "approval", toolName: "reset" }] });
      await second.runs?.signal(id, { approval: run?.waits[0]?.id ?? 0, approved: true });
      expect(effects).toEqual(["reset"]);
    } else {
      expect(run?.result).toMatchObject({ output: { status: "ok", value: "EFFECTS_POSSIBLE" } });
    }
    await glovebox.removeTool("reset");
  });

  test("is counted once for its call, and charged once for what it used; a continuation counts by itself", async () => {
    const begun = Date.now();
    const charges: QuotaCharge[] = [];
    class Charges extends MemoryQuotaStore {
      override consume(given: readonly QuotaCharge[]): ReturnType<MemoryQuotaStore["consume"]> {
        charges.push(...given);
        return super.consume(given);
      }
    }
    const rateLimit = { calls: 1, per: "minute", burst: 2 } as const;
    const quotas = { calls: { month: 100 }, cpuMs: { month: 100_000 } };
    await using own = await makeGlovebox({ rateLimit, quotas, quotaStore: new Charges({ now: () => begun }) });
    await using codeMode = createCodeMode(own, {
      language: "javascript",
      runs: { store: new CrashingStore(), pollMs: 0 },
    });
    const used = (resource: string): number =>
      charges.reduce((sum, one) => sum + (one.kind === "window" && one.name.startsWith(resource) ? one.amount : 0), 0);
    const tokens = (): number => charges.filter(({ kind }) => kind === "rate").length;

    const args = { code: "for (let n = 0; n < 1e7; n += 1); return 1" };
    const result = await codeMode.execute({ id: "c", toolName: "run_code", arguments: args });
    expect(outputOf(result)).toMatchObject({ status: "ok", value: 1 });
    expect(result.usage.cpuMs).toBeGreaterThan(0);
    expect([tokens(), used("calls"), used("cpuMs")]).toEqual([1, 1, Math.ceil(result.usage.cpuMs)]);

    const { run } = await call(codeMode, "run_code", { code: "return await ctx.waitFor({ event: 'go' })" });
    expect([tokens(), used("calls"), run?.waits]).toMatchObject([2, 2, [{ kind: "event" }]]);
    const suspended = used("cpuMs");
    expect(suspended).toBeGreaterThan(Math.ceil(result.usage.cpuMs));
    // No token is left for the continuation, which therefore waits for one.
    await codeMode.runs?.signal(run?.id ?? "", { event: "go", value: 1 });
    expect([tokens(), used("calls"), used("cpuMs")]).toEqual([3, 3, suspended]);
    expect((await codeMode.runs?.get(run?.id ?? ""))?.state).toBe("suspended");
  });

  test("is cancelled and undone if its call is cancelled before the caller has the id of the run", async () => {
    await using codeMode = open(new CrashingStore());
    effects.length = 0;
    const stop = new AbortController();
    const elicit = async () => {
      stop.abort();
      return await new Promise<never>(() => {});
    };
    const code = "await ctx.onRollback(() => tools.list_orders()); return await tools.delete_order({ id: 10 })";
    const context = { client: { elicit }, signal: stop.signal };
    const cancelled = await codeMode.execute({ id: "c", toolName: "run_code", arguments: { code } }, context);
    expect(cancelled).toMatchObject({ error: { code: "CANCELLED" } });
    await expect.poll(async () => (await codeMode.runs?.list())?.map(({ state }) => state)).toEqual(["cancelled"]);
    expect(effects).toEqual(["listed"]);
    const [run] = (await codeMode.runs?.list()) ?? [];
    expect(await call(codeMode, "get_run", { id: run?.id })).toMatchObject({
      status: "failed",
      error: { code: "CANCELLED" },
      rollback: [{ index: 0, state: "succeeded" }],
    });
  });

  test("is not stopped by the time limit of its call while a person decides", async () => {
    const limits = { timeoutMs: 6_000 };
    const onApproval = async () => await sleep(limits.timeoutMs + 500, true);
    await using codeMode = open(new CrashingStore(), { limits, onApproval });
    const code = "return (await tools.delete_order({ id: 11 })).deleted";
    expect(await call(codeMode, "run_code", { code })).toMatchObject({ status: "ok", value: 11 });
  });

  test("asks a person to fill in a form", async () => {
    await using codeMode = open(new CrashingStore());
    const form = "{ message: 'Which?', requestedSchema: { type: 'object', properties: { n: { type: 'integer' } } } }";
    const { run } = await call(codeMode, "run_code", { code: `return (await ctx.elicit(${form})).content.n` });
    expect(run?.waits).toMatchObject([{ kind: "elicitation", message: "Which?" }]);
    await codeMode.runs?.signal(run?.id ?? "", {
      elicitation: run?.waits[0]?.id ?? 0,
      action: "accept",
      content: { n: 3 },
    });
    expect(await call(codeMode, "get_run", { id: run?.id })).toMatchObject({ status: "ok", value: 3 });
  });

  test("runs the version of a tool that the person was shown", async () => {
    const versions = await Promise.all(
      ["1", "2"].map(async (version) => {
        const source = `export default () => ${version}`;
        const { definition, bundle } = await glovebox.inspectTool({ name: "canary", source });
        return { version, weight: 1, definition, sha256: bundle.sha256, load: () => bundle };
      }),
    );
    glovebox.setRelease("canary", versions);
    await using codeMode = open(new CrashingStore(), { needsApproval: ["canary"], onApproval: () => true });
    const code = "return await Promise.all(Array.from({ length: 20 }, () => tools.canary({})))";
    expect(await call(codeMode, "run_code", { code })).toMatchObject({ status: "ok", value: Array(20).fill(1) });
  });

  test.for(["auto", "legacy"] as const)(
    "waits for a person if its MCP client (%s) has no elicitation",
    async (mode) => {
      await using codeMode = open(new CrashingStore());
      const handler = createMcpHandler(codeMode);
      const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
      const send = (url: string | URL, init?: RequestInit): Promise<Response> => handler.fetch(new Request(url, init));
      await client.connect(
        new StreamableHTTPClientTransport(new URL("http://127.0.0.1/mcp"), { fetch: send as never }) as never,
      );
      const form = "{ message: 'Which?', requestedSchema: { type: 'object', properties: {} } }";
      const code = `await Promise.all([tools.delete_order({ id: 3 }), ctx.elicit(${form}), ctx.elicit({ ...${form}, key: "k" })])`;
      const { structuredContent } = await client.callTool({ name: "run_code", arguments: { code } });
      const { status, run } = structuredContent as unknown as RunOutput;
      const kinds = run?.waits.map(({ kind }) => kind).toSorted();
      expect([status, kinds]).toEqual(["suspended", ["approval", "elicitation", "elicitation"]]);
      await client.close();
      await handler.close();
    },
  );

  test("a host decides which calls wait and for how long, and sees which were approved", async () => {
    let expiresInMs = 1;
    const asked: string[] = [];
    await using codeMode = createHostedCodeMode(
      glovebox,
      { language: "javascript" },
      {
        getRun: async (id) => ({ id }),
        approvalOf: async (toolName) => {
          asked.push(toolName);
          return toolName === "delete_order" ? { expiresInMs } : undefined;
        },
      },
    );
    const { tenancy, tenants, tenantStates } = glovebox.router;
    const started: unknown[] = [];
    await using runs = createRuns(
      {
        router: { tenancy, tenants, tenantStates, registry: { get: () => undefined } },
        runScope: { kind: "code" },
        execute: (toolCall, context) => codeMode.execute(toolCall, context),
      },
      {
        store: new CrashingStore(),
        pollMs: 0,
        prepare: async () => ({
          // The client of the caller cannot approve.
          client: { elicit: () => expect.fail("The client must not be asked") },
          nestedCalls: { onStart: ({ toolName, isApproved }) => void started.push([toolName, isApproved]) },
        }),
      },
    );
    effects.length = 0;
    const start = async (code: string) => await runs.start({ toolName: "run_code", arguments: { code } });
    const outputOfRun = async (id: string): Promise<unknown> => {
      const { result } = (await runs.get(id)) ?? {};
      return result?.success === true ? (result.output as unknown as RunOutput).value : result;
    };
    const late = await start("return await tools.delete_order({ id: 1 }).catch((error) => error.message)");
    await expect
      .poll(async () => {
        await runs.poll();
        return await outputOfRun(late.id);
      })
      .toBe("The call was not approved in time and not run");
    expect([effects, started]).toEqual([[], []]);
    expiresInMs = 600_000;
    const run = await start("await tools.list_orders(); return (await tools.delete_order({ id: 2 })).deleted");
    await runs.signal(run.id, { approval: run.waits[0]?.id ?? 0, approved: true });
    expect(await outputOfRun(run.id)).toBe(2);
    expect(started).toEqual([
      ["list_orders", undefined],
      ["delete_order", true],
    ]);
    const direct = await codeMode.execute({ id: "c", toolName: "run_code", arguments: { code: "return 1" } });
    expect(direct).toMatchObject({ error: { code: "TOOL_UNAVAILABLE", details: { reason: "needs_run" } } });
    expect(asked).toContain("list_orders");
  });
});
