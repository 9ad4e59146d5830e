// Batches of deletions when each takes long, whatever its number of rows: a database far away, or a slow disk.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { deleteInBatches } from "../../../src/server/records/batches.ts";

test("slow transactions do not make batches of single rows", async () => {
  const limits: number[] = [];
  let rows = 100;
  const deleted = await deleteInBatches(async (limit) => {
    limits.push(limit);
    await sleep(50);
    const count = Math.min(limit, rows);
    rows -= count;
    return count;
  });
  expect(deleted).toBe(100);
  expect(limits).toEqual([16, 16, 16, 16, 16, 16, 16]);
});
