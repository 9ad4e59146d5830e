// Many keys in a small text: the host has to parse it. Half a second for 600,000 keys: a host that minds lowers outputBytes.
import { testAttack } from "../support.ts";

testAttack("150,000 keys, no two alike", {
  source: `export default () => {
    let text = "{";
    for (let n = 0; n < 150_000; n += 1) text += '"k' + n + '":1,';
    return JSON.parse(text + '"z":1}');
  };`,
  codes: ["ok"],
  limits: { memoryMiB: 256, outputBytes: 2 * 2 ** 20 },
});
