// Ten thousand small files that all import each other: the cap on their number comes before the work.
import { expect, test } from "vitest";
import { build } from "../../bundler/workbench.ts";

test("ten thousand files that import one another are too many", async () => {
  const names = Array.from({ length: 10_000 }, (_, n) => `f${n}.ts`);
  const files = Object.fromEntries(
    names.map((name, n) => [
      name,
      `import "./${names[(n * 7 + 1) % names.length]}"; import "./${names[(n + 1) % names.length]}";`,
    ]),
  );
  const begun = performance.now();
  const built = await build(
    { files: { ...files, "tool.ts": 'import "./f0.ts"; export default 1' } },
    { limits: { files: 1_000, timeoutMs: 5_000 } },
  ).catch((error: unknown) => error);
  expect(built).toMatchObject({ code: "BUNDLE_FAILED" });
  expect(performance.now() - begun).toBeLessThan(5_000);
});
