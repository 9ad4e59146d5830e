// Agent loops with a journal: a loop whose process died at any point goes on in another one, asks the model for no turn twice, and makes no call twice.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  AgentLoop,
  type AgentOutcome,
  type Message,
  type Model,
  type ModelEvent,
  openAgentJournal,
} from "../../../src/host/agent/index.ts";
import { NO_USAGE } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { RunClaim } from "../../../src/host/runs/run-store.ts";
import { failureOf, makeGlovebox } from "../../support/host-zone.ts";
import { call, callEvent, finish, textEvent } from "../../support/scripted-model.ts";
import { CrashingStore } from "../runs/crashing-store.ts";

let glovebox: Glovebox;
let effects: string[] = [];
let asked: string[] = [];
beforeAll(async () => {
  glovebox = await makeGlovebox();
  const effect = (input: unknown): unknown => {
    effects.push(String((input as { readonly what: unknown }).what));
    return { done: effects.at(-1) };
  };
  glovebox.router.register("effect", { description: "Has an effect" }, effect);
  glovebox.router.register(
    "read",
    { description: "Reads", annotations: { readOnlyHint: true } },
    () => new Uint8Array([1]),
  );
});
afterAll(() => glovebox.close());
beforeEach(() => {
  effects = [];
  asked = [];
});

const messages: readonly Message[] = [{ role: "user", content: "Do it" }];
const [one, two, three] = [
  call("c1", "effect", { what: "one" }),
  call("c2", "read"),
  call("c3", "effect", { what: "two" }),
];
const turns: readonly (readonly ModelEvent[])[] = [
  [textEvent("I will"), callEvent(one), callEvent(two), finish(["I will", one, two])],
  [callEvent(three), finish([three])],
  [textEvent("Done"), finish(["Done"])],
];
/** Answers by the number of turns in the conversation. */
const model: Model = async function* (request) {
  const index = request.messages.filter(({ role }) => role === "assistant").length;
  asked.push(`turn ${index}`);
  yield* turns[index] ?? [];
};

async function run(store: CrashingStore): Promise<AgentOutcome> {
  await using journal = await openAgentJournal({ store, id: "a" });
  const loop = new AgentLoop({ model: journal.model(model), router: journal.router(glovebox) });
  const outcome = await loop.run({ messages });
  // A process that has died ends nothing.
  if (outcome.status === "finished") await journal.end(outcome);
  return outcome;
}

test("a loop that nothing stops is stored with its end", async () => {
  const store = new CrashingStore();
  expect(await run(store)).toMatchObject({ status: "finished", text: "Done" });
  expect([asked, effects]).toEqual([
    ["turn 0", "turn 1", "turn 2"],
    ["one", "two"],
  ]);
  expect(await store.find({ tenantId: "default", id: "a" })).toMatchObject({
    state: "succeeded",
    result: { success: true, output: "Done", usage: NO_USAGE },
  });
  expect(await failureOf(openAgentJournal({ store, id: "a" }))).toMatchObject({ code: "TOOL_UNAVAILABLE" });
});

test("goes on after a crash at every point, and repeats neither turns nor calls", async () => {
  const counting = new CrashingStore();
  await run(counting);
  const total = counting.appends;
  expect(total).toBe(9);
  for (let appends = 0; appends < total; appends += 1) {
    const store = new CrashingStore();
    effects = [];
    asked = [];
    store.crashAfter(appends);
    await run(store).catch(() => undefined);
    store.crashAfter(Number.POSITIVE_INFINITY);
    const outcome = await run(store);
    expect([appends, outcome.status, outcome.text]).toEqual([appends, "finished", "Done"]);
    expect([appends, effects]).toEqual([appends, ["one", "two"]]);
    // Only the turn that the journal did not take is asked for again.
    const repeated = asked.length - new Set(asked).size;
    expect([appends, repeated]).toEqual([appends, repeated > 0 ? 1 : 0]);
    const failed = outcome.messages.filter((message) => message.role === "tool" && !message.result.success);
    for (const message of failed)
      expect(message).toMatchObject({ result: { error: { code: "TOOL_FAILED", details: { effects: "possible" } } } });
    expect(failed.length).toBeLessThan(2);
  }
});

test("does not repeat a call because a server that is not trusted says that it may", async () => {
  const origin = { server: "up", toolName: "pay", isTrusted: false };
  glovebox.router.register("pay", { annotations: { readOnlyHint: true }, origin }, () => effects.push("paid"));
  const pay = call("c1", "pay", {});
  const turn: readonly ModelEvent[] = [callEvent(pay), finish([pay])];
  const payOnce: Model = async function* ({ messages: { length } }) {
    yield* length === 1 ? turn : [textEvent("Done"), finish(["Done"])];
  };
  const store = new CrashingStore();
  const runAgain = async (): Promise<AgentOutcome> => {
    await using journal = await openAgentJournal({ store, id: "a" });
    return await new AgentLoop({ model: journal.model(payOnce), router: journal.router(glovebox) }).run({ messages });
  };
  // The turn and the beginning of the call are stored, its result is not.
  store.crashAfter(2);
  await runAgain().catch(() => undefined);
  store.crashAfter(Number.POSITIVE_INFINITY);
  const outcome = await runAgain();
  expect(outcome.messages.find(({ role }) => role === "tool")).toMatchObject({
    result: { error: { code: "TOOL_FAILED", details: { effects: "possible" } } },
  });
  expect(effects).toEqual(["paid"]);
  await glovebox.removeTool("pay");
});

test("makes no call of a turn whose stream ends before the turn is over", async () => {
  const store = new CrashingStore();
  await using journal = await openAgentJournal({ store, id: "a" });
  const broken: Model = async function* () {
    yield textEvent("I will");
    yield callEvent(one);
  };
  const outcome = await new AgentLoop({ model: journal.model(broken), router: journal.router(glovebox) }).run({
    messages,
  });
  expect(outcome).toMatchObject({ status: "failed", error: { code: "INTERNAL" } });
  expect(effects).toEqual([]);
});

test("stores a turn whose stream goes on after its end", async () => {
  const store = new CrashingStore();
  const talkative: Model = async function* (request) {
    yield* model(request);
    yield { type: "usage" } as never;
  };
  for (let count = 0; count < 2; count += 1) {
    await using journal = await openAgentJournal({ store, id: "a" });
    const loop = new AgentLoop({ model: journal.model(talkative), router: journal.router(glovebox) });
    expect(await loop.run({ messages })).toMatchObject({ status: "finished", text: "Done" });
  }
  expect([asked, effects]).toEqual([
    ["turn 0", "turn 1", "turn 2"],
    ["one", "two"],
  ]);
});

test("belongs to one process at a time", async () => {
  class Leased extends CrashingStore {
    override claim(...args: Parameters<CrashingStore["claim"]>): ReturnType<CrashingStore["claim"]> {
      return Object.getPrototypeOf(CrashingStore.prototype).claim.call(this, args[0], {
        ...args[1],
        now: 0,
        until: 1e15,
      });
    }
  }
  const store = new Leased();
  const first = await openAgentJournal({ store, id: "a" });
  expect(await failureOf(openAgentJournal({ store, id: "a" }))).toMatchObject({ code: "NAME_TAKEN" });
  await first[Symbol.asyncDispose]();
  const second = await openAgentJournal({ store, id: "a" });
  const loop = new AgentLoop({ model: first.model(model), router: first.router(glovebox) });
  expect(await loop.run({ messages })).toMatchObject({ status: "failed", error: { code: "CANCELLED" } });
  expect(effects).toEqual([]);
  await second[Symbol.asyncDispose]();
  expect(await failureOf(openAgentJournal({ store, id: "" }))).toMatchObject({ code: "PARAM_INVALID" });
});

test("leases and lifetimes go by the clock of the store", async () => {
  class ClockedStore extends MemoryRunStore {
    time = 1_000_000_000;
    isStopped = false;
    now(): number {
      return this.time;
    }
    override async renew(claim: RunClaim, until: number): Promise<boolean> {
      return this.isStopped || (await super.renew(claim, until));
    }
  }
  const store = new ClockedStore();
  const leaseMs = 100;
  const find = () => store.find({ tenantId: "default", id: "a" });
  await using _first = await openAgentJournal({ store, id: "a", leaseMs, lifetimeMs: 5_000 });
  expect(await find()).toMatchObject({ createdAt: 1_000_000_000, expiresAt: 1_000_005_000, leaseUntil: 1_000_000_100 });
  store.time += 60;
  await expect.poll(async () => (await find())?.leaseUntil).toBe(store.time + leaseMs);
  expect(await failureOf(openAgentJournal({ store, id: "a", leaseMs }))).toMatchObject({ code: "NAME_TAKEN" });
  store.isStopped = true;
  store.time += leaseMs + 1;
  await using _second = await openAgentJournal({ store, id: "a", leaseMs });
  expect(await find()).toMatchObject({ state: "running", leaseUntil: store.time + leaseMs });
});
