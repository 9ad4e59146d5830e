// Sends a log line of invalid UTF-8: truncated and overlong sequences, surrogates, zero bytes.
import { expect } from "vitest";
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("logs invalid UTF-8", {
  worker: `serve((call) => { send({ type: "log", seq: call.seq, level: "info", time: 1 }, Buffer.from([0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80, 0x00, 0xf8, 0xe2, 0x82])); behave(call); });`,
  codes: ["ok"],
  dies: false,
  check: (result) => expect(result.logs[0]?.message.isWellFormed()).toBe(true),
});
