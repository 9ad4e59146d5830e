// The server's time. Ages and expiries are compared with it, because the clock of a browser may be wrong.

/** The Date header has whole seconds and is older than the response's arrival. A smaller difference is not an error of the clock. */
const TOLERANCE_MS = 5_000;

let offsetMs = 0;

/** Learns the server's time from the Date header of a response. */
export function noteServerTime(date: string | null): void {
  const at = Date.parse(date ?? "");
  if (Number.isNaN(at)) return;
  const difference = at - Date.now();
  offsetMs = Math.abs(difference) < TOLERANCE_MS ? 0 : difference;
}

/** Returns the server's time in ms since 1970, as far as it is known. */
export const serverNow = (): number => Date.now() + offsetMs;
