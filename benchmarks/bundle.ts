// What does a large tool cost: to bundle, and then to call in a new isolate?

import { Bundler } from "../src/bundler/bundler.ts";
import { createBundleCache } from "../src/bundler/cache/bundle-cache.ts";
import { createGlovebox } from "../src/host/index.ts";
import { measure } from "./support/measure.ts";
import { makeCodeCache, runRawTool } from "./support/raw-isolate.ts";
import { FRESH, NOT_AHEAD, RAW_COLD, WARM } from "./support/result.ts";
import { benchmarkPath, createCaller } from "./support/tools.ts";

const INPUT = { day: "2026-02-28", numbers: [1, 2, 3] };
const path = benchmarkPath("tools/large.ts");
await using glovebox = await createGlovebox({ tenancy: "multi" });
const call = createCaller(glovebox);
await glovebox.addTool({ path, name: "large" }, { tenantId: "acme" });
await glovebox.addTool({ path, name: "large-warm" }, { tenantId: "acme", isolateLifetime: "tool" });
await glovebox.addTool({ path, name: "large-cold", overrides: { prewarm: false } }, { tenantId: "acme" });
const { bundle } = await glovebox.inspectTool({ path }, { tenantId: "acme" });
const codeCache = await makeCodeCache(bundle.code);
await using cached = new Bundler({ cache: createBundleCache() });
await cached.bundle({ path });
const size = `The bundle has ${(bundle.code.length / 1024).toFixed(0)} KiB: zod, lodash-es and date-fns.`;

await measure({
  name: "bundle-call",
  question: "A call of a large bundle",
  samples: 200,
  warmup: 10,
  block: 20,
  subjects: {
    [RAW_COLD]: () => runRawTool(bundle.code, INPUT),
    "raw isolated-vm with a code cache, a new isolate": () => runRawTool(bundle.code, INPUT, codeCache),
    [`${FRESH}, one each 50 ms`]: { run: () => call("large", INPUT), paceMs: 50 },
    [`${FRESH}, one each 5 ms`]: { run: () => call("large", INPUT), paceMs: 5 },
    [NOT_AHEAD]: () => call("large-cold", INPUT),
    [WARM]: () => call("large-warm", INPUT),
  },
  notes: [
    size,
    "Blocks of 20 calls take turns. At one each 5 ms, more calls come than this machine can evaluate bundles for: those in excess are made while they wait.",
    "The peers are not asked: their first call loads text, and none has a bundle to keep.",
  ],
});

await measure({
  name: "bundle-build",
  question: "The way from source to bundle: built in a new child process, and found in the cache",
  samples: 15,
  warmup: 2,
  subjects: {
    built: async () => {
      await using bundler = new Bundler({ cache: createBundleCache() });
      await bundler.bundle({ path });
    },
    cached: () => cached.bundle({ path }),
  },
});
