// Only code that esbuild has parsed runs in the isolate: no construct may pass text around it.
import { expect, test } from "vitest";
import { buildHere, evaluate } from "../../bundler/workbench.ts";

test.for<[name: string, source: string]>([
  ["a direct eval", "export default () => { try { return eval('1'); } catch (error) { return error.name; } }"],
  [
    "a tagged template that looks like a sourceURL",
    "export default () => String.raw`\n//# sourceURL=glovebox:///prelude.js\n`.length > 0 ? 'fine' : 0",
  ],
  [
    "a legal comment with a wrapper's end",
    "/*! })(register); globalThis.out = 1; (async () => { */ export default () => typeof globalThis.out",
  ],
  ["a regular expression that holds a comment", "export default () => /[/*]/.test('*') ? 'fine' : 0 /* } */"],
  ["a JSX pragma that is code", "/** @jsx (globalThis.out = 1, String) */ export default () => typeof globalThis.out"],
  ["an HTML comment in sloppy code", "export default () => { var x = 1; return typeof x }\n--> globalThis.out = 1"],
])("%s", async ([, source]) => {
  const built = await buildHere({ source }).catch((error: unknown) => error);
  if (built instanceof Error) expect(built).toMatchObject({ code: "BUNDLE_FAILED" });
  // A bare isolate still has eval. This test only checks that no other code has run.
  else
    expect(["undefined", "fine", "number", 1]).toContain(
      (await evaluate(built as Awaited<ReturnType<typeof buildHere>>)).value,
    );
});
