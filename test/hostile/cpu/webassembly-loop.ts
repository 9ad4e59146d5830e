// An endless loop in the machine code of WebAssembly.
import { testAttack } from "../support.ts";

// (module (func (export "f") (loop (br 0))))
const MODULE = "0,97,115,109,1,0,0,0, 1,4,1,96,0,0, 3,2,1,0, 7,5,1,1,102,0,0, 10,9,1,7,0,3,64,12,0,11,11";

testAttack("an endless loop in WebAssembly", {
  source: `export default async () => { const { instance } = await WebAssembly.instantiate(new Uint8Array([${MODULE}])); instance.exports.f(); };`,
  features: ["webAssembly"],
  codes: ["TOOL_TIMEOUT", "CPU_LIMIT"],
});
