// Computes the runs of cron patterns in a time zone.
import { Cron } from "croner";

/** Most runs that one catch-up yields. */
export const MAX_MISSED = 100;

export interface CronTimes {
  /** Five fields, or six with seconds; also `@daily` and the like. */
  readonly cron: string;
  /** Name of the IANA database, such as `Europe/Berlin`. */
  readonly timeZone: string;
}

const open = ({ cron, timeZone }: CronTimes): Cron =>
  new Cron(cron, { timezone: timeZone, paused: true, mode: "5-or-6-parts" });

/** Returns why a pattern or time zone cannot be used; undefined if both can. */
export function findCronError({ cron, timeZone }: CronTimes): string | undefined {
  try {
    new Intl.DateTimeFormat("en", { timeZone });
  } catch {
    return "timeZone: Expected the name of a time zone, such as Europe/Berlin";
  }
  try {
    if (open({ cron, timeZone }).nextRun() === null) return "cron: The pattern has no future run";
    return undefined;
  } catch {
    const fields = cron.trim().split(/\s+/).length;
    if (fields === 5 || fields === 6)
      return "cron: A field has an invalid value. Expected a pattern such as 30 2 * * 1-5";
    return "cron: Expected five fields (minute, hour, day, month, weekday), or six with seconds first";
  }
}

/**
 * Returns the first run after a time in ms since 1970; null if there is none. Daylight saving: a run at a time that does not exist on a day
 * happens at the end of the gap, and a run at a fixed time that exists twice happens once.
 */
export const nextRunAfter = (times: CronTimes, after: number): number | null =>
  open(times).nextRun(new Date(after))?.getTime() ?? null;

/** Returns the runs from the one that is due until now: the latest ones if there are more than {@link MAX_MISSED}. */
export function runsUntil(times: CronTimes, dueAt: number, now: number): readonly number[] {
  const job = open(times);
  const runs = [dueAt];
  for (let next = job.nextRun(new Date(dueAt)); next !== null && next.getTime() <= now; next = job.nextRun(next)) {
    runs.push(next.getTime());
    if (runs.length > MAX_MISSED) runs.shift();
  }
  return runs;
}
