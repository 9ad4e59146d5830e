// One message with two numbers and two types: what one parser reads first another reads last.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message with keys twice", {
  worker: `serve((call) => { send('{"type":"ready","seq":999,"type":"preparing","seq":' + call.seq + "}"); send('{"type":"started","seq":' + call.seq + ',"seq":999}'); });`,
  codes: ["SANDBOX_CRASHED"],
});
