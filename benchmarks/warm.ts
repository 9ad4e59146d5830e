// What does a call of a loaded tool cost?
import { createGlovebox } from "../src/host/index.ts";
import { Peers } from "./peers/all.ts";
import type { LoadedJob } from "./peers/peer.ts";
import { ADD, toToolSource } from "./support/jobs.ts";
import { measure } from "./support/measure.ts";
import { createRawTool } from "./support/raw-isolate.ts";
import { RAW, WARM } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

await using peers = await Peers.start({ only: ["quickjs-emscripten", "workerd"] });
await using glovebox = await createGlovebox({ tenancy: "multi", isolateLifetime: "tool" });
const call = createCaller(glovebox);
const tool = { source: toToolSource(ADD) };
await glovebox.addTool({ ...tool, name: "add" }, { tenantId: "acme" });
const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
const raw = await createRawTool(bundle.code);
const loaded = new Map<string, LoadedJob>();
for (const { name, peer } of peers.open) {
  const job = await peer.load?.(ADD);
  if (job !== undefined) loaded.set(name, job);
}

await measure({
  name: "warm",
  question:
    "A call of a tool that is loaded already: isolated-vm's async apply in process, against the whole of Glovebox",
  samples: 5_000,
  warmup: 2_000,
  subjects: {
    [RAW]: () => raw.call(JSON.stringify(ADD.input)).then(JSON.parse),
    [WARM]: () => call("add", ADD.input),
    ...Object.fromEntries([...loaded].map(([name, job]) => [name, () => job.call(ADD.input)])),
  },
  notes: [
    "raw isolated-vm and quickjs-emscripten run in this process; Glovebox behind router, socket and process wall; workerd over HTTP.",
    "The other peers have no call of what is loaded: each of their calls is a new sandbox, see cold.",
    ...peers.notes,
  ],
  leftOut: peers.leftOut,
});
raw.dispose();
for (const job of loaded.values()) await job.dispose();
