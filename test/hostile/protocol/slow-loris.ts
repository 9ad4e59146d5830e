// Sends a message one byte at a time, so that the process never looks inactive. The deadline of the call still applies.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends its answer one byte at a time", {
  worker: `serve(({ seq }) => { const bytes = frame({ type: "preparing", seq }); let at = 0; setInterval(() => { if (at < bytes.length - 1) socket.write(bytes.subarray(at, (at += 1))); }, 20); });`,
  codes: ["TOOL_TIMEOUT"],
  timeoutMs: 300,
});
