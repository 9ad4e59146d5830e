// Which owners get the lowest priority. It favors other owners of this host, not other programs of the machine.
import { availableParallelism } from "node:os";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { CAN_RAISE_PRIORITY } from "../../../src/host/workers/health/process-meter.ts";
import {
  type CpuUsage,
  NEW_NICENESS,
  type OwnerState,
  Priorities,
} from "../../../src/host/workers/scheduling/priority.ts";

describe("Priorities", () => {
  const CORES = availableParallelism();
  const equal = (): OwnerState => ({ weight: 1, isBacklogged: false });
  const use = (cores: number, longCores = 0): CpuUsage => ({ cpuMs: cores * 100, longCallMs: longCores * 100 });

  function settle(
    usages: Readonly<Record<string, CpuUsage>>,
    ownerStateOf: (owner: string) => OwnerState = equal,
  ): Priorities {
    const priorities = new Priorities();
    for (const owner of Object.keys(usages)) priorities.recordSuccess(owner, 1);
    for (let turns = 0; turns < 30; turns += 1)
      priorities.update({ usages: new Map(Object.entries(usages)), hostCpuMs: 0, elapsedMs: 100, ownerStateOf });
    return priorities;
  }

  test("gives long calls the lowest priority, and short ones the highest until their share is used", () => {
    const priorities = settle({ loops: use(CORES, CORES), light: use(0.05), greedy: use(CORES) });
    expect(["loops", "light", "greedy"].map((owner) => priorities.nicenessOf(owner))).toEqual([19, 0, 5]);
    expect(priorities.coresInUse).toBeGreaterThan(CORES);
  });

  test("keeps a tenth of its share for an owner of long calls", () => {
    const share = CORES / 2;
    expect(settle({ starved: use(0.05 * share, 0.05 * share), other: use(CORES) }).nicenessOf("starved")).toBe(10);
    expect(settle({ served: use(0.2 * share, 0.2 * share), other: use(CORES) }).nicenessOf("served")).toBe(19);
  });

  test("measures a share by weight", () => {
    const ownerStateOf = (owner: string): OwnerState => ({ weight: owner === "gold" ? 9 : 1, isBacklogged: false });
    const half = use(0.5 * CORES);
    const priorities = settle({ gold: half, basic: half }, ownerStateOf);
    expect([priorities.nicenessOf("gold"), priorities.nicenessOf("basic")]).toEqual([0, 5]);
  });

  test("forgets an owner that has used nothing for a while", () => {
    const priorities = settle({ loops: use(CORES, CORES) });
    for (let turns = 0; turns < 60; turns += 1)
      priorities.update({ usages: new Map(), hostCpuMs: 0, elapsedMs: 100, ownerStateOf: equal });
    expect(priorities.nicenessOf("loops")).toBe(0);
  });

  test.for([false, true])(
    "forgets that of an owner whose calls only wait (further ones are queued: %s)",
    (isBacklogged) => {
      const priorities = settle({ loops: use(CORES, CORES) });
      const usages = new Map([["loops", use(0)]]);
      for (let turns = 0; turns < 60; turns += 1)
        priorities.update({ usages, hostCpuMs: 0, elapsedMs: 100, ownerStateOf: () => ({ weight: 1, isBacklogged }) });
      expect([priorities.nicenessOf("loops"), priorities.isPastShare("loops")]).toEqual([0, false]);
    },
  );

  test("prefers owners with a successful call, until one of their processes fails", () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const priorities = new Priorities();
    expect([priorities.nicenessOf("acme"), priorities.isKnown("acme")]).toEqual([NEW_NICENESS, false]);
    priorities.recordSuccess("acme", 1);
    expect([priorities.nicenessOf("acme"), priorities.isKnown("acme")]).toEqual([0, true]);
    priorities.recordFailure("acme");
    expect([priorities.nicenessOf("acme"), priorities.isKnown("acme")]).toEqual([CAN_RAISE_PRIORITY ? 19 : 0, false]);
    vi.advanceTimersByTime(500);
    expect(priorities.nicenessOf("acme")).toBe(CAN_RAISE_PRIORITY ? 10 : 0);
    priorities.recordSuccess("acme", 1);
    expect(priorities.nicenessOf("acme")).toBe(0);
  });

  test.runIf(CAN_RAISE_PRIORITY)(
    "gives a new owner the lowest priority for half a second under contention, but never a known one",
    () => {
      vi.useFakeTimers({ toFake: ["performance"] });
      onTestFinished(() => {
        vi.useRealTimers();
      });
      const priorities = new Priorities();
      priorities.recordSuccess("known", 1);
      for (const owner of ["known", "new"]) priorities.recordContendedStart(owner);
      expect(["known", "new"].map((owner) => priorities.nicenessOf(owner))).toEqual([0, 19]);
      vi.advanceTimersByTime(500);
      expect(priorities.nicenessOf("new")).toBe(NEW_NICENESS);
    },
  );

  describe("the lowest priority", () => {
    const ALL_MS = 100 * CORES;

    function follow(priorities: Priorities, usages: Readonly<Record<string, CpuUsage>>, hostCpuMs = 0): void {
      const used = new Map(Object.entries(usages));
      for (let turns = 0; turns < 30; turns += 1) {
        priorities.update({ usages: used, hostCpuMs, elapsedMs: 100, ownerStateOf: equal });
      }
    }

    /** CPU time, all of it by long calls. */
    const loops = (cpuMs: number): CpuUsage => ({ cpuMs, longCallMs: cpuMs });

    test("means idle CPU time only if this host fills the machine, including the host's own usage", () => {
      const priorities = settle({ loops: use(CORES, CORES) });
      expect(priorities.nicenessOf("loops")).toBe(19);
      follow(priorities, { loops: loops(0.3 * ALL_MS) });
      expect(priorities.nicenessOf("loops")).toBe(10);
      follow(priorities, { loops: loops(0.3 * ALL_MS) }, 0.5 * ALL_MS);
      expect(priorities.nicenessOf("loops")).toBe(19);
    });

    test("does not restrict an owner to idle CPU time on a machine that other programs fill", () => {
      const priorities = settle({ loops: use(0.3 * CORES, 0.3 * CORES) });
      follow(priorities, { loops: loops(0.01 * ALL_MS) });
      expect(priorities.nicenessOf("loops")).toBe(10);
    });

    test("does not change with small changes of usage, because each change starts a program for each process", () => {
      const priorities = settle({ loops: use(CORES, CORES) });
      follow(priorities, { loops: loops(0.5 * ALL_MS) });
      expect(priorities.nicenessOf("loops")).toBe(19);
      follow(priorities, { loops: loops(0.3 * ALL_MS) });
      follow(priorities, { loops: loops(0.5 * ALL_MS) });
      expect(priorities.nicenessOf("loops")).toBe(10);
    });
  });
});
