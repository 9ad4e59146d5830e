// What does a stream cost: how soon does its first chunk arrive, and how many chunks and bytes pass in a second?
import { createGlovebox, type StreamItem } from "../src/host/index.ts";
import { percentile, report, times } from "./support/measure.ts";

const MiB = 1024 * 1024;
await using glovebox = await createGlovebox({
  tenancy: "multi",
  isolateLifetime: "tool",
  limits: { outputBytes: 64 * MiB, timeoutMs: 120_000 },
});
const source = `export default async function* ({ count, bytes, isBinary }) {
  const chunk = isBinary ? new Uint8Array(bytes).fill(7) : "x".repeat(bytes);
  for (let index = 0; index < count; index += 1) yield chunk;
}`;
await glovebox.addTool({ name: "stream", source }, { tenantId: "acme" });

interface Taken {
  readonly ms: number;
  readonly firstMs: number;
}

/** Reads one stream to its end, as fast as it comes. */
async function take(args: object): Promise<Taken> {
  const began = performance.now();
  let firstMs = 0;
  let last: StreamItem | undefined;
  for await (const item of glovebox.stream({ id: "c", toolName: "stream", arguments: args }, { tenantId: "acme" })) {
    if (last === undefined) firstMs = performance.now() - began;
    last = item;
  }
  if (last?.type !== "result" || !last.success) throw new Error(`Expected a result, got ${JSON.stringify(last)}`);
  return { ms: performance.now() - began, firstMs };
}

const STREAMS = [
  { name: "one chunk of 10 bytes", count: 1, bytes: 10, isBinary: false, samples: times(1_000, 3) },
  { name: "100,000 chunks of 10 bytes", count: 100_000, bytes: 10, isBinary: false, samples: times(5, 1) },
  { name: "1,000 chunks of 10 KB, text", count: 1_000, bytes: 1e4, isBinary: false, samples: times(20, 1) },
  { name: "1,000 chunks of 10 KB, bytes", count: 1_000, bytes: 1e4, isBinary: true, samples: times(20, 1) },
  { name: "40 chunks of 1 MB, text", count: 40, bytes: 1e6, isBinary: false, samples: times(10, 1) },
  { name: "40 chunks of 1 MB, bytes", count: 40, bytes: 1e6, isBinary: true, samples: times(10, 1) },
] as const;

await take(STREAMS[0]);
const rows: { [name: string]: { readonly [column: string]: string | number } } = {};
for (const { name, samples, ...stream } of STREAMS) {
  const taken: Taken[] = [];
  for (let sample = 0; sample < samples; sample += 1) taken.push(await take(stream));
  const p50Of = (column: keyof Taken): number =>
    percentile(
      taken.map((each) => each[column]).sort((a, b) => a - b),
      0.5,
    );
  const p50 = p50Of("ms");
  rows[name] = {
    n: samples,
    "first chunk p50 ms": p50Of("firstMs").toFixed(3),
    "whole p50 ms": p50.toFixed(2),
    "chunks/s": Math.round((stream.count / p50) * 1_000),
    "MB/s": ((stream.count * stream.bytes) / p50 / 1_000).toFixed(1),
  };
}

await report({
  name: "stream",
  question: "What does a stream cost, from a tool's yield to its caller's for await, through isolate and process?",
  rows,
  notes: ["A loaded isolate; the reader takes each chunk as it comes."],
});
