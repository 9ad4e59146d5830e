// The model of capacity: its simulation agrees with queueing theory, and the guide has the figures that the model computes.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { DEFAULTS, readAssumptions } from "../../benchmarks/capacity/assumptions.ts";
import { readChecks, readInputs } from "../../benchmarks/capacity/inputs.ts";
import { fillPage, toTables } from "../../benchmarks/capacity/page.ts";
import { type Scenario, simulate } from "../../benchmarks/capacity/simulate.ts";
import {
  erlangC,
  keptAgeMs,
  meanResponseMs,
  waitQuantileMs,
  warmShare,
  zipfGroups,
} from "../../benchmarks/capacity/theory.ts";

const SERVICE_MS = 10;
const BOUNDLESS = 1e9;

/** One executor, and nothing else that takes time. */
const queue = (cores: number, utilisation: number, slots: number): Scenario => ({
  seed: 7,
  calls: 60_000,
  callsPerS: (1_000 * cores * utilisation) / SERVICE_MS,
  tenants: 1,
  zipf: 0,
  executors: 1,
  executor: { cores, slots, processes: BOUNDLESS, idleMs: BOUNDLESS },
  controlPlanes: 1,
  controlMs: 0,
  natsCores: 1,
  natsMs: 0,
  messages: 2,
  wayMs: 0,
  coldMs: 0,
  serviceMs: SERVICE_MS,
  serviceCv: 0,
  service: "exponential",
});

/** Whether two numbers differ by less than a share of the second. */
const isClose = (actual: number, expected: number, share: number): boolean =>
  Math.abs(actual - expected) <= share * expected;

describe("the simulation", () => {
  test.for([
    [1, 0.5],
    [1, 0.8],
    [4, 0.6],
    [4, 0.8],
    [16, 0.8],
  ] as const)(
    "a simulation of %d cores at a utilisation of %d is an M/M/c queue if each core has one slot",
    ([cores, utilisation]) => {
      const { meanMs, queuedShare, executorUse, latencies } = simulate(queue(cores, utilisation, cores));
      const arrivals = (cores * utilisation) / SERVICE_MS;
      const expected = meanResponseMs(cores, arrivals, SERVICE_MS);
      expect({ meanMs, isClose: isClose(meanMs, expected, 0.1) }).toMatchObject({ isClose: true });
      expect(Math.abs(queuedShare - erlangC(cores, cores * utilisation))).toBeLessThan(0.03);
      expect(Math.abs(executorUse - utilisation)).toBeLessThan(0.02);
      expect(latencies).toHaveLength(60_000);
    },
  );

  test("waits as long as an M/M/1 queue, also the slowest percent", () => {
    const { p99Ms } = simulate(queue(1, 0.7, 1));
    // The response time of an M/M/1 queue is exponential.
    const expected = (-Math.log(0.01) * SERVICE_MS) / (1 - 0.7);
    expect({ p99Ms, isClose: isClose(p99Ms, expected, 0.1) }).toMatchObject({ isClose: true });
    expect(waitQuantileMs(0.99, 1, 0.07, SERVICE_MS)).toBeCloseTo((Math.log(0.7 / 0.01) * SERVICE_MS) / 0.3, 6);
    expect(waitQuantileMs(0.2, 1, 0.07, SERVICE_MS)).toBe(0);
  });

  test.for([0, 1, 2])(
    "the duration of calls that share a core depends on the mean service only (cv %d)",
    (serviceCv) => {
      const { service: _, ...shared } = queue(1, 0.6, BOUNDLESS);
      const { meanMs } = simulate({ ...shared, serviceCv });
      expect({ meanMs, isClose: isClose(meanMs, SERVICE_MS / 0.4, 0.1) }).toMatchObject({ isClose: true });
    },
  );

  test("gives the same figures for the same seed, and others for another", () => {
    const scenario = { ...queue(4, 0.7, 8), calls: 2_000, tenants: 50, zipf: 1, executors: 3, coldMs: 30 };
    expect(simulate(scenario)).toEqual(simulate(scenario));
    expect(simulate({ ...scenario, seed: 8 }).meanMs).not.toBe(simulate(scenario).meanMs);
  });

  test("finds as many tenants without a process as the approximation of Che", () => {
    const [tenants, processes, zipf] = [2_000, 200, 0.8];
    const { service: _, ...one } = queue(8, 0.3, BOUNDLESS);
    const { coldShare, callsPerS } = simulate({
      ...one,
      tenants,
      zipf,
      coldMs: 0,
      executor: { cores: 8, slots: BOUNDLESS, processes, idleMs: BOUNDLESS },
    });
    const groups = zipfGroups(tenants, zipf);
    const perMs = callsPerS / 1_000;
    const warm = warmShare(groups, perMs, keptAgeMs(groups, perMs, processes, BOUNDLESS));
    expect(Math.abs(1 - coldShare - warm)).toBeLessThan(0.03);
  });

  test("sends the calls of a tenant to one executor until it has more than its share", () => {
    const apart = { ...queue(4, 0.2, 32), calls: 20_000, tenants: 200, executors: 10, callsPerS: 200, coldMs: 0 };
    // Each tenant is cold on one executor, and on a second one when the first is busy.
    expect(simulate(apart).coldShare).toBeLessThan(0.05);
  });
});

describe("the approximations", () => {
  test("count every tenant and every call", () => {
    for (const count of [1, 99, 100, 5_000, 1_000_000]) {
      const groups = zipfGroups(count, 1);
      expect(groups.reduce((sum, { tenants }) => sum + tenants, 0)).toBe(count);
      expect(groups.reduce((sum, { tenants, share }) => sum + tenants * share, 0)).toBeCloseTo(1, 9);
    }
  });
});

describe("the command", () => {
  test("reads assumptions from flags", () => {
    expect(readAssumptions(["--tool-ms", "50", "--price", "0.1"])).toEqual({ ...DEFAULTS, toolMs: 50, price: 0.1 });
  });

  test.for([
    ["--tool-ms", "0"],
    ["--utilisation", "1"],
    ["--price", "cheap"],
    ["--tools", "5"],
  ])("rejects %s %s", (args) => {
    expect(() => readAssumptions(args)).toThrow();
  });
});

test("the guide has the tables that `npm run capacity` writes", () => {
  const page = readFileSync(new URL("../../docs/guides/capacity.md", import.meta.url), "utf8");
  const tables = toTables({ inputs: readInputs(), checks: readChecks(), assumptions: DEFAULTS });
  expect(fillPage(page, tables)).toBe(page);
});
