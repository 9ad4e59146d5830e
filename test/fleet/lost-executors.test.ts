// The list of lost executors: for ten minutes, until they come back, and bounded.
import { expect, test } from "vitest";
import type { ExecutorInfo } from "../../src/host/fleet/control/fleet-state.ts";
import { LostExecutors } from "../../src/host/fleet/control/lost-executors.ts";

const info = (id: string): ExecutorInfo => ({
  id,
  pool: "default",
  version: "1.0.0",
  languages: ["javascript"],
  since: 1,
  slots: 4,
  busy: 1,
  free: 0,
  isDraining: false,
  seenAt: 2,
  bundles: 0,
});
const idsOf = (lost: LostExecutors): readonly string[] => lost.list().map(({ id }) => id);

test("lists an executor for ten minutes, or until it comes back", () => {
  let now = 0;
  const lost = new LostExecutors(() => now);
  lost.add(info("b"), "silent");
  lost.add(info("a"), "rejected");
  expect(lost.list()).toEqual([
    { ...info("a"), reason: "rejected" },
    { ...info("b"), reason: "silent" },
  ]);
  lost.delete("a");
  expect(idsOf(lost)).toEqual(["b"]);
  now = 9 * 60_000;
  lost.add(info("c"), "silent");
  now = 10 * 60_000;
  expect(idsOf(lost)).toEqual(["c"]);
});

test("keeps the newest thousand", () => {
  const lost = new LostExecutors(() => 0);
  for (let n = 0; n < 1_500; n += 1) lost.add(info(`executor-${n}`), "silent");
  expect(lost.list()).toHaveLength(1_000);
  expect(idsOf(lost)).not.toContain("executor-499");
  expect(idsOf(lost)).toContain("executor-500");
});
