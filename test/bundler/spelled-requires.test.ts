// Tests calls of require that packages hide from bundlers or write with a template: they are bundled like any other.
import { expect, test } from "vitest";
import { openCode } from "../support/guest.ts";
import { buildHere, makeFolder, packageFiles } from "./workbench.ts";

const FILES = packageFiles("hiding", {
  "index.js": `
    const member = eval("require('./own.js').length");
    const builtin = eval("require('crypto')");
    const own = eval('require("./own.js")');
    const raw = require(String.raw\`./raw.js\`);
    const load = eval("require");
    const called = eval("require")("./own.js");
    const missing = () => { try { return load("not-" + "installed"); } catch (error) { return error.code; } };
    module.exports = [member, typeof builtin, own, raw, missing(), called, typeof load('path').join, eval("1 + 1")];
  `,
  "own.js": 'module.exports = "own"',
  "raw.js": 'module.exports = "raw"',
});

test("require in eval, and with a raw template, is bundled", async () => {
  const root = makeFolder(FILES);
  const source = 'import hidden from "hiding"; export default () => hidden';
  const { code } = await buildHere({ source }, { root });
  await using tool = await openCode(code);
  await tool.load();
  const { value } = await tool.call();
  expect(value).toEqual([3, "object", "own", "raw", "MODULE_NOT_FOUND", "own", "function", 2]);
});
