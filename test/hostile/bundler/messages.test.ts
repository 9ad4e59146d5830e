// Errors quote the source: a hundred thousand errors, with lines of megabytes and control characters, must yield a short text.
import { expect, test } from "vitest";
import { build, failureOf } from "../../bundler/workbench.ts";

test("reports a source of a hundred thousand errors in one short error", async () => {
  const line = `let \u001b[31m; let a = "${"x".repeat(50_000)}"; let a; import x from "\u001b]0;title\u0007";`;
  const error = await failureOf(
    build({ source: `${"const a = 1;\n".repeat(1e5)}${line}\n` }, { limits: { timeoutMs: 3_000 } }),
  );
  expect(error.code).toBe("BUNDLE_FAILED");
  expect(JSON.stringify([error.message, error.details]).length).toBeLessThan(40_000);
});
