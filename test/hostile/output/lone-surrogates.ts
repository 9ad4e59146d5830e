// Lone surrogates must not break frames, logs or results.
import { testAttack } from "../support.ts";

testAttack("lone surrogates everywhere", {
  source: `export default () => { console.log('\\ud800', { '\\udfff': '\\udc00' }); throw Object.assign(new Error('\\ud800'), { name: '\\udbff', code: '\\udc00' }); };`,
  codes: ["TOOL_FAILED"],
});
