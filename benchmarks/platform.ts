// What does a tool pay for the platform: one that uses none of it, and one that uses all of it?
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox } from "../src/host/index.ts";
import { measure, QUICK } from "./support/measure.ts";
import { runRawTool } from "./support/raw-isolate.ts";
import { RAW_COLD } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

const NOTHING = "export default () => 1;";
/** Those that are accessors are ours, and made when they are looked at; what is V8's own costs a bare isolate as much. */
const EVERYTHING = `
const isOurs = (name) => Object.getOwnPropertyDescriptor(globalThis, name).get !== undefined;
export default () => Object.getOwnPropertyNames(globalThis).filter((name) => isOurs(name) && globalThis[name] !== undefined).length;
`;
/** By then a warm isolate has created the code caches. */
const CACHES_MS = QUICK ? 0 : 6_000;

const directory = await mkdtemp(join(tmpdir(), "glovebox-bench-"));
try {
  // A host before this one has left its caches on disk.
  await using before = await createGlovebox({ tenancy: "multi", cache: { directory } });
  await pause(CACHES_MS);
  await before.close();
  await using glovebox = await createGlovebox({ tenancy: "multi", cache: { directory } });
  const call = createCaller(glovebox);
  const definition = { prewarm: false };
  await glovebox.addTool({ source: NOTHING, name: "nothing", overrides: definition }, { tenantId: "acme" });
  await glovebox.addTool({ source: EVERYTHING, name: "everything", overrides: definition }, { tenantId: "acme" });
  await glovebox.addTool({ source: EVERYTHING, name: "ahead" }, { tenantId: "acme" });
  const { bundle } = await glovebox.inspectTool({ source: NOTHING }, { tenantId: "acme" });
  await measure({
    name: "platform",
    question:
      "A call in a new isolate with nothing made ahead, of a tool that touches nothing, and of one that touches every global",
    samples: 300,
    warmup: 30,
    subjects: {
      [RAW_COLD]: () => runRawTool(bundle.code, {}),
      "Glovebox, touches nothing": () => call("nothing", {}),
      "Glovebox, touches everything": () => call("everything", {}),
    },
    notes: [
      "Tools with prewarm: false, behind router, socket and process wall. The chunks of the platform are at hand with their code caches, from the first call of the process on.",
    ],
  });
  await measure({
    name: "platform-ahead",
    question: "The same, one call each 20 ms, with a spare made ahead",
    samples: 300,
    warmup: 30,
    paceMs: 20,
    subjects: { "Glovebox, touches everything, loaded ahead": () => call("ahead", {}) },
  });
} finally {
  await rm(directory, { recursive: true, force: true });
}
