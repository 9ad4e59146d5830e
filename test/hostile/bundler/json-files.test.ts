// A JSON file of the tool is data: its keys must neither become code nor change a prototype.
import { expect, test } from "vitest";
import { buildHere, evaluate, failureOf } from "../../bundler/workbench.ts";

test("a JSON file with __proto__ keys and ends of script gives its values, and pollutes nothing", async () => {
  const data = '{"__proto__":{"polluted":1},"constructor":2,"default":3,"text":"</script>\\u2028*/"}';
  const source =
    "import data from './data.json'; export default () => [Object.keys(data).length > 2, ({}).polluted === undefined, data.constructor, data.text.length];";
  expect((await evaluate(await buildHere({ files: { "tool.ts": source, "data.json": data } }))).value).toEqual([
    true,
    true,
    2,
    12,
  ]);
});

test("rejects a JSON file that is code", async () => {
  const files = { "tool.ts": "import x from './x.json'; export default x", "x.json": "(() => { for (;;); })()" };
  expect((await failureOf(buildHere({ files }))).code).toBe("BUNDLE_FAILED");
});
