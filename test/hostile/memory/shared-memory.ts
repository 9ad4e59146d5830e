// Shared and resizable buffers exceed the limit (2.2 GB measured), so guests do not have them by default.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("resizable and shared buffers", {
  source: `export default async () => { const buffer = new ArrayBuffer(8, { maxByteLength: 2 ** 31 }); return [typeof SharedArrayBuffer, typeof Atomics, buffer.resizable, typeof buffer.resize]; };`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual(["undefined", "undefined", false, "undefined"]),
});
