// import.meta and import() could lead out of the module. The former reveals no location, and the latter resolves nothing.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("import.meta and dynamic imports", {
  source: `export default async () => { const places = [String(import.meta?.url), String(import.meta?.dirname), typeof import.meta?.resolve]; const kept = []; for (const name of ['node:fs', 'fs', 'isolated-vm', './worker.cjs', 'data:text/javascript,1', 'file:///etc/passwd']) { const spelled = name + ''; try { kept.push(await import(spelled)); } catch {} } return [places.join().match(/file:|[/]/)?.[0] ?? 'none', kept.length]; };`,
  codes: ["ok", "BUNDLE_FAILED", "TOOL_FAILED"],
  check: (result) => {
    if (result.success) expect(outputOf(result)).toEqual(["none", 0]);
  },
});
