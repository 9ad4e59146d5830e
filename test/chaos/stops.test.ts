// Workers freeze at random under load: no call hangs past its deadline, and none is lost.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { expect, test } from "vitest";
import { openChaos, runLoad, stopAll, stopBriefly, torment } from "../support/chaos.ts";

const TIMEOUT_MS = 1_500;
/** A call is answered 50 ms after its deadline; the rest, and what this process itself was held up, is the machine's. */
const LATE_MS = 500;
const STOP_EVERY_MS = 500;
const LOAD = { calls: 2_500, maxMs: 8_000, inFlight: 2, timeoutMs: TIMEOUT_MS };
/** A call whose neighbour in the same process would not stop is lost with it. */
const EXPECTED_CODES = ["ok", "TOOL_TIMEOUT", "SANDBOX_CRASHED", "OVERLOADED"];

const VARIANTS = [
  ["and never continued", stopAll],
  ["and continued after 50 ms", (pids: readonly number[]) => stopBriefly(pids, 50)],
] as const;

test.for(VARIANTS)(
  "random workers are stopped %s: every call ends by its deadline",
  { timeout: 60_000 },
  async ([, stop]) => {
    const { box, ledger } = await openChaos({ workers: { max: 24, spares: 1 } });
    const over = new AbortController();
    const lag = monitorEventLoopDelay({ resolution: 5 });
    lag.enable();
    const stops = torment(box, STOP_EVERY_MS, stop, over.signal);
    await runLoad(box, ledger, LOAD);
    over.abort();
    lag.disable();
    const lagMs = Math.round(lag.max / 1e6);
    const longestMs = Math.round(ledger.longestMs);
    const facts = { calls: ledger.size, stops: await stops, codes: ledger.codes, longestMs, lagMs };
    console.log(JSON.stringify(facts));
    expect(ledger.close()).toEqual([]);
    expect(longestMs).toBeLessThan(TIMEOUT_MS + LATE_MS + lagMs);
    expect(Object.keys(ledger.codes).filter((code) => !EXPECTED_CODES.includes(code))).toEqual([]);
    expect(facts.stops).toBeGreaterThan(0);
    expect(ledger.codes.ok).toBeGreaterThan(0);
  },
);
