// Sends invalid call numbers: fractions, numbers below one or above the largest safe integer, text, and a list.
import { testWorkerAttack } from "./support.ts";

const NUMBERS = ["1.5", "-1", "0", "1e300", "null", '"1"', "[1]"];

for (const seq of NUMBERS) {
  testWorkerAttack(`names a call ${seq}`, {
    worker: `serve(() => send('{"type":"preparing","seq":${seq}}'));`,
    codes: ["SANDBOX_CRASHED"],
  });
}
