// With Atomics and shared memory granted, a tool can block its thread without using CPU time.
import { testAttack } from "../support.ts";

testAttack("Atomics.wait without a timeout", {
  source: `export default () => { const cell = new Int32Array(new SharedArrayBuffer(4)); for (;;) try { Atomics.wait(cell, 0, 0); } catch {} };`,
  features: ["atomics", "sharedArrayBuffer"],
  codes: ["TOOL_TIMEOUT"],
});
