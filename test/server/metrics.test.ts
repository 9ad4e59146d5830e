// Metrics of a fleet for autoscaling: a pool in which no call waits is reported with 0, so that it can shrink.
import { expect, test } from "vitest";
import type { ExecutorInfo, FleetState } from "../../src/host/index.ts";
import { Metrics } from "../../src/server/operation/metrics.ts";

const NONE: FleetState = { executors: [], lost: [], queues: [], isReachable: true };
const executorOf = (pool: string): ExecutorInfo => ({
  id: `${pool}-1`,
  pool,
  version: "0.1.0",
  languages: ["javascript"],
  since: 0,
  slots: 8,
  busy: 0,
  free: 8,
  isDraining: false,
  seenAt: 0,
  bundles: 0,
});

/** Returns the values of a metric by pool. */
async function read(metrics: Metrics, name: string): Promise<{ readonly [pool: string]: number }> {
  const text = await metrics.registry.metrics();
  const found = text.matchAll(new RegExp(`^${name}\\{pool="([^"]+)"\\} (\\S+)$`, "gm"));
  return Object.fromEntries([...found].map(([, pool, value]) => [pool, Number(value)]));
}

test("reports 0 for each pool with executors, and for each pool that had calls", async () => {
  let state: FleetState = { ...NONE, executors: [executorOf("eu")] };
  const metrics = new Metrics(
    () => 0,
    () => state,
  );
  const queue = async (): Promise<object> => ({
    calls: await read(metrics, "glovebox_executor_queue_calls"),
    seconds: await read(metrics, "glovebox_executor_queue_oldest_seconds"),
  });
  expect(await queue()).toEqual({ calls: { eu: 0 }, seconds: { eu: 0 } });
  state = { ...state, queues: [{ pool: "gpu", queued: 3, oldestMs: 1_500 }] };
  expect(await queue()).toEqual({ calls: { eu: 0, gpu: 3 }, seconds: { eu: 0, gpu: 1.5 } });
  state = NONE;
  expect(await queue()).toEqual({ calls: { eu: 0, gpu: 0 }, seconds: { eu: 0, gpu: 0 } });
  expect(await read(metrics, "glovebox_executors")).toEqual({});
});

test("remembers a limited number of pools", async () => {
  let state = NONE;
  const metrics = new Metrics(
    () => 0,
    () => state,
  );
  for (let from = 0; from < 3_000; from += 1_000) {
    const queues = Array.from({ length: 1_000 }, (_, index) => ({ pool: `p${from + index}`, queued: 1, oldestMs: 1 }));
    state = { ...NONE, queues };
    await metrics.registry.metrics();
  }
  state = NONE;
  const pools = Object.keys(await read(metrics, "glovebox_executor_queue_calls"));
  expect([pools.length, pools.includes("p0"), pools.includes("p2999")]).toEqual([1_000, false, true]);
});
