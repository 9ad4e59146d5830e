// Workers die at random under load: every call gets one result, its own, and no effect happens twice that may not.
// GLOVEBOX_CHAOS_CALLS=100000 npx vitest run test/chaos/kills.test.ts makes as many calls as it says, however long they take.
import { expect, test } from "vitest";
import { killOne, openChaos, runLoad, TENANTS, torment } from "../support/chaos.ts";

const wanted = Number(process.env.GLOVEBOX_CHAOS_CALLS);
const LOAD = wanted > 0 ? { calls: wanted, maxMs: Number.POSITIVE_INFINITY } : { calls: 5_000, maxMs: 20_000 };
const PATIENCE_MS = wanted > 0 ? 120_000 + wanted * 100 : 90_000;
const KILL_EVERY_MS = 200;
/** INTERNAL is what a call gets when the last of three processes died while it was starting for it: it costs a kill or more. */
const EXPECTED_CODES = ["ok", "SANDBOX_CRASHED", "OVERLOADED", "INTERNAL"];

test(`${LOAD.calls} calls of ${TENANTS.length} tenants while a random worker is killed every ${KILL_EVERY_MS} ms: one result each, each its own`, {
  timeout: PATIENCE_MS,
}, async () => {
  const { box, ledger } = await openChaos({ workers: { max: 24, spares: 1 } });
  const over = new AbortController();
  const kills = torment(box, KILL_EVERY_MS, killOne, over.signal);
  await runLoad(box, ledger, { ...LOAD, inFlight: 2, timeoutMs: 60_000 });
  over.abort();
  const facts = {
    calls: ledger.size,
    kills: await kills,
    codes: ledger.codes,
    longestMs: Math.round(ledger.longestMs),
  };
  console.log(JSON.stringify(facts));
  expect(ledger.close()).toEqual([]);
  expect(Object.values(ledger.codes).reduce((sum, count) => sum + count, 0)).toBe(ledger.size);
  expect(Object.keys(ledger.codes).filter((code) => !EXPECTED_CODES.includes(code))).toEqual([]);
  expect(facts.kills).toBeGreaterThan(0);
  expect(ledger.codes.INTERNAL ?? 0).toBeLessThanOrEqual(facts.kills);
  expect(ledger.codes.ok).toBeGreaterThan(ledger.size / 2);
});
