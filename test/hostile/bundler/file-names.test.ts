// File names become comments in the bundle. A line break or the end of a comment in a name would turn its rest into code.
import { expect, test } from "vitest";
import { buildHere, evaluate } from "../../bundler/workbench.ts";

test.for([
  "a\nglobalThis.out = 1;//.ts",
  "a\u2028globalThis.out = 1;//.ts",
  "a*/globalThis.out=1;/*.ts",
  "../../out.ts",
  "/etc/out.ts",
  "C:/out.ts",
  "a\\out.ts",
  "a\0.ts",
  "__proto__",
  "constructor.ts",
  "node_modules/p/index.js",
  ".env.json",
  `${"a/".repeat(2_000)}x.ts`,
  "\ud800.ts",
  "a//b.ts",
  "./a.ts",
])("rejects a file named %j, or treats it as a name only", async (name) => {
  const files = { "tool.ts": "export default () => typeof globalThis.out;", [name]: "export default 1" };
  const imported = {
    ...files,
    "tool.ts": `import x from ${JSON.stringify(`./${name}`)}; export default () => [x, typeof globalThis.out];`,
  };
  for (const each of [files, imported]) {
    const built = await buildHere({ files: each, entry: "tool.ts" }).catch((error: unknown) => error);
    if (built instanceof Error)
      expect(built).toMatchObject({ code: expect.stringMatching(/^(BUNDLE_FAILED|PARAM_INVALID)$/) });
    else
      expect(JSON.stringify((await evaluate(built as Awaited<ReturnType<typeof buildHere>>)).value)).toMatch(
        /"undefined"/,
      );
  }
});
