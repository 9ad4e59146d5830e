// ctx.onRollback: a durable run that fails or is cancelled undoes what it did, in reverse order, each step once, also after a crash in the middle.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { RunsOptions } from "../../../src/host/runs/run-options.ts";
import type { RunClaim, RunKey } from "../../../src/host/runs/run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { BOOKED, errorOf, rollbackOf, succeeded, UNDONE, useActs } from "./acts.ts";
import { CrashingStore } from "./crashing-store.ts";

const acts = useActs();

let tools = 0;
async function addTool(body: string, limits = {}): Promise<string> {
  tools += 1;
  const name = `rollback${tools}`;
  const source = `export const capabilities = { act: true, waitFor: true };\nexport const limits = ${JSON.stringify(limits)};\n${body}`;
  await acts.glovebox.addTool({ name, source }, { grant: ["act", "waitFor"] });
  return name;
}

const open = (store: MemoryRunStore = new CrashingStore(), options: Partial<RunsOptions> = {}): Runs =>
  createRuns(acts.glovebox, { store, pollMs: 0, ...options });

const TRIP = `export default async (_, ctx) => {
  for (const what of ["flight", "hotel", "car"]) {
    await ctx.onRollback(async function undo() { await ctx.act("cancel " + what); });
    await ctx.act("book " + what);
  }
  const { approved } = await ctx.waitFor({ approval: "Pay?" });
  if (!approved) throw new Error("not paid");
  return "paid";
};`;

describe("ctx.onRollback", () => {
  test("runs in reverse order when the run fails, and not when it succeeds", async () => {
    const toolName = await addTool(TRIP);
    const runs = open();
    const paid = await runs.start({ toolName });
    await runs.signal(paid.id, { approval: paid.waits[0]?.id ?? 0, approved: true });
    expect(acts.done).toEqual(BOOKED);
    acts.done = [];
    const run = await runs.start({ toolName });
    const ended = await runs.signal(run.id, { approval: run.waits[0]?.id ?? 0, approved: false });
    expect([ended.state, errorOf(ended), rollbackOf(ended)]).toEqual(["failed", "not paid", succeeded(2, 1, 0)]);
    expect(acts.done).toEqual([...BOOKED, ...UNDONE]);
  });

  test("runs when the run is cancelled, and when its lifetime has ended", async () => {
    const toolName = await addTool(TRIP);
    const runs = open();
    const { id } = await runs.start({ toolName });
    expect(await runs.cancel(id)).toBe(true);
    const cancelled = await runs.get(id);
    expect([cancelled?.state, rollbackOf(cancelled)]).toEqual(["cancelled", succeeded(2, 1, 0)]);
    expect(await runs.cancel(id)).toBe(false);
    acts.done = [];
    const store = new CrashingStore();
    const late = await open(store, { lifetimeMs: 60_000 }).start({ toolName });
    const later = Date.now() + 120_000;
    const find = store.find.bind(store);
    store.find = async (key) => {
      const found = await find(key);
      return found && { ...found, expiresAt: found.expiresAt - later };
    };
    const expired = await open(store).resume(late.id);
    expect([expired?.state, rollbackOf(expired)]).toEqual(["failed", succeeded(2, 1, 0)]);
    expect(acts.done).toEqual([...BOOKED, ...UNDONE]);
  });

  test("continues after a crash at every point, and does nothing twice", async () => {
    const toolName = await addTool(TRIP.replace(', "car"', ""));
    const booked = BOOKED.slice(0, 2);
    const cancelIn = async (store: CrashingStore, appends: number): Promise<number> => {
      acts.done = [];
      store.crashAfter(Number.POSITIVE_INFINITY);
      await open(store).start({ toolName, id: "r" });
      store.crashAfter(appends);
      const cancelled = await open(store)
        .cancel("r")
        .catch(() => undefined);
      const total = store.appends;
      store.crashAfter(Number.POSITIVE_INFINITY);
      // Without its entry in the journal, the cancellation has not begun.
      if (cancelled === undefined && appends > 0) await open(store).resume("r");
      else if (cancelled === undefined) await open(store).cancel("r");
      return total;
    };
    const whole = await cancelIn(new CrashingStore(), Number.POSITIVE_INFINITY);
    expect(whole).toBeGreaterThan(8);
    for (let appends = 0; appends < whole; appends += 1) {
      const store = new CrashingStore();
      await cancelIn(store, appends);
      const run = await store.find({ tenantId: "default", id: "r" });
      const undone = acts.done.slice(booked.length);
      expect([appends, run?.state, undone, new Set(undone).size]).toEqual([
        ...[appends, "cancelled", undone, undone.length],
      ]);
      // A function whose call was under way at the crash fails with EFFECTS_POSSIBLE, and the others run.
      const report = rollbackOf(run) as readonly { readonly state: string; readonly message?: string }[];
      expect(report.map(({ state }) => state).filter((state) => state === "failed").length).toBeLessThan(2);
      expect(report.every(({ state, message }) => state === "succeeded" || message?.includes("possible"))).toBe(true);
      expect(undone.length).toBeGreaterThanOrEqual(1);
    }
  });

  test("runs when nothing of the failed attempt is under way any more, also with a store that answers slowly", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      await ctx.onRollback(async function undo() { await ctx.act("undo"); });
      for (let n = 0; n < 4; n++) ctx.act("book " + n).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 5));
      throw new Error("failed");
    };`);
    class SlowStore extends MemoryRunStore {
      override async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
        await sleep(20);
        if (entries[0]?.startsWith('{"type":"rollback"') === true) acts.done.push("rollback");
        const isWritten = await super.append(claim, entries);
        await sleep(20);
        return isWritten;
      }
    }
    const runs = open(new SlowStore());
    const run = await runs.start({ toolName });
    expect([run.state, errorOf(run), rollbackOf(run)]).toEqual(["failed", "failed", succeeded(0)]);
    expect(acts.done.slice(acts.done.indexOf("rollback"))).toEqual(["rollback", "undo"]);
    const journal = (await runs.journal(run.id)) as readonly { readonly type: string; readonly input?: string }[];
    const after = journal.slice(journal.findIndex(({ type }) => type === "rollback"));
    expect(after.filter(({ input }) => input?.includes("book") === true)).toEqual([]);
    // Each call that was made is in the journal.
    const booked = acts.done.filter((what) => what.startsWith("book"));
    expect(journal.filter(({ input }) => input?.includes("book") === true).length).toBeGreaterThanOrEqual(
      booked.length,
    );
  });

  test("a function that fails, hangs or waits does not stop the others", async () => {
    const toolName = await addTool(
      `export default async (_, ctx) => {
        await ctx.onRollback(() => ctx.act("first"));
        await ctx.onRollback(() => ctx.waitFor({ durationMs: 1 }));
        await ctx.onRollback(function hangs() { return ctx.act("hang"); });
        await ctx.onRollback(() => { throw new RangeError("broken"); });
        setTimeout(() => ctx.act("late"), 5);
        throw new Error("failed");
      };`,
      { timeoutMs: 6_000 },
    );
    const run = await open().start({ toolName });
    expect([run.state, errorOf(run)]).toEqual(["failed", "failed"]);
    expect(rollbackOf(run)).toMatchObject([
      { index: 3, state: "failed", message: "RangeError: broken" },
      { index: 2, name: "hangs", state: "failed" },
      { index: 1, state: "failed", message: expect.stringContaining("cannot wait") },
      { index: 0, state: "succeeded" },
    ]);
    expect(acts.done).toEqual(["hang", "first"]);
  });

  test("runs after a timeout and a CPU limit as far as the run can be repeated", async () => {
    const slow = await addTool(
      `export default async (_, ctx) => {
        await ctx.onRollback(() => ctx.act("undo"));
        await ctx.act("hang");
      };`,
      { timeoutMs: 6_000 },
    );
    const run = await open().start({ toolName: slow });
    expect([run.result?.success === false && run.result.error.code, rollbackOf(run), acts.done]).toMatchObject([
      ...["TOOL_TIMEOUT", [{ state: "succeeded" }], ["hang", "undo"]],
    ]);
    const busy = await addTool(
      `export default async (_, ctx) => {
        await ctx.onRollback(() => ctx.act("never"));
        while (true);
      };`,
      { cpuMs: 1_000 },
    );
    const stuck = await open().start({ toolName: busy });
    expect([stuck.result?.success === false && stuck.result.error.code, rollbackOf(stuck)]).toMatchObject([
      ...["CPU_LIMIT", [{ state: "not_run" }]],
    ]);
  });

  test("calls of all attempts have ids of their own", async () => {
    const source = `export const capabilities = { waitFor: true, tools: true };
      export default async (_, ctx) => {
        await ctx.onRollback(() => ctx.tools.note({ what: "undo" }));
        await ctx.tools.note({ what: "book" });
        await ctx.waitFor({ approval: "Pay?" });
        await ctx.tools.note({ what: "charge" });
        throw new Error("failed");
      };`;
    await acts.glovebox.addTool({ name: "noting", source }, { grant: ["waitFor", "tools"] });
    await acts.glovebox.addTool({ name: "note", source: "export default ({ what }) => what;" });
    const ids: string[] = [];
    const onStart = ({ callId }: { readonly callId: string }): void => void ids.push(callId);
    const runs = open(undefined, { prepare: async () => ({ nestedCalls: { onStart } }) });
    const { id, waits } = await runs.start({ toolName: "noting" });
    const run = await runs.signal(id, { approval: waits[0]?.id ?? 0, approved: true });
    expect(rollbackOf(run)).toMatchObject([{ state: "succeeded" }]);
    expect([ids.length, new Set(ids).size]).toEqual([3, 3]);
  });

  test("a store that fails while the run is cancelled does not end it", async () => {
    const toolName = await addTool(TRIP);
    class FailingStore extends CrashingStore {
      fails = false;
      override async journal(key: RunKey): Promise<readonly string[]> {
        if (this.fails) throw new Error("The connection is lost");
        return await super.journal(key);
      }
    }
    const store = new FailingStore();
    const runs = open(store);
    const { id } = await runs.start({ toolName });
    store.fails = true;
    await expect(runs.cancel(id)).rejects.toThrow("The connection is lost");
    store.fails = false;
    expect((await runs.get(id))?.state).toBe("running");
    expect(await runs.cancel(id)).toBe(true);
    expect([(await runs.get(id))?.state, acts.done]).toEqual(["cancelled", [...BOOKED, ...UNDONE]]);
  });

  test("runs a function in each attempt, however late it begins", { timeout: 300_000 }, async () => {
    const timeoutMs = 20_000;
    const released = Promise.withResolvers<string>();
    const holding = defineCapability({
      name: "holding",
      inputSchema: z.unknown(),
      outputSchema: z.unknown(),
      handler: () => released.promise,
    });
    await using one = await makeGlovebox({
      limits: { maxConcurrentCalls: 1, timeoutMs: 240_000 },
      capabilities: [holding],
    });
    const holder = "export const capabilities = { holding: true }; export default (_, ctx) => ctx.holding();";
    await one.addTool({ name: "holder", source: holder }, { grant: ["holding"] });
    const failing = `export const capabilities = { waitFor: true };
      export const limits = { timeoutMs: ${timeoutMs} };
      export default async (_, ctx) => {
        await ctx.onRollback(function undo() {});
        throw new Error("failed");
      };`;
    await one.addTool({ name: "failing", source: failing }, { grant: ["waitFor"] });
    const stateOfCall = (name: string): string | undefined =>
      one.listCalls().find(({ toolName }) => toolName === name)?.state;
    let held: Promise<unknown> | undefined;
    /** Another call has the only slot when the rollback begins, for longer than the time in which an attempt begins functions. */
    class HoldingStore extends MemoryRunStore {
      override async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
        if (entries[0]?.startsWith('{"type":"rollback"') === true) {
          held = one.execute({ id: "holder", toolName: "holder" });
          await expect.poll(() => stateOfCall("holder"), { timeout: 200_000 }).toBe("running");
        }
        return await super.append(claim, entries);
      }
    }
    const attempts: unknown[] = [];
    const store = new HoldingStore();
    await using runs = createRuns(one, {
      store,
      pollMs: 0,
      onAttempt: (_, { success }) => void attempts.push(success),
    });
    const ended = runs.start({ toolName: "failing" });
    await expect.poll(() => stateOfCall("failing"), { timeout: 200_000 }).toBe("queued");
    await sleep(timeoutMs / 2 + 500);
    released.resolve("free");
    expect(rollbackOf(await ended)).toEqual(succeeded(0));
    // The run, and the attempt that has rolled it back.
    expect(attempts).toHaveLength(2);
    await held;
  });

  test("is denied outside of a run, and rejects what is not a function", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const codes = [await ctx.onRollback(() => 1).catch((error) => error.code)];
      try { ctx.onRollback("x"); } catch (error) { codes.push(error.name); }
      return codes;
    };`);
    expect(await acts.glovebox.execute({ id: "c", toolName })).toMatchObject({
      output: ["CAPABILITY_DENIED", "TypeError"],
    });
    const forged = await addTool(
      "export default async (_, ctx) => await ctx.waitFor({ rollback: { op: 'done' } }).catch((error) => error.code);",
    );
    const run = await open().start({ toolName: forged });
    expect(run.result).toMatchObject({ success: true, output: "PARAM_INVALID" });
  });
});
