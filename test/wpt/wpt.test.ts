// Compares the sandbox with Node by the web-platform tests: the sandbox passes what Node passes, except for known failures with reasons.
// `npm run wpt` downloads the tests. Without them this file is skipped with a message.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { compareSuite, type SuiteResult } from "./compare.ts";
import { readExpectations, reasonOf } from "./expectations.ts";
import { SUITES, TESTS_FOLDER, testFilesOf } from "./tests.ts";

/** Minimum share of the subtests that Node passes: for each suite, and for all suites together. */
const BAR = { each: 0.9, together: 0.985 } as const;
const SUITE_MS = 240_000;
const areThere = existsSync(join(TESTS_FOLDER, "resources", "testharness.js"));
const expectations = readExpectations();
const results: SuiteResult[] = [];

if (!areThere) console.warn("The web-platform tests are missing. Run `node test/wpt/get-tests.ts` to download them");

describe.runIf(areThere)("web-platform tests", () => {
  const suites = Object.keys(SUITES).filter((suite) => testFilesOf(suite).length > 0);

  test.for(suites)("%s", { timeout: SUITE_MS }, async (suite) => {
    const result = await compareSuite(suite);
    results.push(result);
    const unknown = result.failures.filter((failure) => reasonOf(failure, expectations) === undefined);
    expect(unknown.slice(0, 20)).toEqual([]);
    expect(result.passed / result.expected).toBeGreaterThanOrEqual(BAR.each);
  });

  afterAll(() => {
    const sum = (key: "expected" | "passed"): number => results.reduce((total, result) => total + result[key], 0);
    expect(sum("passed") / sum("expected")).toBeGreaterThanOrEqual(BAR.together);
  });
});
