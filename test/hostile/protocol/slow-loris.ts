// A message that comes one byte at a time, never too late to be alive: the call's own clock goes on.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends its answer one byte at a time", {
  worker: `serve(({ seq }) => { const bytes = frame({ type: "preparing", seq }); let at = 0; setInterval(() => { if (at < bytes.length - 1) socket.write(bytes.subarray(at, (at += 1))); }, 20); });`,
  codes: ["TOOL_TIMEOUT"],
  timeoutMs: 300,
});
