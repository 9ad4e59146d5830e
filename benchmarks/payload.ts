// What does JSON cost on its way in and out again, from 1 KB to 10 MB?
import { createGlovebox } from "../src/host/index.ts";
import { Peers } from "./peers/all.ts";
import { ECHO_SOURCE, toToolSource } from "./support/jobs.ts";
import { measure, QUICK } from "./support/measure.ts";
import { createRawTool } from "./support/raw-isolate.ts";
import { FRESH, RAW, WARM } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

/** Bytes of JSON each way, and how often. */
const SIZES = [
  { name: "payload-1kb", text: "1 KB", bytes: 1e3, samples: 1_000 },
  { name: "payload-10kb", text: "10 KB", bytes: 1e4, samples: 1_000 },
  { name: "payload-100kb", text: "100 KB", bytes: 1e5, samples: 300 },
  { name: "payload-1mb", text: "1 MB", bytes: 1e6, samples: 100 },
  { name: "payload-10mb", text: "10 MB", bytes: 1e7, samples: 20 },
] as const;
/** With a megabyte some peers take a second for each call: above this they are not asked. */
const PEER_BYTES = 1e5;
/** The default limits end at 8 MiB; the rest is room for 10 MB as values. */
const LIMITS = {
  timeoutMs: 60_000,
  cpuMs: 60_000,
  memoryMiB: 512,
  inputBytes: 32 * 2 ** 20,
  outputBytes: 32 * 2 ** 20,
  jsonValues: 4_000_000,
};

/** A typical API answer: records of short texts, numbers and flags. About 100 bytes each. */
function makeRecords(bytes: number): { readonly records: readonly object[] } {
  const records = Array.from({ length: Math.max(1, Math.round(bytes / 102)) }, (_, index) => ({
    id: 100_000 + index,
    name: `customer ${index % 97} of many`,
    score: (index % 1_000) / 8,
    active: index % 3 === 0,
    tags: ["north", "retail"],
  }));
  return { records };
}

await using peers = await Peers.start({ only: ["quickjs-emscripten", "run", "workerd"] });
await using glovebox = await createGlovebox({ tenancy: "multi", limits: LIMITS });
const call = createCaller(glovebox);
const tool = { source: toToolSource({ source: ECHO_SOURCE }) };
const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "echo" }, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "echo-warm" }, { tenantId: "acme", isolateLifetime: "tool" });
const raw = await createRawTool(bundle.code, { memoryMiB: LIMITS.memoryMiB });

for (const { name, text, bytes, samples } of SIZES) {
  if (QUICK && bytes > 1e6) continue;
  const input = makeRecords(bytes);
  await measure({
    name,
    question: `${text} of JSON in and out`,
    samples,
    warmup: 10,
    subjects: {
      [RAW]: () => raw.call(JSON.stringify(input)).then(JSON.parse),
      [WARM]: () => call("echo-warm", input),
      [FRESH]: () => call("echo", input),
      ...(bytes > PEER_BYTES ? {} : peers.subjects({ source: ECHO_SOURCE, input })),
    },
    notes: [
      `${JSON.stringify(input).length.toLocaleString("en")} bytes each way. Raw stringifies and parses on both sides, as it must; peers answer in a sandbox of their own.`,
      ...(bytes > PEER_BYTES ? ["Peers are not asked at this size."] : peers.notes),
    ],
    leftOut: peers.leftOut,
  });
}
raw.dispose();
