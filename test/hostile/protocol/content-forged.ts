// The host checks content strictly, even if the worker process claims that a tool created it.
import { testWorkerAttack } from "./support.ts";

for (const [what, content] of [
  ["no list", "{}"],
  ["a part of no kind", '[{"type":"video"}]'],
  ["a part with more than belongs to it", '[{"type":"text","text":"a","extra":1}]'],
  ["an image without bytes", '[{"type":"image","data":"AAAA","mimeType":"image/png"}]'],
  ["fifty thousand parts", `[${"0,".repeat(50_000)}0]`],
] as const) {
  testWorkerAttack(`sends content with ${what}`, {
    worker: `serve(({ seq }) => { send({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }, "1", "", "", ${JSON.stringify(content)}, "", ""); });`,
    codes: ["OUTPUT_INVALID"],
    dies: false,
  });
}
