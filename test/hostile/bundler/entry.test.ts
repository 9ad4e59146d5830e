// The entry is given separately from the files: it must be one of them.
import { expect, test } from "vitest";
import { buildHere, failureOf } from "../../bundler/workbench.ts";

test.for([
  "../outside.ts",
  "/etc/passwd",
  "tool.ts/../../x",
  "",
  "nowhere.ts",
  "__proto__",
  "toString",
  "node_modules/zod/index.js",
  ".",
  "tool.ts\0.json",
])("rejects the entry %j", async (entry) => {
  const error = await failureOf(buildHere({ files: { "tool.ts": "export default 1" }, entry }));
  expect(error.code).toMatch(/^(BUNDLE_FAILED|PARAM_INVALID)$/);
  expect(error.message).not.toContain("root:x:");
});
