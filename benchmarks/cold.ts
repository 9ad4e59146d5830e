// What does a call cost when nothing was made ahead: a new isolate, the tool loaded into it, one call, disposed?
import { createGlovebox } from "../src/host/index.ts";
import { Peers } from "./peers/all.ts";
import { ADD, toToolSource } from "./support/jobs.ts";
import { measure, times } from "./support/measure.ts";
import { runRawTool } from "./support/raw-isolate.ts";
import { NOT_AHEAD, RAW_COLD } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

await using peers = await Peers.start();
await using glovebox = await createGlovebox({ tenancy: "multi" });
const call = createCaller(glovebox);
const tool = { source: toToolSource(ADD) };
const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "add", overrides: { prewarm: false } }, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "global-add" }, { scope: "global" });

await measure({
  name: "cold",
  question: "A call with nothing made ahead, in a new isolate or whatever a peer has in its place",
  samples: 500,
  warmup: 50,
  subjects: {
    [RAW_COLD]: () => runRawTool(bundle.code, ADD.input),
    [NOT_AHEAD]: () => call("add", ADD.input),
    ...peers.subjects(ADD),
  },
  notes: [
    "Glovebox: a tool with prewarm: false in a process that runs, behind router, socket and process wall. The peers' own processes run too; deno starts one for each call.",
    "workerd is asked over HTTP, which is the way into it.",
    ...peers.notes,
  ],
  leftOut: peers.leftOut,
});

let tenant = 0;
await measure({
  name: "cold-tenant",
  question: "The first call of a tenant that was never seen before, in a process that has served no tenant",
  samples: times(40, 3),
  warmup: 2,
  // A spare process is started in the meantime.
  paceMs: 400,
  subjects: {
    "Glovebox, a new tenant": () => {
      tenant += 1;
      return call("global-add", ADD.input, `tenant-${tenant}`);
    },
  },
});
