// Computes for as long as its parent says, and answers how often it has: the floor that fleet.ts compares executors with.
import { nbody } from "./jobs.ts";

const [, , steps] = process.argv;
const { source, input } = nbody(Number(steps));
const run = new Function(`return ${source}`)() as (input: unknown) => Promise<unknown>;

process.on("message", async (windowMs: number) => {
  const end = performance.now() + windowMs;
  let count = 0;
  for (;;) {
    await run(input);
    if (performance.now() > end) break;
    count += 1;
  }
  process.send?.(count);
});
