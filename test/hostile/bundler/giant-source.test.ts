// V8's compiler cannot be interrupted (75 MB: 3.3 s, 1.8 GB), so a source of that size never becomes a bundle.
import { expect, test } from "vitest";
import { build, failureOf } from "../../bundler/workbench.ts";

test.for([
  ["one source of 75 MB", { source: `export default () => 1; //${"x".repeat(75e6)}` }],
  [
    "75 MB in many files",
    { files: Object.fromEntries(["tool.ts", "a.ts", "b.ts"].map((name) => [name, `//${"x".repeat(25e6)}`])) },
  ],
] as const)("rejects %s before parsing it", async ([, source]) => {
  const error = await failureOf(build(source));
  expect(error.code).toMatch(/^(BUNDLE_FAILED|PARAM_INVALID)$/);
  expect(error.message).toContain("sourceBytes");
});
