// What a call is said to have cost is a number, within reason of a number.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("states a cost that is no number", {
  worker: `
    serve(({ seq }) => send(\`{"type":"ended","seq":\${seq},"outcome":"output","phase":"execute","usage":{"cpuMs":-1,"heapBytes":1e999,"startMs":0,"executeMs":0,"logsDropped":0},"released":true}\`, "1"));
  `,
  codes: ["SANDBOX_CRASHED"],
});
