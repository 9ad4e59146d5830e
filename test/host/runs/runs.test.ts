// Durable runs: what suspends them, how they continue, and what is never done twice. A process that dies is a store that takes nothing more from
// it; test/server/runs.test.ts kills real processes.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { NO_USAGE } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { RunsOptions } from "../../../src/host/runs/run-options.ts";
import type { RunClaim, RunKey, RunRecord } from "../../../src/host/runs/run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { failureOf, makeGlovebox } from "../../support/host-zone.ts";
import { CrashingStore } from "./crashing-store.ts";

let glovebox: Glovebox;
let done: string[] = [];
let hold: Promise<void> | undefined;
beforeAll(async () => {
  const act = defineCapability({
    name: "act",
    inputSchema: z.string(),
    outputSchema: z.unknown(),
    handler: async (what) => {
      done.push(what);
      await hold;
      if (what.startsWith("fail")) throw new Error("no");
      return `${what} done`;
    },
  });
  glovebox = await makeGlovebox({ capabilities: [act] });
  const step = "export const annotations = { idempotentHint: true }; export default ({ key }) => 'step ' + key;";
  await glovebox.addTool({ name: "step", source: step });
});
afterAll(() => glovebox.close());
beforeEach(() => {
  done = [];
  hold = undefined;
});

let tools = 0;
async function addTool(body: string): Promise<string> {
  tools += 1;
  const name = `durable${tools}`;
  const source = `export const capabilities = { act: true, kv: true, waitFor: true, tools: true, elicit: true };\n${body}`;
  await glovebox.addTool({ name, source }, { grant: ["act", "kv", "waitFor", "tools", "elicit"] });
  return name;
}

const open = (store: MemoryRunStore = new CrashingStore()): Runs => createRuns(glovebox, { store, pollMs: 0 });
/** State of a run after those whose time has come have continued. */
async function stateOf(runs: Runs, id: string): Promise<string | undefined> {
  await runs.poll();
  return (await runs.get(id))?.state;
}
const outputOf = (run: RunRecord): unknown => {
  if (run.result?.success !== true) throw new Error(`${run.state}: ${JSON.stringify(run.result?.error)}`);
  return run.result.output;
};

describe("a durable run", () => {
  test("is not taken from itself by an event when its lease has ended in an outage", async () => {
    const toolName = await addTool("export default async (_, ctx) => await ctx.act('pay');");
    const answered = Promise.withResolvers<void>();
    hold = answered.promise;
    let laterMs = 0;
    const store = new (class extends MemoryRunStore {
      now = (): number => Date.now() + laterMs;
      override async renew(): Promise<boolean> {
        throw new Error("The store is away");
      }
    })();
    await using runs = createRuns(glovebox, { store, pollMs: 0 });
    const { id, settled } = await runs.begin({ toolName });
    await expect.poll(() => done).toEqual(["pay"]);
    laterMs = 600_000;
    await runs.deliver(id, { event: "x", value: 1 });
    answered.resolve();
    expect(outputOf(await settled)).toBe("pay done");
    expect(done).toEqual(["pay"]);
  });

  test.for([0, 10])(
    "is not taken from itself when its lease has ended in an outage, with pollMs %d",
    async (pollMs) => {
      const toolName = await addTool("export default async (_, ctx) => await ctx.act('pay');");
      const answered = Promise.withResolvers<void>();
      hold = answered.promise;
      let laterMs = 0;
      let polls = 0;
      const store = new (class extends MemoryRunStore {
        now = (): number => Date.now() + laterMs;
        override async due(...args: Parameters<MemoryRunStore["due"]>): ReturnType<MemoryRunStore["due"]> {
          polls += 1;
          return await super.due(...args);
        }
        // The store is away whenever the lease is to be renewed.
        override async renew(): Promise<boolean> {
          throw new Error("The store is away");
        }
      })();
      await using runs = createRuns(glovebox, { store, pollMs });
      const { settled } = await runs.begin({ toolName });
      await expect.poll(() => done).toEqual(["pay"]);
      laterMs = 600_000;
      polls = 0;
      if (pollMs === 0) await runs.poll();
      await expect.poll(() => polls).toBeGreaterThan(pollMs === 0 ? 0 : 2);
      answered.resolve();
      expect(outputOf(await settled)).toBe("pay done");
      expect(done).toEqual(["pay"]);
    },
  );

  test("keeps the first answer to a wait, however soon another one comes", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const asked = ctx.elicit({ message: "n?", requestedSchema: { type: "object", properties: { n: { type: "number" } } } });
      return await Promise.all([ctx.waitFor({ approval: "ok?" }), asked]);
    };`);
    const store = new MemoryRunStore();
    await using runs = open(store);
    const { id, waits } = await runs.start({ toolName });
    const [approval, elicitation] = ["approval", "elicitation"].map(
      (kind) => waits.find((one) => one.kind === kind)?.id,
    );
    const denial = { approval: approval as number, approved: false };
    const answer = (n: number) => ({ elicitation: elicitation as number, action: "accept" as const, content: { n } });
    await runs.deliver(id, denial);
    await runs.deliver(id, denial);
    await runs.deliver(id, answer(1));
    const again = { code: "PARAM_INVALID", message: expect.stringContaining("answered before") };
    await expect(runs.deliver(id, { ...denial, approved: true })).rejects.toMatchObject(again);
    await expect(runs.deliver(id, answer(2))).rejects.toMatchObject(again);
    // As if two callers had answered at the same moment.
    await store.appendEvent(
      { tenantId: "default", id },
      JSON.stringify({ type: "decision", wait: approval, approved: true }),
    );
    const ended = await runs.resume(id);
    const content = { action: "accept", content: { n: 1 } };
    expect(outputOf(ended as RunRecord)).toEqual([{ approved: false, reason: null }, content]);
  });

  test("waits for an event, an approval and a time without a process, and has the same clock and random numbers later", async () => {
    const toolName = await addTool(`
      const top = Math.random();
      export default async ({ amount }, ctx) => {
        const began = [Date.now(), Math.random()];
        const first = await ctx.act("charge");
        const paid = await ctx.waitFor({ event: "paid" });
        const { approved, reason } = await ctx.waitFor({ approval: "Refund " + amount });
        await ctx.waitFor({ durationMs: 1 });
        return { top, began, first, paid, approved, reason, last: await ctx.act("refund") };
      };`);
    const store = new CrashingStore();
    let runs = open(store);
    const run = await runs.start({ toolName, arguments: { amount: 5 }, id: "r1" });
    expect(run).toMatchObject({ state: "suspended", waits: [{ id: 2, kind: "event", name: "paid" }] });
    expect(glovebox.listCalls()).toEqual([]);
    await runs.close();
    runs = open(store);
    expect(await runs.signal("r1", { event: "other", value: 1 })).toMatchObject({ state: "suspended" });
    const waiting = await runs.signal("r1", { event: "paid", value: { by: "card" } });
    expect(waiting.waits).toEqual([{ id: 3, kind: "approval", message: "Refund 5" }]);
    const slept = await runs.signal("r1", { approval: 3, approved: true, reason: "fine" });
    expect(["suspended", "succeeded"]).toContain(slept.state);
    await expect.poll(() => stateOf(runs, "r1"), { timeout: 200_000 }).toBe("succeeded");
    const ended = (await runs.get("r1")) as RunRecord;
    expect(outputOf(ended)).toMatchObject({
      first: "charge done",
      paid: { by: "card" },
      approved: true,
      reason: "fine",
      last: "refund done",
    });
    expect(done).toEqual(["charge", "refund"]);
    const [start] = (await runs.journal("r1")) as readonly { readonly now: number }[];
    const { began } = outputOf(ended) as { readonly began: readonly [number, number] };
    expect(began[0]).toBeGreaterThanOrEqual(start?.now ?? Number.NaN);
    expect(await failureOf(runs.signal("r1", { event: "paid" }))).toMatchObject({ code: "TOOL_UNAVAILABLE" });
  });

  test("rejects an answer to a wait that it does not have yet", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      await ctx.waitFor({ event: "go" });
      const { approved } = await ctx.waitFor({ approval: "Pay?" });
      const { action } = await ctx.elicit({ mode: "url", message: "Pay", url: "https://pay.example" });
      return { approved, action };
    };`);
    const runs = open();
    const { id } = await runs.start({ toolName });
    const approval = { approval: 2, approved: true };
    for (const signal of [approval, { approval: 1, approved: true }, { elicitation: 3, action: "accept" } as const]) {
      const kind = Object.keys(signal)[0];
      const message = `signal.${kind}: The run has no ${kind} with the id ${Object.values(signal)[0]}`;
      expect(await failureOf(runs.signal(id, signal))).toMatchObject({ code: "PARAM_INVALID", message });
      expect(await failureOf(runs.deliver(id, signal))).toMatchObject({ code: "PARAM_INVALID", message });
    }
    expect(await runs.signal(id, { event: "go" })).toMatchObject({ state: "suspended", waits: [{ id: 2 }] });
    expect(await runs.signal(id, approval)).toMatchObject({ state: "suspended", waits: [{ id: 3 }] });
    const ended = await runs.signal(id, { elicitation: 3, action: "accept" });
    expect(outputOf(ended)).toEqual({ approved: true, action: "accept" });
  });

  test("ignores an answer that its journal has before the question", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      await ctx.waitFor({ event: "go" });
      const { approved } = await ctx.waitFor({ approval: "Pay?" });
      const { action } = await ctx.elicit({ mode: "url", message: "Pay", url: "https://pay.example" });
      return { approved, action };
    };`);
    const store = new CrashingStore();
    const runs = open(store);
    const { id, tenantId } = await runs.start({ toolName });
    await store.appendEvent({ tenantId, id }, '{"type":"decision","wait":2,"approved":true}');
    await store.appendEvent({ tenantId, id }, '{"type":"elicited","wait":3,"action":"accept"}');
    expect(await runs.signal(id, { event: "go" })).toMatchObject({ state: "suspended", waits: [{ id: 2 }] });
    const asked = await runs.signal(id, { approval: 2, approved: false });
    expect(asked).toMatchObject({ state: "suspended", waits: [{ id: 3 }] });
    const ended = await runs.signal(id, { elicitation: 3, action: "decline" });
    expect(outputOf(ended)).toEqual({ approved: false, action: "decline" });
  });

  test("keeps an event that comes before its wait, and gives each event to one wait", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const first = await ctx.waitFor({ event: "go" });
      return [first, ...(await Promise.all([ctx.waitFor({ event: "a" }), ctx.waitFor({ event: "a" })]))];
    };`);
    const runs = open();
    const { id } = await runs.start({ toolName });
    for (const value of [1, 2]) await runs.signal(id, { event: "a", value });
    const run = await runs.signal(id, { event: "go", value: 0 });
    expect(outputOf(run)).toEqual([0, 1, 2]);
  });

  test("a wait with a timeout rejects, and a race takes what comes first", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const raced = await Promise.race([ctx.waitFor({ event: "never" }), ctx.waitFor({ durationMs: 5 }).then(() => "time")]);
      const late = await ctx.waitFor({ event: "never", timeoutMs: 1 }).catch((error) => error.code);
      return [raced, late];
    };`);
    const runs = open();
    const { id } = await runs.start({ toolName });
    await expect.poll(() => stateOf(runs, id), { timeout: 200_000 }).toBe("succeeded");
    expect(outputOf((await runs.get(id)) as RunRecord)).toEqual(["time", "TOOL_TIMEOUT"]);
  });

  test("a call that was under way at a crash is an error that the tool can handle, and is not made again", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const first = await ctx.act("one");
      return [first, await ctx.act("two").catch((error) => error.code), await ctx.tools.step({ key: "x" })];
    };`);
    const store = new CrashingStore();
    const died = open(store);
    // start, turns, request, answer, turns, request: then the answer of the second call is lost.
    let crashed: RunRecord | undefined;
    for (
      let appends = 4;
      crashed?.state !== "succeeded" || !JSON.stringify(crashed.result).includes("EFFECTS");
      appends += 1
    ) {
      expect(appends).toBeLessThan(12);
      done = [];
      store.crashAfter(appends);
      const id = `r${appends}`;
      await died.start({ toolName, id }).catch(() => undefined);
      store.crashAfter(Number.POSITIVE_INFINITY);
      crashed = await open(store).resume(id);
      expect(done.filter((what) => what === "one")).toEqual(["one"]);
    }
    expect(outputOf(crashed)).toEqual(["one done", "EFFECTS_POSSIBLE", "step x"]);
    expect(done).toEqual(["one", "two"]);
  });

  test("does not continue on other code, and says where it differs from its journal", async () => {
    const toolName = await addTool(
      "export default async (_, ctx) => [await ctx.act('a'), await ctx.waitFor({ event: 'go' })];",
    );
    const runs = open();
    const { id } = await runs.start({ toolName });
    await glovebox.updateTool(
      { name: toolName, source: "export const capabilities = { waitFor: true }; export default () => 1" },
      { grant: ["waitFor"] },
    );
    const run = await runs.signal(id, { event: "go" });
    expect([run.state, run.result?.success === false && run.result.error.code]).toEqual(["failed", "TOOL_UNAVAILABLE"]);
  });

  test("a journal that was changed is a divergence with the position of the call", async () => {
    const toolName = await addTool(
      "export default async (_, ctx) => [await ctx.act('a'), await ctx.waitFor({ event: 'go' })];",
    );
    class Changed extends CrashingStore {
      override async journal(key: RunKey): Promise<readonly string[]> {
        return (await super.journal(key)).map((text) => text.replace('"name":"act"', '"name":"log"'));
      }
    }
    const runs = open(new Changed());
    const { id } = await runs.start({ toolName });
    const run = await runs.signal(id, { event: "go" });
    expect(run.result).toMatchObject({ success: false, error: { code: "REPLAY_DIVERGED", details: { position: 1 } } });
  });

  test("is limited in its journal, its lifetime and the number of a tenant's open runs", async () => {
    const toolName = await addTool(
      "export default async ({ n }, ctx) => { for (let i = 0; i < n; i += 1) await ctx.act('x'.repeat(500)); return await ctx.waitFor({ event: 'go' }); };",
    );
    const store = new CrashingStore();
    const runs = createRuns(glovebox, { store, pollMs: 0, maxJournalLength: 20_000, maxOpen: 2 });
    const long = await runs.start({ toolName, arguments: { n: 100 } });
    expect(long.result).toMatchObject({ success: false, error: { code: "QUOTA_EXCEEDED" } });
    await runs.start({ toolName, arguments: { n: 0 }, id: "a" });
    await runs.start({ toolName, arguments: { n: 0 }, id: "b" });
    expect(await failureOf(runs.start({ toolName }))).toMatchObject({ code: "QUOTA_EXCEEDED" });
    expect(await failureOf(runs.start({ toolName, id: "a" }))).toMatchObject({ code: "NAME_TAKEN" });
    expect(await runs.cancel("a")).toBe(true);
    expect(await runs.cancel("a")).toBe(false);
    const cancelled = { success: false, usage: NO_USAGE, logs: [], error: { code: "CANCELLED" } };
    expect((await runs.get("a"))?.result).toMatchObject(cancelled);
    expect((await runs.list({ state: "suspended" })).map(({ id }) => id)).toEqual(["b"]);
    const short = createRuns(glovebox, { store: new CrashingStore(), pollMs: 0, lifetimeMs: 1 });
    const { id } = await short.start({ toolName, arguments: { n: 0 } });
    await expect.poll(() => stateOf(short, id), { timeout: 200_000 }).toBe("failed");
  });

  test("costs no CPU time while it waits, also if it has waited for a capability before", async () => {
    const toolName = await addTool(
      "export default async (_, ctx) => { await ctx.act('long'); return await ctx.waitFor({ event: 'go' }); };",
    );
    const waitMs = 2_000;
    hold = sleep(waitMs);
    const attempts: number[] = [];
    const onAttempt: RunsOptions["onAttempt"] = (_, { usage }) => void attempts.push(usage.cpuMs);
    const runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 0, onAttempt });
    const { id } = await runs.start({ toolName });
    expect((await runs.signal(id, { event: "go", value: null })).state).toBe("succeeded");
    expect(attempts).toHaveLength(2);
    for (const cpuMs of attempts) expect(cpuMs).toBeLessThan(waitMs / 2);
    await runs.close();
  });

  test("a host prepares each attempt, sets the limits of a tenant, and hears of each attempt", async () => {
    const toolName = await addTool("export default async (_, ctx) => await ctx.waitFor({ event: 'go' });");
    const store = new MemoryRunStore();
    const attempts: unknown[] = [];
    let failure: Error | undefined;
    const runs = createRuns(glovebox, {
      store,
      pollMs: 0,
      tenantLimits: async () => ({ maxOpen: 1 }),
      prepare: async (run) => {
        if (failure !== undefined) throw failure;
        return { callId: `${run.id}.${run.fence}` };
      },
      onAttempt: (run, { callId, success }, isSuspended) => attempts.push([run.id, callId, success, isSuspended]),
    });
    const { id, settled } = await runs.begin({ toolName, id: "prepared" });
    expect([id, (await settled).state]).toEqual(["prepared", "suspended"]);
    expect(await failureOf(runs.start({ toolName }))).toMatchObject({ code: "QUOTA_EXCEEDED" });
    failure = new Error("The database is away");
    await expect(runs.signal(id, { event: "go", value: 1 })).rejects.toThrow("The database is away");
    expect((await runs.get(id))?.state).toBe("running");
    await store.renew({ tenantId: "default", id, fence: 2 }, 0);
    failure = undefined;
    const ended = await runs.resume(id);
    expect([ended?.state, ended?.result?.callId]).toEqual(["succeeded", id]);
    expect(attempts).toEqual([
      [id, "prepared.1", false, true],
      [id, "prepared.3", true, false],
    ]);
    failure = new ToolError("TOOL_UNAVAILABLE", "It was removed");
    const failed = await runs.start({ toolName, id: "removed" });
    expect([failed.state, failed.result]).toMatchObject(["failed", { error: { code: "TOOL_UNAVAILABLE" } }]);
    const wrong = createRuns(glovebox, { store, pollMs: 0, tenantLimits: () => ({ maxOpen: "many" }) as never });
    expect(await failureOf(wrong.start({ toolName }))).toMatchObject({ code: "PARAM_INVALID" });
  });

  test("waits instead of failing while the host has no room for it", async () => {
    await using small = await makeGlovebox({
      limits: { maxConcurrentCalls: 1, maxQueuedCalls: 1 },
      workers: { max: 1 },
    });
    const source =
      "export const capabilities = { waitFor: true }; export default async (_, ctx) => await ctx.waitFor({ event: 'go' });";
    await small.addTool({ name: "small", source }, { grant: ["waitFor"] });
    await using runs = createRuns(small, { store: new MemoryRunStore(), pollMs: 0 });
    const begun = await Promise.all(Array.from({ length: 10 }, () => runs.start({ toolName: "small" })));
    expect(begun.map(({ state }) => state)).toEqual(begun.map(() => "suspended"));
    expect(begun.some(({ waits }) => waits.length === 0)).toBe(true);
    const waiting = async (): Promise<number> => {
      await runs.poll();
      return (await runs.list({ limit: 100 })).filter(({ waits }) => waits.length === 1).length;
    };
    await expect.poll(waiting, { interval: 500 }).toBe(10);
  });

  test("waits instead of failing when its time is over before a process is free for it", async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const holding = defineCapability({
      name: "holding",
      inputSchema: z.unknown(),
      outputSchema: z.unknown(),
      handler: async () => {
        await held;
        return null;
      },
    });
    await using one = await makeGlovebox({
      limits: { maxConcurrentCalls: 1, timeoutMs: 120_000 },
      capabilities: [holding],
    });
    const holder = "export const capabilities = { holding: true }; export default (_, ctx) => ctx.holding();";
    await one.addTool({ name: "holder", source: holder }, { grant: ["holding"] });
    await one.addTool({
      name: "waiting",
      source: "export const limits = { timeoutMs: 5_000 }; export default () => 'done';",
    });
    await using runs = createRuns(one, { store: new MemoryRunStore(), pollMs: 0 });
    const first = one.execute({ id: "holder", toolName: "holder" });
    await expect.poll(() => one.listCalls()[0]?.state, { timeout: 200_000 }).toBe("running");
    const run = await runs.start({ toolName: "waiting" });
    expect(run.state).toBe("suspended");
    release();
    expect((await first).success).toBe(true);
    await expect.poll(() => stateOf(runs, run.id), { timeout: 200_000 }).toBe("succeeded");
  });

  test("continues after its store has failed once, wherever that was", async () => {
    const toolName = await addTool(
      "export default async (_, ctx) => [await ctx.tools.step({ key: 'a' }), await ctx.tools.step({ key: 'b' })];",
    );
    class FailingStore extends MemoryRunStore {
      #left: number;
      readonly #isStored: boolean;
      constructor(failsAt: number, isStored: boolean) {
        super();
        this.#left = failsAt;
        this.#isStored = isStored;
      }
      override async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
        this.#left -= 1;
        if (this.#left !== 0) return await super.append(claim, entries);
        if (this.#isStored) await super.append(claim, entries);
        throw new Error("The connection is lost");
      }
    }
    const cases = Array.from({ length: 6 }, (_, index) => [index + 1, index % 2 === 0] as const);
    const ends = cases.map(async ([failsAt, isStored]) => {
      const errors: unknown[] = [];
      const store = new FailingStore(failsAt, isStored);
      await using runs = createRuns(glovebox, { store, pollMs: 0, onError: (error) => void errors.push(error) });
      const { id } = await runs.start({ toolName });
      await expect.poll(() => stateOf(runs, id), { timeout: 200_000 }).toBe("succeeded");
      const message = "The journal of the run could not be written";
      expect([outputOf((await runs.get(id)) as RunRecord), errors]).toMatchObject([
        ["step a", "step b"],
        [{ message }],
      ]);
    });
    await Promise.all(ends);
  });

  test("continues after the rule for approvals has failed", async () => {
    const toolName = await addTool("export default (_, ctx) => ctx.tools.step({ key: 'a' });");
    let failures = 0;
    const approvalOf = async (): Promise<undefined> => {
      failures += 1;
      if (failures === 1) throw new Error("The connection is lost");
    };
    await using runs = createRuns(glovebox, {
      store: new MemoryRunStore(),
      pollMs: 0,
      prepare: async () => ({ approvalOf }),
    });
    const { id } = await runs.start({ toolName });
    await expect.poll(() => stateOf(runs, id), { timeout: 200_000 }).toBe("succeeded");
  });

  test("a wait for a time ends also while a call of the run is under way", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const acted = ctx.act("slow");
      const first = await Promise.race([acted, ctx.waitFor({ durationMs: 50 }).then(() => "time")]);
      return [first, await ctx.act("quick"), await acted];
    };`);
    const { promise, resolve: release } = Promise.withResolvers<void>();
    hold = promise;
    const ended = open().start({ toolName });
    // The second call begins when the time is over, although the first one is under way.
    await expect.poll(() => done, { timeout: 200_000 }).toEqual(["slow", "quick"]);
    release();
    expect(outputOf(await ended)).toEqual(["time", "quick done", "slow done"]);
  });

  test("its overdue timers fire in the order of their times when it continues", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const sleep = (ms, value) => new Promise((resolve) => setTimeout(() => resolve(value), ms));
      const race = Promise.race([sleep(1_200_000, "timeout"), sleep(600_000, "done")]);
      await ctx.act("one");
      await ctx.act("two").catch(() => {});
      return await race;
    };`);
    /** Returns the journal of a run that began an hour earlier. */
    class EarlierStore extends CrashingStore {
      override async journal(key: RunKey): Promise<readonly string[]> {
        return (await super.journal(key)).map((text) => {
          const entry = JSON.parse(text);
          if (entry.type === "start") entry.now -= 3_600_000;
          if (entry.type === "turns") for (const turn of entry.turns) turn[1] -= 3_600_000;
          return JSON.stringify(entry);
        });
      }
      override async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
        if (entries[0]?.startsWith('{"type":"answer","id":2') === true && !done.includes("crash")) {
          done.push("crash");
          this.crashAfter(0);
        }
        return await super.append(claim, entries);
      }
    }
    const store = new EarlierStore();
    await expect(open(store).start({ toolName, id: "timers" })).rejects.toThrow("died");
    store.crashAfter(Number.POSITIVE_INFINITY);
    expect(outputOf((await open(store).resume("timers")) as RunRecord)).toBe("done");
  });

  test("says that a timer kept a wait from suspending it", async () => {
    const toolName = await addTool(`export const limits = { timeoutMs: 2_000 };
      export default async (_, ctx) => {
        setTimeout(() => {}, 600_000);
        return await ctx.waitFor({ event: "go" });
      };`);
    const { state, result } = await open().start({ toolName });
    const message = expect.stringMatching(
      /2000 ms .* It waited for the event "go", but a timer or a call was under way/,
    );
    expect([state, result]).toMatchObject(["failed", { error: { code: "TOOL_TIMEOUT", message } }]);
  });

  test("a call that is not a run cannot wait", async () => {
    const toolName = await addTool("export default (_, ctx) => ctx.waitFor({ event: 'go' });");
    const result = await glovebox.execute({ id: "c", toolName });
    expect(result).toMatchObject({ success: false, error: { code: "CAPABILITY_DENIED" } });
    const forged = await glovebox.execute({ id: "c", toolName }, { run: {} } as never);
    expect(forged).toMatchObject({ success: false, error: { code: "PARAM_INVALID" } });
  });

  test("ctx.elicit without a client waits for an answer that matches the form", async () => {
    const requestedSchema = { type: "object", properties: { size: { type: "number" } }, required: ["size"] };
    const toolName = await addTool(`export default async (_, ctx) => [
      await ctx.elicit({ message: "Size?", requestedSchema: ${JSON.stringify(requestedSchema)} }),
      await ctx.elicit({ mode: "url", message: "Pay", url: "https://pay.example" }),
      await ctx.elicit({ message: 5 }).catch((error) => error.code),
    ];`);
    const runs = open();
    const { id, waits } = await runs.start({ toolName });
    expect(waits).toEqual([{ id: 1, kind: "elicitation", message: "Size?", requestedSchema }]);
    const answer = (content: unknown): Promise<RunRecord> =>
      runs.signal(id, { elicitation: 1, action: "accept", content });
    for (const content of [{}, { size: "large" }, undefined, 5])
      expect(await failureOf(answer(content))).toMatchObject({ code: "PARAM_INVALID" });
    expect(await failureOf(runs.signal(id, { elicitation: 9, action: "decline" }))).toMatchObject({
      code: "PARAM_INVALID",
    });
    const page = await answer({ size: 5 });
    expect(page.waits).toMatchObject([{ id: 2, kind: "elicitation", message: "Pay", url: "https://pay.example" }]);
    const ended = await runs.signal(id, { elicitation: 2, action: "decline" });
    expect(outputOf(ended)).toEqual([
      ...[{ action: "accept", content: { size: 5 } }, { action: "decline" }, "PARAM_INVALID"],
    ]);
  });

  test("a connected client answers ctx.elicit at once", async () => {
    const toolName = await addTool(
      "export default (_, ctx) => ctx.elicit({ mode: 'url', message: 'Pay', url: 'https://pay.example' });",
    );
    const elicit = async () => ({ action: "accept" as const });
    const runs = createRuns(glovebox, {
      store: new CrashingStore(),
      pollMs: 0,
      prepare: async () => ({ client: { elicit } }),
    });
    expect(outputOf(await runs.start({ toolName }))).toEqual({ action: "accept" });
  });

  test("is suspended for another wait after a client has answered ctx.elicit", async () => {
    const toolName = await addTool(`export default async (_, ctx) => {
      const asked = ctx.elicit({ mode: "url", message: "Pay", url: "https://pay.example" });
      return await Promise.all([ctx.waitFor({ event: "go" }), asked]);
    };`);
    const store = new CrashingStore();
    /** Answers when the journal has the wait. */
    const elicit = async (): Promise<{ readonly action: "accept" }> => {
      await expect.poll(() => store.appended.join("\n"), { timeout: 200_000 }).toContain('"name":"go"');
      return { action: "accept" };
    };
    store.crashAfter(Number.POSITIVE_INFINITY);
    await using runs = createRuns(glovebox, { store, pollMs: 0, prepare: async () => ({ client: { elicit } }) });
    const run = await runs.start({ toolName });
    expect([run.state, run.waits]).toMatchObject(["suspended", [{ kind: "event", name: "go" }]]);
    expect(outputOf(await runs.signal(run.id, { event: "go", value: 1 }))).toEqual([1, { action: "accept" }]);
  });

  test("waits for the answer to ctx.elicit if the process ends before the client has answered", async () => {
    const form = "{ type: 'object', properties: { n: { type: 'integer' } } }";
    const toolName = await addTool(
      `export default async (_, ctx) => (await ctx.elicit({ message: 'How many?', requestedSchema: ${form} })).content.n;`,
    );
    const store = new CrashingStore();
    const asked = Promise.withResolvers<void>();
    const elicit = (): Promise<never> => {
      asked.resolve();
      return new Promise(() => {});
    };
    const first = createRuns(glovebox, { store, pollMs: 0, prepare: async () => ({ client: { elicit } }) });
    const { id } = await first.begin({ toolName });
    await asked.promise;
    await first.close();
    const runs = open(store);
    const run = await runs.resume(id);
    expect(run).toMatchObject({ state: "suspended", waits: [{ kind: "elicitation", message: "How many?" }] });
    const answer = { elicitation: run?.waits[0]?.id ?? 0, action: "accept", content: { n: 4 } } as const;
    expect(outputOf(await runs.signal(id, answer))).toBe(4);
  });

  test("a run of another engine fails with a reason, or is tried", async () => {
    const toolName = await addTool("export default (_, ctx) => ctx.waitFor({ event: 'go' });");
    class Other extends CrashingStore {
      override async journal(key: RunKey): Promise<readonly string[]> {
        return (await super.journal(key)).map((text) => text.replace(/"v8":"[^"]*"/, '"v8":"9.1.2"'));
      }
    }
    const store = new Other();
    const [failing, tried] = [await open(store).start({ toolName }), await open(store).start({ toolName })];
    const failed = await open(store).signal(failing.id, { event: "go" });
    expect(failed.result).toMatchObject({
      error: { code: "TOOL_UNAVAILABLE", details: { reason: "engine_version", expected: { v8: "9.1" } } },
    });
    const trying = createRuns(glovebox, { store, pollMs: 0, otherEngines: "try" });
    expect(outputOf(await trying.signal(tried.id, { event: "go", value: 3 }))).toBe(3);
  });

  test("takes no value that its journal could not be read with, or has no room for", async () => {
    const toolName = await addTool("export default (_, ctx) => ctx.waitFor({ event: 'go' });");
    const runs = createRuns(glovebox, { store: new CrashingStore(), pollMs: 0, maxJournalLength: 20_000 });
    const { id } = await runs.start({ toolName });
    const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth));
    const cycle: unknown[] = [];
    cycle.push(cycle);
    for (const value of [nested(1_001), nested(4_000), cycle, 1n]) {
      const { code, message } = await failureOf(runs.signal(id, { event: "go", value }));
      expect([code, message]).toEqual(["PARAM_INVALID", expect.stringMatching(/^signal\.value: expected /i)]);
    }
    expect((await failureOf(runs.signal(id, { event: "go", value: "x".repeat(20_000) }))).code).toBe("QUOTA_EXCEEDED");
    expect((await runs.get(id))?.state).toBe("suspended");
    expect(outputOf(await runs.signal(id, { event: "go", value: nested(100) }))).toEqual(nested(100));
  });

  test("one whose journal cannot be read ends when it is cancelled, and when its time is over", async () => {
    const toolName = await addTool("export default (_, ctx) => ctx.waitFor({ event: 'go' });");
    class TimedStore extends CrashingStore {
      time = Date.now();
      now(): number {
        return this.time;
      }
    }
    const store = new TimedStore();
    const runs = createRuns(glovebox, { store, pollMs: 0, lifetimeMs: 1_000_000 });
    for (const isCancelled of [true, false]) {
      const { id } = await runs.start({ toolName });
      await store.appendEvent({ tenantId: "default", id }, JSON.stringify({ type: "of a later release" }));
      expect((await failureOf(runs.resume(id))).code).toBe("INTERNAL");
      expect((await runs.get(id))?.state).toBe("suspended");
      if (!isCancelled) store.time += 1_000_000;
      expect(await (isCancelled ? runs.cancel(id) : runs.resume(id))).toBeTruthy();
      const run = await runs.get(id);
      expect([run?.state, run?.result]).toMatchObject(["failed", { error: { code: "INTERNAL" } }]);
    }
  });

  test("one that is cancelled while it begins to wait ends", async () => {
    const toolName = await addTool("export default (_, ctx) => ctx.waitFor({ event: 'go' });");
    const cancelled: boolean[] = [];
    class SlowStore extends MemoryRunStore {
      override async release(...args: Parameters<MemoryRunStore["release"]>): ReturnType<MemoryRunStore["release"]> {
        // The cancellation comes while the suspension is on its way to the store.
        if (cancelled.length === 0) cancelled.push(await runs.cancel(args[0].id));
        return await super.release(...args);
      }
    }
    const runs: Runs = open(new SlowStore());
    const run = await runs.start({ toolName });
    expect([cancelled, run.state, run.result]).toMatchObject([[true], "cancelled", { error: { code: "CANCELLED" } }]);
  });

  test("one with too many turns to be repeated fails with a reason", { timeout: 300_000 }, async () => {
    await using patient = await makeGlovebox({ limits: { timeoutMs: 240_000, cpuMs: 200_000 } });
    const source = `
      export const capabilities = { kv: true };
      const next = () => new Promise((resolve) => setTimeout(resolve, 0));
      export default async (_, ctx) => {
        await Promise.all(Array.from({ length: 1000 }, async () => { for (let n = 0; n < 150; n++) await next(); }));
        return await ctx.kv.set("never", 1);
      };`;
    await patient.addTool({ name: "turns", source }, { grant: ["kv"] });
    const store = new MemoryRunStore();
    const run = await createRuns(patient, { store, pollMs: 0 }).start({ toolName: "turns" });
    expect([run.state, run.result]).toMatchObject([
      ...["failed", { error: { code: "QUOTA_EXCEEDED", message: expect.stringContaining("too many turns") } }],
    ]);
    expect((await store.journal({ tenantId: "default", id: run.id })).join()).not.toContain("never");
  });

  test("a tool with durable: true runs only as a run", async () => {
    const toolName = await addTool(
      "export const durable = true; export default async (_, ctx) => await ctx.waitFor({ event: 'go' });",
    );
    expect((await glovebox.listTools()).find(({ name }) => name === toolName)).toMatchObject({ durable: true });
    const called = await glovebox.execute({ id: "c", toolName });
    expect(called).toMatchObject({ error: { code: "TOOL_UNAVAILABLE", details: { reason: "needs_run" } } });
    const nested = await addTool(`export default (_, ctx) => ctx.tools.${toolName}().catch((error) => error.code);`);
    expect(await glovebox.execute({ id: "c", toolName: nested })).toMatchObject({ output: "TOOL_UNAVAILABLE" });
    const runs = open();
    const { id, state } = await runs.start({ toolName });
    expect([state, outputOf(await runs.signal(id, { event: "go", value: 7 }))]).toEqual(["suspended", 7]);
    const wrong = glovebox.inspectTool({ name: "x", source: "export const durable = 1; export default () => 1" });
    expect((await failureOf(wrong)).code).toBe("BUNDLE_FAILED");
  });

  test("50 claimers continue it once", async () => {
    const toolName = await addTool(
      "export default async (_, ctx) => { await ctx.waitFor({ event: 'go' }); return await ctx.act('once'); };",
    );
    const store = new MemoryRunStore();
    const runs = open(store);
    const { id } = await runs.start({ toolName });
    await store.appendEvent({ tenantId: "default", id }, JSON.stringify({ type: "event", name: "go", value: 1 }));
    const claimed = await Promise.all(Array.from({ length: 50 }, () => open(store).resume(id)));
    expect([claimed.filter((run) => run !== undefined).length, done]).toEqual([1, ["once"]]);
  });

  test("is waited for by each of those that continue it in the same object", async () => {
    const toolName = await addTool(
      "export default async (_, ctx) => { await ctx.waitFor({ event: 'go' }); return await ctx.act('once'); };",
    );
    const runs = open(new MemoryRunStore());
    const { id } = await runs.start({ toolName });
    await runs.deliver(id, { event: "go", value: 1 });
    const held = Promise.withResolvers<void>();
    hold = held.promise;
    const continued = [runs.poll(), runs.resume(id), runs.resume(id)];
    await expect.poll(() => done).toEqual(["once"]);
    held.resolve();
    const [, ...resumed] = await Promise.all(continued);
    expect(resumed).toMatchObject([{ state: "succeeded" }, { state: "succeeded" }]);
    expect(done).toEqual(["once"]);
  });
});
