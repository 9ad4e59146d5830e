// Compares the sandbox with Node, and prints a table and every failure. `node test/wpt/run.ts [suite…] [--only TEXT] [--quiet] [--write]`,
// where a suite is one of `SUITES` in tests.ts, or any folder of the tests' own ("fetch/api/basic"). With --write each failure that is not
// known yet is added to expectations.json. GLOVEBOX_WPT=FOLDER uses the tests of a checkout of web-platform-tests instead of those that
// `npm run wpt` gets, which lack fetch/api, xhr/formdata, websockets and eventsource. The last two run against server.ts. Subtests that
// Node itself fails, such as those that need a document or TLS, are ignored.
import { parseArgs } from "node:util";
import { compareSuite, type SuiteResult } from "./compare.ts";
import { addExpectations } from "./expectations.ts";
import { SUITES } from "./tests.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "" },
    quiet: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const results: SuiteResult[] = [];
for (const suite of positionals.length > 0 ? positionals : Object.keys(SUITES)) {
  const result = await compareSuite(suite, (name) => name.includes(values.only));
  results.push(result);
  if (values.quiet) continue;
  for (const { file, subtest, message } of result.failures) console.log(`${file}: ${subtest}\n    ${message}`);
}
const percent = (passed: number, expected: number): string =>
  expected === 0 ? "–" : `${((100 * passed) / expected).toFixed(2)} %`;
console.table(
  Object.fromEntries(
    results.map(({ suite, files, expected, passed }) => [
      suite,
      { files, "Node passes": expected, "of these": passed, percent: percent(passed, expected) },
    ]),
  ),
);
const sum = (key: "expected" | "passed"): number => results.reduce((total, result) => total + result[key], 0);
console.log(`Together: ${sum("passed")} of ${sum("expected")}, ${percent(sum("passed"), sum("expected"))}`);
if (values.write) addExpectations(results.flatMap(({ failures }) => failures));
process.exit();
