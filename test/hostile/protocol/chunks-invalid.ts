// The host validates a chunk as strictly as an output.
import { testWorkerAttack } from "./support.ts";

for (const [what, chunk] of [
  ["no JSON", "{"],
  ["a key __proto__", '{"__proto__":1}'],
  ["Infinity", "1e999"],
  ["depth", "[".repeat(2000) + "]".repeat(2000)],
] as const) {
  testWorkerAttack(`sends a chunk with ${what}`, {
    worker: `serve(({ seq }) => { send({ type: "chunks", seq }, ${JSON.stringify(chunk)}); ended(seq, "output", "1"); send({ type: "released", seq }); });`,
    stream: true,
    codes: ["OUTPUT_INVALID"],
    dies: false,
  });
}
