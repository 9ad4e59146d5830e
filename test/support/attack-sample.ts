// Selects the attacks of one test run. Each takes a second or more, so a run takes every fourth of a table.
// GLOVEBOX_ATTACKS=all selects all of them.

const SHARE = 4;
/** Whether this run takes all attacks, and makes as much load as they are worth. */
export const STRIKES_ALL: boolean = process.env.GLOVEBOX_ATTACKS === "all";

/**
 * Returns the attacks of a table that this run strikes with: always the same ones.
 * @param offset where the first of them is, for tables that are run in several ways
 * @param share one of how many; with as many as there are ways, each attack is run in one of them
 */
export const sampleAttacks = <Attack>(attacks: readonly Attack[], offset = 0, share = SHARE): readonly Attack[] =>
  STRIKES_ALL ? attacks : attacks.filter((_, index) => index % share === offset % share);
