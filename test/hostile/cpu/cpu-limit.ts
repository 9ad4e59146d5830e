// CPU time counts across awaits; a tool cannot hide it behind short naps.
import { testAttack } from "../support.ts";

testAttack("short bursts between naps, past cpuMs", {
  source: `export default async () => { for (;;) { const end = Date.now() + 20; while (Date.now() < end); await new Promise((done) => setTimeout(done, 1)); } };`,
  codes: ["CPU_LIMIT"],
  limits: { cpuMs: 100 },
});
