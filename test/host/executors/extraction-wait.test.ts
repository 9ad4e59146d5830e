// Tests how long the extraction of a definition waits for a process: as long as calls may wait, and never less than half a minute.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { extractDefinition } from "../../../src/host/executors/extract-definition.ts";
import type { WorkerPool } from "../../../src/host/workers/worker-pool.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { failureOf } from "../../support/host-zone.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test.for([
  [300_000, 300_000],
  [30_000, 30_000],
  [1, 30_000],
] as const)("the wait for an extraction with the limit queueMs %i is %i ms", async ([queueMs, waitMs]) => {
  const cancel = vi.fn();
  // All of its processes are taken for ever.
  const pool = { run: () => ({ cancel }) } as unknown as WorkerPool;
  const options = { owner: undefined, account: "a", weight: 1, features: [], coarseTime: false };
  const run = { entry: "tool.ts", toolKey: "key", clockRunsFrom: "placed", job: {}, stackMapper: {}, modules: {} };
  const limits = { ...DEFAULT_LIMITS, queueMs };
  const failure = failureOf(extractDefinition(pool, { ...run, options: { ...options, limits } } as never));
  await vi.advanceTimersByTimeAsync(waitMs - 1);
  expect(cancel).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(cancel).toHaveBeenCalledOnce();
  expect(await failure).toMatchObject({
    code: "OVERLOADED",
    message: `No sandbox process was free within ${waitMs} ms`,
  });
});
