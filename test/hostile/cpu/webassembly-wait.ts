// A WebAssembly module with its own shared memory can block like Atomics.wait, whether or not that is granted.
import { testAttack } from "../support.ts";

// (module (memory 1 1 shared) (func (export "f") (result i32) (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1))))
const MODULE =
  "0,97,115,109,1,0,0,0, 1,5,1,96,0,1,127, 3,2,1,0, 5,4,1,3,1,1, 7,5,1,1,102,0,0, 10,14,1,12,0,65,0,65,0,66,127,254,1,2,0,11";

testAttack("memory.atomic.wait32 without a timeout", {
  source: `export default async () => { const { instance } = await WebAssembly.instantiate(new Uint8Array([${MODULE}])); return instance.exports.f(); };`,
  features: ["webAssembly"],
  codes: ["TOOL_TIMEOUT"],
});
