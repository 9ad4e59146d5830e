// Durable runs of random programs are stopped at every point, their process is killed, and another process continues them: they end as runs that nothing
// has stopped. GLOVEBOX_RUN_PROGRAMS=10000 runs 10,000 programs.
import { fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { expect, test } from "vitest";
import { programs } from "./run-programs.ts";

const CHILD = fileURLToPath(new URL("./killed-runs-child.ts", import.meta.url));
const TOTAL = Number(process.env.GLOVEBOX_RUN_PROGRAMS ?? 25);
const SEED = Number(process.env.GLOVEBOX_RUN_SEED ?? 20_261);
const BATCH = 250;

/** Runs a process until it says that it can be killed. Returns the number of points at which it has stopped a run. */
const runKilled = (order: object): Promise<number> =>
  new Promise((resolve, reject) => {
    const child = fork(CHILD, [JSON.stringify(order)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    let points: number | undefined;
    child.once("message", (message) => {
      points = (message as { readonly points: number }).points;
      child.kill("SIGKILL");
    });
    child.once("close", (code, signal) => {
      if (signal === "SIGKILL" && points !== undefined) resolve(points);
      else reject(new Error(`The process ended by itself: ${code ?? signal}`));
    });
  });

test(`${TOTAL} random programs end as if nothing had stopped them, wherever their process is killed`, {
  timeout: 300_000 + TOTAL * 10_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-killed-"));
  const read = <Value>(name: string): Value => JSON.parse(readFileSync(join(folder, name), "utf8")) as Value;
  try {
    const sample = fc.sample(programs, { numRuns: TOTAL, seed: SEED });
    const batches = Math.ceil(TOTAL / BATCH);
    const differences: unknown[] = [];
    let points = 0;
    for (let batch = 0; batch <= batches; batch += 1) {
      const finish = batch === 0 ? undefined : batch - 1;
      const start = batch === batches ? undefined : batch;
      const own = sample.slice(batch * BATCH, (batch + 1) * BATCH);
      if (start !== undefined) writeFileSync(join(folder, `${batch}.programs`), JSON.stringify(own));
      points += await runKilled({ folder, finish, start });
      if (finish === undefined) continue;
      const whole = read<readonly string[]>(`${finish}.whole`);
      for (const [id, end] of Object.entries(read<{ readonly [id: string]: string }>(`${finish}.ends`))) {
        const [index, appends] = id.split("/").map(Number) as [number, number];
        const program = sample[finish * BATCH + index];
        if (end !== whole[index]) differences.push({ program, appends, end, whole: whole[index] });
      }
      rmSync(join(folder, `${finish}.log`));
      if (TOTAL > 1_000) console.log(`${batch * BATCH} programs, ${points} points, ${differences.length} differences`);
    }
    expect(differences.slice(0, 5)).toEqual([]);
    const acts = readFileSync(join(folder, "acts"), "utf8").trimEnd().split("\n");
    expect(acts.filter((act, index) => acts.indexOf(act) !== index && !act.startsWith("whole ")).slice(0, 5)).toEqual(
      [],
    );
    expect(points).toBeGreaterThan(TOTAL);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
