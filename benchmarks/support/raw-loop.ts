// A process that creates, calls and disposes raw isolates for a given time, and reports their number.
import { runRawTool } from "./raw-isolate.ts";

export interface RawLoopOrder {
  readonly code: string;
  readonly input: unknown;
  /** Isolates that are being made or called at one time. */
  readonly inFlight: number;
  readonly ms: number;
}

async function loop({ code, input, inFlight, ms }: RawLoopOrder): Promise<number> {
  for (let n = 0; n < 5; n += 1) await runRawTool(code, input);
  let count = 0;
  const end = performance.now() + ms;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await runRawTool(code, input);
      if (performance.now() <= end) count += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return count;
}

process.once("message", (order: RawLoopOrder) => {
  void loop(order).then((count) => {
    process.send?.(count);
    process.disconnect?.();
  });
});
process.send?.("ready");
