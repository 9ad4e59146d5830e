// Many keys in a small text, which the host must parse. 600,000 keys take half a second; a host can lower outputBytes.
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
