// Invalid progress reports: NaN, getters, proxies, numbers as text.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("progress of hostile values", {
  source: `export default (_, ctx) => { const bad = [undefined, null, NaN, Infinity, '1', 1n, Symbol('s'), {}, { progress: NaN }, { progress: '1' }, { get progress() { throw new Error('got'); } }, new Proxy({}, { get() { throw null; } })]; return bad.filter((report) => { try { ctx.progress(report); return true; } catch { return false; } }).length; };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toBe(0),
});
