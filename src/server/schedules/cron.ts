// Computes the runs of cron patterns in a time zone.
import { Cron } from "croner";

/** Maximum number of runs that one catch-up yields. */
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

/** Patterns have whole seconds. */
const SECOND_MS = 1_000;

/**
 * Returns the runs from the one that is due until now: the latest ones if there are more than `most`. Counts back from now: a pattern for every
 * second has millions of runs in the time for which a server was stopped.
 */
export function runsUntil(times: CronTimes, dueAt: number, now: number, max: number = MAX_MISSED): readonly number[] {
  const after = open(times)
    .previousRuns(max + 1, new Date(now + SECOND_MS))
    .map((run) => run.getTime())
    .filter((run) => run > dueAt && run <= now)
    .toReversed();
  return [dueAt, ...after].slice(-max);
}
