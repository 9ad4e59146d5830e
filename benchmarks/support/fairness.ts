// Two tenants want all of the machine, one with many calls in flight, one with few: how much CPU does each get?
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox, type Glovebox } from "../../src/host/index.ts";

/** About 20 ms of CPU on the machine of the results. */
const SPIN = `export default () => {
  let sum = 1;
  for (let i = 0; i < 3_500_000; i += 1) sum = (sum * 31 + i) % 1_000_003;
  return sum;
};`;
const TENANTS = { greedy: 100, modest: 4 } as const;
/**
 * From the first call on: what a tenant has got too little of while its first process started it is given back, so a window that
 * begins later sees one of the two ahead.
 */
const WINDOW_MS = 8_000;
const CALIBRATION = 20;

export interface TenantShare {
  readonly inFlight: number;
  readonly calls: number;
  /** Calls that ended well within the window, times what one costs alone. */
  readonly cpuMs: number;
  /** CPU cost as reported by the results. */
  readonly meteredCpuMs: number;
  readonly share: number;
  readonly failures: number;
}

interface Tally {
  calls: number;
  meteredCpuMs: number;
  failures: number;
}

/** The work is the same each time, so the fastest of many calls is its cost without interference. */
async function costOfOne(glovebox: Glovebox): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < CALIBRATION; n += 1) {
    const { usage } = await glovebox.execute({ id: "spin", toolName: "spin" }, { tenantId: "modest" });
    times.push(usage.executeMs);
  }
  return Math.min(...times);
}

async function spin(glovebox: Glovebox, tenantId: string, tally: Tally, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const result = await glovebox.execute({ id: "spin", toolName: "spin" }, { tenantId, timeoutMs: 60_000, signal });
    if (result.success) {
      tally.calls += 1;
      tally.meteredCpuMs += result.usage.cpuMs;
    } else tally.failures += 1;
  }
}

/** CPU time of completed calls per tenant; both always have more to do than they are given. */
export async function measureFairness(): Promise<{ readonly [tenant: string]: TenantShare }> {
  await using glovebox = await createGlovebox({ tenancy: "multi" });
  await glovebox.addTool({ name: "spin", source: SPIN }, { scope: "global" });
  const eachMs = await costOfOne(glovebox);
  const over = new AbortController();
  const tallies = Object.entries(TENANTS).map(([tenant, inFlight]) => {
    const tally: Tally = { calls: 0, meteredCpuMs: 0, failures: 0 };
    const lanes = Array.from({ length: inFlight }, () => spin(glovebox, tenant, tally, over.signal));
    return { tenant, inFlight, tally, lanes };
  });
  await pause(WINDOW_MS);
  const used = tallies.map(({ tally }) => ({ ...tally }));
  over.abort();
  await Promise.all(tallies.flatMap(({ lanes }) => lanes));
  const total = used.reduce((sum, { calls }) => sum + calls, 0);
  const rows = tallies.map(({ tenant, inFlight }, index) => {
    const { calls = 0, meteredCpuMs = 0, failures = 0 } = used[index] ?? {};
    return [tenant, { inFlight, calls, cpuMs: calls * eachMs, meteredCpuMs, share: calls / total, failures }] as const;
  });
  console.log("\nCPU time of two tenants that both want all of it");
  console.table(Object.fromEntries(rows));
  return Object.fromEntries(rows);
}
