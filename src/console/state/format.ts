// Texts for times, durations, sizes and numbers, each with its unit.
import { toVisibleText } from "../../host/util/visible-text.ts";
import { serverNow } from "./clock.ts";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const seconds = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
/** The language of the browser. A few browsers report one that is not a valid language tag. */
export const locale: string = (() => {
  try {
    return new Intl.Locale(navigator.language).toString();
  } catch {
    return "en";
  }
})();
const dateTime = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
const timeOnly = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

const MS_PER_SECOND = 1_000;
const MS_PER_MINUTE = 60_000;
const MS_PER_HOUR = 3_600_000;
const MS_PER_DAY = 24 * MS_PER_HOUR;
const KIB = 1_024;

export const formatNumber = (value: number): string => number.format(value);
export const formatCount = (value: number): string => (value < 10_000 ? number.format(value) : compact.format(value));

/** Returns a duration: `0.42 ms`, `12 ms`, `3.25 s`, `4 min 5 s`, `5 d 13 h`. */
export function formatMs(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < MS_PER_SECOND) return `${number.format(ms)} ms`;
  if (ms < MS_PER_MINUTE) return `${seconds.format(ms / MS_PER_SECOND)} s`;
  const [unit, part, names] =
    ms < MS_PER_HOUR
      ? ([MS_PER_MINUTE, MS_PER_SECOND, ["min", "s"]] as const)
      : ms < MS_PER_DAY
        ? ([MS_PER_HOUR, MS_PER_MINUTE, ["h", "min"]] as const)
        : ([MS_PER_DAY, MS_PER_HOUR, ["d", "h"]] as const);
  const parts = Math.round(ms / part);
  const [whole, rest] = [Math.floor((parts * part) / unit), parts % (unit / part)];
  return rest === 0 ? `${whole} ${names[0]}` : `${whole} ${names[0]} ${rest} ${names[1]}`;
}

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= KIB && unit < units.length - 1) {
    value /= KIB;
    unit += 1;
  }
  return `${number.format(value)} ${units[unit]}`;
}

/** Returns a local time; the date is left out for today. */
export function formatTime(at: number): string {
  const isToday = new Date(at).toDateString() === new Date(serverNow()).toDateString();
  return (isToday ? timeOnly : dateTime).format(at);
}

/** Whether a time in ms since 1970 is within the range of a `Date`. Stored values can have others, such as one in nanoseconds. */
export const isDateTime = (at: number): boolean => !Number.isNaN(new Date(at).getTime());

export const formatUtc = (at: number): string => `${new Date(at).toISOString().replace("T", " ").replace("Z", "")} UTC`;

/** Returns a time in a time zone, or in UTC if the browser does not know the zone. */
export function formatInZone(at: number, timeZone: string): string {
  // A pattern with six parts has runs within a minute.
  const timeStyle = at % MS_PER_MINUTE === 0 ? "short" : "medium";
  try {
    return new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle, timeZone }).format(at);
  } catch {
    return formatUtc(at);
  }
}

/** Returns how long ago a time is, or in how long it comes. */
export function formatAge(at: number, now: number = serverNow()): string {
  const ms = Math.abs(now - at);
  const text =
    ms < MS_PER_MINUTE
      ? `${Math.round(ms / MS_PER_SECOND)} s`
      : ms < MS_PER_HOUR
        ? `${Math.round(ms / MS_PER_MINUTE)} min`
        : ms < 48 * MS_PER_HOUR
          ? `${Math.round(ms / MS_PER_HOUR)} h`
          : `${Math.round(ms / (24 * MS_PER_HOUR))} days`;
  return at > now ? `in ${text}` : `${text} ago`;
}

export const formatPercent = (share: number): string =>
  `${share !== 0 && share < 0.01 ? (share * 100).toFixed(2) : number.format(share * 100)} %`;

/**
 * Returns text for a JSON value: indented, keys in their order. Characters that reorder or hide a part of the line are escaped, so that a person
 * who approves arguments sees them as they are; the text stands for the same value.
 */
export const formatJson = (value: unknown): string => toVisibleText(JSON.stringify(value, null, 2) ?? "null");
