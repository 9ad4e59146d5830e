// Sends a message with two numbers and two types. Parsers disagree on which duplicate key wins.
import { testWorkerAttack } from "./support.ts";

testWorkerAttack("sends a message with duplicate keys", {
  worker: `serve((call) => { send('{"type":"ready","seq":999,"type":"preparing","seq":' + call.seq + "}"); send('{"type":"started","seq":' + call.seq + ',"seq":999}'); });`,
  codes: ["SANDBOX_CRASHED"],
});
