// Versions of the processes of a fleet: which is the newest, and how many processes run another one.

const collator = new Intl.Collator("en", { numeric: true });

/** Compares two versions: `0.9.0`, `0.10.0-beta.1`, `0.10.0` is in order. */
export function compareVersions(one: string, other: string): number {
  const [core = "", ...early] = one.split("-");
  const [otherCore = "", ...otherEarly] = other.split("-");
  const order = collator.compare(core, otherCore);
  if (order !== 0 || (early.length === 0 && otherEarly.length === 0)) return order;
  // A version comes after its prereleases.
  if (early.length === 0) return 1;
  return otherEarly.length === 0 ? -1 : collator.compare(early.join("-"), otherEarly.join("-"));
}

export interface VersionSpread {
  /** Undefined if there is no process. */
  readonly newest: string | undefined;
  readonly total: number;
  /** Processes that run an older version. */
  readonly older: number;
}

/** Returns the newest version, and how many processes run an older one. @param versions one for each process */
export function spreadOf(versions: readonly string[]): VersionSpread {
  const newest = versions.toSorted(compareVersions).at(-1);
  return { newest, total: versions.length, older: versions.filter((version) => version !== newest).length };
}
