// Schedules on days whose clocks change: each run happens once, by the rule of the documentation.
import { describe, expect, test } from "vitest";
import { nextRunAfter, runsUntil } from "../../src/server/schedules/cron.ts";

const HOUR_MS = 3_600_000;
const at = (text: string): number => new Date(text).getTime();

/** Returns date and time as people there read them. */
function localTime(timeZone: string, time: number): string {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" });
  return format.format(time);
}

/** All runs between two times: one after the other, and as a server finds them that was away meanwhile. */
function runsBetween(cron: string, timeZone: string, from: number, to: number): readonly number[] {
  const times = { cron, timeZone };
  const runs: number[] = [];
  for (let next = nextRunAfter(times, from); next !== null && next <= to; next = nextRunAfter(times, next)) {
    runs.push(next);
  }
  expect(runsUntil(times, runs[0] as number, to)).toEqual(runs);
  return runs;
}

const ZONES = [
  {
    zone: "Europe/Berlin",
    gap: { date: "2026-03-29", end: "2026-03-29T01:00:00Z", missing: ["02:00", "02:15", "02:59"], minutes: 60 },
    fold: { date: "2026-10-25", first: "2026-10-25T00:30:00Z", time: "02:30", minutes: 60 },
  },
  {
    zone: "America/New_York",
    gap: { date: "2026-03-08", end: "2026-03-08T07:00:00Z", missing: ["02:00", "02:30", "02:59"], minutes: 60 },
    fold: { date: "2026-11-01", first: "2026-11-01T05:30:00Z", time: "01:30", minutes: 60 },
  },
  {
    // Its clocks change by half an hour.
    zone: "Australia/Lord_Howe",
    gap: { date: "2026-10-04", end: "2026-10-03T15:30:00Z", missing: ["02:00", "02:15", "02:29"], minutes: 30 },
    fold: { date: "2026-04-05", first: "2026-04-04T14:45:00Z", time: "01:45", minutes: 30 },
  },
] as const;

const daily = (time: string): string => `${Number(time.slice(3))} ${Number(time.slice(0, 2))} * * *`;

describe.for(ZONES)("in $zone", ({ zone, gap, fold }) => {
  test.for([...gap.missing])("a run at %s, which one day does not have, happens at the end of the gap", (time) => {
    const end = at(gap.end);
    const runs = runsBetween(daily(time), zone, end - 36 * HOUR_MS, end + 60 * HOUR_MS);
    expect(runs.filter((run) => localTime(zone, run).startsWith(gap.date))).toEqual([end]);
    const days = runs.map((run) => localTime(zone, run).slice(0, 10));
    expect([days.length, new Set(days).size]).toEqual([days.length, days.length]);
    // On all other days it has its time.
    expect(runs.filter((run) => run !== end).every((run) => localTime(zone, run).endsWith(` ${time}`))).toBe(true);
  });

  test("a run at a time that one day has twice happens the first time", () => {
    const first = at(fold.first);
    const runs = runsBetween(daily(fold.time), zone, first - 36 * HOUR_MS, first + 60 * HOUR_MS);
    expect(runs.filter((run) => localTime(zone, run).startsWith(fold.date))).toEqual([first]);
    expect(runs.every((run) => localTime(zone, run).endsWith(` ${fold.time}`))).toBe(true);
    const days = runs.map((run) => localTime(zone, run).slice(0, 10));
    expect(new Set(days).size).toBe(days.length);
  });

  test("a run in each quarter of an hour goes on through both changes, without a pause and without a repetition", () => {
    for (const change of [at(gap.end), at(fold.first)]) {
      const runs = runsBetween("*/15 * * * *", zone, change - 3 * HOUR_MS, change + 6 * HOUR_MS);
      const distances = runs.slice(1).map((run, index) => run - (runs[index] as number));
      expect(new Set(distances)).toEqual(new Set([HOUR_MS / 4]));
    }
  });

  test("a year of daily runs has one on each day", () => {
    const [from, to] = [at("2026-01-01T12:00:00Z"), at("2026-12-31T12:00:00Z")];
    for (const time of [fold.time, gap.missing[1], "00:00", "12:00"]) {
      const times = { cron: daily(time), timeZone: zone };
      const days: string[] = [];
      for (let next = nextRunAfter(times, from); next !== null && next <= to; next = nextRunAfter(times, next)) {
        days.push(localTime(zone, next).slice(0, 10));
      }
      expect([time, days.length, new Set(days).size]).toEqual([time, 364, 364]);
    }
  });
});
