// The URL parser over hosts, paths and queries of megabytes, with the slowest parts of IDNA.
import { testAttack } from "../support.ts";

testAttack("URLs of megabytes", {
  source: `export default () => { for (;;) for (const part of ['https://' + 'xn--\\u00e4\\u0323.'.repeat(1e4), 'https://a/' + '../a/'.repeat(1e6), 'https://a/?' + 'a=%zz&'.repeat(5e5), 'https://[' + '1:'.repeat(1e6) + ']']) try { const url = new URL(part); url.searchParams.sort(); url.href = String(url.searchParams); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
