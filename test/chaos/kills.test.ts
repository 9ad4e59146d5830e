// Workers die at random under load: every call gets exactly one result, its own, and no effect happens twice that must not.
// GLOVEBOX_CHAOS_CALLS=100000 npx vitest run test/chaos/kills.test.ts makes as many calls as it says, however long they take;
// GLOVEBOX_ATTACKS=all makes 5,000.
import { expect, test } from "vitest";
import { STRIKES_ALL } from "../support/attack-sample.ts";
import { killOne, openChaos, runLoad, TENANTS, torment } from "../support/chaos.ts";

const wanted = Number(process.env.GLOVEBOX_CHAOS_CALLS);
const CALLS = wanted > 0 ? wanted : STRIKES_ALL ? 5_000 : 400;
const TIMEOUT_MS = 120_000;
const PATIENCE_MS = 300_000 + CALLS * 100;
/** Counts calls instead of time, so that a slow machine has as many kills, and as many calls between them. */
const KILL_EVERY_CALLS = 20;
/** A kill that finds no worker, or one that has just died, does not count. */
const LEAST_KILLS = CALLS / KILL_EVERY_CALLS / 2;
/** INTERNAL is what a call gets when the last of three processes died while it was starting for it: it costs a kill or more. */
const EXPECTED_CODES = ["ok", "SANDBOX_CRASHED", "OVERLOADED", "INTERNAL"];

test(`${CALLS} calls of ${TENANTS.length} tenants while a random worker is killed after every ${KILL_EVERY_CALLS}: one result each, each its own`, {
  timeout: PATIENCE_MS,
}, async () => {
  // A busy machine may let a call wait for longer than the limit that other tests have.
  const options = { workers: { max: 24, warmProcesses: 1 }, limits: { timeoutMs: TIMEOUT_MS } };
  const { glovebox, ledger } = await openChaos(options);
  const over = new AbortController();
  const kills = torment(glovebox, ledger, KILL_EVERY_CALLS, killOne, over.signal);
  await runLoad(glovebox, ledger, { calls: CALLS, inFlight: 2, timeoutMs: TIMEOUT_MS });
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
  expect(facts.kills).toBeGreaterThanOrEqual(LEAST_KILLS);
  expect(ledger.codes.INTERNAL ?? 0).toBeLessThanOrEqual(facts.kills);
  expect(ledger.codes.ok).toBeGreaterThan(ledger.size / 2);
});
