// The reported cost of a call must be a number in a plausible range.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("reports a cost that is not a number", {
  worker: `
    serve(({ seq }) => send(\`{"type":"ended","seq":\${seq},"outcome":"output","phase":"execute","usage":{"cpuMs":-1,"heapBytes":1e999,"startMs":0,"executeMs":0,"logsDropped":0},"released":true}\`, "1"));
  `,
  codes: ["SANDBOX_CRASHED"],
});
