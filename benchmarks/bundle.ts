// What does a large tool cost: to bundle, and then to call in a new isolate?
import { createBundleCache } from "../src/bundler/bundle-cache.ts";
import { Bundler } from "../src/bundler/bundler.ts";
import { createGlovebox } from "../src/host/index.ts";
import { measure } from "./support/measure.ts";
import { createRawTool, makeCodeCache } from "./support/raw-isolate.ts";
import { benchmarkPath, expectSuccess } from "./support/tools.ts";

const INPUT = { day: "2026-02-28", numbers: [1, 2, 3] };
const path = benchmarkPath("tools/large.ts");
await using box = await createGlovebox();
await box.addTool({ path, name: "large" }, { tenantId: "acme" });
const { bundle } = await box.inspectTool({ path });
const codeCache = await makeCodeCache(bundle.code);
await using cached = new Bundler({ cache: createBundleCache() });
await cached.bundle({ path });
console.log(`The bundle has ${(bundle.code.length / 1024).toFixed(0)} KiB`);

async function rawCall(cachedData?: typeof codeCache): Promise<void> {
  const tool = await createRawTool(bundle.code, cachedData);
  await tool.call(JSON.stringify(INPUT));
  tool.dispose();
}

await measure({
  name: "bundle-call",
  question: "A call of a large bundle in a new isolate",
  samples: 60,
  warmup: 10,
  subjects: {
    "raw isolated-vm": () => rawCall(),
    "raw isolated-vm with a code cache": () => rawCall(codeCache),
    'Glovebox, isolation "call"': async () =>
      expectSuccess(await box.execute({ id: "c", toolName: "large", arguments: INPUT }, { tenantId: "acme" })),
  },
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
