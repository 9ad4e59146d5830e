// CPU time is counted across awaits, so a tool cannot avoid the limit by short pauses.
import { testAttack } from "../support.ts";

testAttack("short bursts between pauses, past cpuMs", {
  source: `export default async () => { for (;;) { const end = Date.now() + 20; while (Date.now() < end); await new Promise((done) => setTimeout(done, 1)); } };`,
  codes: ["CPU_LIMIT"],
  limits: { cpuMs: 100 },
});
