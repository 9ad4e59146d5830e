// What does a tool pay that computes: 200,000 steps of five bodies, in a new isolate?
import { createGlovebox } from "../src/host/index.ts";
import { Peers } from "./peers/all.ts";
import { nbody, toToolSource } from "./support/jobs.ts";
import { measure, times } from "./support/measure.ts";
import { runRawTool } from "./support/raw-isolate.ts";
import { FRESH, RAW_COLD } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

const job = nbody(times(200_000, 20_000));

await using peers = await Peers.start();
await using glovebox = await createGlovebox({ tenancy: "multi" });
const call = createCaller(glovebox);
const tool = { source: toToolSource(job) };
const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "nbody" }, { tenantId: "acme" });

await measure({
  name: "compute",
  question: "nbody, 200,000 steps, in a new isolate or whatever a peer has in its place",
  samples: 100,
  warmup: 5,
  subjects: {
    [RAW_COLD]: () => runRawTool(bundle.code, job.input),
    [FRESH]: () => call("nbody", job.input),
    ...peers.subjects(job),
  },
  notes: peers.notes,
  leftOut: peers.leftOut,
});
