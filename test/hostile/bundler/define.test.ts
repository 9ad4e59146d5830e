// Names that esbuild would replace or resolve: process.env, import.meta, __dirname. None may reveal text of the host.
import { expect, test } from "vitest";
import { buildHere, evaluate } from "../../bundler/workbench.ts";

test("leaves names that a build could replace as they are", async () => {
  const source =
    "export default () => [typeof process, typeof __dirname, typeof __filename, typeof require, typeof module, typeof global, JSON.stringify(import.meta) ?? 'none', String(import.meta.url), String(import.meta.dirname), String(import.meta.env)];";
  const bundle = await buildHere({ source });
  // Shims of the module, which are the same on every machine.
  const said = JSON.stringify((await evaluate(bundle)).value)
    .replace("file:///tool/tool.ts", "")
    .replace("/tool", "");
  expect(said).not.toMatch(/\/|file:|production|development/);
  for (const name of Object.keys(process.env)) if (name.length > 8) expect(bundle.code).not.toContain(name);
});
