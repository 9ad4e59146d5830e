// Tests code of packages that is changed when it is bundled: calls of require that are hidden from bundlers or written with a template, and copies of
// Node's primordials.js.
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

test("a copy of Node's primordials loads without Atomics", async () => {
  const copying = `
    const names = [];
    ["Atomics", "JSON", "Math", "Proxy", "Reflect"].forEach((name) => names.push(name, Reflect.ownKeys(globalThis[name]).length > 0));
    module.exports = names;
  `;
  const root = makeFolder(packageFiles("copying", { "index.js": copying }));
  const source = 'import names from "copying"; export default () => names';
  const { code } = await buildHere({ source }, { root });
  await using tool = await openCode(code);
  await tool.load();
  const { value } = await tool.call();
  expect(value).toEqual(["JSON", true, "Math", true, "Proxy", true, "Reflect", true]);
});
