// Durable runs and agents' journals of a tenant: deleted and exported with the tenant, from every store that the Glovebox knows.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { openAgentJournal } from "../../../src/host/agent/loop/agent-journal.ts";
import { createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { RunRecord, RunStore } from "../../../src/host/runs/run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { SqliteRunStore } from "../../../src/host/runs/sqlite-run-store.ts";
import type { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, errorOf, failureOf, makeGlovebox } from "../../support/host-zone.ts";

const ACME = { tenantId: "acme" } as const;
const BETA = { tenantId: "beta" } as const;
const WAIT = `export default async ({ text }, ctx) => { const event = await ctx.waitFor({ event: "go" }); return { text, event }; }`;
const PAGE = { limit: 1_000 };

async function gloveboxOf(options: GloveboxOptions = {}): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  await glovebox.addTool({ name: "wait", source: WAIT }, { scope: "global", grant: ["waitFor"] });
  return glovebox;
}
const run = (text: string, whose: { readonly tenantId: string }) => ({
  toolName: "wait",
  arguments: { text },
  ...whose,
});

async function linesOf(glovebox: Glovebox): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const lines: Record<string, unknown>[] = [];
  for await (const text of glovebox.exportTenant("acme")) lines.push(JSON.parse(text) as Record<string, unknown>);
  return lines;
}

describe("deleteTenant", () => {
  test("removes a tenant's durable runs, and keeps those of others", async () => {
    const glovebox = await gloveboxOf();
    const store = new MemoryRunStore();
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    for (const whose of [ACME, ACME, BETA]) expect((await runs.start(run("x", whose))).state).toBe("suspended");
    expect((await glovebox.deleteTenant("acme")).runs).toBe(2);
    expect([await runs.list(ACME), (await runs.list(BETA)).length]).toEqual([[], 1]);
    expect((await glovebox.deleteTenant("acme")).runs).toBe(0);
  });

  test("removes runs of code, and of a second store, once each", async () => {
    const glovebox = await gloveboxOf();
    const [store, code] = [new MemoryRunStore(), new MemoryRunStore()];
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    await using _same = createRuns(glovebox, { store, pollMs: 0 });
    await using codeMode = createCodeMode(glovebox, { ...ACME, typeCheck: false, runs: { store: code, pollMs: 0 } });
    await runs.start(run("x", ACME));
    const arguments_ = { code: 'await tools.wait_for({ event: "go" })', language: "javascript" };
    await codeMode.execute({ id: "c", toolName: "run_code", arguments: arguments_ }, ACME);
    expect(await code.list("acme", PAGE)).toHaveLength(1);
    expect((await glovebox.deleteTenant("acme")).runs).toBe(2);
    expect([await store.list("acme", PAGE), await code.list("acme", PAGE)]).toEqual([[], []]);
  });

  test("removes agents' journals from the stores that runStores names", async () => {
    const store = new MemoryRunStore();
    const glovebox = await gloveboxOf({ runStores: [store] });
    for (const whose of [ACME, BETA])
      await (await openAgentJournal({ store, id: "chat", ...whose }))[Symbol.asyncDispose]();
    expect((await glovebox.deleteTenant("acme")).runs).toBe(1);
    expect([await store.list("acme", PAGE), (await store.list("beta", PAGE)).length]).toEqual([[], 1]);
  });

  test("ends a run that is under way, and one that begins meanwhile is denied or removed", async () => {
    const glovebox = await gloveboxOf();
    const store = new MemoryRunStore();
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    const outcomeOf = (start: Promise<RunRecord>): Promise<unknown> =>
      start.then(
        ({ result }) => (result === undefined ? "waits" : errorOf(result).details?.reason),
        (error: ToolError) => error.details?.reason,
      );
    let began = false;
    const forever = (): Promise<never> => {
      began = true;
      return new Promise(() => {});
    };
    glovebox.router.register("forever", {}, forever, { scope: "global" });
    const source = "export default (_, ctx) => ctx.tools.forever({})";
    await glovebox.addTool({ name: "outer", source }, { ...ACME, grant: ["tools", "waitFor"] });
    const running = outcomeOf(runs.start({ toolName: "outer", ...ACME }));
    await expect.poll(() => began).toBe(true);
    const deleting = glovebox.deleteTenant("acme");
    const late = outcomeOf(runs.start(run("late", ACME)));
    expect((await deleting).runs).toBeGreaterThan(0);
    // Its end is stored before it is removed, or finds no run.
    for (const outcome of [await running, await late]) expect(outcome).toMatch(/^(tenant_deleted|not_found)$/);
    expect(await store.list("acme", PAGE)).toEqual([]);
    expect((await runs.start(run("again", ACME))).state).toBe("suspended");
  });

  test("deleteTenant waits for a run that is being created, and removes it", async () => {
    const created = Promise.withResolvers<void>();
    let isCreating = false;
    class SlowStore extends MemoryRunStore {
      override async create(...args: Parameters<RunStore["create"]>): ReturnType<RunStore["create"]> {
        isCreating = true;
        await created.promise;
        return await super.create(...args);
      }
    }
    const store = new SlowStore();
    const glovebox = await gloveboxOf();
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    const starting = failureOf(runs.start(run("x", ACME)));
    await expect.poll(() => isCreating).toBe(true);
    const deleting = glovebox.deleteTenant("acme");
    created.resolve();
    expect((await deleting).runs).toBe(1);
    await starting;
    expect(await store.list("acme", PAGE)).toEqual([]);
  });

  test("leaves nothing of a tenant's runs in the file of a store", async () => {
    const folder = await mkdtemp(join(tmpdir(), "glovebox-tenant-runs-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    using store = new SqliteRunStore({ path: join(folder, "runs.sqlite") });
    const glovebox = await gloveboxOf();
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    for (const text of ["acme-secret-text", "acme-other-text"]) {
      const { id } = await runs.start(run(text, ACME));
      await runs.signal(id, { event: "go", value: "acme-secret-event" }, ACME);
    }
    await runs.start(run("beta-text", BETA));
    await glovebox.deleteTenant("acme");
    const files = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), "latin1")));
    const text = files.join("\n");
    expect([text.includes("beta-text"), text.includes("acme-secret"), text.includes("acme-other")]).toEqual([
      true,
      false,
      false,
    ]);
  });

  test("fails if a store fails, denies the tenant's calls, and can be repeated", async () => {
    const store = new MemoryRunStore();
    const remove = store.deleteTenant.bind(store);
    let fails = true;
    store.deleteTenant = (tenantId) => (fails ? Promise.reject(new Error("disk full at /data")) : remove(tenantId));
    const glovebox = await gloveboxOf();
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    await runs.start(run("x", ACME));
    const error = await failureOf(glovebox.deleteTenant("acme"));
    expect([error.code, error.details]).toEqual(["INTERNAL", { reason: "deletion_incomplete" }]);
    expect(error.message).not.toContain("/data");
    expect(errorOf(await glovebox.execute({ id: "c", toolName: "wait" }, ACME)).details).toEqual({
      reason: "tenant_deleted",
    });
    fails = false;
    expect((await glovebox.deleteTenant("acme")).runs).toBe(1);
    glovebox.router.register("add", {}, () => 1, ACME);
    expect(codeOf(await glovebox.execute({ id: "c", toolName: "add" }, ACME))).toBe("ok");
  });
});

describe("exportTenant", () => {
  test("has the runs and journals of all stores, with their inputs, results and entries", async () => {
    const journals = new MemoryRunStore();
    const glovebox = await gloveboxOf({ runStores: [journals] });
    await using runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 0 });
    await runs.start({ ...run("waits", ACME), id: "a" });
    await runs.start({ ...run("ends", ACME), id: "b" });
    await runs.signal("b", { event: "go", value: 5 }, ACME);
    await runs.start({ ...run("of-beta", BETA), id: "c" });
    await (await openAgentJournal({ store: journals, id: "chat", ...ACME })).end({
      status: "finished",
      reason: "stop",
      text: "Hello",
      messages: [],
      steps: [],
      usage: { inputTokens: 0, outputTokens: 0 },
    });
    const lines = await linesOf(glovebox);
    const exported = lines.filter(({ type }) => type === "run");
    expect(exported.map(({ id, kind, state }) => [id, kind, state])).toEqual([
      ["chat", "agent", "succeeded"],
      ["b", "tool", "succeeded"],
      ["a", "tool", "suspended"],
    ]);
    expect(exported[1]).toMatchObject({
      input: '{"text":"ends"}',
      result: { success: true, output: { text: "ends", event: 5 } },
    });
    expect(exported[2]).toMatchObject({
      waits: [{ kind: "event" }],
      journal: await runs.journal("a", ACME).then((all) => all.map((one) => JSON.stringify(one))),
    });
    expect(lines.at(-1)).toMatchObject({ type: "end", counts: { runs: 3 } });
    expect(JSON.stringify(lines)).not.toContain("of-beta");
  });

  test("has every run of a tenant with more than one page of them", async () => {
    const store = new MemoryRunStore();
    const glovebox = await gloveboxOf({ runStores: [store] });
    const times = { createdAt: 0, expiresAt: 1, leaseUntil: 1 };
    for (let n = 0; n < 250; n += 1)
      await store.create({ id: `run-${n}`, ...ACME, kind: "tool", toolName: "wait", input: "{}", ...times }, 1_000);
    const ids = (await linesOf(glovebox)).filter(({ type }) => type === "run").map(({ id }) => id);
    expect([ids.length, new Set(ids).size]).toEqual([250, 250]);
  });

  test("fails if a store does, and has no end then", async () => {
    const store = new MemoryRunStore();
    store.list = () => Promise.reject(new Error("gone"));
    const glovebox = await gloveboxOf({ runStores: [store] });
    expect((await failureOf(linesOf(glovebox))).message).toBe("The export ended early: a store of durable runs failed");
  });
});
