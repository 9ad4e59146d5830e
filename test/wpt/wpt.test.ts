// The sandbox beside Node, by the web-platform tests: what Node passes the sandbox passes, but for what is known and has a reason.
// The tests are not ours to carry: `npm run wpt` gets them; where they cannot be had, this says so and judges nothing.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { compareSuite, type SuiteResult } from "./compare.ts";
import { readExpectations, reasonOf } from "./expectations.ts";
import { SUITES, TESTS_FOLDER, testFilesOf } from "./tests.ts";

/** Of the subtests that Node passes: of every suite, and of all of them together. */
const BAR = { each: 0.9, together: 0.985 } as const;
const SUITE_MS = 240_000;
const areThere = existsSync(join(TESTS_FOLDER, "resources", "testharness.js"));
const expectations = readExpectations();
const results: SuiteResult[] = [];

if (!areThere) console.warn("The web-platform tests are not there: `node test/wpt/get-tests.ts` gets them");

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
