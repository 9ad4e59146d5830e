// Workers freeze at random under load: no call runs past its deadline, and none is lost. GLOVEBOX_ATTACKS=all makes more calls.
import { expect, test } from "vitest";
import { STRIKES_ALL } from "../support/attack-sample.ts";
import { openChaos, runLoad, stopAll, stopBriefly, torment } from "../support/chaos.ts";

/** A stopped worker does not answer at all: a call without a result by then waits for it. */
const LATE_MS = 60_000;
const LOAD = { calls: STRIKES_ALL ? 2_500 : 300, inFlight: 2, timeoutMs: 4_000, lateMs: LATE_MS };
const STOP_EVERY_CALLS = 40;
/** A call whose neighbour in the same process would not stop is lost with it. */
const EXPECTED_CODES = ["ok", "TOOL_TIMEOUT", "SANDBOX_CRASHED", "OVERLOADED"];

const VARIANTS = [
  ["and never continued", stopAll],
  ["and continued after 50 ms", (pids: readonly number[]) => stopBriefly(pids, 50)],
] as const;

test.for(VARIANTS)("random workers are stopped %s: every call ends by its deadline", async ([, stop]) => {
  const { glovebox, ledger } = await openChaos({ workers: { max: 24, warmProcesses: 1 } });
  const over = new AbortController();
  const stops = torment(glovebox, ledger, STOP_EVERY_CALLS, stop, over.signal);
  await runLoad(glovebox, ledger, LOAD);
  over.abort();
  const longestMs = Math.round(ledger.longestMs);
  const facts = { calls: ledger.size, stops: await stops, codes: ledger.codes, longestMs };
  console.log(JSON.stringify(facts));
  expect(ledger.close()).toEqual([]);
  expect(Object.keys(ledger.codes).filter((code) => !EXPECTED_CODES.includes(code))).toEqual([]);
  expect(facts.stops).toBeGreaterThan(0);
  expect(ledger.codes.ok).toBeGreaterThan(0);
});
