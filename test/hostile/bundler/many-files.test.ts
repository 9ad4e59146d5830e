// Three thousand small files that all import each other: the bundler checks their number before it parses them.
import { expect, test } from "vitest";
import { build } from "../../bundler/workbench.ts";

test("three thousand files that import one another are too many", async () => {
  const names = Array.from({ length: 3_000 }, (_, n) => `f${n}.ts`);
  const files = Object.fromEntries(
    names.map((name, n) => [
      name,
      `import "./${names[(n * 7 + 1) % names.length]}"; import "./${names[(n + 1) % names.length]}";`,
    ]),
  );
  const built = await build(
    { files: { ...files, "tool.ts": 'import "./f0.ts"; export default 1' } },
    { limits: { files: 1_000, timeoutMs: 60_000 } },
  ).catch((error: unknown) => error);
  expect(built).toMatchObject({ code: "BUNDLE_FAILED", message: expect.stringContaining("1000") });
});
