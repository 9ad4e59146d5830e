// Binary attachments of a text must match its placeholders: the right index, used once, with the declared length.
import { testWorkerAttack } from "./support.ts";

const header = (mark: string, lengths: readonly unknown[]): string => JSON.stringify({ mark, lengths });

for (const [what, parts] of [
  ["a mark without bytes", ['["m:0","m:1"]', header("m:", [1]), "x"]],
  ["one mark twice", ['["m:0","m:0"]', header("m:", [1]), "x"]],
  ["bytes without a mark", ['["m:0"]', header("m:", [1, 1]), "xy"]],
  ["lengths past the bytes", ['"m:0"', header("m:", [9]), "x"]],
  ["invalid lengths", ['"m:0"', header("m:", [-1]), "x"]],
  ["a header that is not JSON", ['"m:0"', "{", "x"]],
  ["a header without end", ['"m:0"', "[".repeat(100_000), "x"]],
  ["a mark that every text has", ['{"a":""}', header("", [1]), "x"]],
  ["an invalid index", ['"m:1e0"', header("m:", [1, 1]), "xy"]],
] as const) {
  testWorkerAttack(`sends ${what}`, {
    worker: `serve(({ seq }) => { send({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }, ...${JSON.stringify(parts)}); });`,
    codes: ["OUTPUT_INVALID"],
    dies: false,
  });
}

testWorkerAttack("sends forged bytes in a chunk", {
  worker: `serve(({ seq }) => { send({ type: "chunks", seq }, '"m:7"', ${JSON.stringify(header("m:", [1]))}, "x"); ended(seq, "output", "1"); send({ type: "released", seq }); });`,
  stream: true,
  codes: ["OUTPUT_INVALID"],
  dies: false,
});
