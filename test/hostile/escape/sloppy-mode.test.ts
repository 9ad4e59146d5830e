// Sloppy code of a CommonJS file: arguments.callee, caller, this as the global object, and with, which esbuild rejects.
import { expect, test } from "vitest";
import { failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const SLOPPY = `
  exports.run = function run(ctx) {
    var found = [];
    found.push((function () { return this === globalThis; })(), typeof arguments.callee);
    for (var at = run, n = 0; n < 20; n += 1) { try { at = at.caller; } catch (error) { at = null; } if (at === null || at === undefined) break; if (/postToHost|callState|MapPrototype/.test(Function.prototype.toString.call(at).slice(0, 2000))) found.push("the prelude"); }
    leaked = 1; found.push(typeof globalThis.leaked);
    return found;
  };`;
const filesOf = (sloppy: string): { readonly [path: string]: string } => ({
  "tool.ts": 'import { run } from "./sloppy.cjs"; export default (_, ctx) => run(ctx);',
  "sloppy.cjs": sloppy,
});

test("sloppy code sees its own realm, and no caller of ours", async () => {
  await using glovebox = await makeGlovebox();
  await glovebox.addTool({ name: "sloppy", files: filesOf(SLOPPY) });
  expect(outputOf(await glovebox.execute({ id: "c", toolName: "sloppy" }))).toEqual([true, "function", "number"]);
  const scoped = "exports.run = function (ctx) { with (ctx) { return typeof callId; } };";
  expect((await failureOf(glovebox.addTool({ name: "with", files: filesOf(scoped) }))).code).toBe("BUNDLE_FAILED");
});
