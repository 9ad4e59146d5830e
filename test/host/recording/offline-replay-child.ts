// A process without a network: replays the recordings of a file, and prints how many had the recorded outcome.
import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import type { CallRecording, ReplayedCall } from "../../../src/host/index.ts";
import { type CorpusOptions, openCorpus } from "./offline-corpus.ts";

const [file = "", options = "{}"] = process.argv.slice(2);
const corpus = JSON.parse(options) as CorpusOptions;
const recordings = readFileSync(file, "utf8")
  .split("\n")
  .map((line) => JSON.parse(line) as CallRecording);
const isOffline = await fetch(corpus.origin).then(
  () => false,
  () => Object.values(networkInterfaces()).flat().length === 0,
);

const glovebox = await openCorpus(corpus);
const others: unknown[] = [];
let identical = 0;
const rest = recordings.values();
/** Calls whose worker process was lost, which says nothing about their replay. They are replayed again. */
let lost = 0;
async function replay(recording: CallRecording): Promise<ReplayedCall> {
  for (let attempt = 1; ; attempt += 1) {
    const replayed = await glovebox.replay(recording);
    const isLost = !replayed.result.success && replayed.result.error.code === "SANDBOX_CRASHED";
    if (!isLost || attempt === 3) return replayed;
    lost += 1;
  }
}
await Promise.all(
  Array.from({ length: 4 }, async () => {
    for (const recording of rest) {
      const { verdict, divergence, outcome } = await replay(recording);
      if (verdict === "identical" && JSON.stringify(outcome) === JSON.stringify(recording.outcome)) identical += 1;
      else
        others.push({
          toolName: recording.toolName,
          verdict,
          divergence,
          input: recording.input.text.slice(0, 300),
          outcome,
          recorded: recording.outcome,
        });
    }
  }),
);
await glovebox.close();
console.log(JSON.stringify({ isOffline, total: recordings.length, identical, lost, others: others.slice(0, 5) }));
