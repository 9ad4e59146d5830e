// What do 100 calls of the host cost from inside one tool call: one after another, and all at once?
import * as z from "zod";
import { createGlovebox, defineCapability } from "../src/host/index.ts";
import { Peers } from "./peers/all.ts";
import { answer, type Job, PARALLEL, SEQUENTIAL, toToolSource } from "./support/jobs.ts";
import { measure } from "./support/measure.ts";
import { createRawTool, runRawTool } from "./support/raw-isolate.ts";
import { FRESH, RAW, RAW_COLD, WARM } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

const ask = defineCapability({
  name: "ask",
  inputSchema: z.number(),
  outputSchema: z.number(),
  handler: async (n) => answer(n),
});

await using peers = await Peers.start({ asks: true });
await using glovebox = await createGlovebox({ tenancy: "multi", capabilities: [ask] });
const call = createCaller(glovebox);

async function measureJob(name: string, question: string, job: Job): Promise<void> {
  const tool = { source: toToolSource(job) };
  const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
  const grant = ["ask"];
  await glovebox.addTool({ ...tool, name }, { tenantId: "acme", grant });
  await glovebox.addTool({ ...tool, name: `${name}-warm` }, { tenantId: "acme", grant, isolateLifetime: "tool" });
  const raw = await createRawTool(bundle.code);
  await measure({
    name,
    question,
    samples: 500,
    warmup: 50,
    subjects: {
      [RAW]: () => raw.call(JSON.stringify(job.input)).then(JSON.parse),
      [RAW_COLD]: () => runRawTool(bundle.code, job.input),
      [WARM]: () => call(`${name}-warm`, job.input),
      [FRESH]: () => call(name, job.input),
      ...peers.subjects(job),
    },
    notes: [
      "The host function is asynchronous everywhere. Raw: a Reference applied with a promised result, JSON text both ways, in this process. Glovebox: a granted capability with a schema on either side. workerd: the host is the parent worker inside workerd.",
      ...peers.notes,
    ],
    leftOut: peers.leftOut,
  });
  raw.dispose();
}

await measureJob("code-mode-sequential", "100 host calls, each awaited before the next", SEQUENTIAL);
await measureJob("code-mode-parallel", "100 host calls in one Promise.all", PARALLEL);
