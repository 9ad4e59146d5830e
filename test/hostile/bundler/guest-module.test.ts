// "glovebox/tool" is reserved: no file, package or alias of the tool may replace it.
import { expect, test } from "vitest";
import { buildHere, evaluate, makeFolder } from "../../bundler/workbench.ts";

test("a package of the tool's own named glovebox is not what glovebox/tool means", async () => {
  const folder = makeFolder({
    "tool/tool.ts":
      'import { defineTool } from "glovebox/tool"; export default defineTool({ description: "x", execute: () => "ours" });',
    "tool/glovebox/tool.ts": "export const defineTool = () => ({ execute: () => 'stolen' });",
    "tool/package.json":
      '{"imports":{"glovebox/tool":"./glovebox/tool.ts"},"browser":{"glovebox/tool":"./glovebox/tool.ts"}}',
    "tool/node_modules/glovebox/package.json": '{"name":"glovebox","exports":{"./tool":"./tool.js"}}',
    "tool/node_modules/glovebox/tool.js": "export const defineTool = () => ({ execute: () => 'stolen' });",
  });
  expect((await evaluate(await buildHere({ path: `${folder}/tool` }, { root: folder }))).value).toBe("ours");
});
