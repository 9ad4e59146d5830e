// What does a call cost when nothing is warm: a new isolate, the bundle loaded into it, one call, disposed?
import { createGlovebox } from "../src/host/index.ts";
import { measure } from "./support/measure.ts";
import { createRawTool } from "./support/raw-isolate.ts";
import { benchmarkPath, expectSuccess } from "./support/tools.ts";

const INPUT = { a: 1, b: 2 };
await using box = await createGlovebox();
const path = benchmarkPath("tools/add.ts");
await box.addTool({ path, name: "add" }, { tenantId: "acme" });
const { bundle } = await box.inspectTool({ path });

await measure({
  name: "cold",
  question:
    "A new isolate for each call: isolated-vm in process, against the whole of Glovebox behind its process wall",
  samples: 500,
  warmup: 50,
  subjects: {
    "raw isolated-vm": async () => {
      const tool = await createRawTool(bundle.code);
      await tool.call(JSON.stringify(INPUT));
      tool.dispose();
    },
    'Glovebox, isolation "call"': async () =>
      expectSuccess(await box.execute({ id: "c", toolName: "add", arguments: INPUT }, { tenantId: "acme" })),
  },
});
