// Names that esbuild would replace or look up on its own: process.env, import.meta, __dirname. None may carry a word of the host.
import { expect, test } from "vitest";
import { buildHere, evaluate } from "../../bundler/workbench.ts";

test("no name that a build could fill in is filled in", async () => {
  const source =
    "export default () => [typeof process, typeof __dirname, typeof __filename, typeof require, typeof module, typeof global, JSON.stringify(import.meta) ?? 'none', String(import.meta.url), String(import.meta.dirname), String(import.meta.env)];";
  const bundle = await buildHere({ source });
  // Places that are the same on every machine stand in for the module's own.
  const said = JSON.stringify((await evaluate(bundle)).value)
    .replace("file:///tool/tool.ts", "")
    .replace("/tool", "");
  expect(said).not.toMatch(/\/|file:|production|development/);
  for (const name of Object.keys(process.env)) if (name.length > 8) expect(bundle.code).not.toContain(name);
});
