// The clock that all processes of a machine share, for times that cross a process boundary.

/** Returns the time in ms by the system's monotonic clock, with fractions. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;
