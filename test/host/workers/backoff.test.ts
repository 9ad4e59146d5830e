// Owners whose processes end badly, tools that may have caused it, and the priorities of both.
import { availableParallelism } from "node:os";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { StartBackoff } from "../../../src/host/workers/backoff.ts";
import { NEW_NICENESS, Priorities, type Standing, type Use } from "../../../src/host/workers/priority.ts";
import { MAY_RAISE } from "../../../src/host/workers/process-meter.ts";
import { Suspects } from "../../../src/host/workers/suspects.ts";
import { codeOf, makeBox, outputOf } from "../../support/host-zone.ts";

describe("StartBackoff", () => {
  test("lets three bad ends pass, then doubles the wait up to two seconds", () => {
    const backoff = new StartBackoff();
    const delays = Array.from({ length: 10 }, () => {
      backoff.endedBadly("evil", 0);
      return backoff.delayMs("evil", 0);
    });
    expect(delays).toEqual([0, 0, 0, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    expect(backoff.delayMs("evil", 1_500)).toBe(500);
    expect(backoff.delayMs("good", 0)).toBe(0);
  });

  test("forgets an owner that has been well for ten seconds", () => {
    const backoff = new StartBackoff();
    for (let ends = 0; ends < 6; ends += 1) backoff.endedBadly("evil", 0);
    backoff.endedBadly("evil", 11_000);
    expect(backoff.delayMs("evil", 11_000)).toBe(0);
  });
});

describe("Suspects", () => {
  test("are let go after ten calls that ended well, and not before", () => {
    const suspects = new Suspects();
    suspects.add("tool");
    for (let calls = 0; calls < 9; calls += 1) suspects.endedWell("tool");
    expect(suspects.has("tool")).toBe(true);
    suspects.endedWell("tool");
    expect(suspects.has("tool")).toBe(false);
  });
});

describe("Priorities", () => {
  const CORES = availableParallelism();
  const equal = (): Standing => ({ weight: 1, isBacklogged: false });
  const use = (cores: number, longCores = 0): Use => ({ cpuMs: cores * 100, longCallMs: longCores * 100 });

  function settle(uses: Readonly<Record<string, Use>>, standingOf: (owner: string) => Standing = equal): Priorities {
    const priorities = new Priorities();
    for (const owner of Object.keys(uses)) priorities.endedWell(owner, 1);
    for (let turns = 0; turns < 30; turns += 1) priorities.follow(new Map(Object.entries(uses)), 100, standingOf);
    return priorities;
  }

  test("put long calls last, and short ones first until their share is used", () => {
    const priorities = settle({ loops: use(CORES, CORES), light: use(0.05), greedy: use(CORES) });
    expect(["loops", "light", "greedy"].map((owner) => priorities.nicenessOf(owner))).toEqual([19, 0, 5]);
    expect(priorities.coresInUse).toBeGreaterThan(CORES);
  });

  test("keep a tenth of its share for whoever has long calls", () => {
    const share = CORES / 2;
    expect(settle({ starved: use(0.05 * share, 0.05 * share), other: use(CORES) }).nicenessOf("starved")).toBe(10);
    expect(settle({ served: use(0.2 * share, 0.2 * share), other: use(CORES) }).nicenessOf("served")).toBe(19);
  });

  test("measure a share by weight", () => {
    const standingOf = (owner: string): Standing => ({ weight: owner === "gold" ? 9 : 1, isBacklogged: false });
    const half = use(0.5 * CORES);
    const priorities = settle({ gold: half, basic: half }, standingOf);
    expect([priorities.nicenessOf("gold"), priorities.nicenessOf("basic")]).toEqual([0, 5]);
  });

  test("forget an owner when it has used nothing for a while", () => {
    const priorities = settle({ loops: use(CORES, CORES) });
    for (let turns = 0; turns < 60; turns += 1) priorities.follow(new Map(), 100, equal);
    expect(priorities.nicenessOf("loops")).toBe(0);
  });

  test("let those go first of whom a call has ended well, until a process of theirs comes to a bad end", () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const priorities = new Priorities();
    expect([priorities.nicenessOf("acme"), priorities.isKnown("acme")]).toEqual([NEW_NICENESS, false]);
    priorities.endedWell("acme", 1);
    expect([priorities.nicenessOf("acme"), priorities.isKnown("acme")]).toEqual([0, true]);
    priorities.endedBadly("acme");
    expect([priorities.nicenessOf("acme"), priorities.isKnown("acme")]).toEqual([MAY_RAISE ? 19 : 0, false]);
    vi.advanceTimersByTime(500);
    expect(priorities.nicenessOf("acme")).toBe(MAY_RAISE ? 10 : 0);
    priorities.endedWell("acme", 1);
    expect(priorities.nicenessOf("acme")).toBe(0);
  });

  test.runIf(MAY_RAISE)("put who is new beside others last for half a second, and nobody who is known", () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const priorities = new Priorities();
    priorities.endedWell("known", 1);
    for (const owner of ["known", "new"]) priorities.beginsBesideOthers(owner);
    expect(["known", "new"].map((owner) => priorities.nicenessOf(owner))).toEqual([0, 19]);
    vi.advanceTimersByTime(500);
    expect(priorities.nicenessOf("new")).toBe(NEW_NICENESS);
  });
});

describe("a tool that has cost its process its life", () => {
  test("runs alone from then on: its tenant's other calls go on", async () => {
    await using box = await makeBox({ limits: { timeoutMs: 3_000 } });
    const stuck = "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)";
    await box.addTool({ name: "stuck", source: stuck });
    await box.addTool({ name: "slow", source: "export default () => new Promise((done) => setTimeout(done, 900, 1))" });
    const call = (toolName: string, timeoutMs: number) =>
      box.execute({ id: "c", toolName }, { tenantId: "acme", timeoutMs });
    expect(codeOf(await call("stuck", 150))).toBe("TOOL_TIMEOUT");
    const [first, bad, second] = await Promise.all([call("slow", 3_000), call("stuck", 150), call("slow", 3_000)]);
    expect([outputOf(first), codeOf(bad), outputOf(second)]).toEqual([1, "TOOL_TIMEOUT", 1]);
  });
});
